# SPDX-License-Identifier: Apache-2.0
"""Poses and Jacobians of places of a rod, anywhere along it, for contacts and pushes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.robot.description import Robot
from continuum_robot.rod.rod import Rod
from continuum_robot.rod.stations import Frames

Vector = NDArray[np.float64]


class RodPlaces:
    """Frames and Jacobians at arc lengths. Not for use by two threads at once, but for :meth:`prepare`."""

    def __init__(self, robot: Robot, stations_m: Sequence[float] = ()) -> None:
        self.robot, self._known = robot, tuple(stations_m)

    @cached_property
    def _look(self) -> _Look:
        return _Look(self.robot, self._known)

    def prepare(self, s_m: float) -> None:
        """Take some milliseconds now to make one more place, of arc length ``s_m``, as quick as those known before."""
        bodies_m = self._look.rod.arrays.bodies_m
        if np.abs(bodies_m - s_m).min() > 1e-9 * self.robot.length_m:
            self._look = _Look(self.robot, (*self._known, s_m))

    def poses(self, c: ArrayLike, s: ArrayLike) -> Vector:
        """Frames (k, 4, 4) in the base frame at arc lengths ``s`` (k,), m."""
        look = self._look
        return look.rod.stations(s).poses(look.at(c), look.c)

    def body_jacobian(self, c: ArrayLike, s: float) -> Vector:
        """Jacobian (6, n) of the twist (linear, angular) at arc length ``s`` (m), in the frame's own axes."""
        look = self._look
        stations, at = look.rod.stations([s]), look.at(c)
        return np.asarray(stations.jacobians(at, stations.poses(at, look.c))[0])


class _Look:
    """A rod with bodies at some places, and its frames at the latest coefficients."""

    def __init__(self, robot: Robot, stations_m: Sequence[float]) -> None:
        self.rod = Rod(robot, paths=(), stations_m=stations_m)
        self.c, self._still = np.full(self.rod.n, np.nan), np.zeros(self.rod.n)
        self._evaluate = self.rod.prepared("pose", "jacobian")

    def at(self, c: ArrayLike) -> Frames:
        now = np.asarray(c, dtype=float)
        if not np.array_equal(now, self.c):
            self.c[:] = now
            found = self._evaluate(self.c, self._still)
            self._frames = Frames(found.rotation, found.position, found.jacobian)
        return self._frames
