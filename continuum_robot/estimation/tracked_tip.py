# SPDX-License-Identifier: Apache-2.0
"""The tip's pose from the estimated shape and from a tracker that is late, noisy and lost now and then.

Derived here, no paper. A pose of the tracker belongs to the instant at which it was taken: it is compared with the
shape of that instant, and the error is learned. The pose of now is that of the newest shape with the error learned for
its coordinates: neither the tracker's delay nor an outage delays it.

An error of the model (a pitch radius, a tendon's stretch, a payload) moves the tip by an amount that depends on where
the robot is: it is described by a polynomial of third order in the coordinates, whose coefficients a Kalman filter
follows: across the straight robot the tip is an odd function of the bend, along it an even one. What was learned at one
pose is known at all poses.

The delay of a tracker's stamps is estimated from the poses themselves (:class:`StampDelay`). A pose whose stamp is late
by L is compared with the model's tip of an instant L after the exposure: the residual then has a part -L v along the
tip's velocity v. The model and the tracker's registration are off too, by amounts that depend on the place: a
regression separates both, with a shift, a turn and a scale of the places as further unknowns. What these leave of the
model's error has no mean along a path that the tip runs to and fro, or round and round, so it averages out; a turn that
is the same at every place looks like a delay at one speed only.

The regression is a Bayesian one with normal priors. Its errors have Student's distribution: a pose that waited behind a
blocked line, and nothing shows it, is off by many times what the others leave, and must not move the estimate. Data are
forgotten after some time, and at once where the estimate moves so far that they were linearised at the wrong instants.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.geometry import so3
from continuum_robot.geometry.polynomial import Polynomial
from continuum_robot.geometry.so3 import hat
from continuum_robot.robot.coordinates import coordinate_scale_m
from continuum_robot.robot.description import Robot
from continuum_robot.robot.schema import quantity

Vector = NDArray[np.float64]

TRACKED_WEIGHT = "tracked_tip_weight"
"""Name among the values of a shape: how far its tip is the tracked one, 0 to 1."""


@dataclass(frozen=True, slots=True)
class Expected:
    """How large a residual is expected to be before anything was measured, and how fast it changes."""

    deviation: tuple[float, ...]
    drift_per_root_s: tuple[float, ...]


class LearnedResidual:
    """A residual of several components over the coordinates of a robot, by a Kalman filter for its coefficients."""

    def __init__(self, polynomial: Polynomial, components: int, expected: Expected) -> None:
        self._polynomial, self._components = polynomial, components
        self._prior = np.square(np.asarray(expected.deviation)[polynomial.orders])
        self._drift = np.square(np.asarray(expected.drift_per_root_s)[polynomial.orders])
        self.reset()

    def reset(self) -> None:
        """Forget what was learned."""
        self._coefficients = np.zeros((self._polynomial.size, self._components))
        self._covariance = np.diag(self._prior)

    def wait(self, dt: float) -> None:
        """Let time pass: what was learned becomes less certain, never less than before anything was measured."""
        room = np.maximum(self._prior - np.diag(self._covariance), 0.0)
        self._covariance[np.diag_indices(self._prior.size)] += np.minimum(self._drift * dt, room)

    def at(self, coordinates: ArrayLike) -> tuple[Vector, float]:
        """The residual, shape (components,), and the standard deviation of each component, in their unit."""
        features = self._polynomial.at(coordinates)
        return features @ self._coefficients, math.sqrt(features @ self._covariance @ features)

    def learn(self, coordinates: ArrayLike, residual: ArrayLike, variance: float) -> None:
        """Take a measured residual, shape (components,), with the ``variance`` of each component."""
        features = self._polynomial.at(coordinates)
        spread = self._covariance @ features
        gain = spread / (features @ spread + variance)
        missing = np.asarray(residual, dtype=float) - features @ self._coefficients
        self._coefficients += np.outer(gain, missing)
        # Joseph's form: positive definite whatever is rounded.
        left = np.eye(features.size) - np.outer(gain, features)
        self._covariance = left @ self._covariance @ left.T + variance * np.outer(gain, gain)


_REMEMBERED_S = 1.0
_TOO_SURPRISING = 5.0  # standard deviations
_LONGEST_WAIT_S = 60.0
_WAITING = 256  # a second of a fast tracker
_FORGET_AFTER = 20  # surprising poses in a row: then it is the robot that changed
_TOGETHER = 0.25  # of the mean interval: stamps that are nearer were given on receipt, to poses that had waited
_TOGETHER_S = 1e-3  # no tracker is as fast
_HOLD_FIRST_S, _FIRST = 0.05, 2
_BACKLOG_S = 0.5
_POSES_OF_PERIOD = 100
_POSES_OF_FAULT = 40
_LARGEST_JITTER_S = 0.1
_JITTER_S = 2e-3
_JUDGED_S = 2.0
_LONGEST_JUDGED_S = 0.1  # of a pose
_EVIDENCE_S, _BEGIN_ANEW_S = 0.4, 1.0
_CERTAIN = 2.0  # standard deviations of the mean by which a correction is better before it is used
_CORRELATED_POSES = 4  # poses that are late together
_FADE_S = 0.3
_LARGEST_S = 20.0  # for which the largest distance from the model is remembered
_LARGER = 1.2  # by which a correction may be larger
_USELESS_S = 5.0
_NO_ERROR = 50.0  # in variances of a pose: a smaller error of the model need not be corrected
_MOVED_S = 5e-3  # by which the delay moves before the correction is judged, or learned, anew
_OF_LENGTH = Expected((0.02, 0.1, 0.05, 0.03), (1e-3, 2e-3, 1e-3, 5e-4))
_OF_ANGLE = Expected((0.02, 0.1, 0.05, 0.03), (1e-3, 2e-3, 1e-3, 5e-4))


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackerSettings:
    """How a tracker of the tip is trusted."""

    latency_s: float = quantity(
        "age of a pose at its stamp, as far as it is known; 0 for stamps of the exposure",
        "s",
        default=0.0,
        ge=0,
        le=0.5,
    )
    latency_deviation_s: float = quantity(
        "standard deviation of latency_s, which is then estimated from the poses; 0: latency_s is exact",
        "s",
        default=0.05,
        ge=0,
        le=0.5,
    )
    sigma_m: float = quantity(
        "standard deviation of a position without a covariance, in each axis", "m", default=2e-4, gt=0, le=0.1
    )
    sigma_rad: float = quantity(
        "standard deviation of an orientation without a covariance, about each axis", "rad", default=1e-2, gt=0, le=1
    )


@dataclass(frozen=True, slots=True)
class _Instant:
    """A shape that was estimated: its time, s, the tip's frame, shape (4, 4), and the coordinates, shape (2m,), m."""

    time_s: float
    tip: Vector
    coordinates: Vector


@dataclass(frozen=True, slots=True)
class _Pose:
    """Of the tracker: its stamp, s, place, shape (3,), m, turn, and covariance, shape (6, 6), where known."""

    stamp_s: float
    position: Vector
    orientation: Vector | None
    covariance: Vector | None


class _LateResidual:
    """A residual over the coordinates whose measurements are late by a delay that is still being estimated.

    Beside the residuals the rates by which the delay changes them are learned, with the same gains: what was learned is
    corrected with each new estimate of the delay.
    """

    def __init__(self, polynomial: Polynomial, expected: Expected) -> None:
        self._learned = LearnedResidual(polynomial, 6, expected)
        self.reset, self.wait = self._learned.reset, self._learned.wait

    def at(self, coordinates: Vector, delay: StampDelay) -> tuple[Vector, float]:
        """The residual, shape (3,), and the standard deviation of a component."""
        value, deviation = self._learned.at(coordinates)
        late = float(np.linalg.norm(value[3:])) * delay.deviation_s
        return value[:3] + delay.delay_s * value[3:], math.hypot(deviation, late)

    def missing(self, coordinates: Vector, residual: Vector, rate: Vector, delay_s: float) -> tuple[Vector, Vector]:
        """What is not expected of a residual without its delay, and of the rate, shape (3,) each."""
        value = self._learned.at(coordinates)[0]
        return residual - delay_s * rate - value[:3], rate - value[3:]

    def learn(self, coordinates: Vector, residual: Vector, rate: Vector, delay_s: float, variance: float) -> None:
        """Take a residual that was measured with a delay of ``delay_s``, and the rate of the model's value."""
        self._learned.learn(coordinates, np.concatenate((residual - delay_s * rate, rate)), variance)


class TrackedTip:
    """Corrects the tip of estimated shapes by what a tracker sees of it, where that is better than the model alone.

    Parameters
    ----------
    robot : whose tip it is
    settings : how the tracker is trusted

    Attributes
    ----------
    delay : of the stamps, as it is estimated
    accepted, refused : poses so far that were of use, and that were not
    superseded : poses that came together with a newer one, and are of no use
    problem : why the newest pose was of no use, empty where it was
    weight : of the correction, 0 to 1; 0: the model alone
    fault : why the tracker is of no use, empty where it is: most poses are refused, or do not fit one another
    """

    def __init__(self, robot: Robot, settings: TrackerSettings | None = None) -> None:
        self.settings = settings or TrackerSettings()
        polynomial = Polynomial(coordinate_scale_m(robot), len(_OF_LENGTH.deviation) - 1)
        length_m = robot.length_m
        in_metres = Expected(
            tuple(length_m * np.array(_OF_LENGTH.deviation)), tuple(length_m * np.array(_OF_LENGTH.drift_per_root_s))
        )
        self._place, self._turn = _LateResidual(polynomial, in_metres), _LateResidual(polynomial, _OF_ANGLE)
        self.delay = StampDelay(DelayPrior(self.settings.latency_s, self.settings.latency_deviation_s))
        self._instants: deque[_Instant] = deque()
        self._waiting: deque[_Pose] = deque(maxlen=_WAITING)
        self.reset()

    def reset(self) -> None:
        """Forget what was learned."""
        self.delay.reset()
        self._begin_anew()
        self._instants.clear()
        self._waiting.clear()
        self._newest_pose_s = self._newest_stamp_s = self._used_stamp_s = -math.inf
        self._period_s, self._intervals, self._backlog_s = 0.0, 0, 0.0
        self._jitter = np.array([_JITTER_S**2, 1.0]) * 1e-6
        # Mean squares of the residuals without and with the correction, m^2.
        self._without_m2 = self._with_m2 = self._refused_fraction = 0.0
        self._better_m2 = self._better_m4 = self._useless_s = self._largest_m = 0.0
        self._surprises = self.accepted = self.refused = self.superseded = 0
        self.problem = self._refusal = ""

    def _begin_anew(self) -> None:
        self._place.reset()
        self._turn.reset()
        self.weight = self._judged = self._judged_count = 0.0
        self._learned_with_s = self.delay.delay_s

    @property
    def fault(self) -> str:
        """Why the tracker is of no use; empty where it is."""
        if self._refused_fraction > 0.5:
            return f"{100 * self._refused_fraction:.0f} % of the newest poses are refused, at last: {self._refusal}"
        if self._useless_s > _USELESS_S and self._without_m2 > _NO_ERROR * self.settings.sigma_m**2:
            return (
                f"its poses do not fit one another: {1e3 * math.sqrt(self._with_m2):.1f} mm from what those before "
                f"teach, {1e3 * math.sqrt(self._without_m2):.1f} mm from the model alone, which is used"
            )
        return ""

    @property
    def jitter_s(self) -> float:
        """Standard deviation of the stamps beside their mean delay, s."""
        return math.sqrt(min(max(self._jitter[0] / self._jitter[1], 0.0), _LARGEST_JITTER_S**2))

    def see_shape(self, time_s: float, tip: Vector, coordinates: ArrayLike) -> Vector:
        """Take the tip of a newly estimated shape.

        Parameters
        ----------
        time_s : of the shape, s, on the clock of the tracker's stamps
        tip : frame in the base frame, shape (4, 4); NaN where it is not known
        coordinates : Clarke coordinates, shape (2m,), m

        Returns
        -------
        the corrected frame, shape (4, 4)
        """
        instants, place = self._instants, np.asarray(coordinates, dtype=float)
        if not math.isfinite(np.vdot(tip, tip) + place.dot(place)):
            return tip
        step_s = time_s - instants[-1].time_s if instants else 0.0
        if instants and step_s <= 0:
            instants.clear()  # the clock was set back
            self._newest_pose_s = self._newest_stamp_s = self._used_stamp_s = -math.inf
        instants.append(_Instant(time_s, tip, place))
        while instants[0].time_s < time_s - _REMEMBERED_S:
            instants.popleft()
        self._use_poses()
        self._weigh(step_s)
        if not self.weight:
            return tip
        corrected = np.array(tip)
        shift = self._trusted(self._place, place)
        size_m = float(np.linalg.norm(shift))
        corrected[:3, 3] += self.weight * min(1.0, _LARGER * self._largest_m / max(size_m, 1e-12)) * shift
        corrected[:3, :3] = so3.exp(self.weight * self._trusted(self._turn, place)) @ tip[:3, :3]
        return corrected

    def _weigh(self, step_s: float) -> None:
        """Fade the correction in while it is better than the model alone, out where it is worse, and begin anew."""
        if self._better_m2 < 0:
            self.weight = max(self.weight - step_s / _FADE_S, 0.0)
            if not self.weight and self._judged > _BEGIN_ANEW_S:
                self._begin_anew()
        elif self._judged > _EVIDENCE_S and self._better_m2 > _CERTAIN * self._better_deviation_m2:
            self.weight = min(self.weight + step_s / _FADE_S, 1.0)

    def _trusted(self, learned: _LateResidual, coordinates: Vector) -> Vector:
        """The residual, less of it where it is not certain."""
        value, deviation = learned.at(coordinates, self.delay)
        square = float(value @ value)
        return value * (square / (square + deviation**2)) if square > 0 else value

    def see_pose(
        self, stamp_s: float, position: ArrayLike, orientation: Vector | None = None, covariance: Vector | None = None
    ) -> None:
        """Take a pose of the tracker; it is used once the shape of its instant is known.

        Parameters
        ----------
        stamp_s : s, on the clock of the shapes
        position : of the tip, base frame, shape (3,), m
        orientation : rotation matrix of the tip in the base frame, shape (3, 3), None where it is unknown
        covariance : of position and turn, shape (6, 6), m^2 and rad^2; None, or zero, where it is not known

        Raises
        ------
        ParameterError : a position of another shape
        """
        place = np.asarray(position, dtype=float)
        if place.shape != (3,):
            raise ParameterError("position", place.shape, "shape (3,)")
        interval_s = stamp_s - self._newest_stamp_s
        if 0 <= interval_s < _REMEMBERED_S:
            if interval_s < max(_TOGETHER * self._period_s, _TOGETHER_S) and self._waiting:
                self._waiting.pop()
                self.superseded += 1
            self._intervals = min(self._intervals + 1, _POSES_OF_PERIOD)
            self._period_s += (interval_s - self._period_s) / self._intervals
            # Of poses taken at regular times each is later than the one before by what its interval is too long. What
            # a lost pose adds is forgotten with time; those that catch up come faster.
            kept = math.exp(-interval_s / _BACKLOG_S)
            self._backlog_s = min(max(kept * self._backlog_s + interval_s - self._period_s, 0.0), _REMEMBERED_S)
        if math.isfinite(stamp_s):
            self._newest_stamp_s = stamp_s
        if self._backlog_s > self._period_s:
            self.superseded += 1
            return
        self._waiting.append(_Pose(stamp_s, place, orientation, covariance))

    def _use_poses(self) -> None:
        """Use those whose instant has been passed by the shapes."""
        waiting, newest_s = self._waiting, self._instants[-1].time_s
        # If poses come in bunches, as the first ones may, a newer one may still come with the newest.
        hold_s = _TOGETHER * self._period_s if self.superseded else 0.0
        hold_s = max(hold_s, _HOLD_FIRST_S * (self._intervals < _FIRST))
        for _ in range(len(waiting)):
            pose = waiting.popleft()
            if newest_s < pose.stamp_s + max(hold_s, -self.delay.delay_s) < newest_s + _REMEMBERED_S:
                waiting.append(pose)
                continue
            self.problem = self._use(pose)
            if self.problem:
                self.refused += 1
                self._refusal = self.problem
            else:
                self.accepted += 1
            self._refused_fraction += (bool(self.problem) - self._refused_fraction) / _POSES_OF_FAULT

    def _use(self, pose: _Pose) -> str:
        """Learn from a pose; why not, where it is of no use."""
        if not np.all(np.isfinite(pose.position)):
            return "the pose is not finite"
        if pose.stamp_s <= self._used_stamp_s:
            return "the pose is not newer than the one before"
        time_s = pose.stamp_s - self.delay.delay_s
        moving = self._at(time_s)
        if moving is None:
            return "there is no shape of the pose's instant: it is too old, from the future, or of another clock"
        then, velocity, turning = moving
        metres2, rad2 = _variances(pose.covariance, self.settings)
        dt = min(time_s - self._newest_pose_s, _LONGEST_WAIT_S)
        self._used_stamp_s, self._newest_pose_s = pose.stamp_s, time_s
        if dt > 0:
            self._place.wait(dt)
            self._turn.wait(dt)
        residual = pose.position - then.tip[:3, 3]
        delay_s, jitter2 = self.delay.delay_s, _CORRELATED_POSES * self.jitter_s**2
        expected, deviation = self._place.at(then.coordinates, self.delay)
        speed2 = float(velocity @ velocity)
        missing = residual - expected
        self._judge(residual, then.coordinates, min(max(dt, 1e-3), _LONGEST_JUDGED_S))
        known2 = metres2 + deviation**2 + speed2 * self.delay.deviation_s**2
        self._note_jitter(float(missing @ velocity), speed2, known2)
        metres2 += jitter2 * speed2
        unexplained = self._place.missing(then.coordinates, residual, velocity, delay_s)
        self.delay.compare(*unexplained, deviation**2 + metres2, min(max(dt, 0.0), 1.0))
        self.delay.update(residual, then.tip[:3, 3], velocity, min(max(dt, 0.0), 1.0))
        kept = math.exp(-abs(self.delay.delay_s - delay_s) / _MOVED_S)
        self._judged, self._judged_count = kept * self._judged, kept * self._judged_count
        # While it is not used: the first delays are far off, and a rate makes up for a small move of the delay only.
        if not self.weight and abs(self.delay.delay_s - self._learned_with_s) > _MOVED_S:
            self._begin_anew()
        if np.linalg.norm(missing) > _TOO_SURPRISING * math.sqrt(3 * (deviation**2 + metres2)):
            self._surprises += 1
            if self._surprises < _FORGET_AFTER:
                return f"{1e3 * np.linalg.norm(residual):.1f} mm from the estimated tip: not credible"
            self._begin_anew()
        self._surprises = 0
        self._place.learn(then.coordinates, residual, velocity, delay_s, metres2)
        if pose.orientation is not None:
            turn = so3.log(pose.orientation @ then.tip[:3, :3].T)
            self._turn.learn(then.coordinates, turn, turning, delay_s, rad2 + jitter2 * float(turning @ turning))
        return ""

    def _judge(self, residual: Vector, coordinates: Vector, dt: float) -> None:
        """Compare the model alone and the corrected one at a pose that neither has seen."""
        kept = math.exp(-dt / _JUDGED_S)
        self._judged, self._judged_count = kept * self._judged + dt, kept * self._judged_count + 1
        gain = dt / self._judged
        self._useless_s = 0.0 if self.weight else self._useless_s + dt
        left = residual - self._trusted(self._place, coordinates)
        self._largest_m = max(math.exp(-dt / _LARGEST_S) * self._largest_m, float(np.linalg.norm(residual)))
        self._without_m2 += gain * (float(residual @ residual) - self._without_m2)
        self._with_m2 += gain * (float(left @ left) - self._with_m2)
        better_m2 = float(residual @ residual - left @ left)
        self._better_m2 += gain * (better_m2 - self._better_m2)
        self._better_m4 += gain * (better_m2**2 - self._better_m4)

    @property
    def _better_deviation_m2(self) -> float:
        """Standard deviation of the mean by which the correction is better, m^2."""
        variance = max(self._better_m4 - self._better_m2**2, 0.0)
        return math.sqrt(variance * _CORRELATED_POSES / max(self._judged_count, 1.0))

    def _note_jitter(self, along: float, speed2: float, variance: float) -> None:
        """Learn how uneven the stamps are from the residual ``along`` the tip's velocity, m^2/s."""
        late_s = min(max(along / speed2, -_LARGEST_JITTER_S), _LARGEST_JITTER_S) if speed2 > 0 else 0.0
        self._jitter *= 1 - 1 / _POSES_OF_PERIOD
        self._jitter += speed2 * np.array([late_s**2 - variance / max(speed2, 1e-12), 1.0]) * (speed2 > 1e-6)

    def age_s(self, now_s: float) -> float:
        """Time since the newest pose was taken that was of use, s; infinite where there was none.

        Parameters
        ----------
        now_s : s, on the same clock
        """
        return now_s - self._newest_pose_s

    def deviation_m(self) -> float:
        """Standard deviation of the corrected tip in each axis, as far as the tracker decides it, m; NaN before."""
        if not self._instants:
            return math.nan
        return self._place.at(self._instants[-1].coordinates, self.delay)[1]

    def _at(self, time_s: float) -> tuple[_Instant, Vector, Vector] | None:
        """What the shape was at an instant, and its tip's velocity and rate of turn; None outside of the shapes."""
        after: _Instant | None = None
        for before in reversed(self._instants):
            if before.time_s <= time_s and after is not None:
                step_s = after.time_s - before.time_s
                turn = so3.log(after.tip[:3, :3] @ before.tip[:3, :3].T)
                then = _between(before, after, (time_s - before.time_s) / step_s)
                return then, (after.tip[:3, 3] - before.tip[:3, 3]) / step_s, turn / step_s
            if before.time_s < time_s:
                return None
            after = before
        return None


def _between(before: _Instant, after: _Instant, fraction: float) -> _Instant:
    tip = before.tip + fraction * (after.tip - before.tip)
    turn = so3.log(before.tip[:3, :3].T @ after.tip[:3, :3])
    tip[:3, :3] = before.tip[:3, :3] @ so3.exp(fraction * turn)
    coordinates = before.coordinates + fraction * (after.coordinates - before.coordinates)
    return _Instant(before.time_s + fraction * (after.time_s - before.time_s), tip, coordinates)


def _variances(covariance: Vector | None, settings: TrackerSettings) -> tuple[float, float]:
    """Of position, m^2, and turn, rad^2, in each axis."""
    metres2, rad2 = settings.sigma_m**2, settings.sigma_rad**2
    if covariance is None:
        return metres2, rad2
    diagonal = np.diag(covariance)
    reported = float(np.mean(diagonal[:3])), float(np.mean(diagonal[3:]))
    return (
        reported[0] if math.isfinite(reported[0]) and reported[0] > 0 else metres2,
        reported[1] if math.isfinite(reported[1]) and reported[1] > 0 else rad2,
    )


_DELAY = 7
_SHIFT_M, _TURN_RAD, _SCALE = 0.02, 0.015, 0.1  # standard deviations before anything was measured
_SHORTEST_MEMORY_S, _LONGEST_MEMORY_S = 2.0, 30.0
_CORRELATED_S, _COMPARED_S = 0.3, 0.1  # residuals within these times are one measurement
_LEAST_RESIDUAL_M = 5e-4
_LEAST_COMPARED_M = 3e-4
_SETTLED_S = 0.03  # within this the delay stays, and memory grows
_TAILS = 4.0  # degrees of freedom of Student's distribution of the residuals: some poses are much later than most


@dataclass(frozen=True, slots=True)
class DelayPrior:
    """What is known of the delay before anything was measured."""

    delay_s: float
    deviation_s: float
    least_s: float = -0.1
    largest_s: float = 0.5
    stated_odds: float = 4.0


class StampDelay:
    """Recursive estimate of the delay."""

    def __init__(self, prior: DelayPrior) -> None:
        self._prior = prior
        deviations = np.array([_SHIFT_M] * 3 + [_TURN_RAD] * 3 + [_SCALE, max(prior.deviation_s, 1e-9)])
        self._prior_information = np.diag(1 / deviations**2)
        self._mean = np.zeros(8)
        self._mean[_DELAY] = prior.delay_s
        self.reset()

    def reset(self) -> None:
        """Forget what was measured."""
        self._information, self._vector = np.zeros((8, 8)), np.zeros(8)
        self._covariance, self._estimate = np.linalg.inv(self._prior_information), self._mean
        self._residual_m2 = 4e-6
        self._anchor_s, self._settled_s = self._prior.delay_s, 0.0
        self.delay_s, self.deviation_s = self._prior.delay_s, self._prior.deviation_s

    def compare(self, residual_m: Vector, velocity_m_per_s: Vector, variance_m2: float, dt: float) -> None:
        """Take what of a residual and of the velocity cannot be explained by the place; before :meth:`update`.

        Where the tip passes a place at several speeds, this shows the delay whatever the model's error is.
        """
        features = np.zeros((3, 8))
        features[:, _DELAY] = -velocity_m_per_s
        self._take(features, residual_m, variance_m2 + _LEAST_COMPARED_M**2, min(dt, _COMPARED_S) / _COMPARED_S)

    def _take(self, features: Vector, measured: Vector, variance_m2: float, weight: float) -> float:
        """Add a measurement, with less weight the less credible it is; return the factor of that weight."""
        left = measured - features @ self._estimate
        expected = features @ self._covariance @ features.T + variance_m2 * np.eye(3)
        credible = (_TAILS + 3) / (_TAILS + float(left @ np.linalg.solve(expected, left)))
        self._information += weight * credible / variance_m2 * features.T @ features
        self._vector += weight * credible / variance_m2 * features.T @ measured
        return credible

    def update(self, residual_m: Vector, place_m: Vector, velocity_m_per_s: Vector, dt: float) -> None:
        """Take a residual."""
        if self._prior.deviation_s == 0:
            return
        features = np.empty((3, 8))
        features[:, :3], features[:, 3:6] = np.eye(3), -hat(place_m)
        features[:, 6], features[:, _DELAY] = place_m, -velocity_m_per_s
        measured = residual_m - velocity_m_per_s * self.delay_s
        memory_s = min(max(self._settled_s, _SHORTEST_MEMORY_S), _LONGEST_MEMORY_S)
        kept = math.exp(-dt / memory_s)
        self._information *= kept
        self._vector *= kept
        self._settled_s += dt
        credible = self._take(features, measured, self._residual_m2, min(dt, _CORRELATED_S) / _CORRELATED_S)
        self._covariance = np.linalg.inv(self._information + self._prior_information)
        self._estimate = self._covariance @ (self._vector + self._prior_information @ self._mean)
        left = measured - features @ self._estimate
        gain = min(1.0, dt / 2.0)
        self._residual_m2 += gain * (credible * float(left @ left) / 3 - self._residual_m2)
        self._residual_m2 = max(self._residual_m2, _LEAST_RESIDUAL_M**2)
        deviation_s = math.sqrt(self._covariance[_DELAY, _DELAY])
        self._weigh_stated(float(self._estimate[_DELAY]) - self._prior.delay_s, deviation_s)
        if abs(self.delay_s - self._anchor_s) > _SETTLED_S:
            self._anchor_s, self._settled_s = self.delay_s, 0.0

    def _weigh_stated(self, apart_s: float, deviation_s: float) -> None:
        """Mean and deviation over both cases: the stated delay is right, or another one is (Savage and Dickey)."""
        prior = self._prior
        stated = prior.stated_odds * prior.deviation_s / deviation_s * math.exp(-0.5 * (apart_s / deviation_s) ** 2)
        other = 1 / (1 + stated)
        self.delay_s = min(max(prior.delay_s + other * apart_s, prior.least_s), prior.largest_s)
        self.deviation_s = math.sqrt(other * (deviation_s**2 + (1 - other) * apart_s**2))
