# SPDX-License-Identifier: Apache-2.0
"""Gradients of a rod's motion by the kernel's adjoint, and tensions over time that are found with them.

A motion is kept in blocks of steps. Backwards, each block is computed again and its adjoint taken by
:meth:`~continuum_robot.rod.rod.Rod.gradient_of_end`, so a function of all blocks' ends has its whole gradient for a few
motions' time, whatever the number of tensions, and without memory of the steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import LinearConstraint, minimize

from continuum_robot.errors import ConvergenceError, ParameterError
from continuum_robot.robot.description import Robot
from continuum_robot.rod.description import DRIVEN
from continuum_robot.rod.rod import Rod
from continuum_robot.rod.statics import Equilibrium

Vector = NDArray[np.float64]
Direction = tuple[Vector, Vector, Vector]

_TOLERANCE = 1e-12  # of each stage, as of the adjoint: else differences show the solver's error
_SMOOTHNESS = 1e-6
_REST_FRACTION = 0.1  # of the duration: how far the rates at the end may carry the robot counts as an error


def driven_rod(robot: Robot) -> Rod:
    """The rod of a robot with what its motors add about the straight shape: reflected mass and viscous friction."""
    rod, motor = Rod(robot, parts=DRIVEN), robot.tendon_actuators
    if motor is not None:
        gradient = rod.displacement_gradient(np.zeros(rod.n))
        viscous = motor.each("viscous_ns_per_m", robot.tendon_count)
        rod.arrays.damping[:] += gradient.T @ (viscous[:, None] * gradient)
    return rod


@dataclass(frozen=True, slots=True)
class MotionGradient:
    """Gradient of a function of a motion.

    Attributes
    ----------
    by_c, by_v : by where the motion begins, (n,)
    by_tension : by each tension of each step, (steps, N)
    along : slope along each direction of the rod's numbers
    """

    by_c: Vector
    by_v: Vector
    by_tension: Vector
    along: Vector


class Motion:
    """A motion of a rod under given tensions, and the gradients of functions of it.

    Parameters
    ----------
    rod : its numbers must be the same until :meth:`gradient` has been called
    c, v : where it begins, (n,)
    tension : constant in each step, (steps, N), N
    step_s : length of a step, s
    every : number of steps between two states that are kept; it divides the number of steps
    method : sdirk or midpoint, as of ``Rod.motions``

    Attributes
    ----------
    c, v : the states that are kept, the first is where it begins, (steps / every + 1, n)

    Raises
    ------
    ParameterError : shapes that do not fit
    NotConvergedError : a step that Newton's method does not find
    """

    def __init__(
        self, rod: Rod, c: ArrayLike, v: ArrayLike, tension: ArrayLike, step_s: float,
        *, every: int = 1, method: str = "sdirk",
    ) -> None:  # fmt: skip
        self.rod, self.step_s, self.every, self.method = rod, step_s, every, method
        self.tension = np.array(tension, dtype=float, order="C")
        if self.tension.ndim != 2 or self.tension.shape[1] != rod.tendon_count:
            raise ParameterError("tension", self.tension.shape, f"(steps, {rod.tendon_count})")
        if every < 1 or len(self.tension) % every:
            raise ParameterError("every", every, f"a divisor of the number of steps, {len(self.tension)}")
        states = [(np.array(c, dtype=float)[None], np.array(v, dtype=float)[None])]
        for block in self._blocks:
            states.append(
                rod.motions(*states[-1], self.tension[None, block], step_s,
                            method=method, tolerance=_TOLERANCE, threads=1)
            )  # fmt: skip
        self.c, self.v = (np.concatenate(parts) for parts in zip(*states, strict=True))

    @property
    def _blocks(self) -> list[slice]:
        return [slice(first, first + self.every) for first in range(0, len(self.tension), self.every)]

    def gradient(
        self, by_c: ArrayLike, by_v: ArrayLike | None = None, directions: Sequence[Direction] = ()
    ) -> MotionGradient:
        """Gradient of a function of the kept states, from its gradients by these.

        Parameters
        ----------
        by_c, by_v : of the function by :attr:`c` and :attr:`v`, of their shape; None: it does not depend on v
        directions : changes of body, stiffness and damping, of the shapes of ``rod.arrays``, along which slopes are
            wanted

        Raises
        ------
        ParameterError : shapes that do not fit
        """
        on_states = np.asarray(by_c, dtype=float)
        on_rates = np.zeros_like(self.v) if by_v is None else np.asarray(by_v, dtype=float)
        for name, value in (("by_c", on_states), ("by_v", on_rates)):
            if value.shape != self.c.shape:
                raise ParameterError(name, value.shape, f"the shape of the kept states, {self.c.shape}")
        by_tension, along = np.zeros_like(self.tension), np.zeros(len(directions))
        on_c, on_p = np.zeros(self.rod.n), np.zeros(self.rod.n)
        blocks = self._blocks
        for k in range(len(blocks), 0, -1):
            on_c += on_states[k]
            if on_rates[k].any():  # v = M^-1 p
                at = self.rod.terms(self.c[k], self.v[k])
                own = np.linalg.solve(at.mass, on_rates[k])
                on_c -= at.momentum_by_c.T @ own
                on_p += own
                along -= self._momenta(k, directions) @ own
            found = self.rod.gradient_of_end(
                self.c[k - 1], self.v[k - 1], self.tension[blocks[k - 1]], self.step_s, on_c, on_p,
                method=self.method, directions=directions,
            )  # fmt: skip
            on_c, on_p = found.by_c, found.by_momentum
            by_tension[blocks[k - 1]] = found.by_tension
            along += found.along
        at = self.rod.terms(self.c[0], self.v[0])  # p = M v
        along += self._momenta(0, directions) @ on_p
        return MotionGradient(
            on_states[0] + on_c + at.momentum_by_c.T @ on_p, on_rates[0] + at.mass @ on_p, by_tension, along
        )

    def _momenta(self, k: int, directions: Sequence[Direction]) -> Vector:
        """Slopes of the momentum at a state along the directions, (directions, n): it is linear in the bodies."""
        found = np.zeros((len(directions), self.rod.n))
        for row, (body, _, _) in zip(found, directions, strict=True):
            if body.any():
                row[:] = self.rod.with_bodies(body).terms(self.c[k], self.v[k]).momentum
        return found


@dataclass(frozen=True, slots=True)
class Trajectory:
    """Tensions over time, and the motion that they make.

    Attributes
    ----------
    time_s : of the states, (K + 1,), s
    tension_n : constant in each step, (steps, N), N
    c, v : of the rod at ``time_s``, (K + 1, n)
    tip_m : in the base frame, (K + 1, 3), m
    displacement_m : of the tendons against the straight rod, pulled in positive, (K + 1, N), m; times a manifold's
        ``clarke`` they are references for a controller
    error_m : distance of the tip from the path, (K + 1,), m; of a target alone, NaN before the end
    rest_n : tensions at the last knot, which hold the tip at a target afterwards, (N,), N
    cost, evaluations : of the optimisation
    """

    time_s: Vector
    tension_n: Vector
    c: Vector
    v: Vector
    tip_m: Vector
    displacement_m: Vector
    error_m: Vector
    rest_n: Vector
    cost: float
    evaluations: int


def static_tensions(
    rod: Rod, path_m: ArrayLike, *, start: Equilibrium, least_n: ArrayLike = 0.0, most_n: ArrayLike = np.inf
) -> Vector:
    """Tensions that hold the tip at each point of a path at rest, or nearest to it: feed-forward by statics, (k, N), N.

    Parameters
    ----------
    path_m : of the tip in the base frame, (k, 3), m
    start : where the path begins; each point's tensions are found from those of the point before
    least_n, most_n : limits, (N,), N
    """
    found = [np.clip(start.tension, least_n, most_n)]
    for point in np.asarray(path_m, dtype=float):
        at = rod.inverse_kinematics(point, start_n=found[-1], least_n=least_n, most_n=most_n, nearest=True)
        found.append(at.tension)
    return np.array(found[1:])


def optimal_tensions(
    rod: Rod,
    goal_m: ArrayLike,
    duration_s: float,
    *,
    start: Equilibrium,
    least_n: ArrayLike = 0.0,
    most_n: ArrayLike = np.inf,
    rate_n_per_s: float = np.inf,
    step_s: float = 1e-3,
    knots: int = 20,
    smoothness: float = _SMOOTHNESS,
    iterations: int = 200,
) -> Trajectory:
    """Tensions over time that bring the tip to a target and to rest there, or along a path, within limits.

    The tensions are linear between knots; the first is the start's. Minimised is, over the states at the knots, the
    mean of |tip - path|^2 / length^2 for a path, or for a target the end's distance from the equilibrium there, |s (c -
    c*)|^2 + |0.1 duration s v|^2 with s = ``rod.scale``, whose tensions the last knot has; in both, besides, smoothness
    times the mean square of the changes from knot to knot against the largest tension of statics. The gradient is the
    adjoint's, the search L-BFGS-B, or SLSQP where a rate is limited; it begins at the tensions of statics.

    Parameters
    ----------
    goal_m : target (3,), or path (k, 3) of the tip at equal times from the start on, its first point at 0 s and its
        last at ``duration_s``, in the base frame, m
    duration_s : of the motion, s
    start : where the rod rests before
    least_n, most_n : limits of the tensions, (N,) or for all, N
    rate_n_per_s : largest change of a tension, N/s
    step_s : largest step of the motion, s
    knots : intervals between knots
    smoothness : see above
    iterations : of the search, at most

    Raises
    ------
    ParameterError : arguments that do not fit
    ConvergenceError : a target that the tip does not reach at rest within the limits, or not at that rate
    """
    goal = np.asarray(goal_m, dtype=float)
    fits = goal.shape == (3,) or (goal.ndim == 2 and goal.shape[1] == 3 and len(goal) > 1)
    if not (fits and np.isfinite(goal).all()):
        raise ParameterError("goal_m", goal.shape, "a target (3,) or a path (k, 3) of two or more points, finite")
    for name, value in (("duration_s", duration_s), ("step_s", step_s), ("rate_n_per_s", rate_n_per_s)):
        if not value > 0:
            raise ParameterError(name, value, "a positive number")
    if knots < 2:
        raise ParameterError("knots", knots, "2 or more")
    least, most = (np.broadcast_to(np.asarray(one, dtype=float), (rod.tendon_count,)) for one in (least_n, most_n))
    if not (np.all(least >= 0) and np.all(least < most)):
        raise ParameterError("least_n", least.tolist(), "tensions of 0 or more, below most_n, N")
    if np.any(start.tension < least - 1e-9) or np.any(start.tension > most + 1e-9):
        raise ParameterError("start", start.tension.tolist(), "an equilibrium whose tensions are within the limits, N")
    problem = TrajectoryProblem(rod, goal, duration_s, start, (least, most), step_s, knots, smoothness)
    first = problem.statics
    if np.isfinite(rate_n_per_s):
        most_change = rate_n_per_s * duration_s / knots
        change = np.diff(np.eye(knots + 1), axis=0)
        columns = np.kron(change, np.eye(rod.tendon_count))
        free = problem.free
        offset = columns @ np.where(free, 0.0, first.ravel())
        limit = (-most_change - offset, most_change - offset)
        options = {"maxiter": iterations, "ftol": 1e-14}
        constraints = [LinearConstraint(columns[:, free] * problem.unit_n, *limit)]
        method = "SLSQP"
    else:
        options, constraints, method = {"maxiter": iterations, "ftol": 1e-14, "gtol": 1e-10}, [], "L-BFGS-B"
    low, high = (np.tile(one, knots + 1)[problem.free] / problem.unit_n for one in (least, most))
    found = minimize(
        problem.value, problem.pack(first), jac=True, method=method, bounds=list(zip(low, high, strict=True)),
        constraints=constraints, options=options,
    )  # fmt: skip
    best = problem.trajectory(np.clip(found.x, low, high), int(found.nfev))
    fastest = float(np.abs(np.diff(best.tension_n, axis=0)).max()) * len(best.tension_n) / duration_s
    if fastest > rate_n_per_s * (1 + 1e-6):
        raise ConvergenceError("tensions within rate_n_per_s", fastest, rate_n_per_s, best.evaluations)
    return best


class TrajectoryProblem:
    """Cost of tensions at knots, with its gradient; see :func:`optimal_tensions`."""

    def __init__(
        self, rod: Rod, goal: Vector, duration_s: float, start: Equilibrium, limits: tuple[Vector, Vector],
        step_s: float, knots: int, smoothness: float,
    ) -> None:  # fmt: skip
        self.rod, self.start, self.smoothness = rod, start, smoothness
        self.every = max(1, int(np.ceil(duration_s / knots / step_s - 1e-9)))
        self.step_s, self.duration_s = duration_s / (knots * self.every), duration_s
        middle = (np.arange(knots * self.every) + 0.5) / self.every  # of the steps, in knots
        self.weights = np.maximum(0.0, 1 - np.abs(middle[:, None] - np.arange(knots + 1)))
        part, (least, most) = np.linspace(0.0, 1.0, knots + 1), limits
        self.path: Vector | None = None
        self.rest: Equilibrium | None = None
        if goal.ndim == 1:
            self.rest = rod.inverse_kinematics(goal, start_n=start.tension, least_n=least, most_n=most)
            self.goal = goal
            self.statics = start.tension + part[:, None] * (self.rest.tension - start.tension)
        else:
            at = np.linspace(0.0, 1.0, len(goal))
            self.path = np.column_stack([np.interp(part, at, goal[:, axis]) for axis in range(3)])
            later = static_tensions(rod, self.path[1:], start=start, least_n=least, most_n=most)
            self.statics = np.vstack([start.tension, later])
        free = np.ones(self.statics.shape, dtype=bool)
        free[0] = False
        if self.rest is not None:
            free[-1] = False
        self.free = free.ravel()
        self.unit_n = max(1e-3, float(self.statics.max()))

    def pack(self, tension: Vector) -> Vector:
        """What is free of the tensions at the knots (knots + 1, N), against the largest one of statics."""
        return np.asarray(tension.ravel()[self.free] / self.unit_n)

    def _knots(self, free: Vector) -> Vector:
        tension = self.statics.ravel().copy()
        tension[self.free] = free * self.unit_n
        return tension.reshape(self.statics.shape)

    def motion(self, tension: Vector) -> Motion:
        """The motion by tensions at the knots, (knots + 1, N), with a state at each knot."""
        still = np.zeros(self.rod.n)
        return Motion(self.rod, self.start.c, still, self.weights @ tension, self.step_s, every=self.every)

    def value(self, free: Vector) -> tuple[float, Vector]:
        """Cost and its gradient, of what :meth:`pack` gives."""
        tension = self._knots(free)
        motion = self.motion(tension)
        change = np.diff(tension, axis=0) / self.unit_n
        cost = self.smoothness * float(np.mean(change**2))
        by_c, by_v = np.zeros_like(motion.c), np.zeros_like(motion.v)
        if self.path is not None:
            for k in range(1, len(self.path)):
                pose, body = self.rod.moved(motion.c[k])
                error = (pose[:3, 3] - self.path[k]) / self.rod.length_m
                cost += float(error @ error) / (len(self.path) - 1)
                by_c[k] = 2 * error @ pose[:3, :3] @ body[:3] / self.rod.length_m / (len(self.path) - 1)
        else:
            assert self.rest is not None
            scale, time_s = self.rod.scale, _REST_FRACTION * self.duration_s
            error, rate = scale * (motion.c[-1] - self.rest.c), time_s * scale * motion.v[-1]
            cost += float(error @ error + rate @ rate)
            by_c[-1], by_v[-1] = 2 * scale * error, 2 * time_s * scale * rate
        by_knots = self.weights.T @ motion.gradient(by_c, by_v).by_tension * self.unit_n
        slope = 2 * self.smoothness * change / change.size
        by_knots[1:] += slope
        by_knots[:-1] -= slope
        return cost, by_knots.ravel()[self.free]

    def trajectory(self, free: Vector, evaluations: int = 0) -> Trajectory:
        """What comes of them."""
        tension = self._knots(free)
        motion = self.motion(tension)
        tip = np.array([self.rod.moved(c)[0][:3, 3] for c in motion.c])
        if self.path is not None:
            error = np.asarray(np.linalg.norm(tip - self.path, axis=1), dtype=float)
        else:
            error = np.full(len(tip), np.nan)
            error[-1] = np.linalg.norm(tip[-1] - self.goal)
        return Trajectory(
            np.linspace(0.0, self.duration_s, len(tip)), motion.tension, motion.c, motion.v, tip,
            np.array([self.rod.displacement(c) for c in motion.c]), error, tension[-1],
            self.value(free)[0], evaluations,
        )  # fmt: skip
