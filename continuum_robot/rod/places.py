# SPDX-License-Identifier: Apache-2.0
"""Poses and Jacobians of places of a rod, anywhere along it, for contacts and pushes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.robot.description import Robot
from continuum_robot.rod.rod import Rod

Vector = NDArray[np.float64]

_SAME_M = 1e-9
_OTHERS = 8


class RodPlaces:
    """Frames and Jacobians at arc lengths. Not for use by two threads at once.

    Places for which a rod has no body are added when they are first asked for, which takes milliseconds; the latest
    ones are kept.

    Parameters
    ----------
    robot : a rod
    stations_m : arc lengths that will be asked for, m

    Attributes
    ----------
    robot : as given
    """

    def __init__(self, robot: Robot, stations_m: Sequence[float] = ()) -> None:
        self.robot = robot
        self._known, self._others = (*stations_m, robot.length_m), []  # type: tuple[float, ...], list[float]
        self._make()

    def _make(self) -> None:
        rod = Rod(self.robot, paths=(), stations_m=(*self._known, *self._others))
        self._rod, self._at_m = rod, rod.arrays.bodies_m
        self._c, self._still, self._look = np.full(rod.n, np.nan), np.zeros(rod.n), rod.prepared("pose", "jacobian")

    def poses(self, c: ArrayLike, s: ArrayLike) -> Vector:
        """Frames (k, 4, 4) in the base frame at arc lengths ``s`` (k,), m.

        Parameters
        ----------
        c : (n,)
        """
        found = np.tile(np.eye(4), (np.size(s), 1, 1))
        for k, s_m in enumerate(np.atleast_1d(np.asarray(s, dtype=float))):
            at = self._body(c, float(s_m))
            if at >= 0:
                found[k, :3, :3], found[k, :3, 3] = self._now.rotation[at], self._now.position[at]
        return found

    def body_jacobian(self, c: ArrayLike, s: float) -> Vector:
        """Jacobian (6, n) of the twist (linear, angular) at arc length ``s`` (m), in the frame's own axes.

        Parameters
        ----------
        c : (n,)
        """
        at = self._body(c, float(s))
        return np.zeros((6, self._rod.n)) if at < 0 else self._now.jacobian[at].copy()

    def _body(self, c: ArrayLike, s_m: float) -> int:
        """Number of the body at an arc length, -1 at the base; all are looked at at c."""
        length_m = self.robot.length_m
        if not -_SAME_M <= s_m <= length_m * (1 + 1e-9):
            raise ParameterError("s", s_m, f"arc lengths in [0, {length_m:g}] m")
        s_m = min(s_m, length_m)
        at = int(np.abs(self._at_m - s_m).argmin())
        if s_m > _SAME_M and abs(self._at_m[at] - s_m) > _SAME_M * length_m:
            self._others = [*self._others[1 - _OTHERS :], s_m]
            self._make()
            return self._body(c, s_m)
        now = np.asarray(c, dtype=float)
        if not np.array_equal(now, self._c):
            self._c[:] = now
            self._now = self._look(self._c, self._still)
        return at if s_m > _SAME_M else -1
