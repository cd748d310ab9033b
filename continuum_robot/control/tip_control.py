# SPDX-License-Identifier: Apache-2.0
"""The tip at a wanted place: inverse kinematics on the rod by damped least squares within the limits of the tendons.

The Clarke coordinates decide the shape of least elastic energy (:func:`~continuum_robot.rod.feedforward.
coefficients_from_clarke`), the rod engine gives its tip and the tip's Jacobian. Each step minimises

    |e - J dx|^2 + mu^2 |W (x + dx)|^2 + lambda |dx|^2   subject to   A dx <= b,

with x the bending angles, e the missing way over the robot's length, W the differences of curvature between
neighbouring segments, and A, b the linearised limits of displacement, tension and generalised force. That is the step
of Levenberg and Marquardt with inequalities; Lawson and Hanson (Solving Least Squares Problems, chapter 23) turn it
into a least distance problem.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import nnls

from continuum_robot.control.motion import LimitedMotion, motion_limits
from continuum_robot.control.references import ClarkeReference
from continuum_robot.control.tendon_forces import distribute
from continuum_robot.errors import ParameterError
from continuum_robot.robot.coordinates import clarke_manifold
from continuum_robot.robot.description import Robot
from continuum_robot.rod.code_generation import compile_functions
from continuum_robot.rod.feedforward import clarke_feedforward, coefficients_from_clarke
from continuum_robot.rod.model import RodModel

Vector = NDArray[np.float64]

_ITERATIONS = 100
_LARGEST_STEP_RAD = 0.5
_LEAST_STEP_RAD = 1e-9
_EVEN_WEIGHT = 1e-3  # mu: costs 1e-6 of the length where segments bend a radian apart
_SEARCH_ANGLES_RAD = (0.5, 1.5, 2.5)
# A solution elsewhere has to be better by this share of the length to be worth the way.
_WORTH_SHARE = 1e-4


@dataclass(frozen=True, slots=True, kw_only=True)
class TipSettings:
    """How the tip is brought to its target.

    Attributes
    ----------
    limit_share : share of each limit that is used; the rest is left to the controller
    reachable_m : distance within which a target counts as reached by the model, m
    integral_per_s : rate at which the error of the estimated tip is taken away, 1/s
    integral_share : largest correction, share of the largest displacement
    tolerance_m : error of the estimated tip within which it has arrived, m
    settle_s : for how long it has to stay within, s
    """

    limit_share: float = 0.95
    reachable_m: float = 1e-4
    integral_per_s: float = 2.0
    integral_share: float = 0.25
    tolerance_m: float = 5e-4
    settle_s: float = 0.2


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


@dataclass(frozen=True, slots=True)
class TipOutput:
    """One cycle of the tip control.

    Attributes
    ----------
    reference : of the Clarke coordinates
    error_m : from goal to estimated tip, NaN where that is unknown
    off_m : the part of it that no tendon moves the tip along, NaN where the tip is unknown
    moving : whether the reference is still on its way
    arrived : whether the tip is at the goal, but for what no tendon can move it along
    limited : whether the correction of the error is at a limit
    """

    reference: ClarkeReference
    error_m: float
    off_m: float
    moving: bool
    arrived: bool
    limited: bool


class TipKinematics:
    """Tip of a robot over its Clarke coordinates, by the rod engine.

    Parameters
    ----------
    robot : a rod
    compile, progress : see :func:`~continuum_robot.rod.code_generation.compile_functions`

    Raises
    ------
    ParameterError : a mechanism, which is no rod
    """

    def __init__(self, robot: Robot, *, compile: str = "auto", progress: Callable[[str], None] | None = None) -> None:
        if robot.mechanism is not None:
            raise ParameterError("robot", robot.name, "a rod: a mechanism has kinematics of its own")
        model = RodModel(robot)
        functions = compile_functions(
            [model.pose, model.body_jacobian], f"the tip of {robot.name}", compile=compile, progress=progress
        )
        self._pose, self._jacobian = functions["pose"], functions["body_jacobian"]
        self._length_m = robot.length_m
        self.shape = coefficients_from_clarke(model)

    def pose(self, clarke: Vector) -> Vector:
        """Tip frame, shape (4, 4), base frame, at Clarke coordinates (2m,), m."""
        return np.asarray(self._pose(self.shape @ clarke, self._length_m)).reshape(4, 4)

    def place(self, clarke: Vector) -> tuple[Vector, Vector]:
        """Tip position, shape (3,), base frame, m, and its Jacobian over the Clarke coordinates, shape (3, 2m)."""
        coefficients = self.shape @ clarke
        pose = np.asarray(self._pose(coefficients, self._length_m)).reshape(4, 4)
        body = np.asarray(self._jacobian(coefficients, self._length_m)).reshape(6, -1)
        return pose[:3, 3].copy(), pose[:3, :3] @ body[:3] @ self.shape


class TipControl:
    """Clarke references that bring the tip to a target, and keep it there against what the model does not know.

    The reference moves straight in the Clarke coordinates, within speed and acceleration of
    :func:`~continuum_robot.control.motion.motion_limits`. The error of the estimated tip is integrated into a
    correction in the directions in which the tendons move the tip; it stops at the limits.

    Parameters
    ----------
    robot : a rod with limits; without ``control`` tensions are predicted by shifting onto the least tension
    settings : how
    compile, progress : see :func:`~continuum_robot.rod.code_generation.compile_functions`

    Raises
    ------
    ParameterError : a mechanism, or a robot without limits
    """

    def __init__(
        self,
        robot: Robot,
        settings: TipSettings | None = None,
        *,
        compile: str = "auto",
        progress: Callable[[str], None] | None = None,
    ) -> None:
        self.settings = settings or TipSettings()
        self.kinematics = TipKinematics(robot, compile=compile, progress=progress)
        limits = motion_limits(robot)
        self._limits = _Limits(robot, self.settings.limit_share, compile, progress)
        self._length_m = robot.length_m
        self._radius_m = np.repeat([segment.tendons.pitch_radius_m for segment in robot.segments], 2)
        self._uneven = _unevenness(robot)
        self._largest_m = self._limits.displacement_m * self.settings.integral_share
        self._motion = LimitedMotion(limits, np.zeros(robot.coordinate_count))
        self._correction = np.zeros(robot.coordinate_count)
        self._solution: TipSolution | None = None
        self._within_s = 0.0

    @property
    def motion(self) -> LimitedMotion:
        """Motion of the reference, without the correction."""
        return self._motion

    @property
    def solution(self) -> TipSolution | None:
        """Of the newest target, None before the first."""
        return self._solution

    def tension(self, clarke: ArrayLike) -> Vector:
        """Tensions that hold the robot at Clarke coordinates (2m,), m, by the model, shape (N,), N."""
        return self._limits.tension(np.asarray(clarke, dtype=float))

    def use_of_limits(self, clarke: ArrayLike) -> dict[str, float]:
        """Largest share of each kind of limit that Clarke coordinates (2m,), m, need; 1 is the limit itself."""
        used = self._limits.use(np.asarray(clarke, dtype=float)) * self.settings.limit_share
        return {name: float(used[rows].max()) for name, rows in self._limits.rows.items()}

    def solve(self, target: ArrayLike, start: ArrayLike | None = None, *, search: bool = True) -> TipSolution:
        """The coordinates that bring the tip to a target, or to the reachable point next to it.

        Parameters
        ----------
        target : shape (3,), base frame, m
        start : Clarke coordinates to begin at, shape (2m,), m; None: straight
        search : where the target is not reached from there, begin in other directions too and take the nearest

        Returns
        -------
        the solution; of several that reach the target, the one next to the start that bends the segments most evenly

        Raises
        ------
        ParameterError : a target or start that is not finite
        """
        place = _finite("target", target, 3)
        first = np.zeros(self._radius_m.size) if start is None else _finite("start", start, self._radius_m.size)
        best, best_m, iterations = self._descend(place, self._limits.inside(first))
        if search and best_m > self.settings.reachable_m:
            for other in self._starts(place):
                found, found_m, count = self._descend(place, self._limits.inside(other))
                iterations += count
                if found_m < best_m - _WORTH_SHARE * self._length_m:
                    best, best_m = found, found_m
        return self._solved(place, best, iterations)

    def reset(self, clarke: ArrayLike, velocity: ArrayLike | None = None) -> None:
        """Start at Clarke coordinates (2m,), m, with ``velocity``, shape (2m,), m/s; no target, no correction."""
        self._motion.reset(clarke, velocity)
        self._correction[:] = 0.0
        self._solution, self._within_s = None, 0.0

    def set_target(self, target: ArrayLike) -> TipSolution:
        """Go to a target from now on.

        Parameters
        ----------
        target : shape (3,), base frame, m

        Returns
        -------
        where the tip will go; on a target close to the one before, the solution close to the one before

        Raises
        ------
        ParameterError : a target that is not finite; the one before stays
        """
        before = self._solution
        place = _finite("target", target, 3)
        near = before is not None and float(np.linalg.norm(place - before.target)) < 0.05 * self._length_m
        start = before.clarke if before is not None else self._motion.reference.position
        self._solution = self.solve(place, start, search=not near)
        self._within_s = 0.0
        return self._solution

    def update(self, tip: ArrayLike | None, dt: float) -> TipOutput:
        """One cycle.

        Parameters
        ----------
        tip : estimated position, shape (3,), base frame, m; None or NaN where it is unknown: then nothing is corrected
        dt : time since the last cycle, s, positive

        Returns
        -------
        the reference, and how far the tip is

        Raises
        ------
        ParameterError : no target was set, or a dt that is not positive
        """
        solution = self._solution
        if solution is None:
            raise ParameterError("target", None, "set_target() before update()")
        motion = self._motion.towards(solution.clarke, dt)
        known = tip is not None and bool(np.all(np.isfinite(np.asarray(tip, dtype=float))))
        error_m = off_m = math.nan
        rate, limited = np.zeros_like(motion.position), False
        if known:
            estimated = np.asarray(tip, dtype=float)
            place, jacobian = self.kinematics.place(motion.position)
            inverse = np.linalg.pinv(jacobian, rcond=1e-3)
            error = solution.goal - estimated
            error_m = float(np.linalg.norm(error))
            off_m = float(np.linalg.norm(error - jacobian @ (inverse @ error)))
            rate, limited = self._correct(motion.position, inverse @ (place - estimated), dt)
        reference = ClarkeReference(motion.position + self._correction, motion.velocity + rate, motion.acceleration)
        moving = bool(np.any(motion.position != solution.clarke))
        along_m = math.sqrt(max(error_m**2 - off_m**2, 0.0)) if known else math.inf
        within = not moving and along_m <= self.settings.tolerance_m
        self._within_s = self._within_s + dt if within else 0.0
        arrived = self._within_s >= self.settings.settle_s
        return TipOutput(reference, error_m, off_m, moving, arrived, limited)

    def _correct(self, position: Vector, missing: Vector, dt: float) -> tuple[Vector, bool]:
        """Integrate the missing way (2m,), m, into the correction; its rate, m/s, and whether a limit stopped it."""
        step = self.settings.integral_per_s * missing * dt
        longest = self._motion.limits.speed_m_per_s * dt
        step *= min(1.0, longest / max(float(np.linalg.norm(step)), math.ulp(0.0)))
        wanted = self._correction + step
        limited = bool(np.linalg.norm(wanted) > self._largest_m) or self._limits.exceeded(position + wanted)
        if limited and np.linalg.norm(wanted) >= np.linalg.norm(self._correction):
            return np.zeros_like(step), True
        self._correction = wanted
        return step / dt, limited

    def _solved(self, target: Vector, clarke: Vector, iterations: int) -> TipSolution:
        goal = self.kinematics.place(clarke)[0]
        distance_m = float(np.linalg.norm(target - goal))
        reachable = distance_m <= self.settings.reachable_m
        used = self._limits.use(clarke)
        limited = () if reachable else tuple(n for n, rows in self._limits.rows.items() if used[rows].max() > 1 - 1e-6)
        return TipSolution(
            target, clarke, goal, distance_m, reachable, limited, self._limits.tension(clarke), iterations
        )

    def _starts(self, target: Vector) -> list[Vector]:
        """Robots bent towards the target, by several angles, all segments the same way or in an S."""
        count = self._radius_m.size // 2
        direction = math.atan2(target[1], target[0])
        unit = np.tile([math.cos(direction), math.sin(direction)], count)
        starts = []
        for angle in _SEARCH_ANGLES_RAD:
            for signs in ([1.0] * count, [(-1.0) ** i for i in range(count)])[: min(count, 2)]:
                starts.append(angle * self._radius_m * unit * np.repeat(signs, 2))
        return starts

    def _descend(self, target: Vector, start: Vector) -> tuple[Vector, float, int]:
        """Coordinates, distance to the target, m, and iterations from one feasible start."""
        radius, length = self._radius_m, self._length_m
        x = start / radius
        place, jacobian = self.kinematics.place(x * radius)
        error = (target - place) / length
        even = _EVEN_WEIGHT * self._uneven
        cost = float(error @ error + np.sum((even @ x) ** 2))
        damping, iterations = 1e-4, 0
        while iterations < _ITERATIONS:
            iterations += 1
            matrix = np.vstack([jacobian * radius / length, even, math.sqrt(damping) * np.eye(x.size)])
            vector = np.concatenate([error, -even @ x, np.zeros(x.size)])
            slope, room = self._limits.linearised(x * radius)
            step = _constrained_least_squares(matrix, vector, slope * radius, room)
            step *= min(1.0, _LARGEST_STEP_RAD / max(float(np.abs(step).max()), math.ulp(0.0)))
            trial = self._limits.kept(x * radius, (x + step) * radius) / radius
            trial_place, trial_jacobian = self.kinematics.place(trial * radius)
            trial_error = (target - trial_place) / length
            trial_cost = float(trial_error @ trial_error + np.sum((even @ trial) ** 2))
            moved = float(np.abs(trial - x).max())
            if trial_cost < cost:
                x, cost, error, jacobian = trial, trial_cost, trial_error, trial_jacobian
                damping = max(damping / 5, 1e-12)
            else:
                damping *= 4
            if moved < _LEAST_STEP_RAD:
                break
        return x * radius, float(np.linalg.norm(error)) * length, iterations


class _Limits:
    """Displacements, predicted tensions and generalised forces as shares of what is allowed: all are to be <= 1."""

    def __init__(self, robot: Robot, share: float, compile: str, progress: Callable[[str], None] | None) -> None:
        limits = robot.limits
        if limits is None:
            raise ParameterError("robot", robot.name, "a robot file with the section limits")
        self.displacement_m = limits.maximum_displacement_m
        self._share = share
        self._manifold = clarke_manifold(robot)
        self._forces = clarke_feedforward(robot, compile=compile, progress=progress)
        control = robot.control
        self._strategy = "shift" if control is None else control.tendon_forces
        self._pretension_n = limits.minimum_n if control is None else control.pretension_n
        count = self._manifold.tendon_count
        largest = np.full(self._manifold.coordinate_count, np.inf)
        least = -largest
        if control is not None:
            largest = np.repeat([gain.u_clamp_max for gain in control.gains], 2)
            least = np.repeat([gain.u_clamp_min for gain in control.gains], 2)
        ends = np.concatenate([self._manifold.displacement_matrix, -self._manifold.displacement_matrix])
        self._displacement = ends / (share * limits.maximum_displacement_m)
        self._largest_force, self._least_force = share * largest, share * least
        self._maximum_n = share * limits.maximum_n
        self._total_n = share * limits.total_n
        coordinates = self._manifold.coordinate_count
        ends_at = np.cumsum([0, 2 * count, count + 1, 2 * coordinates])
        self.rows = {
            name: slice(int(ends_at[i]), int(ends_at[i + 1]))
            for i, name in enumerate(("displacement", "tension", "force"))
        }

    def tension(self, clarke: Vector) -> Vector:
        elastic, gravity = self._forces(clarke)
        return distribute(self._strategy, elastic + gravity, self._manifold, self._pretension_n)

    def use(self, clarke: Vector) -> Vector:
        elastic, gravity = self._forces(clarke)
        force = elastic + gravity
        tension = distribute(self._strategy, force, self._manifold, self._pretension_n)
        return np.concatenate(
            [
                self._displacement @ clarke,
                tension / self._maximum_n,
                [tension.sum() / self._total_n],
                force / self._largest_force,
                force / self._least_force,
            ]
        )

    def exceeded(self, clarke: Vector) -> bool:
        return bool(self.use(clarke).max() > 1 + 1e-9)

    def linearised(self, clarke: Vector) -> tuple[Vector, Vector]:
        """Slope (rows, 2m), 1/m, and room (rows,): slope @ step <= room."""
        here = self.use(clarke)
        change_m = 1e-4 * self.displacement_m
        slope = np.empty((here.size, clarke.size))
        for index in range(clarke.size):
            there = clarke.copy()
            there[index] += change_m
            slope[:, index] = (self.use(there) - here) / change_m
        return slope, 1.0 - here

    def kept(self, inside: Vector, wanted: Vector) -> Vector:
        """The last point within the limits on the way from one inside to a wanted one."""
        if not self.exceeded(wanted):
            return wanted
        low, high = 0.0, 1.0
        for _ in range(30):
            middle = (low + high) / 2
            if self.exceeded(inside + middle * (wanted - inside)):
                high = middle
            else:
                low = middle
        return inside + low * (wanted - inside)

    def inside(self, clarke: Vector) -> Vector:
        """The coordinates, or those next to them on the way to the straight robot that are within the limits."""
        return self.kept(np.zeros_like(clarke), clarke)


def _constrained_least_squares(matrix: Vector, vector: Vector, slope: Vector, room: Vector) -> Vector:
    """Minimise |matrix x - vector| subject to slope x <= room; Lawson and Hanson, (23.22) to (23.45).

    ``matrix`` (rows, n) has full column rank. Where nothing fulfils the limits, the step is zero.
    """
    q, r = np.linalg.qr(matrix)
    free = np.linalg.solve(r, q.T @ vector)
    if np.all(slope @ free <= room):
        return free
    # y = r (x - free): the least y with (-slope r^-1) y >= slope free - room.
    towards = -np.linalg.solve(r.T, slope.T).T
    needed = slope @ free - room
    dual = np.vstack([towards.T, needed])
    aim = np.zeros(dual.shape[0])
    aim[-1] = 1.0
    weights, _ = nnls(dual, aim)
    rest = dual @ weights - aim
    if abs(rest[-1]) < 1e-12:
        return np.zeros_like(free)
    return np.asarray(free + np.linalg.solve(r, -rest[:-1] / rest[-1]))


def _unevenness(robot: Robot) -> Vector:
    """Differences of curvature between neighbouring segments over their bending angles, times the mean length."""
    count = len(robot.segments)
    lengths = [segment.length_m for segment in robot.segments]
    rows = np.zeros((2 * max(count - 1, 0), 2 * count))
    for i in range(count - 1):
        for part in range(2):
            rows[2 * i + part, 2 * i + part] = robot.length_m / count / lengths[i]
            rows[2 * i + part, 2 * (i + 1) + part] = -robot.length_m / count / lengths[i + 1]
    return rows


def _finite(name: str, value: ArrayLike, size: int) -> Vector:
    array = np.array(value, dtype=float)
    if array.shape != (size,) or not np.all(np.isfinite(array)):
        raise ParameterError(name, value, f"{size} finite values in m")
    return array
