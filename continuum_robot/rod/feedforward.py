# SPDX-License-Identifier: Apache-2.0
"""Generalised forces that hold a robot at given coordinates of its tendons, for the feed-forward of a controller."""

from __future__ import annotations

import numpy as np

from continuum_robot.robot.description import Robot
from continuum_robot.rod.holding_force import HoldingForce
from continuum_robot.rod.rod import Rod
from continuum_robot.rod.statics import Balance
from continuum_robot.rod.tendon_modes import coefficients_from_clarke


def clarke_feedforward(robot: Robot) -> HoldingForce:
    """The generalised forces K_M q and g_M of muhmann (25), apart from each other."""
    rod, shape = under_pretension(robot, Rod(robot, paths=())), coefficients_from_clarke(robot)
    return HoldingForce(shape.T @ rod.arrays.stiffness @ shape, shape, rod)  # K_M of (25)


def under_pretension(robot: Robot, rod: Rod) -> Rod:
    """The rod as stiff as its tendons leave it that run straight between disks or spiral, at the robot's pretension.

    Such a tendon at the same tension pulls a bent rod on: minus the second derivatives of the lengths times tensions.
    """
    if robot.control is not None and robot.displaced_tendons is not None and robot.displaced_tendons.bends_paths:
        balance, straight = Balance(Rod(robot)), np.zeros(rod.n)
        rod.arrays.stiffness[:] += balance.hessian(straight, robot.control.pretension_n) - balance.hessian(straight)
    return rod
