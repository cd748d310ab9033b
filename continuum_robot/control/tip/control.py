# SPDX-License-Identifier: Apache-2.0
"""The tip brought to a desired place, or along a path, and kept there against what the model does not know.

Derived here: the estimated tip's error is integrated in the directions in which the tendons move the tip, by its
Jacobian's inverse. The integral is spread over the monomials of the coordinates, by how they came together lately
(normalised LMS-Newton): where the robot is, the correction changes as an integral does, and what it learned there holds
at other places too. So a moving tip is corrected without the delay of an integral.
"""

from __future__ import annotations

import dataclasses
import math
from collections import deque
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.control.delay_margin import SHAPE_PERIOD_S
from continuum_robot.control.motion import LimitedMotion, motion_limits, shortened
from continuum_robot.control.references import ClarkeReference
from continuum_robot.control.tendon_use import TendonUse
from continuum_robot.control.tip.inverse import TipInverse, TipKinematics, TipSolution, finite, steady_inverse
from continuum_robot.control.tip.staged import StagedKinematics, StagedMotion, StagedUse
from continuum_robot.errors import ParameterError
from continuum_robot.geometry.polynomial import Polynomial
from continuum_robot.robot.coordinates import coordinate_scale_m
from continuum_robot.robot.description import Robot

Vector = NDArray[np.float64]

_INTEGRAL_PER_S, _INTEGRAL_OF_SERVOS_PER_S = 2.0, 4.0
_TOLERANCE_FRACTION = 0.005
_NEAR_FRACTION = 0.05
_LEARNED_ORDER = 3
# Over which monomials are seen together, s, and below which share one of them counts as not seen: where a robot stays,
# what is learned there must not become a slope.
_SEEN_S, _UNSEEN = 10.0, 0.01
_STRAIGHTEN_PER_S = 0.5
"""How fast a robot on a path bends less where its tip does not tell: else it would keep what bends it came by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TipSettings:
    """How the tip is brought to its target.

    Attributes
    ----------
    limit_fraction : fraction of each limit that is used; the rest is left to the controller
    reachable_m : distance within which a target counts as reached by the model, m
    integral_per_s : rate at which the error of the estimated tip is taken away, 1/s; negative: 2, or 4 of servos that
        hold displacements, a quarter of what the 60 ms of tracker, shape, bus and servos together make
    integral_fraction : largest correction, fraction of the largest displacement
    tolerance_m : error of the estimated tip within which it has arrived, m; 0: half a percent of the robot's length
    settle_s : time over which the error is averaged for that, s
    """

    limit_fraction: float = 0.95
    reachable_m: float = 1e-4
    integral_per_s: float = -1.0
    integral_fraction: float = 0.25
    tolerance_m: float = 0.0
    settle_s: float = 0.2


@dataclass(frozen=True, slots=True)
class TipOutput:
    """One cycle of the tip control."""

    reference: ClarkeReference
    error_m: float
    off_m: float
    moving: bool
    arrived: bool
    limited: bool


class TipControl:
    """Clarke references that bring the tip to a target, and keep it there against what the model does not know.

    The reference moves straight in the Clarke coordinates, or along a path of the tip, within speed and acceleration of
    :func:`~continuum_robot.control.motion.motion_limits`. The error of the estimated tip is integrated into a
    correction in the directions in which the tendons move the tip; it stops at the limits.

    Parameters
    ----------
    robot : a rod with limits; without ``control`` tensions are predicted by shifting onto the least tension. One with
        ``base_stage`` has 2m + 2 coordinates everywhere here, the last two are the stage's; places of the tip are then
        in the stage's frame instead of the base frame. The tendons alone correct the tip's error
    settings : how

    Raises
    ------
    ParameterError : a mechanism, or a robot without limits
    """

    def __init__(
        self,
        robot: Robot,
        settings: TipSettings | None = None,
    ) -> None:
        self.settings = settings or TipSettings()
        self._integral_per_s = self.settings.integral_per_s
        if self._integral_per_s < 0:
            self._integral_per_s = _INTEGRAL_OF_SERVOS_PER_S if robot.takes_displacements else _INTEGRAL_PER_S
        stage, limits, self._count = robot.base_stage, motion_limits(robot), robot.coordinate_count
        self._stage = stage
        self.kinematics = TipKinematics(robot) if stage is None else StagedKinematics(robot)
        self._limits = (TendonUse if stage is None else StagedUse)(robot, self.settings.limit_fraction)
        self._inverse = TipInverse(robot, self.kinematics, self._limits, self.settings.reachable_m)
        self._length_m, self._held_late_s = robot.length_m, _late_s(robot)
        self.tolerance_m = self.settings.tolerance_m or _TOLERANCE_FRACTION * robot.length_m
        self._largest_m = self._limits.displacement_m * self.settings.integral_fraction
        zero = np.zeros(self.kinematics.scale.size)
        self._motion = LimitedMotion(limits, zero) if stage is None else StagedMotion(limits, stage, zero)
        self._steps: Vector = np.ones_like(zero) if stage is None else self.kinematics.scale
        self._time_s = 0.0
        self._told = deque([(0.0, zero)])
        self._polynomial = Polynomial(coordinate_scale_m(robot), _LEARNED_ORDER)
        self._learned = np.zeros((self._polynomial.size, self._count))
        self._seen = np.eye(self._polynomial.size)
        self._unseen = _UNSEEN * self._seen
        self._correction = np.zeros(self._count)
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
        """Largest fraction of each kind of limit that Clarke coordinates (2m,), m, need; 1 is the limit itself."""
        used = self._limits.use(np.asarray(clarke, dtype=float)) * self.settings.limit_fraction
        return {name: float(used[rows].max()) for name, rows in self._limits.rows.items()}

    def solve(self, target: ArrayLike, start: ArrayLike | None = None, *, search: bool = True) -> TipSolution:
        """The coordinates for a target; arguments, result and errors as of :meth:`.TipInverse.solve`."""
        return self._inverse.solve(target, start, search=search)

    def reset(self, clarke: ArrayLike, velocity: ArrayLike | None = None) -> None:
        """Start at Clarke coordinates (2m,), m, with ``velocity``, shape (2m,), m/s; no target, no correction."""
        self._motion.reset(clarke, velocity)
        self._told = deque([(self._time_s, np.array(clarke, dtype=float))])
        self._learned[:] = self._correction[:] = 0.0
        self._seen[:] = np.eye(self._polynomial.size)
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
        before, place = self._solution, finite("target", target, 3)
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
        return float(np.linalg.norm(target - before)) < _NEAR_FRACTION * self._length_m

    def adopt(self, solution: TipSolution) -> None:
        """Go to the goal of a solution of :meth:`solve` from now on, wherever it was found."""
        self._solution, self._mean_error = solution, None

    def keep(self, solution: TipSolution, clarke: ArrayLike) -> None:
        """Keep the tip where it is from now on, at rest and without a step of the reference.

        What the model does not know of the tip's place is in the correction from the first cycle on.

        Parameters
        ----------
        solution : of :meth:`solve`, for the measured place of the tip
        clarke : of the reference, shape (2m,), m
        """
        told = np.array(clarke, dtype=float)
        self._motion.reset(solution.clarke)
        self._told = deque([(self._time_s, told)])
        self._learned[:] = 0.0
        self._learned[0] = self._correction = (told - solution.clarke)[: self._count]
        self.adopt(solution)

    def update(self, tip: ArrayLike | None, clarke: ArrayLike | None, dt: float) -> TipOutput:
        """One cycle on the way to the target, or at it.

        Parameters
        ----------
        tip : estimated position, shape (3,), base frame, m; None or NaN where it is unknown: then nothing is learned
        clarke : measured coordinates at that moment, shape (2m,), m; None or NaN where they are unknown: nothing is
            learned either, for limits may keep the robot from its reference
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
        moving = bool(np.any(motion.position != solution.clarke))
        return self._corrected(motion, solution.goal, moving, tip, clarke, dt)

    def follow(
        self, place: ArrayLike, velocity: ArrayLike, tip: ArrayLike | None, clarke: ArrayLike | None, dt: float
    ) -> TipOutput:
        """One cycle along a path, within the limits of the motion; the tip keeps to the reachable places next to it.

        Parameters
        ----------
        place, velocity : of the path now, base frame, shape (3,), m and m/s
        tip, clarke, dt : as of :meth:`update`

        Returns
        -------
        the reference, and how far the tip is; ``moving`` while the path does

        Raises
        ------
        ParameterError : a place or velocity that is not finite, or a dt that is not positive
        """
        desired, rate = finite("place", place, 3), finite("velocity", velocity, 3)
        self._solution = self._mean_error = None
        before = self._motion.reference
        here, jacobian = self.kinematics.place(before.position)
        inverse, target = self._to_path(before.position, desired - here, jacobian)
        if self._limits.exceeded(self._with(target, self._correction)):
            motion, limited = self._motion.along(np.zeros_like(target), dt), True
        else:
            bent = before.position.copy()
            bent[self._count :] = 0.0
            straightened = bent - inverse @ (jacobian @ bent)
            drift = inverse @ rate - _STRAIGHTEN_PER_S * straightened
            motion, limited = self._motion.towards(target - dt * _STRAIGHTEN_PER_S * straightened, dt, drift), False
        output = self._corrected(motion, desired, bool(np.any(rate)), tip, clarke, dt)
        return dataclasses.replace(output, limited=output.limited or limited)

    def _to_path(self, position: Vector, missing: Vector, jacobian: Vector) -> tuple[Vector, Vector]:
        """Inverse of the Jacobian, and the coordinates that go the missing way, (3,), m, of the tip.

        What is beyond the end of the stage's range is left to the tendons.
        """
        steps = self._steps
        inverse = steps[:, None] * steady_inverse(jacobian * steps)
        target = position + inverse @ missing
        if self._stage is not None:
            ended = np.clip(target[-2:], *self._stage.ranges.T) != target[-2:]
            if ended.any():
                steps = steps * np.append(np.ones(self._count), ~ended)
                inverse = steps[:, None] * steady_inverse(jacobian * steps)
                target = position + inverse @ missing
        return inverse, target

    def _corrected(
        self,
        motion: ClarkeReference,
        goal: Vector,
        moving: bool,
        tip: ArrayLike | None,
        clarke: ArrayLike | None,
        dt: float,
    ) -> TipOutput:
        """The motion with what was learned of the model's error, and what the tip's place teaches of it."""
        known = tip is not None and bool(np.all(np.isfinite(np.asarray(tip, dtype=float))))
        error_m = off_m = math.nan
        missing, arrived = None, False
        self._time_s += dt
        told = self._told_at(self._time_s - self._held_late_s)
        if known:
            estimated = np.asarray(tip, dtype=float)
            place, jacobian = self.kinematics.place(motion.position)
            jacobian = jacobian[:, : self._count]
            inverse = steady_inverse(jacobian)
            lag = self._lag(self._with(motion.position, self._correction), clarke, told)
            missing = None if lag is None else inverse @ (place - estimated - lag)
            error = self._averaged(goal - estimated, moving, dt)
            off = error - jacobian @ (inverse @ error)
            error_m, off_m = float(np.linalg.norm(error)), float(np.linalg.norm(off))
            arrived = not moving and float(np.linalg.norm(error - off)) <= self.tolerance_m
        else:
            self._mean_error = None
        rate, limited = self._correct(motion.position, missing, dt)
        position, velocity = self._with(motion.position, self._correction), self._with(motion.velocity, rate)
        reference = ClarkeReference(position, velocity, motion.acceleration)
        self._told.append((self._time_s, position))
        return TipOutput(reference, error_m, off_m, moving, arrived, limited)

    def _lag(self, desired: Vector, clarke: ArrayLike | None, told: Vector) -> Vector | None:
        """Way of the tip, shape (3,), m, that the controller still has to go by the model; None where it is unknown.

        That is its own integral's business: with friction, two integrals that wait for the same motion would hunt.
        Servos that hold displacements have none: what their friction leaves would stay, and most of what seems to be
        left is the error of the loads by which their tendons' stretch is known. They are where they were told to be
        when the answer to it was read: the way since then is no error, and no function of the place to be learned.
        """
        measured = np.full_like(desired, np.nan) if clarke is None else np.asarray(clarke, dtype=float)
        if not np.all(np.isfinite(measured)):
            return None
        if self._held_late_s:  # a stage shows where it is
            measured = np.concatenate([told[: self._count], measured[self._count :]])
        return np.asarray(self.kinematics.place(desired)[0] - self.kinematics.place(measured)[0])

    def _told_at(self, time_s: float) -> Vector:
        """Coordinates that the reference had at a time, s; what was before that is forgotten."""
        told = self._told
        while len(told) > 1 and told[1][0] <= time_s:
            told.popleft()
        before_s, before = told[0]
        if len(told) == 1 or time_s <= before_s:
            return before
        after_s, after = told[1]
        return before + (time_s - before_s) / (after_s - before_s) * (after - before)

    def _averaged(self, error: Vector, moving: bool, dt: float) -> Vector:
        """The error, shape (3,), m, averaged over the time to settle while the reference stands."""
        if moving or self._mean_error is None:
            self._mean_error = error
        else:
            self._mean_error = self._mean_error + min(1.0, dt / self.settings.settle_s) * (error - self._mean_error)
        return self._mean_error

    def _correct(self, position: Vector, missing: Vector | None, dt: float) -> tuple[Vector, bool]:
        """Learn from the missing way (2m,), m, and correct as learned; the rate, m/s, and whether a limit holds."""
        features, before = self._polynomial.at(position[: self._count]), self._correction
        desired, limited = features @ self._learned, False
        if missing is not None:
            longest = self._motion.limits.speed_m_per_s * dt
            step = shortened(min(1.0, self._integral_per_s * dt) * missing, longest)
            limited = self._too_far(position, desired + step)
            if not limited or np.linalg.norm(desired + step) < np.linalg.norm(desired):
                # Over the monomials as they came together lately, so that all that the motion shows is learned as fast.
                fraction = min(1.0, dt / _SEEN_S)
                self._seen += fraction * (np.outer(features, features) - self._seen)
                spread = np.linalg.solve(self._seen + self._unseen, features)
                self._learned += np.outer(spread, step) / (features @ spread)
                desired = desired + step
        # What was learned elsewhere may be too much here, and may come too fast.
        desired = before + shortened(desired - before, self._motion.limits.speed_m_per_s * dt)
        if self._too_far(position, desired) and np.linalg.norm(desired) >= np.linalg.norm(before):
            return np.zeros_like(desired), True
        self._correction = desired
        return (desired - before) / dt, limited

    def _too_far(self, position: Vector, correction: Vector) -> bool:
        too_long = float(np.linalg.norm(correction)) > self._largest_m
        return too_long or self._limits.exceeded(self._with(position, correction))

    def _with(self, coordinates: Vector, correction: Vector) -> Vector:
        """Coordinates with what is added to those of the tendons."""
        sum_of_both = coordinates.copy()
        sum_of_both[: self._count] += correction
        return sum_of_both


def _late_s(robot: Robot) -> float:
    """From a reference to the shape that servos holding displacements answer it with, s; 0 for other actuators.

    A cycle of the bus to each side, and the shape's period. What the servos are behind, their controller leads by.
    """
    if robot.actuators is None or not robot.takes_displacements:
        return 0.0
    return 2 / robot.actuators.cycle_hz + SHAPE_PERIOD_S
