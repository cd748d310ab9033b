# SPDX-License-Identifier: Apache-2.0
"""Tendons and strings parallel to a rod that only bends: their displacement is linear in the strain coefficients."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.robot.description import Robot
from continuum_robot.robot.segments.routing import RoutedPath
from continuum_robot.rod.bases import BENDING_ROWS, basis_matrix, gauss_legendre

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
            "here bending alone, with tendons and strings parallel to the backbone; rod.rod.Rod has all"
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
    """A tendon at (x, y) is shorter by y per curvature about x, and longer by x per curvature about y: rucker (11)."""
    check_parallel(robot)
    matrix = np.zeros((len(paths), robot.coefficient_count))
    starts = zip(robot.segment_starts_m, robot.segments, coefficient_slices(robot), strict=True)
    for start_m, segment, own in starts:
        length_m, cuts = segment.length_m, segment.basis.breaks
        for row, path in zip(matrix, paths, strict=True):
            ends = (float(np.clip((end_m - start_m) / length_m, 0.0, 1.0)) for end_m in (path.start_m, path.end_m))
            begin, end = ends
            x, y, _, _ = (float(value[0]) for value in path.at(start_m + length_m * (begin + end) / 2))
            for low, high in pairwise((begin, *(cut for cut in cuts if begin < cut < end), end)):
                at, weights = gauss_legendre(segment.basis.degree + 1, high - low)
                for ratio, weight in zip(low + at, weights, strict=True):
                    bent = basis_matrix(segment.basis, ratio)[list(BENDING_ROWS)]
                    row[own] += weight * length_m * (x * bent[1] - y * bent[0])
    return matrix
