# SPDX-License-Identifier: Apache-2.0
"""Capstans that drive opposite tendons of a segment: johnston sections 4.3 and 5.1.3.

A capstan turns by q > 0 when it pulls in the first of its two tendons and pays out the second. With s strands a path
displacement d of the tendon winds s d of wire. Tensions of tendons are sums over their strands, so that tension times
displacement is work; a wire has the tension of the tendon over s.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from continuum_robot.robot.description import Robot
from continuum_robot.robot.segments.tendons import Capstans

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Drive:
    """One capstan of a robot."""

    segment: int
    plane: int
    pulled: int
    released: int
    capstans: Capstans
    strands: int

    @property
    def path_per_radian_m(self) -> float:
        """Displacement of its tendons for a radian of the capstan, m: johnston (10) over the strands."""
        return self.capstans.wire_per_radian_m / self.strands

    @property
    def friction_coefficient(self) -> float:
        """Friction of its wires in the holes of the disks."""
        return self.capstans.friction_coefficients[self.plane]


def drives(robot: Robot) -> tuple[Drive, ...]:
    """All capstans of a robot, segment by segment from the base; empty for a robot without, as a mechanism is."""
    if robot.traits.without_statics:
        return ()
    found = []
    for index, (segment, place) in enumerate(zip(robot.segments, robot.tendon_slices, strict=True)):
        if segment.capstans is not None:
            found += [
                Drive(index, k, place.start + k, place.start + k + 2, segment.capstans, segment.tendons.strands)
                for k in range(2)
            ]
    return tuple(found)


def driven_segments(robot: Robot) -> list[int]:
    """Indices of the segments with capstans, from the base; empty for a robot without."""
    return sorted({drive.segment for drive in drives(robot)})


def capstan_jacobian(robot: Robot, lever: Vector | None = None) -> Vector:
    """J_qc of johnston (11): capstan speed per rate of the strain coefficients, (capstans, n), rad per (1/m).

    A capstan turns with half the difference of its two tendons, which are opposite where they are parallel: then its
    torque does on both the work of (32).
    """
    if lever is None:
        from continuum_robot.rod.description import RodDescription  # noqa: PLC0415 - it needs the inertia of these
        from continuum_robot.rod.kernel.arrays import straight_lever  # noqa: PLC0415

        lever = straight_lever(RodDescription.of_robot(robot))
    return np.asarray(tension_from_torque(robot).T @ lever)


def tension_from_torque(robot: Robot) -> Vector:
    """Matrix from capstan torques (N.m) to differences of tendon tensions from the pretension, shape (N, capstans).

    Half of the difference comes on each of the two opposite tendons: johnston (32) prints all of it on either, which
    is twice what statics gives.
    """
    matrix = np.zeros((robot.tendon_count, len(drives(robot))))
    for column, drive in enumerate(drives(robot)):
        matrix[drive.pulled, column] = 0.5 / drive.path_per_radian_m
        matrix[drive.released, column] = -0.5 / drive.path_per_radian_m
    return matrix


def wires_from_tension(robot: Robot) -> Vector:
    """Matrix from the tensions of all tendons (N) to those of the pulled wires, then the released ones, (2 k, N)."""
    found = drives(robot)
    matrix = np.zeros((2 * len(found), robot.tendon_count))
    for row, drive in enumerate(found):
        matrix[row, drive.pulled] = matrix[len(found) + row, drive.released] = 1 / drive.strands
    return matrix


def actuator_mass_parts(robot: Robot, lever: Vector | None = None) -> Vector:
    """Inertia of each segment's capstans in the strain coefficients, constant, shape (segments, n, n)."""
    jacobian, found = capstan_jacobian(robot, lever), np.zeros((len(robot.segments), *[robot.coefficient_count] * 2))
    for row, drive in zip(jacobian, drives(robot), strict=True):
        found[drive.segment] += drive.capstans.inertia_kg_m2 * np.outer(row, row)
    return found


def actuator_mass_matrix(robot: Robot, lever: Vector | None = None) -> Vector:
    """M_A of johnston (22)-(24): inertia of the capstans in the strain coefficients, constant, shape (n, n)."""
    return np.asarray(actuator_mass_parts(robot, lever).sum(axis=0))
