# SPDX-License-Identifier: Apache-2.0
"""Generalised forces that hold a robot at given coordinates of its tendons, for the feed-forward of a controller."""

from __future__ import annotations

from collections.abc import Callable

from continuum_robot.robot.description import Robot
from continuum_robot.rod.code.generation import compile_functions
from continuum_robot.rod.holding_force import HoldingForce
from continuum_robot.rod.model import RodModel
from continuum_robot.rod.strain.rod import StrainRod
from continuum_robot.rod.tendon_modes import coefficients_from_clarke


def clarke_feedforward(
    robot: Robot, *, compile: str = "auto", progress: Callable[[str], None] | None = None
) -> HoldingForce:
    """The generalised forces K_M q and g_M of muhmann (25), apart from each other.

    Parameters
    ----------
    robot : a rod
    compile, progress : see :func:`~continuum_robot.rod.code.generation.compile_functions`

    Returns
    -------
    function: coordinates of the tendons (2m,), m -> elastic (2m,) and gravity (2m,), N; tendons that give their sum
    hold the robot there, one with general tendons near the straight configuration. Not for use by two threads at once.
    """
    rod = StrainRod.from_robot(robot)
    name = f"the gravity model of {robot.name}"
    functions = compile_functions([RodModel(robot).gravity_force], name, compile=compile, progress=progress)
    shape = coefficients_from_clarke(robot)
    return HoldingForce(shape.T @ rod.stiffness @ shape, shape, functions["gravity_force"])  # K_M of (25)
