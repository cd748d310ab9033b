# SPDX-License-Identifier: Apache-2.0
"""``from continuum_robot.client import Robot``: a robot on ROS 2 as a Python object; needs ROS 2."""

from __future__ import annotations

from continuum_robot.app.client import ContactState, MotionResult, Robot, RobotState, TipResult

__all__ = ["ContactState", "MotionResult", "Robot", "RobotState", "TipResult"]
