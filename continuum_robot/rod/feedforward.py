# SPDX-License-Identifier: Apache-2.0
"""Generalised forces that hold a robot at given coordinates of its tendons, for the feed-forward of a controller."""

from __future__ import annotations

from continuum_robot.robot.description import Robot
from continuum_robot.rod.holding_force import HoldingForce
from continuum_robot.rod.rod import Rod
from continuum_robot.rod.tendon_modes import coefficients_from_clarke


def clarke_feedforward(robot: Robot) -> HoldingForce:
    """The generalised forces K_M q and g_M of muhmann (25), apart from each other.

    Parameters
    ----------
    robot : a rod

    Returns
    -------
    function: coordinates of the tendons (2m,), m -> elastic (2m,) and gravity (2m,), N; tendons that give their sum
    hold the robot there, one with general tendons near the straight configuration. Not for use by two threads at once.
    """
    rod, shape = Rod(robot, paths=()), coefficients_from_clarke(robot)
    return HoldingForce(shape.T @ rod.arrays.stiffness @ shape, shape, rod)  # K_M of (25)
