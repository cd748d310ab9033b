# SPDX-License-Identifier: Apache-2.0
"""Follow the leader: the robot advances on its stage along a path, and its body lies where its tip has been.

For each way w of the tip along the path, the coordinates x of tendons and stage minimise

    sum over stations i of  w_i^2 |p_i(x) - path(w - (L - s_i))|^2 + mu^2 |S^-1 (x - x_before)|^2,

by Levenberg's and Marquardt's method from those of the place before. The path is entered along the stage's axis.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.interpolate import CubicSpline

from continuum_robot.control.tip.staged import StagedKinematics, StagedUse, stage_of
from continuum_robot.errors import ParameterError
from continuum_robot.geometry import se3
from continuum_robot.robot.description import Robot
from continuum_robot.rod.rod import Rod

Vector = NDArray[np.float64]

_STATIONS = 24
_TIP_WEIGHT = 5.0
_HOLD_WEIGHT = 1e-3
_ITERATIONS = 30
_LEAST_STEP = 1e-5
_LONGEST_STEP_M = 0.005


class Path:
    """A path in space by its arc length, straight before its begin."""

    def __init__(self, points_m: ArrayLike) -> None:
        points = np.array(points_m, dtype=float)
        if points.ndim != 2 or points.shape[1] != 3 or len(points) < 4 or not np.isfinite(points).all():
            raise ParameterError("points_m", points.shape, "at least four finite places, (k, 3), m")
        chords = np.linalg.norm(np.diff(points, axis=0), axis=1)
        if chords.min() <= 0:
            raise ParameterError("points_m", float(chords.min()), "places apart from each other")
        at_m = np.concatenate([[0.0], np.cumsum(chords)])
        curve = CubicSpline(at_m, points)
        # Once more by the arc length of the curve itself, which is longer than its chords.
        fine = np.linspace(0.0, at_m[-1], 20 * len(points))
        places = curve(fine)
        along = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(places, axis=0), axis=1))])
        self._curve, self.length_m = CubicSpline(along, places), float(along[-1])
        self._begin, slope = places[0], self._curve(0.0, 1)
        self._direction = slope / np.linalg.norm(slope)
        self._seen = np.concatenate([self._begin + np.linspace(-1.0, 0.0, 400)[:-1, None] * self._direction, places])

    def at(self, way_m: ArrayLike) -> Vector:
        """Places at ways, (k,), m, along it, (k, 3), m; before 0 on the straight line that it is entered by."""
        way = np.atleast_1d(np.asarray(way_m, dtype=float))
        straight = self._begin + way[:, None] * self._direction
        return np.where(way[:, None] < 0, straight, self._curve(np.clip(way, 0.0, self.length_m)))

    def distance_m(self, places_m: Vector) -> Vector:
        """Distances of places, (k, 3), m, from it, (k,), m."""
        first, second = self._seen[:-1], self._seen[1:]
        piece, to_place = second - first, places_m[:, None] - first
        part = np.clip((to_place * piece).sum(-1) / (piece**2).sum(-1), 0.0, 1.0)
        return np.asarray(np.linalg.norm(to_place - part[..., None] * piece, axis=-1).min(axis=1))


class FollowTheLeader:
    """Coordinates of tendons and stage that have the body of a robot on a path."""

    def __init__(self, robot: Robot, path: Path, limit_fraction: float = 0.95) -> None:
        self._path, self._stage, self._length_m = path, stage_of(robot), robot.length_m
        self._kinematics, self._use = StagedKinematics(robot), StagedUse(robot, limit_fraction)
        self._rod = Rod(robot)
        self.stations_m = robot.length_m * np.arange(1, _STATIONS + 1) / _STATIONS
        self._weight = np.ones(_STATIONS)
        self._weight[-1] = _TIP_WEIGHT
        tip = self.body(np.zeros(robot.coordinate_count + 2))[-1]
        if np.linalg.norm(tip - path.at(0.0)[0]) > 1e-3 * robot.length_m:
            raise ParameterError("path", path.at(0.0)[0], f"a path that begins at the tip of the straight robot, {tip}")

    def body(self, coordinates: Vector, coefficients: Vector | None = None) -> Vector:
        """Places of the stations in the stage's frame, (stations, 3), m."""
        shape = self._kinematics.coefficients(coordinates[:-2]) if coefficients is None else coefficients
        places = self._rod.poses(shape, self.stations_m)[:, :3, 3]
        return se3.apply(self._stage.pose(coordinates[-2:]), places)

    def plan(self, ways_m: ArrayLike, solve: Callable[[float, Vector], Vector] | None = None) -> Vector:
        """Coordinates at increasing ways of the tip from 0 on, (k, 2m + 2), each from those before."""
        ways = np.asarray(ways_m, dtype=float)
        if np.diff(ways, prepend=0.0).max() > _LONGEST_STEP_M * (1 + 1e-9):
            raise ParameterError("ways_m", float(np.diff(ways).max()), f"steps of at most {_LONGEST_STEP_M:g} m from 0")
        now, rows = np.zeros(self._kinematics.scale.size), []
        for way_m in ways:
            now = (solve or self._solve)(float(way_m), now)
            rows.append(now)
        return np.array(rows)

    def _solve(self, way_m: float, before: Vector) -> Vector:
        scale, wanted = self._kinematics.scale, self._path.at(way_m - self._length_m + self.stations_m)
        now, damping = before, 1e-6
        error, slope = self._error(now, before, wanted)
        for _ in range(_ITERATIONS):
            hessian = slope.T @ slope
            step = scale * np.linalg.solve(hessian + damping * np.diag(np.diag(hessian)), slope.T @ error)
            trial = self._use.kept(now, now + step)
            trial_error, trial_slope = self._error(trial, before, wanted)
            moved = float(np.abs((trial - now) / scale).max())
            if trial_error @ trial_error < error @ error:
                now, error, slope, damping = trial, trial_error, trial_slope, max(damping / 10, 1e-9)
            else:
                damping *= 10
            if moved < _LEAST_STEP or damping > 1e3:
                break
        return now

    def _error(self, coordinates: Vector, before: Vector, wanted: Vector) -> tuple[Vector, Vector]:
        """What is missing of the length, and minus its slope by the scaled coordinates."""
        kinematics, at = self._kinematics, coordinates[-2:]
        shape, base = kinematics.coefficients(coordinates[:-2]), self._stage.pose(at)
        frames, stations = self._rod.frames(shape), self._rod.stations(self.stations_m)
        poses = stations.poses(frames, shape)
        by_tendons = base[:3, :3] @ poses[:, :3, :3] @ stations.jacobians(frames, poses)[:, :3] @ kinematics.shape
        by_stage = self._stage.jacobian(at, poses[:, :3, 3])
        weight, hold = (self._weight / self._length_m)[:, None], _HOLD_WEIGHT / kinematics.scale
        missing = weight * (wanted - se3.apply(base, poses[:, :3, 3]))
        slope = weight[..., None] * np.concatenate([by_tendons, by_stage], axis=2)
        error = np.concatenate([missing.ravel(), hold * (before - coordinates)])
        return error, np.vstack([slope.reshape(-1, coordinates.size), np.diag(hold)]) * kinematics.scale
