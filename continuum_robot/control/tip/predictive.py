# SPDX-License-Identifier: Apache-2.0
"""Predictive control of the tip: a plan within the limits of the tendons and apart from obstacles, made again 50 times
a second.

Derived here, no paper. The plan is that of :mod:`.predictive_problem`, one real-time iteration a cycle: tip, backbone
and tendons are linearised along the plan of the cycle before. The forces of the tendons are those of muhmann (25) on
the Clarke coordinates, u = u_s(q) + M q'' + D q'. A plan ends at rest; where no new one is found, or the robot would
come too near to an obstacle, the reference brakes and holds. Where the tip is measured, its distance from the model's
is averaged and taken off the target.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.control.blending import quintic
from continuum_robot.control.motion import Halt, motion_limits
from continuum_robot.control.references import ClarkeReference
from continuum_robot.control.tendon_use import TendonUse
from continuum_robot.control.tip.inverse import TipInverse, TipKinematics, finite
from continuum_robot.control.tip.predictive_problem import SOLVERS, Plan, PredictiveProblem, Stages
from continuum_robot.errors import ParameterError
from continuum_robot.geometry.obstacles import ConvexObstacle, least_distance
from continuum_robot.robot.coordinates import coordinate_scale_m
from continuum_robot.robot.description import Robot
from continuum_robot.robot.schema import quantity
from continuum_robot.rod.rod import Rod
from continuum_robot.rod.tendons import coefficients_from_clarke

Vector = NDArray[np.float64]

OBSTACLE, LIMIT = 0, 1
_PENALTIES = np.array([[30.0, 1e3], [30.0, 1e3]])  # of a millimetre in an obstacle, and of a tenth of a limit
_OBSTACLE_UNIT_M, _LIMIT_UNIT = 1e-3, 0.1
_SEARCH_ITERATIONS = 12
_SETTLED_RAD = 0.02  # change of a plan at which its search ends
_LARGEST_BEND_RAD = 0.35  # by which a plan changes in a cycle: the tip is linear so far
_DIRECTIONS = 8  # of the polygon in which a pair of coordinates keeps its speed and acceleration
_FAILURES = 3
_DETOURS_RAD = (0.48, -0.48, 0.96, -0.96)  # bends to the side of the straight way, halfway


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictiveSettings:
    """How far and how carefully the plan looks ahead."""

    horizon_s: float = quantity("time that a plan covers", "s", default=2.4, gt=0.1, le=30)
    stages: int = quantity("pieces of constant acceleration of a plan", default=16, ge=4, le=100)
    points: int = quantity("points of the backbone whose distance from obstacles is kept", default=8, ge=1, le=100)
    nearest: int = quantity("of these those that are kept in each stage: the nearest", default=4, ge=1, le=100)
    clearance_m: float = quantity("distance of the robot's surface from obstacles", "m", default=0.004, ge=0, le=1)
    limit_fraction: float = quantity("fraction of each limit that is used", default=0.95, gt=0, le=1)
    least_n: float = quantity("tension that the motion leaves on every tendon", "N", default=0.2, ge=0, le=1000)
    end_weight: float = quantity(
        "weight of the tip's error at the end over that in a stage", default=20.0, ge=1, le=1e6
    )
    effort_weight: float = quantity(
        "weight of the largest acceleration over that of an error of the robot's length", default=1e-3, gt=0, le=1e3
    )
    bias_s: float = quantity("time over which the model's error of the tip is averaged", "s", default=0.5, gt=0, le=60)
    hold_m: float = quantity("depth in the clearance at which the reference holds", "m", default=0.003, gt=0, le=1)
    solver: str = quantity("of the quadratic program", default="piqp", choices=tuple(SOLVERS))


@dataclass(frozen=True, slots=True)
class PredictiveOutput:
    """One cycle."""

    reference: ClarkeReference
    error_m: float
    clearance_m: float
    limit_use: float
    holding: bool
    reason: str


@dataclass(frozen=True, slots=True)
class PlannedTarget:
    """A target and the plan to it.

    Attributes
    ----------
    target : shape (3,), base frame, m
    plan : None where none was found
    distance_m : from the target at the plan's end, by the model, m
    clearance_m : least distance of the robot's surface from obstacles along the plan, by the model, m
    """

    target: Vector
    plan: Plan | None
    distance_m: float
    clearance_m: float


class PredictiveTip:
    """Clarke references that bring the tip to a target round obstacles, within the limits of motion and tendons."""

    def __init__(
        self,
        robot: Robot,
        obstacles: Sequence[ConvexObstacle] = (),
        settings: PredictiveSettings | None = None,
    ) -> None:
        self.settings = settings or PredictiveSettings()
        self.obstacles = tuple(obstacles)
        self._kinematics = TipKinematics(robot)
        self._use = TendonUse(robot, self.settings.limit_fraction)
        self._inverse = TipInverse(robot, self._kinematics, self._use, 1e-4)
        self._shape = coefficients_from_clarke(robot)
        self._length_m, self._scale_m = robot.length_m, coordinate_scale_m(robot)
        self._size = size = robot.coordinate_count
        self._points_m = robot.length_m * np.arange(1, self.settings.points + 1) / self.settings.points
        self._rod = Rod(robot, stations_m=self._points_m.tolist())
        self._stations = np.array([int(np.abs(self._rod.arrays.bodies_m - s_m).argmin()) for s_m in self._points_m])
        self._radius_m = _surface_radius_m(robot, self._points_m)
        self._motion = motion_limits(robot)
        self._pretension_n = max(self._use.pretension_n, 0.1)
        polygon = _polygon(size)
        zero = np.zeros_like(polygon)
        slow = np.hstack([zero, polygon / self._motion.speed_m_per_s, zero])
        smooth = np.hstack([zero, zero, polygon / self._motion.acceleration_m_per_s2])
        self._motion_rows = np.vstack([slow, smooth]) / _LIMIT_UNIT
        actuators, pull = robot.tendon_actuators, self._use.displacement_matrix
        count = len(pull)
        self._motors = np.zeros((count, 3 * size))  # what of a tension moves its motor, over (q, v, a)
        self._kept_n = self.settings.least_n
        self._held = robot.takes_displacements  # servos see to their own motion, and are where they were told to be
        if actuators is not None and not self._held:
            keys = "viscous_ns_per_m", "reflected_mass_kg", "coulomb_n", "cogging_n"
            viscous, mass_kg, dry_n, cogging_n = (actuators.each(key, count) for key in keys)
            self._motors[:, size : 2 * size] = viscous[:, None] * pull
            self._motors[:, 2 * size :] = mass_kg[:, None] * pull
            self._kept_n += float((dry_n + cogging_n).max())
        # A robot with less pretension than that keeps what it has at rest.
        self._kept_n = min(self._kept_n, 0.9 * self._pretension_n)
        self._viscous = pull.T @ self._motors[:, size : 2 * size]
        self._motor_mass = pull.T @ self._motors[:, 2 * size :]
        self._stage_s = self.settings.horizon_s / self.settings.stages
        self._nearest = min(self.settings.nearest, self.settings.points) if self.obstacles else 0
        kinds = [OBSTACLE] * self._nearest
        kinds += [LIMIT] * (self._use.count + count + len(self._motion_rows))
        filled = np.ones((len(kinds), 3 * size), dtype=bool)
        filled[: self._nearest, size:] = False  # distances and displacements depend on the place alone
        displaced = self._use.rows["displacement"]
        filled[self._nearest + displaced.start : self._nearest + displaced.stop, size:] = False
        filled[-len(self._motion_rows) :] = self._motion_rows != 0
        weight = self.settings.effort_weight * self.settings.stages
        self._problem = PredictiveProblem(
            self._scale_m,
            self.settings.stages,
            self._stage_s,
            np.array(kinds, dtype=np.intp),
            filled=filled,
            rate_weight=np.full(size, 1e-2 * weight / self._motion.speed_m_per_s**2),
            acceleration_weight=np.full(size, weight / self._motion.acceleration_m_per_s2**2),
            penalties=_PENALTIES,
            solver=self.settings.solver,
        )
        self.reset(np.zeros(size))

    @property
    def target(self) -> Vector | None:
        """Of the tip, shape (3,), base frame, m; None before the first."""
        return self._target

    @property
    def bias_m(self) -> Vector:
        """From the model's tip to the measured one, averaged, shape (3,), m."""
        return self._bias

    @property
    def resting_m(self) -> Vector:
        """Where the reference comes to rest if it brakes now, Clarke coordinates, shape (2m,), m."""
        halt = Halt(self._state.position, self._state.velocity, self._motion.acceleration_m_per_s2)
        return halt.at(math.inf).position

    @property
    def plan_tips_m(self) -> Vector:
        """Tips along the newest plan by the model, shape (stages + 1, 3), base frame, m."""
        return np.array([self._kinematics.place(q)[0] for q in self._plan.position])

    def reset(self, clarke: ArrayLike, velocity: ArrayLike | None = None) -> None:
        """Start at Clarke coordinates (2m,), m, with ``velocity``, shape (2m,), m/s; no target."""
        position = finite("clarke", clarke, self._size)
        self._state = ClarkeReference.at_rest(position)
        if velocity is not None:
            self._state = ClarkeReference(position, finite("velocity", velocity, self._size), np.zeros(self._size))
        self._target: Vector | None = None
        self._bias = np.zeros(3)
        self._plan = self._resting(position)
        self._age_s, self._failures = 0.0, 0
        self._halt: Halt | None = None
        self._halted_s, self._why = 0.0, ""
        self._going: tuple[Plan, float, Halt | None, float] = self._plan, 0.0, self._halt, 0.0
        self._outlook = math.inf, 0.0  # least clearance, m, and largest use of the limits along the plan

    def set_target(self, target: ArrayLike) -> PlannedTarget:
        """Go to a target from now on, by the plan that :meth:`search` finds."""
        found = self._search(finite("target", target, 3))
        self.adopt(found)
        return found

    def search(self, target: ArrayLike, clarke: ArrayLike, bias_m: ArrayLike) -> PlannedTarget:
        """A plan from rest, of several first guesses the cheapest; for a thread of its own, with an object of
        its own.
        """
        self.reset(clarke)
        self._bias = finite("bias_m", bias_m, 3)
        return self._search(finite("target", target, 3))

    def adopt(self, found: PlannedTarget) -> None:
        """Go to a target from now on, along the plan that was found; without one the reference holds."""
        self._target = found.target
        self._failures = 0
        if found.plan is not None:
            self._plan, self._age_s, self._halt = found.plan, 0.0, None

    def drop(self) -> None:
        """Forget the target: the reference comes to rest."""
        self._target = None

    def update(self, tip: ArrayLike | None, clarke: ArrayLike | None, dt: float) -> PredictiveOutput:
        """One cycle: plan again, and go on along the plan."""
        if not 0 < dt < math.inf:
            raise ParameterError("dt", dt, "a positive time step in s")
        measured = self._learn(tip, clarke, dt)
        if self._halt is None:
            self._age_s += dt
            self._state = self._at(self._age_s)
        else:
            self._halted_s += dt
            self._state = self._halt.at(self._halted_s)
        plan = None if self._target is None else self._improved(self._shifted())
        self._failures = 0 if plan is not None else self._failures + (self._target is not None)
        clearance_m, use = self._outlook
        self._why = self._reason(clearance_m)
        if self._why:
            if self._halt is None:
                braking = self._motion.acceleration_m_per_s2
                self._halt, self._halted_s = Halt(self._state.position, self._state.velocity, braking), 0.0
            self._plan, self._age_s = self._resting(self._halt.at(math.inf).position), 0.0
        elif plan is not None:
            self._plan, self._age_s, self._halt = plan, 0.0, None
        self._going = self._plan, self._age_s, self._halt, self._halted_s
        here = self._kinematics.place(self._state.position)[0] if measured is None else measured
        error_m = math.nan if self._target is None else float(np.linalg.norm(self._target - here))
        return PredictiveOutput(self._state, error_m, clearance_m, use, bool(self._why), self._why)

    def ahead(self, time_s: float) -> ClarkeReference:
        """The reference a time, s, after the newest :meth:`update`; may be called while the next one is computed."""
        plan, age_s, halt, halted_s = self._going
        return _along(plan, self._stage_s, age_s + time_s) if halt is None else halt.at(halted_s + time_s)

    # The plan

    def _search(self, target: Vector) -> PlannedTarget:
        present, self._target = self._target, target
        best, best_cost = None, math.inf
        for guess in self._guesses(target - self._bias):
            plan, before = self._improved(guess, whole=True), guess
            for _ in range(_SEARCH_ITERATIONS):
                if plan is None or self._bent_rad(before, plan) < _SETTLED_RAD:
                    break
                before, plan = plan, self._improved(plan)
            if plan is not None and (cost := self._cost(plan)) < best_cost:
                best, best_cost = plan, cost
        self._target = present
        if best is None:
            return PlannedTarget(target, None, math.nan, math.nan)
        end = best.position[-1]
        distance_m = float(np.linalg.norm(target - self._bias - self._kinematics.place(end)[0]))
        return PlannedTarget(target, best, distance_m, min(self._clearance_m(q) for q in best.position))

    def _reason(self, clearance_m: float) -> str:
        """Why the reference may not go on along the plan; empty where it may."""
        if self._target is None:
            return "no target"
        if self._failures >= _FAILURES:
            return f"the solver {self.settings.solver} found no plan {self._failures} times in a row"
        depth_m = self.settings.clearance_m - clearance_m
        if depth_m > self.settings.hold_m and clearance_m < self._clearance_m(self._state.position) - 1e-6:
            return f"the plan comes {1e3 * depth_m:.1f} mm too near to an obstacle"
        return ""

    def _resting(self, position: Vector) -> Plan:
        still = np.zeros((self.settings.stages, self._size))
        tiled = np.tile(position, (self.settings.stages + 1, 1))
        return Plan(tiled, np.zeros_like(tiled), still, np.zeros((self.settings.stages, len(_PENALTIES))))

    def _at(self, time_s: float) -> ClarkeReference:
        return _along(self._plan, self._stage_s, time_s)

    def _shifted(self) -> Plan:
        """The plan as seen from now: where it goes on, and rest at its end."""
        if self._age_s == 0.0:
            return self._plan
        times = self._age_s + self._stage_s * np.arange(self.settings.stages + 1)
        points = [self._at(time_s) for time_s in times]
        middles = [self._at(time_s + self._stage_s / 2).acceleration for time_s in times[:-1]]
        return Plan(
            np.array([point.position for point in points]),
            np.array([point.velocity for point in points]),
            np.array(middles),
            self._plan.slack,
        )

    def _guesses(self, target: Vector) -> list[Plan]:
        """Plans to begin the search with: to the inverse kinematics' solution, straight and by detours."""
        start = self._state.position
        solutions = [self._inverse.solve(target, start).clarke]
        straight = self._inverse.solve(target).clarke
        if np.abs(straight - solutions[0]).max() > 1e-3 * self._scale_m.max():
            solutions.append(straight)
        guesses = [self._resting(start)]
        for end in solutions:
            guesses.append(self._through([start, end]))
            middle, way = (start + end) / 2, end - start
            sideways = (way.reshape(-1, 2) @ np.array([[0.0, 1.0], [-1.0, 0.0]])).reshape(-1)  # a quarter turn
            length = float(np.linalg.norm(sideways / self._scale_m))
            if length > 1e-9:
                guesses += [self._through([start, middle + bend * sideways / length, end]) for bend in _DETOURS_RAD]
        return guesses

    def _through(self, points: Sequence[Vector]) -> Plan:
        """From rest to rest through points, in equal times; not yet along the dynamics of a plan."""
        count = self.settings.stages
        x = np.array([quintic(k / count) for k in range(count + 1)]) * (len(points) - 1)
        index = np.minimum(x.astype(int), len(points) - 2)
        corner = np.array(points)
        position = corner[index] + (x - index)[:, None] * (corner[index + 1] - corner[index])
        velocity = np.gradient(position, self._stage_s, axis=0)
        return Plan(position, velocity, np.diff(velocity, axis=0) / self._stage_s, self._resting(points[0]).slack)

    def _improved(self, plan: Plan, *, whole: bool = False) -> Plan | None:
        """The plan after one iteration from the present state; ``whole``: the guess is not along the dynamics."""
        if self._target is None:
            return None
        self._stiffness = self._use.stiffness(plan.position[0])
        moved = [self._moved(q) for q in plan.position[1:]]
        points, jacobians = (np.array(part) for part in zip(*moved, strict=True))
        # All points of all stages at once: NumPy spends its time on calls.
        distance, gradient = least_distance(self.obstacles, points.reshape(-1, 3))
        free = distance.reshape(points.shape[:2]) - self._radius_m - self.settings.clearance_m
        use, rows, bounds = self._kept(plan)
        if self._nearest:
            near_rows, near_bounds = self._apart(plan, free, gradient.reshape(points.shape), jacobians)
            rows, bounds = np.hstack([near_rows, rows]), np.hstack([near_bounds, bounds])
        self._outlook = (
            float(free.min()) + self.settings.clearance_m,
            max(0.0, float(use.max()) * self.settings.limit_fraction),
        )
        hessian, slope = self._wish(plan, self._target - self._bias, points[:, -1], jacobians[:, -1])
        stages = Stages(hessian, slope, rows, bounds)
        found = self._problem.solve(self._state.position, self._state.velocity, stages)
        if found is None or whole:
            return found
        step = min(1.0, _LARGEST_BEND_RAD / max(self._bent_rad(plan, found), 1e-12))
        return found if step == 1.0 else _between(plan, found, step)

    def _bent_rad(self, before: Plan, after: Plan) -> float:
        """Largest change of a bending angle from one plan to another, rad."""
        return float(np.abs((after.position - before.position) / self._scale_m).max())

    def _wish(self, plan: Plan, aim: Vector, tips: Vector, jacobians: Vector) -> tuple[Vector, Vector]:
        """Cost of the tips, (N, 3), m, away from an aim: its second and first derivative by the coordinates."""
        q = plan.position[1:]
        jacobian, missing = jacobians / self._length_m, (aim - tips) / self._length_m
        weight = np.ones(len(q))
        weight[-1] = self.settings.end_weight
        damping = 1e-4 / self._scale_m**2
        weighted = weight[:, None, None] * jacobian.transpose(0, 2, 1)
        hessian = weighted @ jacobian + np.diag(damping)
        away = missing + np.einsum("kij,kj->ki", jacobian, q)
        return hessian, -np.einsum("kij,kj->ki", weighted, away) - damping * q

    def _apart(self, plan: Plan, free: Vector, gradient: Vector, jacobians: Vector) -> tuple[Vector, Vector]:
        """Rows that keep the nearest points apart from obstacles; ``free``: of all points from their clearance, m."""
        near = np.argsort(free, axis=1)[:, : self._nearest, None]
        nearest = np.take_along_axis(free, near[:, :, 0], axis=1)
        slopes = np.einsum(
            "kpi,kpij->kpj",
            np.take_along_axis(gradient, near, axis=1),
            np.take_along_axis(jacobians, near[..., None], axis=1),
        )
        rows = np.zeros((*near.shape[:2], 3 * self._size))
        rows[:, :, : self._size] = -slopes / _OBSTACLE_UNIT_M
        here = np.einsum("kpj,kj->kp", slopes, plan.position[1:])
        return rows, np.minimum(nearest - here, self._length_m) / _OBSTACLE_UNIT_M

    def _kept(self, plan: Plan) -> tuple[Vector, Vector, Vector]:
        """Fractions of the limits along a plan, and the rows that keep them."""
        q, v, a = plan.position[1:], plan.velocity[1:], plan.acceleration
        mass = self._mass(plan.position[0])
        motion_n = a @ mass.T + v @ self._viscous.T
        use, by_position, by_force = self._use.under_motion(q, motion_n, self._stiffness)
        slopes = np.concatenate([by_position, by_force @ self._viscous, by_force @ mass], axis=2)
        state = np.concatenate([q, v, a], axis=1)
        # A tendon pulls with what its motor's inertia and friction leave of the commanded tension.
        tension, of_tension = self._use.tensions(use, slopes)
        of_left = of_tension - self._motors
        left = tension - state @ self._motors.T - self._kept_n
        unit_n = _LIMIT_UNIT * self._pretension_n
        motion = np.broadcast_to(self._motion_rows, (len(q), *self._motion_rows.shape))
        rows = np.concatenate([slopes / _LIMIT_UNIT, -of_left / unit_n, motion], axis=1)
        bounds = np.concatenate(
            [
                (1.0 - use + np.einsum("krj,kj->kr", slopes, state)) / _LIMIT_UNIT,
                (left - np.einsum("krj,kj->kr", of_left, state)) / unit_n,
                np.full(motion.shape[:2], 1 / _LIMIT_UNIT),
            ],
            axis=1,
        )
        return use, rows, bounds

    def _moved(self, clarke: Vector) -> tuple[Vector, Vector]:
        """Points of the backbone, (p, 3), m, and their Jacobians over the Clarke coordinates, (p, 3, 2m)."""
        at = self._rod.frames(self._kinematics.coefficients(clarke))
        rotation, jacobian = at.rotation[self._stations], at.jacobian[self._stations]
        return at.position[self._stations], rotation @ jacobian[:, :3] @ self._shape

    def _mass(self, clarke: Vector) -> Vector:
        """Mass of rod and motors over the Clarke coordinates, (2m, 2m), kg."""
        mass = self._rod.terms(self._kinematics.coefficients(clarke), np.zeros(self._rod.n)).mass
        return np.asarray(self._shape.T @ mass @ self._shape + self._motor_mass)

    def _clearance_m(self, clarke: Vector) -> float:
        if not self.obstacles:
            return math.inf
        return float((least_distance(self.obstacles, self._moved(clarke)[0])[0] - self._radius_m).min())

    def _cost(self, plan: Plan) -> float:
        """What the plan is worth in the search: the tip's errors, and a great deal for what it may not do."""
        aim = np.zeros(3) if self._target is None else self._target - self._bias
        tips = np.array([self._kinematics.place(q)[0] for q in plan.position[1:]])
        away = np.sum(((tips - aim) / self._length_m) ** 2, axis=1)
        depth = [max(0.0, self.settings.clearance_m - self._clearance_m(q)) for q in plan.position[1:]]
        return float(away.sum() + self.settings.end_weight * away[-1] + 1e3 * np.max(depth) / self._length_m)

    def _learn(self, tip: ArrayLike | None, clarke: ArrayLike | None, dt: float) -> Vector | None:
        """Average the model's error of the tip; the tip where it is known."""
        measured = None if tip is None else np.asarray(tip, dtype=float)
        if measured is None or not np.all(np.isfinite(measured)):
            return None
        coordinates = np.full(self._size, np.nan) if clarke is None else np.asarray(clarke, dtype=float)
        if not np.all(np.isfinite(coordinates)):
            return measured  # limits may keep the robot from its reference: that is no error of the model
        if self._held:  # the loads of servos have the friction of their gears: what they show of the stretch is off
            coordinates = self._state.position
        error = measured - self._kinematics.place(coordinates)[0]
        self._bias = self._bias + min(1.0, dt / self.settings.bias_s) * (error - self._bias)
        return measured


def _along(plan: Plan, stage_s: float, time_s: float) -> ClarkeReference:
    """A plan at a time since it began; at rest at its end."""
    k = int(time_s / stage_s)
    if k >= len(plan.acceleration):
        return ClarkeReference.at_rest(plan.position[-1])
    t, a = time_s - k * stage_s, plan.acceleration[k]
    return ClarkeReference(plan.position[k] + t * plan.velocity[k] + t**2 / 2 * a, plan.velocity[k] + t * a, a)


def _between(before: Plan, after: Plan, fraction: float) -> Plan:
    """A plan a ``fraction`` of the change further; along the dynamics where both are."""
    return Plan(
        before.position + fraction * (after.position - before.position),
        before.velocity + fraction * (after.velocity - before.velocity),
        before.acceleration + fraction * (after.acceleration - before.acceleration),
        after.slack,
    )


def _polygon(size: int) -> Vector:
    """Rows whose products with the coordinates are at most 1 in a polygon in the unit ball, (rows, 2m)."""
    pairs = (size + 1) // 2
    angles = 2 * math.pi * np.arange(_DIRECTIONS) / _DIRECTIONS
    inner = math.cos(math.pi / _DIRECTIONS) / math.sqrt(pairs)
    rows = np.zeros((pairs * _DIRECTIONS, size))
    for pair in range(pairs):
        both = np.stack([np.cos(angles), np.sin(angles)], axis=1) / inner
        rows[pair * _DIRECTIONS : (pair + 1) * _DIRECTIONS, 2 * pair : 2 * pair + 2] = both[:, : size - 2 * pair]
    return rows


def _surface_radius_m(robot: Robot, points_m: Vector) -> Vector:
    """Radius of the disks of each point's segment, (p,), m."""
    ends = np.cumsum([segment.length_m for segment in robot.segments])
    index = np.minimum(np.searchsorted(ends, points_m - 1e-9), len(robot.segments) - 1)
    return np.array([robot.segments[i].disks.radius_m for i in index])
