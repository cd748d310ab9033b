# SPDX-License-Identifier: Apache-2.0
"""Whether a shape runs through itself: the body is a round tube about the backbone, with the radius of the disks."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.robot.description import Robot
from continuum_robot.rod.rod import Rod

Vector = NDArray[np.float64]

_STEP_RADII = 0.25
_MOST_PLACES = 2000


@dataclass(frozen=True, slots=True)
class Intersection:
    """Where a body runs deepest through itself."""

    first_m: float
    second_m: float
    depth_m: float

    def __str__(self) -> str:
        if self.first_m == self.second_m:
            return f"at {1e3 * self.first_m:.3g} mm it bends more tightly than its radius"
        return (
            f"at {1e3 * self.first_m:.3g} mm it runs {1e3 * self.depth_m:.2g} mm deep through itself at"
            f" {1e3 * self.second_m:.3g} mm"
        )


def tube_intersection(position_m: ArrayLike, s_m: ArrayLike, radius_m: ArrayLike) -> Intersection | None:
    """The deepest self-intersection of a tube; None where there is none.

    Places less than half a turn of the tube's own radius apart, pi r along the arc, touch only where the tube bends
    more tightly than that radius.
    """
    places, s = np.asarray(position_m, dtype=float), np.asarray(s_m, dtype=float)
    radius = np.broadcast_to(np.asarray(radius_m, dtype=float), s.shape)
    if places.shape != (len(s), 3) or len(s) < 3:
        raise ParameterError("position_m", places.shape, f"the shape ({max(len(s), 3)}, 3)")
    apart = np.linalg.norm(places[:, None] - places[None], axis=2)
    reach = radius[:, None] + radius[None]
    depth = np.where(s[None] - s[:, None] > math.pi / 2 * reach, reach - apart, -np.inf)
    first, second = np.unravel_index(int(np.argmax(depth)), depth.shape)
    if depth[first, second] > 0:
        return Intersection(float(s[first]), float(s[second]), float(depth[first, second]))
    along = np.diff(places, axis=0) / np.diff(s)[:, None]
    bend = np.linalg.norm(np.diff(along, axis=0), axis=1) / (np.diff(s)[1:] + np.diff(s)[:-1]) * 2
    tight = bend * radius[1:-1]
    k = int(np.argmax(tight))
    if tight[k] > 1:
        return Intersection(float(s[k + 1]), float(s[k + 1]), float(radius[k + 1] - 1 / bend[k]))
    return None


def self_intersections(robot: Robot, shapes: ArrayLike) -> list[Intersection | None]:
    """The deepest self-intersection of a robot in each of some shapes; None where there is none.

    Parameters
    ----------
    shapes : strain coefficients, (k, n)
    """
    radii = np.array([segment.disks.radius_m for segment in robot.segments])
    length_m = robot.length_m
    count = min(_MOST_PLACES, max(20, math.ceil(length_m / (_STEP_RADII * radii.min(initial=length_m)))))
    s_m = np.linspace(0.0, length_m, count + 1)
    rod = Rod(robot, stations_m=s_m.tolist())
    of = np.searchsorted(robot.segment_starts_m, s_m, side="right") - 1
    bodies = np.abs(rod.arrays.bodies_m[:, None] - s_m).argmin(axis=0)
    still = np.zeros(rod.n)
    return [tube_intersection(rod.terms(c, still).position[bodies], s_m, radii[of]) for c in np.atleast_2d(shapes)]


def self_intersection(robot: Robot, c: ArrayLike) -> Intersection | None:
    """:func:`self_intersections` of one shape, (n,)."""
    return self_intersections(robot, c)[0]
