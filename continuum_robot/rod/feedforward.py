# SPDX-License-Identifier: Apache-2.0
"""Generalised forces that hold a robot at given Clarke coordinates, for the feed-forward of a controller."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from continuum_robot.robot.coordinates import clarke_manifold
from continuum_robot.robot.description import Robot
from continuum_robot.rod.code_generation import compile_functions
from continuum_robot.rod.holding_force import HoldingForce
from continuum_robot.rod.model import RodModel

Vector = NDArray[np.float64]


def coefficients_from_clarke(model: RodModel) -> Vector:
    """Matrix from Clarke coordinates (m) to the coefficients of least elastic energy, shape (n, 2m), 1/m per m.

    For a constant basis that is the only shape with these Clarke coordinates. Parallel tendons alone bend a segment
    by a constant curvature, so other bases give the same shape.
    """
    clarke = clarke_manifold(model.robot).clarke_matrix @ model.tendon_matrix
    compliant = np.linalg.solve(model.stiffness, clarke.T)
    return np.asarray(np.linalg.solve(clarke @ compliant, compliant.T).T)


def clarke_feedforward(
    robot: Robot, *, compile: str = "auto", progress: Callable[[str], None] | None = None
) -> HoldingForce:
    """The generalised forces K_M q and g_M of muhmann (25), apart from each other.

    Parameters
    ----------
    robot : the robot
    compile, progress : see :func:`~continuum_robot.rod.code_generation.compile_functions`

    Returns
    -------
    function: Clarke coordinates (2m,), m -> elastic (2m,) and gravity (2m,), N; tendons that give their sum hold the
    robot there. Not for use by two threads at once.
    """
    model = RodModel(robot)
    name = f"the gravity model of {robot.name}"
    gravity = compile_functions([model.gravity_force], name, compile=compile, progress=progress)["gravity_force"]
    shape = coefficients_from_clarke(model)
    stiffness = shape.T @ model.stiffness @ shape  # K_M of (25)
    return HoldingForce(stiffness, shape, gravity)
