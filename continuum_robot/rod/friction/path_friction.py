# SPDX-License-Identifier: Apache-2.0
"""Dry friction of tendons on their way through guides and disks, by the capstan law, for any routing."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.robot.description import Robot
from continuum_robot.robot.segments.tendons import RoutedTendon, Tendons
from continuum_robot.rod.rod import Rod

Vector = NDArray[np.float64]

_LEAST_PLACES = 9


class PathFriction:
    """Which fraction of its tension each tendon loses where it slides: 1 - exp(-mu turn), Euler's capstan law.

    The turn is that of the guide between spool and base, and the angles between the tendon's pieces from disk to disk,
    which bend with the rod. Friction that a fit found as a fraction comes on top.
    """

    def __init__(self, robot: Robot) -> None:
        tendons = [segment.tendons for segment in robot.segments for _ in range(segment.tendons.count)]
        each: list[Tendons | RoutedTendon] = [*tendons, *robot.routed_tendons]
        fitted = robot.displaced_tendons
        self.coefficient = np.array([one.friction_coefficient for one in each])
        self.guide_rad = np.array([one.guide_turn_rad for one in each])
        self._found = np.zeros(len(each)) if fitted is None else np.array(fitted.friction_fraction)
        self._turns = bool(self.coefficient.any())
        self.acts = self._turns or bool(self._found.any())
        self._rod = Rod(robot, paths=())
        even = [
            np.linspace(start_m, start_m + segment.length_m, _LEAST_PLACES)
            for start_m, segment in zip(robot.segment_starts_m, robot.segments, strict=True)
        ]
        places = np.unique(np.concatenate([[0.0], robot.disk_arc_lengths_m, *even]).round(9))
        self._places = np.minimum(places, robot.length_m)
        self._offset = np.zeros((len(each), len(self._places), 2))
        self._used = np.zeros((len(each), len(self._places) - 1), dtype=bool)  # pieces from one place to the next
        for index, path in enumerate(robot.tendon_paths):
            used = (self._places >= path.start_m - 1e-9) & (self._places <= path.end_m + 1e-9)
            self._offset[index, used] = np.stack(path.at(self._places[used])[:2], axis=1)
            self._used[index] = used[1:] & used[:-1]
        self._first = np.arange(len(each)), self._used.argmax(axis=1)

    def turn_rad(self, c: ArrayLike) -> Vector:
        """Angle through which each tendon turns from its spool to its end at coefficients (n,), (N,), rad."""
        poses = np.asarray(self._rod.poses(c, self._places))
        at = poses[:, :3, 3] + np.einsum("kij,nkj->nki", poses[:, :3, :2], self._offset)
        ways = np.diff(at, axis=1)
        ways /= np.linalg.norm(ways, axis=2, keepdims=True)
        cosine = np.einsum("nki,nki->nk", ways[:, 1:], ways[:, :-1])
        turns = np.arccos(np.clip(cosine, -1.0, 1.0)) * (self._used[:, 1:] & self._used[:, :-1])
        comes = poses[self._first[1], :3, 2]  # along the backbone
        enters = np.arccos(np.clip(np.einsum("ni,ni->n", comes, ways[self._first]), -1.0, 1.0))
        return np.asarray(self.guide_rad + enters + turns.sum(axis=1))

    def fraction(self, c: ArrayLike) -> Vector:
        """Fraction of each tendon's tension that friction takes up before it slides at coefficients (n,), (N,)."""
        if not self._turns:
            return self._found
        return np.asarray(1 - (1 - self._found) * np.exp(-self.coefficient * self.turn_rad(c)))
