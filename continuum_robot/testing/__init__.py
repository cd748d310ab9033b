# SPDX-License-Identifier: Apache-2.0
"""A robot under its control loop in virtual time, for tests, experiments and sweeps of your own."""

from continuum_robot.testing.virtual_stack import DYNAMICS, WIRE, StackState, VirtualStack

__all__ = ["DYNAMICS", "WIRE", "StackState", "VirtualStack"]
