# SPDX-License-Identifier: Apache-2.0
"""The kinematics of a robot's backbone, whatever its basis."""

from __future__ import annotations

from collections.abc import Callable

from continuum_robot.robot.description import Robot
from continuum_robot.rod.dynamics import RodDynamics
from continuum_robot.rod.strain_rod import StrainRod
from continuum_robot.rod.tendons import beyond_bending


def backbone_of(
    robot: Robot, *, compile: str = "auto", progress: Callable[[str], None] | None = None
) -> RodDynamics | StrainRod:
    """What has ``poses(c, s)`` and ``body_jacobian(c, s)`` of a robot's backbone.

    Parameters
    ----------
    robot : with segments
    compile, progress : see :func:`~continuum_robot.rod.code_generation.compile_functions`

    Raises
    ------
    ParameterError : a mechanism, which is no rod
    """
    if beyond_bending(robot):
        return StrainRod.from_robot(robot)
    return RodDynamics(robot, compile=compile, progress=progress)
