# SPDX-License-Identifier: Apache-2.0
"""The tip at a wanted place: inverse kinematics on the rod by damped least squares within the limits of the tendons.

The Clarke coordinates decide the shape of least elastic energy (:func:`~continuum_robot.rod.feedforward.
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
_TOLERANCE_SHARE = 0.005
_LEAST_GAIN = 1e-9  # of the cost, in each of two steps
_LARGEST_DAMPING = 1e3
_DIFFERENCE_RAD = 1e-6
_EVEN_WEIGHT = 1e-3  # mu: costs 1e-6 of the length where segments bend a radian apart
_LEAST_SINGULAR_SHARE = 0.02  # below it the tip hardly follows the tendons: noise, not error, would be integrated
_NEAR_SHARE = 0.05
_NEAR_AXIS_SHARE = 0.05
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
    tolerance_m : error of the estimated tip within which it has arrived, m; 0: half a percent of the robot's length
    settle_s : time over which the error is averaged for that, s
    """

    limit_share: float = 0.95
    reachable_m: float = 1e-4
    integral_per_s: float = 2.0
    integral_share: float = 0.25
    tolerance_m: float = 0.0
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
    error_m : from goal to estimated tip, averaged where the reference stands; NaN where the tip is unknown
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
        self.tolerance_m = self.settings.tolerance_m or _TOLERANCE_SHARE * robot.length_m
        self._largest_m = self._limits.displacement_m * self.settings.integral_share
        self._motion = LimitedMotion(limits, np.zeros(robot.coordinate_count))
        self._correction = np.zeros(robot.coordinate_count)
        self._solution: TipSolution | None = None
        self._mean_error: Vector | None = None

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
        self._solution = self._mean_error = None

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
        before, place = self._solution, _finite("target", target, 3)
        start = before.clarke if before is not None else self._motion.reference.position
        solution = self.solve(place, start, search=before is None or not self.near(before.target, place))
        self.adopt(solution)
        return solution

    def near(self, before: Vector, target: Vector) -> bool:
        """Whether a target is so close to the one before, shape (3,) both, that no other way there is looked for.

        Parameters
        ----------
        before, target : places of the tip, base frame, shape (3,), m
        """
        return float(np.linalg.norm(target - before)) < _NEAR_SHARE * self._length_m

    def adopt(self, solution: TipSolution) -> None:
        """Go to the goal of a solution of :meth:`solve` from now on, wherever it was found."""
        self._solution, self._mean_error = solution, None

    def update(self, tip: ArrayLike | None, clarke: ArrayLike | None, dt: float) -> TipOutput:
        """One cycle.

        Parameters
        ----------
        tip : estimated position, shape (3,), base frame, m; None or NaN where it is unknown: then nothing is corrected
        clarke : measured coordinates at that moment, shape (2m,), m; None or NaN: those of the reference
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
        moving = bool(np.any(motion.position != solution.clarke))
        error_m = off_m = math.nan
        rate, limited, arrived = np.zeros_like(motion.position), False, False
        if known:
            estimated = np.asarray(tip, dtype=float)
            place, jacobian = self.kinematics.place(motion.position)
            inverse = np.linalg.pinv(jacobian, rcond=_LEAST_SINGULAR_SHARE)
            lag = self._lag(motion.position + self._correction, clarke)
            rate, limited = self._correct(motion.position, inverse @ (place - estimated - lag), dt)
            error = self._averaged(solution.goal - estimated, moving, dt)
            off = error - jacobian @ (inverse @ error)
            error_m, off_m = float(np.linalg.norm(error)), float(np.linalg.norm(off))
            arrived = not moving and float(np.linalg.norm(error - off)) <= self.tolerance_m
        else:
            self._mean_error = None
        reference = ClarkeReference(motion.position + self._correction, motion.velocity + rate, motion.acceleration)
        return TipOutput(reference, error_m, off_m, moving, arrived, limited)

    def _lag(self, wanted: Vector, clarke: ArrayLike | None) -> Vector:
        """Way of the tip, shape (3,), m, that the controller still has to go by the model.

        That is its own integral's business: with friction, two integrals that wait for the same motion would hunt.
        """
        measured = wanted if clarke is None else np.asarray(clarke, dtype=float)
        if not np.all(np.isfinite(measured)):
            return np.zeros(3)
        return self.kinematics.place(wanted)[0] - self.kinematics.place(measured)[0]

    def _averaged(self, error: Vector, moving: bool, dt: float) -> Vector:
        """The error, shape (3,), m, averaged over the time to settle while the reference stands."""
        if moving or self._mean_error is None:
            self._mean_error = error
        else:
            self._mean_error = self._mean_error + min(1.0, dt / self.settings.settle_s) * (error - self._mean_error)
        return self._mean_error

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
        directions = [math.atan2(target[1], target[0])]
        if math.hypot(target[0], target[1]) < _NEAR_AXIS_SHARE * self._length_m:
            # No direction is better by itself, and the limits differ: all around, and not along an edge of theirs.
            directions = [0.3 + turn for turn in np.arange(3) * 2 * math.pi / 3]
        starts = []
        for direction in directions:
            unit = np.tile([math.cos(direction), math.sin(direction)], count)
            for angle in _SEARCH_ANGLES_RAD:
                for signs in ([1.0] * count, [(-1.0) ** i for i in range(count)])[: min(count, 2)]:
                    starts.append(angle * self._radius_m * unit * np.repeat(signs, 2))
        return starts

    def _descend(self, target: Vector, start: Vector) -> tuple[Vector, float, int]:
        """Coordinates, distance to the target, m, and iterations from one feasible start."""
        x, count = self._minimise(target, start / self._radius_m, _EVEN_WEIGHT)
        # Where the arm is nearly stretched or folded, even that weight costs some of the way.
        x, more = self._minimise(target, x, 0.0)
        clarke = x * self._radius_m
        return clarke, float(np.linalg.norm(target - self.kinematics.place(clarke)[0])), count + more

    def _minimise(self, target: Vector, x: Vector, weight: float) -> tuple[Vector, int]:
        """Damped Newton steps on |e|^2 + |weight W x|^2 from bending angles x within the limits."""
        radius, even = self._radius_m, weight * self._uneven
        error, jacobian = self._error(target, x)
        cost = float(error @ error + np.sum((even @ x) ** 2))
        damping, iterations, idle = 1e-6, 0, 0
        while iterations < _ITERATIONS and damping < _LARGEST_DAMPING:
            iterations += 1
            slope = jacobian.T @ error - even.T @ (even @ x)
            hessian = jacobian.T @ jacobian + even.T @ even - self._second_order(target, x, error, jacobian)
            factor = _positive_factor(hessian, damping)
            limit_slope, room = self._limits.linearised(x * radius)
            step = _constrained_step(factor, slope, limit_slope * radius, room)
            step *= min(1.0, _LARGEST_STEP_RAD / max(float(np.abs(step).max()), math.ulp(0.0)))
            trial = self._limits.kept(x * radius, (x + step) * radius) / radius
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
        place, jacobian = self.kinematics.place(x * self._radius_m)
        return (target - place) / self._length_m, jacobian * self._radius_m / self._length_m

    def _second_order(self, target: Vector, x: Vector, error: Vector, jacobian: Vector) -> Vector:
        """Sum of e_k times the Hessian of the tip's coordinate k: what decides the steps to a target out of reach."""
        columns = np.empty((x.size, x.size))
        for index in range(x.size):
            there = x.copy()
            there[index] += _DIFFERENCE_RAD
            columns[:, index] = (self._error(target, there)[1] - jacobian).T @ error / _DIFFERENCE_RAD
        return (columns + columns.T) / 2


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
