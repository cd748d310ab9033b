# SPDX-License-Identifier: Apache-2.0
"""What the strain basis of a rod cannot represent of an equilibrium, as an error of its tip; derived here."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from continuum_robot.robot.segments.routing import turn_cuts
from continuum_robot.rod.kernel.arrays import GAUSS
from continuum_robot.rod.stations import Stations

if TYPE_CHECKING:
    from continuum_robot.rod.rod import Rod

Vector = NDArray[np.float64]

_WEIGHTS = (5 / 18, 4 / 9, 5 / 18)
_STEP_RAD = math.pi / 6  # of a tendon about the backbone


class CrossSections:
    """Cross-sections between a rod's bodies, so close that no tendon begins, ends, bends off or turns far between."""

    def __init__(self, rod: Rod) -> None:
        paths, end_m = rod.description.tendon_paths, rod.length_m
        bodies_m = rod.arrays.bodies_m
        ends = {place for path in paths for place in (path.start_m, path.end_m, *path.kinks_m)}
        ends |= {0.0, end_m, *(piece.start_m for piece in rod.arrays.pieces)}
        near = sorted(place for place in ends if place <= end_m * (1 + 1e-9))
        cuts = [turn_cuts(low, high, paths, _STEP_RAD) for low, high in pairwise(near)] if paths else []
        edges = np.unique(np.concatenate([bodies_m, near, *cuts]).clip(0, end_m))
        edges = edges[np.diff(edges, prepend=-1.0) > 1e-9 * end_m]
        steps_m = np.diff(edges)
        self.places_m = (edges[:-1, None] + np.outer(steps_m, GAUSS)).ravel()
        self._weights = np.outer(steps_m, _WEIGHTS).ravel()
        self._stations = Stations(rod.arrays, self.places_m)
        self._beyond = bodies_m[None, :] > self.places_m[:, None]
        starts_m, segments = rod.description.starts_m, rod.description.segments
        index = np.searchsorted(starts_m, self.places_m, side="right") - 1
        ratios = [(s_m - starts_m[k]) / segments[k].length_m for s_m, k in zip(self.places_m, index, strict=True)]
        self._stiffness = np.array([segments[k].stiffness_at(ratio) for k, ratio in zip(index, ratios, strict=True)])
        self._paths = [path.at(self.places_m) for path in paths]
        self._runs = [(path.start_m < self.places_m) & (self.places_m < path.end_m) for path in paths]

    def missing(self, rod: Rod, gravity: Vector, body: Vector, c: Vector, tension: Vector) -> tuple[float, float]:
        """Displacement (m) and rotation (rad) of the tip; see :func:`defect`."""
        at = rod.frames(c)
        poses, strain = self._stations.poses(at, c), self._stations.strains(c)
        rotation, position = poses[:, :3, :3], poses[:, :3, 3]
        wrench = self._beyond @ _wrenches(at.rotation, at.position, gravity, body)
        moment = wrench[:, :3] - np.cross(position, wrench[:, 3:])
        stress = np.concatenate([(moment[:, None] @ rotation)[:, 0], (wrench[:, None, 3:] @ rotation)[:, 0]], axis=1)
        for (x, y, x_slope, y_slope), runs, pull in zip(self._paths, self._runs, tension, strict=False):
            if pull:
                arm = np.stack([x, y, np.zeros_like(x)], axis=1)
                slope = np.stack([x_slope, y_slope, np.zeros_like(x)], axis=1)
                tangent = strain[:, 3:] + np.cross(strain[:, :3], arm) + slope
                unit = runs[:, None] * tangent / np.linalg.norm(tangent, axis=1)[:, None]
                stress -= pull * np.concatenate([np.cross(arm, unit), unit], axis=1)
        own = strain - self._stations.rest_strains
        missing = (stress / self._stiffness - own) * self._weights[:, None]
        turn = (rotation @ missing[:, :3, None])[..., 0]
        move = (rotation @ missing[:, 3:, None])[..., 0] - np.cross(at.position[-1] - position, turn)
        return float(np.linalg.norm(move.sum(axis=0))), float(np.linalg.norm(turn.sum(axis=0)))


def defect(rod: Rod, gravity: Vector, body: Vector, c: Vector, tension: Vector) -> tuple[float, float]:
    """What the basis cannot represent: displacement (m) and rotation (rad) of the tip by the strain that it lacks.

    At every cross-section the wrench beyond it, less what the tendons bear, over the stiffness is the strain that
    equilibrium asks for; its difference from the basis' strain moves the tip by the geometric Jacobian.
    """
    return rod.cross_sections.missing(rod, gravity, body, c, tension)


def _wrenches(rotation: Vector, position: Vector, gravity: Vector, body: Vector) -> Vector:
    """Weight and load of every body (moment, force) about the base's origin, (bodies, 6)."""

    def turned(own: Vector) -> Vector:
        return np.asarray((rotation @ own[..., None])[..., 0])

    weight = body[:, :1] * gravity
    first = body[:, :1] * position + turned(body[:, 1:4])
    point, following = position + turned(body[:, 10:13]), turned(body[:, 19:22])
    force = body[:, 13:16] + following
    moment = np.cross(first, gravity) + np.cross(point, force) + body[:, 16:19] + turned(body[:, 22:25])
    return np.hstack([moment, weight + force])
