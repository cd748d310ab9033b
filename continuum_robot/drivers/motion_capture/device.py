# SPDX-License-Identifier: Apache-2.0
"""What drivers/backends.py takes from this folder."""

from __future__ import annotations

from continuum_robot.drivers.motion_capture.settings import MotionCapture
from continuum_robot.drivers.motion_capture.tracker import MotionCaptureTracker
from continuum_robot.drivers.protocols import Tracker
from continuum_robot.errors import ParameterError
from continuum_robot.robot.description import Robot


def make(_robot: Robot, settings: MotionCapture, port: str = "") -> Tracker:
    """The driver, not open yet."""
    if port:
        raise ParameterError("port", port, "none: hardware.tracker.hostname says where motion capture streams")
    return MotionCaptureTracker(settings)
