# SPDX-License-Identifier: Apache-2.0
"""Tendons and strings parallel to a rod that only bends: their displacement is linear in the strain coefficients."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.robot.description import Robot
from continuum_robot.robot.segments.routing import RoutedPath
from continuum_robot.rod.path_lengths import PathLengths
from continuum_robot.rod.strain.kinematics import stretches

Vector = NDArray[np.float64]


def coefficient_slices(robot: Robot) -> tuple[slice, ...]:
    """For each segment, where its coefficients stand in the coefficients of the whole robot."""
    ends = np.cumsum([segment.basis.coefficient_count for segment in robot.segments])
    return tuple(
        slice(int(end) - segment.basis.coefficient_count, int(end))
        for end, segment in zip(ends, robot.segments, strict=True)
    )


def check_parallel(robot: Robot) -> None:
    """Refuse a robot whose displacements are not linear in its coefficients; raises ParameterError."""
    reason = robot.traits.nonlinear_lengths
    if reason:
        raise ParameterError(
            "robot",
            f"{robot.name}: {reason}",
            "here bending alone, with tendons and strings parallel to the backbone; rod.strain.rod.StrainRod has all"
            " others",
        )


def tendon_matrix(robot: Robot) -> Vector:
    """Displacement of every tendon per strain coefficient, shape (tendons, coefficients), m per (1/m).

    It is q = r theta cos(psi - phi), pulled in positive, for constant curvature: muhmann (4), (8), (13).
    """
    return _shortening(robot, robot.tendon_paths)


def string_matrix(robot: Robot) -> Vector:
    """Extension of every string per strain coefficient, shape (strings, coefficients), m per (1/m).

    Positive when the string leaves the robot's body, as a tendon's displacement.
    """
    return _shortening(robot, [string.path for string in robot.strings])


def _shortening(robot: Robot, paths: Sequence[RoutedPath]) -> Vector:
    check_parallel(robot)
    return -PathLengths(stretches(robot), paths).jacobian(np.zeros(robot.coefficient_count))
