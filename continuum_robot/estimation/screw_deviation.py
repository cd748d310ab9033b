# SPDX-License-Identifier: Apache-2.0
"""On which segment a contact is, by motion alone: how far the segments' screws differ from those of free motion.

Bajo and Simaan (Kinematics-Based Detection and Localization of Contacts Along Multisegment Continuum Robots, IEEE T-RO
2012), which johnston names: each segment's end moves relative to its beginning by a screw. A contact constrains the
segment that it touches, and those before it, which bear its load; those after it move freely. So the last segment that
deviates is touched. No force and no model of the stiffness is needed, so it works at any speed above that of the noise;
but the robot has to move, and what shows the shape must not be the motors. Here the free screw is that of the shape of
least energy for what the motors pulled in, and screws are those of a window of time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.geometry import se3
from continuum_robot.robot.description import Robot
from continuum_robot.robot.schema import quantity
from continuum_robot.rod.tendons import coefficients_from_clarke, controlled_manifold

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScrewSettings:
    """What counts as a deviation."""

    period_s: float = quantity("how often screws are compared", "s", default=0.1, ge=0, le=10, live=True)
    window_s: float = quantity("time over which screws are compared", "s", default=1.0, ge=0.05, le=60, live=True)
    least_motion: float = quantity(
        "free motion of the whole robot's tip within it below which nothing is said, over the length",
        default=0.01,
        gt=0,
        le=1,
        live=True,
    )
    deviation: float = quantity(
        "deviation of a segment from which on it is constrained, over the larger of its free motion and the least",
        default=0.15,
        gt=0,
        lt=2,
        live=True,
    )


@dataclass(frozen=True, slots=True)
class ScrewDeviation:
    """How the segments' screws deviate."""

    deviations: Vector
    segment: int


class ScrewDeviations:
    """Compares screws, shape by shape."""

    def __init__(
        self, robot: Robot, pose: Callable[[Vector, float], Vector], settings: ScrewSettings | None = None
    ) -> None:
        self.settings = settings or ScrewSettings()
        self._pose = pose
        whole = robot.with_all_coordinates
        self._shapes, self._manifold = coefficients_from_clarke(whole), controlled_manifold(whole)
        self._lengths_m = np.array([segment.length_m for segment in robot.segments])
        self._ends_m = [0.0, *np.cumsum(self._lengths_m)]
        self._unknown = ScrewDeviation(np.full(self._lengths_m.size, np.nan), -1)
        self._length_m = robot.length_m
        self.reset()

    def reset(self) -> None:
        """Forget earlier shapes."""
        self._time_s = 0.0
        self._due_s = 0.0
        self._newest = self._unknown
        self._moments: deque[tuple[float, Vector, Vector, list[Vector]]] = deque()

    def update(self, c: ArrayLike, displacement: ArrayLike, dt: float) -> ScrewDeviation:
        """The deviations after one more shape; the ones before until a period is over."""
        self._time_s += dt
        if self._time_s < self._due_s - 1e-9:
            return self._newest
        self._due_s = self._time_s + self.settings.period_s
        self._newest = self._compared(np.asarray(c, dtype=float), np.asarray(displacement, dtype=float))
        return self._newest

    def _compared(self, c: Vector, displacement: Vector) -> ScrewDeviation:
        clarke = self._manifold.clarke(displacement)
        if not np.isfinite(c.sum() + clarke.sum()):
            self.reset()
            return self._unknown
        after = self._ends(c)
        self._moments.append((self._time_s, c.copy(), clarke, after))
        while self._time_s - self._moments[0][0] > self.settings.window_s:
            self._moments.popleft()
        _, then_c, then_clarke, before = self._moments[0]
        free = self._ends(then_c + self._shapes @ (clarke - then_clarke))
        could_m = float(np.linalg.norm(free[-1][:3, 3] - before[-1][:3, 3]))
        if could_m < self.settings.least_motion * self._length_m:
            return self._unknown
        deviations = []
        for index, length_m in enumerate(self._lengths_m):
            start, expected, found = (se3.inverse(poses[index]) @ poses[index + 1] for poses in (before, free, after))
            free_screw, screw = (_screw(start, end, length_m) for end in (expected, found))
            least = self.settings.least_motion * length_m
            deviations.append(float(np.linalg.norm(screw - free_screw) / max(float(np.linalg.norm(free_screw)), least)))
        constrained = np.flatnonzero(np.array(deviations) > self.settings.deviation)
        return ScrewDeviation(np.array(deviations), int(constrained[-1]) if constrained.size else -1)

    def _ends(self, c: Vector) -> list[Vector]:
        return [np.asarray(self._pose(c, float(end_m))) for end_m in self._ends_m]


def _screw(start: Vector, end: Vector, length_m: float) -> Vector:
    """Twist from one pose to another in the axes of the segment's beginning, angles times its length, (6,), m."""
    twist = se3.log(end @ se3.inverse(start))
    return np.concatenate([twist[:3], length_m * twist[3:]])
