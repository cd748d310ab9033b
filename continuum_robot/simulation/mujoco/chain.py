# SPDX-License-Identifier: Apache-2.0
"""A rod as a chain of rigid links with hinges, from the robot's description: where hinges are, and what links weigh.

A segment of length l with N links has N joints in the middle of N equal pieces of h = l / N. A joint carries the strain
of its piece: stiffness E I / h against bending (G J / h against torsion), damping N d_theta, so that N joints in series
have the segment's E I / l and d_theta. The tip of a uniformly bent chain errs by O(h^2), with hinges at the ends of the
pieces it would err by O(h).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.geometry.so3 import hat
from continuum_robot.robot.description import Robot
from continuum_robot.robot.segments.lumped_masses import lumped_masses
from continuum_robot.robot.segments.routing import RoutedPath
from continuum_robot.rod.bases import BENDING_ROWS, basis_matrix
from continuum_robot.rod.fiber import segment_at
from continuum_robot.rod.inertia import passing_segments, section_stiffness

Vector = NDArray[np.float64]

LINKS_PER_DISK = 4
"""By default: between disks the backbone is a column under the tendons' tension, which fewer joints make too soft."""
LEAST_LINKS, ENOUGH_LINKS = 12, 60
"""Of a segment by default, where it has few disks, or many."""
MOST_LINKS = 200
TORSION_ROW = 2
_SAME_PLACE_M = 1e-9


@dataclass(frozen=True)
class Joint:
    """One joint of the chain."""

    segment: int
    arc_length_m: float
    piece_m: float
    stiffness_nm: Vector
    damping_nms: Vector
    order: tuple[int, ...]


@dataclass(frozen=True)
class Link:
    """A rigid link, from a joint to the next one or to the tip."""

    start_m: float
    end_m: float
    mass_kg: float
    center_of_mass_m: Vector
    inertia_kg_m2: Vector


def default_links(robot: Robot) -> tuple[int, ...]:
    """Links of each segment by default: a whole number of links from disk to disk."""
    counts = [max(1, segment.disks.disk_count) for segment in robot.segments]
    return tuple(
        count * max(math.ceil(LEAST_LINKS / count), min(LINKS_PER_DISK, ENOUGH_LINKS // count)) for count in counts
    )


class Chain:
    """The chain of a robot."""

    def __init__(self, robot: Robot, links: int | Sequence[int] | None = None) -> None:
        if robot.traits.without_statics:
            raise ParameterError("robot", robot.name, "a robot that is a rod: a mechanism has no chain of links")
        for one in robot.segments:
            if one.backbone.taper or any(one.backbone.rest_curvature_per_m):
                raise ParameterError("backbone", one.name, "no taper and no rest curvature in MuJoCo")
        if robot.displaced_tendons is not None:
            expected = "none in MuJoCo, whose tendons are alike and run straight from disk to disk"
            raise ParameterError("displaced_tendons", robot.name, expected)
        self.robot = robot
        if links is None:
            counts = default_links(robot)
        else:
            counts = (links,) * len(robot.segments) if isinstance(links, int) else tuple(links)
        if len(counts) != len(robot.segments) or not all(1 <= count <= MOST_LINKS for count in counts):
            expected = f"1 to {MOST_LINKS} for each of {len(robot.segments)} segments"
            raise ParameterError("links", links, expected)
        self.links_per_segment = counts
        self.torsion = any(TORSION_ROW in segment.basis.rows for segment in robot.segments)
        self.joints = tuple(joint for index in range(len(counts)) for joint in self._joints(index))
        self._starts = np.array([joint.arc_length_m for joint in self.joints])

    @property
    def dof_count(self) -> int:
        """Number of hinges."""
        return sum(len(joint.order) for joint in self.joints)

    def link_at(self, arc_length_m: float) -> int:
        """Index of the link at an arc length from the base, m; -1 for the piece that is fixed to the base."""
        return int(np.searchsorted(self._starts, arc_length_m + _SAME_PLACE_M, side="right")) - 1

    def start_m(self, link: int) -> float:
        """Arc length at which a link begins, m; 0 for the piece at the base, -1."""
        return 0.0 if link < 0 else float(self._starts[link])

    @cached_property
    def links(self) -> tuple[Link, ...]:
        """Links from the first joint to the tip; what stands on the piece at the base does not move."""
        ends = [*self._starts[1:], self.robot.length_m]
        return tuple(self._link(float(a), float(b)) for a, b in zip(self._starts, ends, strict=True))

    @cached_property
    def strain_fit(self) -> Vector:
        """Matrix from hinge angles (rad) to the strain coefficients of the robot's bases, shape (n, dof).

        Least squares over the joints of each segment of B(s) c against angle over piece; shear and extension, which
        a chain has not, are zero.
        """
        fit = np.zeros((self.robot.coefficient_count, self.dof_count))
        row = column = 0
        for index, segment in enumerate(self.robot.segments):
            joints = [joint for joint in self.joints if joint.segment == index]
            own = [k for k, strain in enumerate(segment.basis.rows) if strain in joints[0].order]
            begin = float(self.robot.segment_starts_m[index])
            design, fractions = [], []
            for joint in joints:
                values = basis_matrix(segment.basis, (joint.arc_length_m - begin) / segment.length_m)
                design.append(values[np.ix_(joint.order, own)])
                fractions += [1 / joint.piece_m] * len(joint.order)
            columns = slice(column, column + len(fractions))
            if own:
                rows = row + np.array(own)
                fit[rows, columns] = np.linalg.pinv(np.concatenate(design)) * np.array(fractions)
            row, column = row + segment.basis.coefficient_count, columns.stop
        return fit

    @cached_property
    def grating_curvature(self) -> Vector:
        """Matrix from hinge angles (rad) to the curvatures at the gratings of the robot's fibre, (2 g, dof), 1/m.

        Between the joints of a segment linear, beyond them that of the nearest.
        """
        gratings_m = self.robot.gratings_m
        matrix = np.zeros((2 * len(gratings_m), self.dof_count))
        ends = np.cumsum([0, *(len(joint.order) for joint in self.joints)])
        for index, s_m in enumerate(gratings_m):
            own = [k for k, joint in enumerate(self.joints) if joint.segment == segment_at(self.robot, s_m)]
            places_m = np.array([self.joints[k].arc_length_m for k in own])
            fractions = [np.interp(s_m, places_m, row) for row in np.eye(len(own))]
            for k, fraction in zip(own, fractions, strict=True):
                for column, axis in enumerate(self.joints[k].order):
                    if axis in BENDING_ROWS:
                        matrix[2 * index + axis, ends[k] + column] = fraction / self.joints[k].piece_m
        return matrix

    def angles(self, c: Vector) -> Vector:
        """Hinge angles of strain coefficients, shape (dof,), rad: the strain in the middle of each piece times it."""
        values, place = [], 0
        slices = []
        for segment in self.robot.segments:
            slices.append(slice(place, place + segment.basis.coefficient_count))
            place += segment.basis.coefficient_count
        for joint in self.joints:
            segment = self.robot.segments[joint.segment]
            begin = float(self.robot.segment_starts_m[joint.segment])
            matrix = basis_matrix(segment.basis, (joint.arc_length_m - begin) / segment.length_m)
            values.append(joint.piece_m * (matrix @ c[slices[joint.segment]])[list(joint.order)])
        return np.concatenate(values)

    def guides_m(self, path: RoutedPath) -> Vector:
        """Arc lengths at which a tendon or string is guided, from its start to its end, shape (guides,), m.

        Disks and holes; a curved path, which disks alone would cut short, in the middle of each piece too.
        """
        places = {path.start_m, path.end_m, *path.kinks_m, *(float(s) for s in self.robot.disk_arc_lengths_m)}
        if not path.parallel and path.corners is None:
            places |= {float(s) for s in self._starts}
        inside = sorted(s for s in places if path.start_m <= s <= path.end_m + _SAME_PLACE_M)
        return np.array([s for k, s in enumerate(inside) if not k or s - inside[k - 1] > _SAME_PLACE_M])

    def _joints(self, index: int) -> list[Joint]:
        segment, count = self.robot.segments[index], self.links_per_segment[index]
        stiffness = section_stiffness(self.robot, index)[:3]
        piece = segment.length_m / count
        # Torsion is damped in the same time against its stiffness as bending, as in rod/inertia.py.
        time_s = 2 * segment.bending_damping_nms * segment.length_m / (stiffness[0] + stiffness[1])
        bending = segment.bending_damping_nms * count
        damping = np.array([bending, bending, time_s * stiffness[2] / piece])
        begin = float(self.robot.segment_starts_m[index])
        # Angles a, b about x and then y turn by a b / 2 about z as well. In turns the other way round, that cancels.
        orders = ((0, 1, 2), (2, 1, 0)) if self.torsion else ((0, 1), (1, 0))
        return [
            Joint(index, begin + (k + 0.5) * piece, piece, stiffness / piece, damping, orders[k % 2])
            for k in range(count)
        ]

    def _link(self, start_m: float, end_m: float) -> Link:
        parts: list[tuple[float, Vector, Vector]] = []  # mass, centre of mass in the link's frame, inertia about it
        robot = self.robot
        for index, begin in enumerate(robot.segment_starts_m):
            segment = robot.segments[index]
            low, high = max(start_m, float(begin)), min(end_m, float(begin) + segment.length_m)
            if high > low:
                parts += self._rod(index, low - start_m, high - start_m)
            for body in lumped_masses(robot, index):
                place = float(begin) + body.s_m
                if self.start_m(self.link_at(place)) == start_m and body.mass_kg > 0:
                    center = np.array([0.0, 0.0, place - start_m]) + body.center_of_mass_m
                    parts.append((body.mass_kg, center, body.inertia_kg_m2))
        mass = sum(part[0] for part in parts)
        if not mass > 0:
            expected = "mass on every link: a backbone with a density, or a disk on each link"
            raise ParameterError("robot", robot.name, expected)
        center = sum((part[0] * part[1] for part in parts), np.zeros(3)) / mass
        inertia = np.zeros((3, 3))
        for kilograms, at, tensor in parts:
            across_m = hat(at - center)
            inertia += tensor - kilograms * across_m @ across_m
        return Link(start_m, end_m, mass, center, inertia)

    def _rod(self, index: int, low: float, high: float) -> list[tuple[float, Vector, Vector]]:
        """Backbone and tendons of a segment on a stretch of a link."""
        backbone = self.robot.segments[index].backbone
        center, length_m = np.array([0.0, 0.0, (low + high) / 2]), high - low

        def slender(mass: float, rotary: float) -> tuple[float, Vector, Vector]:
            across = mass * length_m**2 / 12 + rotary
            return mass, center, np.diag([across, across, 2 * rotary])

        parts = [slender(backbone.linear_density_kg_per_m * length_m, backbone.rotary_inertia_kg_m * length_m)]
        for tendons in (segment.tendons for segment in passing_segments(self.robot, index)):
            mass = tendons.count * tendons.mass_per_length_kg_per_m * length_m
            parts.append(slender(mass, mass * tendons.pitch_radius_m**2 / 2))
        return [part for part in parts if part[0] > 0]
