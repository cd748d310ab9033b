# SPDX-License-Identifier: Apache-2.0
"""Inverse kinematics of the tip on the rod, by damped least squares within the limits of the tendons.

The Clarke coordinates decide the shape of least elastic energy (:func:`~continuum_robot.rod.tendons.
coefficients_from_clarke`), the rod engine gives its tip and the tip's Jacobian. Each step minimises

    |e - J dx|^2 - e.(dx J' dx) + mu^2 |W (x + dx)|^2 + lambda |dx|^2   subject to   A dx <= b,

with x the bending angles, e the missing way over the robot's length, J' the derivative of the Jacobian, W the
differences of curvature between neighbouring segments, and A, b the linearised limits of displacement, tension and
generalised force. Near a target that is reached, e vanishes and that is the step of Levenberg and Marquardt; to a
target out of reach it is Newton's. Lawson and Hanson (Solving Least Squares Problems, chapter 23) turn a quadratic with
inequalities into a least distance problem.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import nnls

from continuum_robot.control.tendon_use import TendonUse
from continuum_robot.errors import ParameterError
from continuum_robot.robot.coordinates import coordinate_scale_m
from continuum_robot.robot.description import Robot
from continuum_robot.rod.rod import Rod
from continuum_robot.rod.tendons import clarke_from_modes, coefficients_from_clarke, pressed_by_pretension

Vector = NDArray[np.float64]

_ITERATIONS = 100
_LARGEST_STEP_RAD = 0.5
_LEAST_STEP_RAD = 1e-9
_LEAST_GAIN = 1e-9  # of the cost, in each of two steps
_LARGEST_DAMPING = 1e3
_DIFFERENCE_RAD = 1e-6
_LEAST_SINGULAR_FRACTION = 0.02
_EVEN_WEIGHT = 1e-3  # mu: costs 1e-6 of the length where segments bend a radian apart
_NEAR_AXIS_FRACTION = 0.05
_SEARCH_ANGLES_RAD = (0.5, 1.5, 2.5)
# A solution elsewhere has to be better by this fraction of the length to be worth the way.
_WORTH_FRACTION = 1e-4


@dataclass(frozen=True, slots=True)
class TipSolution:
    """Where the tip can go for a target.

    Attributes
    ----------
    target : as asked for, shape (3,), base frame, m
    clarke : coordinates that bring the tip to the goal, shape (2m,), m
    goal : the reachable point next to the target, shape (3,), base frame, m
    distance_m : from target to goal
    reachable : whether that is within ``reachable_m``
    limited_by : what keeps the tip from the target: of ``displacement``, ``tension``, ``force``; empty where it is the
        length or the number of segments alone
    tension : that holds the robot there by the model, shape (N,), N
    iterations : of all starts together
    """

    target: Vector
    clarke: Vector
    goal: Vector
    distance_m: float
    reachable: bool
    limited_by: tuple[str, ...]
    tension: Vector
    iterations: int


class TipKinematics:
    """Tip of a robot over its Clarke coordinates, by the rod engine."""

    further = 0

    def __init__(self, robot: Robot) -> None:
        if robot.traits.without_tip_control:
            raise ParameterError("robot", robot.name, f"a rod: {robot.traits.without_tip_control}")
        self._rod = Rod(robot)
        self.scale: Vector = coordinate_scale_m(robot)
        if self.scale.size == 2 * len(robot.segments):
            self.scale = _radii_m(robot)
        self.shape, self._pressed = coefficients_from_clarke(robot), pressed_by_pretension(robot)

    def coefficients(self, clarke: Vector) -> Vector:
        """Of the rod, (n,), at Clarke coordinates (2m,), m, shortened by the robot's pretension where it can be."""
        return self._pressed + self.shape @ clarke

    def pose(self, clarke: Vector) -> Vector:
        """Tip frame, shape (4, 4), base frame, at Clarke coordinates (2m,), m."""
        return self._rod.moved(self.coefficients(clarke))[0]

    def place(self, clarke: Vector) -> tuple[Vector, Vector]:
        """Tip position, shape (3,), base frame, m, and its Jacobian over the Clarke coordinates, shape (3, 2m)."""
        pose, body = self._rod.moved(self.coefficients(clarke))
        return pose[:3, 3].copy(), pose[:3, :3] @ body[:3] @ self.shape


class TipInverse:
    """Clarke coordinates that bring the tip of a robot to a target, or next to it."""

    def __init__(self, robot: Robot, kinematics: TipKinematics, limits: TendonUse, reachable_m: float) -> None:
        self._kinematics, self._limits, self._reachable_m = kinematics, limits, reachable_m
        self._length_m = robot.length_m
        self._scale, self._further = kinematics.scale, kinematics.further
        self._uneven = _unevenness(robot, self._further, self._scale[: len(self._scale) - self._further])
        into = clarke_from_modes(robot)
        self._from_clarke = None if into.shape[0] == into.shape[1] else np.linalg.pinv(into)
        self._radii_m = _radii_m(robot)
        self._origin = np.zeros(self._scale.size)

    def solve(self, target: ArrayLike, start: ArrayLike | None = None, *, search: bool = True) -> TipSolution:
        """The coordinates that bring the tip to a target, or to the reachable point next to it."""
        place = finite("target", target, 3)
        first = np.zeros(self._scale.size) if start is None else finite("start", start, self._scale.size)
        if self._further:  # the stage stays where it is, rather than move for even bends
            self._origin[-self._further :] = first[-self._further :]
        best, best_m, iterations = self._descend(place, self._limits.inside(first))
        if search and best_m > self._reachable_m:
            for other in self._starts(place):
                found, found_m, count = self._descend(place, self._limits.inside(other))
                iterations += count
                if found_m < best_m - _WORTH_FRACTION * self._length_m:
                    best, best_m = found, found_m
        return self._solved(place, best, iterations)

    def _solved(self, target: Vector, clarke: Vector, iterations: int) -> TipSolution:
        goal = self._kinematics.place(clarke)[0]
        distance_m = float(np.linalg.norm(target - goal))
        reachable = distance_m <= self._reachable_m
        used = self._limits.use(clarke)
        limited = () if reachable else tuple(n for n, rows in self._limits.rows.items() if used[rows].max() > 1 - 1e-6)
        return TipSolution(
            target, clarke, goal, distance_m, reachable, limited, self._limits.tension(clarke), iterations
        )

    def _starts(self, target: Vector) -> list[Vector]:
        """Robots bent towards the target, by several angles, all segments the same way or in an S."""
        size = self._scale.size - self._further
        radii_m = self._scale[:size] if self._from_clarke is None else self._radii_m
        count = (radii_m.size + 1) // 2
        directions = [math.atan2(target[1], target[0])]
        if math.hypot(target[0], target[1]) < _NEAR_AXIS_FRACTION * self._length_m:
            # No direction is better by itself, and the limits differ: all around, and not along an edge of theirs.
            directions = [0.3 + turn for turn in np.arange(3) * 2 * math.pi / 3]
        starts = []
        for direction in directions:
            unit = np.resize([math.cos(direction), math.sin(direction)], radii_m.size)
            for angle in _SEARCH_ANGLES_RAD:
                for signs in ([1.0] * count, [(-1.0) ** i for i in range(count)])[: min(count, 2)]:
                    bent = angle * radii_m * unit * np.repeat(signs, 2)[: radii_m.size]
                    if self._from_clarke is not None:
                        bent = self._from_clarke @ bent
                    starts.append(np.concatenate([bent, self._origin[size:]]))
        return starts

    def _descend(self, target: Vector, start: Vector) -> tuple[Vector, float, int]:
        """Coordinates, distance to the target, m, and iterations from one feasible start."""
        x, count = self._minimise(target, (start - self._origin) / self._scale, _EVEN_WEIGHT)
        # Where the arm is nearly stretched or folded, even that weight costs some of the way.
        x, more = self._minimise(target, x, 0.0)
        clarke = self._coordinates(x)
        return clarke, float(np.linalg.norm(target - self._kinematics.place(clarke)[0])), count + more

    def _minimise(self, target: Vector, x: Vector, weight: float) -> tuple[Vector, int]:
        """Damped Newton steps on |e|^2 + |weight W x|^2 from bending angles x within the limits."""
        scale, even = self._scale, weight * self._uneven
        error, jacobian = self._error(target, x)
        cost = float(error @ error + np.sum((even @ x) ** 2))
        damping, iterations, idle = 1e-6, 0, 0
        while iterations < _ITERATIONS and damping < _LARGEST_DAMPING:
            iterations += 1
            slope = jacobian.T @ error - even.T @ (even @ x)
            hessian = jacobian.T @ jacobian + even.T @ even - self._second_order(target, x, error, jacobian)
            factor = _positive_factor(hessian, damping)
            limit_slope, room = self._limits.linearised(self._coordinates(x))
            step = _constrained_step(factor, slope, limit_slope * scale, room)
            step *= min(1.0, _LARGEST_STEP_RAD / max(float(np.abs(step).max()), math.ulp(0.0)))
            kept = self._limits.kept(self._coordinates(x), self._coordinates(x + step))
            trial = (kept - self._origin) / scale
            trial_error, trial_jacobian = self._error(target, trial)
            trial_cost = float(trial_error @ trial_error + np.sum((even @ trial) ** 2))
            moved, gain = float(np.abs(trial - x).max()), cost - trial_cost
            if gain > 0:
                x, cost, error, jacobian = trial, trial_cost, trial_error, trial_jacobian
                damping = max(damping / 10, 1e-12)
                idle = idle + 1 if gain < _LEAST_GAIN * (gain + cost) else 0
            else:
                damping = max(10 * damping, 1e-6)
            if (moved < _LEAST_STEP_RAD and gain >= 0) or idle > 1:
                break
        return x, iterations

    def _error(self, target: Vector, x: Vector) -> tuple[Vector, Vector]:
        """Missing way over the length, shape (3,), and the tip's Jacobian over the bending angles, shape (3, 2m)."""
        place, jacobian = self._kinematics.place(self._coordinates(x))
        return (target - place) / self._length_m, jacobian * self._scale / self._length_m

    def _coordinates(self, x: Vector) -> Vector:
        return x * self._scale + self._origin if self._further else x * self._scale

    def _second_order(self, target: Vector, x: Vector, error: Vector, jacobian: Vector) -> Vector:
        """Sum of e_k times the Hessian of the tip's coordinate k: what decides the steps to a target out of reach."""
        columns = np.empty((x.size, x.size))
        for index in range(x.size):
            there = x.copy()
            there[index] += _DIFFERENCE_RAD
            columns[:, index] = (self._error(target, there)[1] - jacobian).T @ error / _DIFFERENCE_RAD
        return (columns + columns.T) / 2


def steady_inverse(jacobian: Vector) -> Vector:
    """Inverse of a tip's Jacobian that fades where the tip hardly follows the tendons, (2m, 3).

    There noise, not error, would be answered. A pseudoinverse that drops a direction at once would let the answer jump
    whenever the robot comes by.
    """
    left, size, right = np.linalg.svd(jacobian, full_matrices=False)
    least = np.maximum(size, max(_LEAST_SINGULAR_FRACTION * size[0], math.ulp(0.0)))
    return np.asarray(right.T @ ((size / least / least)[:, None] * left.T))


def finite(name: str, value: ArrayLike, size: int) -> Vector:
    """A place or coordinates as an array, (size,), m."""
    array = np.array(value, dtype=float)
    if array.shape != (size,) or not np.all(np.isfinite(array)):
        raise ParameterError(name, value, f"{size} finite values in m")
    return array


def _positive_factor(hessian: Vector, damping: float) -> Vector:
    """Upper triangle r with r^T r = |hessian| + damping I: directions of negative curvature are turned round."""
    values, vectors = np.linalg.eigh(hessian)
    root = np.sqrt(np.maximum(np.abs(values), 1e-12) + damping)
    return np.asarray(np.linalg.qr(root[:, None] * vectors.T)[1])


def _constrained_step(factor: Vector, slope: Vector, limit_slope: Vector, room: Vector) -> Vector:
    """Minimise |r x|^2 / 2 - slope x subject to limit_slope x <= room; Lawson and Hanson, (23.22) to (23.45).

    Where nothing fulfils the limits, the step is zero.
    """
    inverse = np.linalg.inv(factor)
    free = np.asarray(inverse @ (inverse.T @ slope))
    needed = limit_slope @ free - room
    if np.all(needed <= 0):
        return free
    # y = r (x - free): the least y with (-limit_slope r^-1) y >= limit_slope free - room.
    dual = np.vstack([-(limit_slope @ inverse).T, needed])
    aim = np.zeros(dual.shape[0])
    aim[-1] = 1.0
    try:
        weights, _ = nnls(dual, aim)
    except RuntimeError:  # no solution within its iterations: the next step is damped more
        return np.zeros_like(free)
    rest = dual @ weights - aim
    if abs(rest[-1]) < 1e-12:
        return np.zeros_like(free)
    return np.asarray(free + inverse @ (-rest[:-1] / rest[-1]))


def _radii_m(robot: Robot) -> Vector:
    """Change of each Clarke coordinate that bends its segment by 1 rad, (2m,), m."""
    return np.repeat([segment.tendons.pitch_radius_m for segment in robot.segments], 2)


def _unevenness(robot: Robot, further: int, scale_m: Vector) -> Vector:
    """Differences of curvature between neighbouring segments over coordinates in ``scale_m``, times the mean length.

    Of ``further`` coordinates, after those of the tendons, the way from where they began. Tendon modes of which not two
    are controlled a segment say nothing of single segments.
    """
    count = len(robot.segments)
    lengths = [segment.length_m for segment in robot.segments]
    rows = np.zeros((2 * max(count - 1, 0) + further, 2 * count + further))
    rows[len(rows) - further :, 2 * count :] = np.eye(further)
    for i in range(count - 1):
        for part in range(2):
            rows[2 * i + part, 2 * i + part] = robot.length_m / count / lengths[i]
            rows[2 * i + part, 2 * (i + 1) + part] = -robot.length_m / count / lengths[i + 1]
    if scale_m.size == 2 * count:
        return rows
    into = clarke_from_modes(robot)
    if into.shape[0] != 2 * count:
        return np.eye(scale_m.size + further)[scale_m.size :]
    angles = into / _radii_m(robot)[:, None] * scale_m
    return np.hstack([rows[:, : 2 * count] @ angles, rows[:, 2 * count :]])
