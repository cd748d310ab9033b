# SPDX-License-Identifier: Apache-2.0
"""``from continuum_robot.client import Robot``: a robot on ROS 2 as a Python object; needs ROS 2."""

from __future__ import annotations

from continuum_robot.errors import missing_package

try:
    from continuum_robot.app.client.motions import MotionResult, TipResult
    from continuum_robot.app.client.robot import Robot
    from continuum_robot.app.client.state import ContactState, RobotState
except ModuleNotFoundError as error:
    raise missing_package(error) from None

__all__ = ["ContactState", "MotionResult", "Robot", "RobotState", "TipResult"]
