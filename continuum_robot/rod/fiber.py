# SPDX-License-Identifier: Apache-2.0
"""What the curvatures that a fibre measures are in the strain coefficients: linear in them, whatever the basis."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from continuum_robot.robot.description import Robot
from continuum_robot.rod.bases import BENDING_ROWS, basis_matrix
from continuum_robot.rod.tendons import coefficient_slices

Vector = NDArray[np.float64]


def curvature_matrix(robot: Robot) -> Vector:
    """Curvature about x and about y at every grating per strain coefficient, (2 g, n), 1/m per 1/m: johnston (4).

    A grating where two segments meet is on the first.
    """
    matrix = np.zeros((2 * len(robot.gratings_m), robot.coefficient_count))
    places = coefficient_slices(robot)
    for index, s_m in enumerate(robot.gratings_m):
        at = segment_at(robot, s_m)
        segment = robot.segments[at]
        ratio = min(1.0, (s_m - float(robot.segment_starts_m[at])) / segment.length_m)
        matrix[2 * index : 2 * index + 2, places[at]] = basis_matrix(segment.basis, ratio)[list(BENDING_ROWS)]
    return matrix


def curvature_lever_m2(robot: Robot) -> Vector:
    """By what a curvature is multiplied to weigh as much as a tendon's displacement where its segment bends so,
    (2 g,).
    """
    segments = [robot.segments[segment_at(robot, s_m)] for s_m in robot.gratings_m]
    return np.repeat([segment.tendons.pitch_radius_m * segment.length_m for segment in segments], 2)


def curvature_readings(robot: Robot) -> Vector:
    """What of every curvature is read per strain coefficient: curvatures times their lever, (2 g, n), m per 1/m."""
    return np.asarray(curvature_lever_m2(robot)[:, None] * curvature_matrix(robot))


def segment_at(robot: Robot, s_m: float) -> int:
    """Index of the segment at an arc length from the base; where two meet, the first."""
    return max(0, int(np.searchsorted(robot.segment_starts_m, s_m * (1 - 1e-12))) - 1)
