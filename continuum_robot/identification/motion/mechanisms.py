# SPDX-License-Identifier: Apache-2.0
"""What of a mechanism a motion shows: keys of its section of the robot file, their values, its stiffness at rest."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

from continuum_robot.mechanisms.equilibrium_modulation.building import modulation_of
from continuum_robot.mechanisms.equilibrium_modulation.forces import ModulationForce
from continuum_robot.mechanisms.rolling_joint.building import rolling_joint_of, statics_of
from continuum_robot.mechanisms.rolling_joint.unloaded_curve import UnloadedCurve
from continuum_robot.robot.description import Robot
from continuum_robot.robot.equilibrium_modulation import EquilibriumModulation
from continuum_robot.robot.rolling_joint import RollingJoint
from continuum_robot.robot.traits import ROD

Vector = NDArray[np.float64]

_MODULATION, _ROLLING = "equilibrium_modulation", "rolling_joint"
_KEYS = {
    _MODULATION: ("guide_damping_ns_per_m", "youngs_modulus_pa"),
    _ROLLING: ("joint_damping_nms",),
}
_NEAR_M = 1e-4


def is_mechanism(robot: Robot) -> bool:
    """Whether the robot is a mechanism instead of a rod.

    Parameters
    ----------
    robot : any robot
    """
    return robot.traits.kind != ROD


def rolls(robot: Robot) -> bool:
    """Whether the robot has rolling joints.

    Parameters
    ----------
    robot : any robot
    """
    return robot.traits.kind == _ROLLING


def mechanism_values(robot: Robot) -> dict[str, float]:
    """What the robot file's ``mechanism`` section says of what is found from a motion, by key, in the keys' units.

    Parameters
    ----------
    robot : a mechanism

    Raises
    ------
    ParameterError : a rod
    """
    mechanism = _mechanism_of(robot)
    return {key: float(getattr(mechanism, key)) for key in _KEYS[robot.traits.kind]}


def with_mechanism(robot: Robot, values: dict[str, float]) -> Robot:
    """The robot with other values of its ``mechanism`` section.

    Parameters
    ----------
    robot : a mechanism
    values : by key, in the units of the keys

    Raises
    ------
    ParameterError : a rod
    """
    return robot.changed(mechanism=dataclasses.replace(_mechanism_of(robot), **values))


def stiffness_at_rest(robot: Robot, tension_n: float) -> Vector:
    """Force on the coordinates for a unit of each about the straight pose, shape (M, M), N/m.

    Of rolling joints without loads the tensions alone make it, ha (10); of equilibrium modulation m_1 of wang (1).

    Parameters
    ----------
    robot : a mechanism
    tension_n : of all tendons together, N

    Raises
    ------
    ParameterError : a rod
    """
    if rolls(robot):
        curve = UnloadedCurve(statics_of(robot))
        return np.array([[float(curve.force(_NEAR_M, tension_n / 2)) / _NEAR_M]])
    stiffness = ModulationForce(robot).stiffness_n_per_m
    return np.diag([stiffness, stiffness, 0.0])


def _mechanism_of(robot: Robot) -> RollingJoint | EquilibriumModulation:
    return rolling_joint_of(robot) if rolls(robot) else modulation_of(robot)
