# SPDX-License-Identifier: Apache-2.0
"""The tip's pose from the estimated shape and from a tracker that is late, noisy and lost now and then.

Derived here, no paper. A pose of the tracker belongs to the instant at which it was taken: it is compared with the
shape of that instant, and the error is learned. The pose of now is that of the newest shape with the error learned for
its coordinates: neither the tracker's delay nor an outage delays it.

An error of the model (a pitch radius, a tendon's stretch, a payload) moves the tip by an amount that depends on where
the robot is: it is described by a polynomial of third order in the coordinates, whose coefficients a Kalman filter
follows: across the straight robot the tip is an odd function of the bend, along it an even one. What was learned at one
pose is known at all poses.
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
from continuum_robot.robot.coordinates import coordinate_scale_m
from continuum_robot.robot.description import Robot
from continuum_robot.robot.schema import quantity

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Expected:
    """How large a residual is expected to be before anything was measured, and how fast it changes.

    Attributes
    ----------
    deviation : standard deviation of the coefficients of order 0, 1, 2 and so on, in the residual's unit
    drift_per_root_s : by which those may have changed after a second, in the residual's unit
    """

    deviation: tuple[float, ...]
    drift_per_root_s: tuple[float, ...]


class LearnedResidual:
    """A residual of several components over the coordinates of a robot, by a Kalman filter for its coefficients.

    Parameters
    ----------
    polynomial : of the coordinates
    components : of the residual
    expected : of each component
    """

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
        """Let time pass: what was learned becomes less certain, never less than before anything was measured.

        Parameters
        ----------
        dt : s
        """
        room = np.maximum(self._prior - np.diag(self._covariance), 0.0)
        self._covariance[np.diag_indices(self._prior.size)] += np.minimum(self._drift * dt, room)

    def at(self, coordinates: ArrayLike) -> tuple[Vector, float]:
        """The residual, shape (components,), and the standard deviation of each component, in their unit.

        Parameters
        ----------
        coordinates : shape (m,), in their unit
        """
        features = self._polynomial.at(coordinates)
        return features @ self._coefficients, math.sqrt(features @ self._covariance @ features)

    def surprise(self, coordinates: ArrayLike, residual: ArrayLike, variance: float) -> float:
        """How far a measured residual is from the expected one, in standard deviations of a component.

        Parameters
        ----------
        coordinates : shape (m,), in their unit
        residual : shape (components,), in its unit
        variance : of the measurement, in its unit squared
        """
        value, deviation = self.at(coordinates)
        distance = np.linalg.norm(np.asarray(residual, dtype=float) - value) / math.sqrt(self._components)
        return float(distance / math.sqrt(deviation**2 + variance))

    def learn(self, coordinates: ArrayLike, residual: ArrayLike, variance: float) -> None:
        """Take a measured residual, shape (components,), with the ``variance`` of each component.

        Parameters
        ----------
        coordinates : shape (m,), in their unit
        residual : shape (components,), in its unit
        variance : of the measurement, in its unit squared, positive
        """
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
_OF_LENGTH = Expected((0.02, 0.1, 0.05, 0.03), (1e-3, 2e-3, 1e-3, 5e-4))
_OF_ANGLE = Expected((0.02, 0.1, 0.05, 0.03), (1e-3, 2e-3, 1e-3, 5e-4))


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackerSettings:
    """How a tracker of the tip is trusted."""

    latency_s: float = quantity(
        "age of a pose at its stamp: 0 where the stamp is that of the exposure", "s", default=0.0, ge=0, le=0.5
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
    """Of the tracker: when it was taken, s, place, shape (3,), m, turn, and covariance, shape (6, 6), where known."""

    time_s: float
    position: Vector
    orientation: Vector | None
    covariance: Vector | None


class TrackedTip:
    """Corrects the tip of estimated shapes by what a tracker sees of it.

    Parameters
    ----------
    robot : whose tip it is
    settings : how the tracker is trusted

    Attributes
    ----------
    accepted, refused : poses so far that were of use, and that were not
    problem : why the newest pose was of no use, empty where it was
    """

    def __init__(self, robot: Robot, settings: TrackerSettings | None = None) -> None:
        self.settings = settings or TrackerSettings()
        polynomial = Polynomial(coordinate_scale_m(robot), len(_OF_LENGTH.deviation) - 1)
        length_m = robot.length_m
        in_metres = Expected(
            tuple(length_m * np.array(_OF_LENGTH.deviation)), tuple(length_m * np.array(_OF_LENGTH.drift_per_root_s))
        )
        self._place = LearnedResidual(polynomial, 3, in_metres)
        self._turn = LearnedResidual(polynomial, 3, _OF_ANGLE)
        self._instants: deque[_Instant] = deque()
        self._waiting: deque[_Pose] = deque(maxlen=_WAITING)
        self.reset()

    def reset(self) -> None:
        """Forget what was learned."""
        self._place.reset()
        self._turn.reset()
        self._instants.clear()
        self._waiting.clear()
        self._newest_pose_s = -math.inf
        self._surprises = self.accepted = self.refused = 0
        self.problem = ""

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
        if not (np.all(np.isfinite(tip)) and np.all(np.isfinite(place))):
            return tip
        if instants and time_s <= instants[-1].time_s:
            instants.clear()  # the clock was set back
            self._newest_pose_s = -math.inf
        instants.append(_Instant(time_s, tip, place))
        while instants[0].time_s < time_s - _REMEMBERED_S:
            instants.popleft()
        self._use_poses()
        if not self.accepted:
            return tip
        corrected = np.array(tip)
        corrected[:3, 3] += self._place.at(place)[0]
        corrected[:3, :3] = so3.exp(self._turn.at(place)[0]) @ tip[:3, :3]
        return corrected

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
        self._waiting.append(_Pose(stamp_s - self.settings.latency_s, place, orientation, covariance))

    def _use_poses(self) -> None:
        """Use those whose instant has been passed by the shapes."""
        waiting, newest_s = self._waiting, self._instants[-1].time_s
        for _ in range(len(waiting)):
            pose = waiting.popleft()
            if newest_s < pose.time_s < newest_s + _REMEMBERED_S:
                waiting.append(pose)
                continue
            self.problem = self._use(pose)
            if self.problem:
                self.refused += 1
            else:
                self.accepted += 1

    def _use(self, pose: _Pose) -> str:
        """Learn from a pose; why not, where it is of no use."""
        if not np.all(np.isfinite(pose.position)):
            return "the pose is not finite"
        if pose.time_s <= self._newest_pose_s:
            return "the pose is not newer than the one before"
        then = self._at(pose.time_s)
        if then is None:
            return "there is no shape of the pose's instant: it is too old, from the future, or of another clock"
        metres2, rad2 = _variances(pose.covariance, self.settings)
        dt = min(pose.time_s - self._newest_pose_s, _LONGEST_WAIT_S)
        self._newest_pose_s = pose.time_s
        self._place.wait(dt)
        self._turn.wait(dt)
        residual = pose.position - then.tip[:3, 3]
        if self._place.surprise(then.coordinates, residual, metres2) > _TOO_SURPRISING:
            self._surprises += 1
            if self._surprises < _FORGET_AFTER:
                return f"{1e3 * np.linalg.norm(residual):.1f} mm from the estimated tip: not credible"
            self._place.reset()
            self._turn.reset()
        self._surprises = 0
        self._place.learn(then.coordinates, residual, metres2)
        if pose.orientation is not None:
            turn = so3.log(pose.orientation @ then.tip[:3, :3].T)
            self._turn.learn(then.coordinates, turn, rad2)
        return ""

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
        return self._place.at(self._instants[-1].coordinates)[1]

    def _at(self, time_s: float) -> _Instant | None:
        """What the shape was at an instant, between two that were estimated; None outside of them."""
        after: _Instant | None = None
        for before in reversed(self._instants):
            if before.time_s <= time_s:
                if after is None:
                    return before if before.time_s == time_s else None
                return _between(before, after, (time_s - before.time_s) / (after.time_s - before.time_s))
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
