# SPDX-License-Identifier: Apache-2.0
"""A robot under its control loop in virtual time, for tests, experiments and sweeps of your own."""

from continuum_robot.testing.stack_batch import StackBatch
from continuum_robot.testing.virtual_stack import DYNAMICS, WIRE, StackState, SteadyReference, VirtualStack

__all__ = ["DYNAMICS", "WIRE", "StackBatch", "StackState", "SteadyReference", "VirtualStack"]
