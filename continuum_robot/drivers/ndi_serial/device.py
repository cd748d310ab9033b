# SPDX-License-Identifier: Apache-2.0
"""What drivers/backends.py takes from this folder."""

from __future__ import annotations

from continuum_robot.drivers.ndi_serial.settings import NdiSerial
from continuum_robot.drivers.ndi_serial.tracker import NdiTracker
from continuum_robot.drivers.protocols import Tracker
from continuum_robot.robot.description import Robot


def make(_robot: Robot, settings: NdiSerial, port: str = "") -> Tracker:
    """The driver, not open yet."""
    return NdiTracker(settings, port)
