# SPDX-License-Identifier: Apache-2.0
"""What of a segment with equilibrium modulation a motion shows: the guides' damping and the backbones' modulus."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

from continuum_robot.mechanisms.equilibrium_modulation.building import modulation_of
from continuum_robot.mechanisms.equilibrium_modulation.forces import ModulationForce
from continuum_robot.robot.description import Robot

Vector = NDArray[np.float64]

MODULATION_KEYS = ("guide_damping_ns_per_m", "youngs_modulus_pa")
"""Of the ``mechanism`` section."""


def is_modulated(robot: Robot) -> bool:
    """Whether the robot is a segment with equilibrium modulation.

    Parameters
    ----------
    robot : any robot
    """
    return robot.traits.kind == "equilibrium_modulation"


def modulation_values(robot: Robot) -> dict[str, float]:
    """The robot file's values of ``MODULATION_KEYS``, by key, in the units of the keys.

    Parameters
    ----------
    robot : with equilibrium modulation

    Raises
    ------
    ParameterError : another robot
    """
    mechanism = modulation_of(robot)
    return {key: float(getattr(mechanism, key)) for key in MODULATION_KEYS}


def with_modulation(robot: Robot, values: dict[str, float]) -> Robot:
    """The robot with other values of its ``mechanism`` section.

    Parameters
    ----------
    robot : with equilibrium modulation
    values : by key, in the units of the keys

    Raises
    ------
    ParameterError : another robot
    """
    return robot.changed(mechanism=dataclasses.replace(modulation_of(robot), **values))


def elastic_matrix(robot: Robot) -> Vector:
    """Force on [q_Re, q_Im, insertion] for a unit of each, (3, 3), N/m: by virtual work with m_1 of wang (1).

    Parameters
    ----------
    robot : with equilibrium modulation

    Raises
    ------
    ParameterError : another robot
    """
    stiffness = ModulationForce(robot).stiffness_n_per_m
    return np.diag([stiffness, stiffness, 0.0])
