# SPDX-License-Identifier: Apache-2.0
"""Tendons and strings parallel to the backbone: their displacement is linear in the strain coefficients.

A path at r = (r cos psi, r sin psi, 0) in the cross-section has the tangent R (v + u x r); under bending alone that is
parallel to the backbone and its length is 1 + kappa_x r_y - kappa_y r_x. The path loses
q = integral of (kappa_y r cos psi - kappa_x r sin psi) ds, positive when pulled in: q = r theta cos(psi - phi) for
constant curvature.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.robot.description import Robot
from continuum_robot.rod.bases import basis_integral

Vector = NDArray[np.float64]


def coefficient_slices(robot: Robot) -> tuple[slice, ...]:
    """For each segment, where its coefficients stand in the coefficients of the whole robot."""
    ends = np.cumsum([segment.basis.coefficient_count for segment in robot.segments])
    return tuple(
        slice(int(end) - segment.basis.coefficient_count, int(end))
        for end, segment in zip(ends, robot.segments, strict=True)
    )


def beyond_bending(robot: Robot) -> str:
    """What in a robot asks for the general rod, "" where displacements are linear in the coefficients.

    That is bending alone, with all tendons and strings parallel to the backbone.
    """
    for segment in robot.segments:
        if not segment.basis.bending_alone:
            return f"basis of {segment.name}"
    paths = [*robot.tendon_paths, *(string.path for string in robot.strings)]
    routed = [path.name for path in paths if not path.parallel] + [tendon.name for tendon in robot.routed_tendons]
    return f"routing of {routed[0]}" if routed else ""


def check_parallel(robot: Robot) -> None:
    """Refuse a robot whose displacements are not linear in its coefficients; raises ParameterError."""
    reason = beyond_bending(robot)
    if reason:
        raise ParameterError(
            "robot",
            f"{robot.name}: {reason}",
            "here bending alone, with tendons and strings parallel to the backbone; the rest is in rod.strain_rod",
        )


def parallel_path_gradient(
    robot: Robot, pitch_radius_m: float, angle_rad: float, end_m: float, begin_m: float = 0.0
) -> Vector:
    """Gradient of the displacement of a parallel path between two arc lengths.

    Parameters
    ----------
    robot : the robot
    pitch_radius_m : distance of the path from the backbone, m
    angle_rad : angle of the path from +x, rad
    end_m : arc length from the base at which the path ends, m
    begin_m : arc length at which it begins, m

    Returns
    -------
    shape (coefficients,), m per (1/m); positive entries pull in
    """
    if begin_m > 0:
        whole = parallel_path_gradient(robot, pitch_radius_m, angle_rad, end_m)
        return whole - parallel_path_gradient(robot, pitch_radius_m, angle_rad, begin_m)
    gradient = np.zeros(robot.coefficient_count)
    for segment, start_m, place in zip(robot.segments, robot.segment_starts_m, coefficient_slices(robot), strict=True):
        covered_m = min(max(end_m - float(start_m), 0.0), segment.length_m)
        if covered_m > 0:
            integral = basis_integral(segment, covered_m)
            gradient[place] = pitch_radius_m * (
                math.cos(angle_rad) * integral[1] - math.sin(angle_rad) * integral[0]
            )  # muhmann (4), (8), (13)
    return gradient


def tendon_matrix(robot: Robot) -> Vector:
    """Displacement of every tendon per strain coefficient, shape (tendons, coefficients), m per (1/m)."""
    check_parallel(robot)
    return np.array(
        [
            parallel_path_gradient(
                robot,
                segment.tendons.pitch_radius_m,
                float(angle),
                float(start_m) + segment.length_m,
                0.0 if segment.tendons.from_base else float(start_m),
            )
            for segment, start_m in zip(robot.segments, robot.segment_starts_m, strict=True)
            for angle in segment.tendons.angles_rad
        ]
    )


def string_matrix(robot: Robot) -> Vector:
    """Extension of every string per strain coefficient, shape (strings, coefficients), m per (1/m).

    Positive when the string leaves the robot's body, as a tendon's displacement.
    """
    check_parallel(robot)
    rows = [
        parallel_path_gradient(robot, string.pitch_radius_m, string.angle_rad, string.anchor_m, string.start_m)
        for string in robot.strings
    ]
    return np.array(rows).reshape(len(rows), robot.coefficient_count)
