# SPDX-License-Identifier: Apache-2.0
"""Which robots move how: rods that bend alone, other rods, mechanisms with a stiffness at rest."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.mechanisms.equilibrium_modulation.forces import ModulationForce
from continuum_robot.mechanisms.rolling_joint.building import statics_of
from continuum_robot.mechanisms.rolling_joint.unloaded_curve import UnloadedCurve
from continuum_robot.robot.description import Robot
from continuum_robot.robot.traits import ROD
from continuum_robot.rod.friction.capstans import drives

Vector = NDArray[np.float64]

ROLLING = "rolling_joint"
_NEAR_M = 1e-4


def is_mechanism(robot: Robot) -> bool:
    """Whether the robot is a mechanism instead of a rod."""
    return robot.traits.kind != ROD


def check_driven_rod(robot: Robot) -> None:
    """Refuse a robot that is not a rod with a motor on each tendon."""
    if is_mechanism(robot):
        raise ParameterError("robot", robot.name, "a rod")
    if drives(robot):
        expected = "a motor on every tendon; with capstans: continuum-robot identify"
        raise ParameterError("robot", robot.name, expected)
    for index, segment in enumerate(robot.segments):
        if segment.hysteresis is not None and not bends_alone(robot):
            expected = "none where a rod does more than bend or tendons are not parallel: there it is not identified"
            raise ParameterError(f"segments[{index}].hysteresis", segment.hysteresis, expected)


def bends_alone(robot: Robot) -> bool:
    """Whether the rod bends under parallel tendons and does nothing else, so that coordinates say how it is bent."""
    return not robot.traits.without_clarke and all(segment.basis.bending_alone for segment in robot.segments)


def stiffness_at_rest(robot: Robot, tension_n: float) -> Vector:
    """Force on the coordinates for a unit of each about the straight pose, shape (M, M), N/m.

    Of rolling joints without loads the tensions alone make it, ha (10); of equilibrium modulation m_1 of wang (1).
    """
    if robot.traits.kind == ROLLING:
        curve = UnloadedCurve(statics_of(robot))
        return np.array([[float(curve.force(_NEAR_M, tension_n / 2)) / _NEAR_M]])
    stiffness = ModulationForce(robot).stiffness_n_per_m
    return np.diag([stiffness, stiffness, 0.0])
