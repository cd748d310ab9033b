# SPDX-License-Identifier: Apache-2.0
"""Shape from lengths that are linear in the coefficients: weighted least squares, johnston (6)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.estimation.modal_filter import ModalKalmanFilter, ModalState
from continuum_robot.estimation.observability import SMALLEST_SINGULAR_FRACTION, coefficient_names, unseen_coefficients
from continuum_robot.estimation.sensor_watch import SensorWatch, WatchSettings
from continuum_robot.estimation.shape_estimate import (
    ShapeEstimate,
    ShapeSettings,
    sensor_names,
    sensor_noise_m,
    sensor_sigma_m,
)
from continuum_robot.geometry import se3
from continuum_robot.robot.description import Robot
from continuum_robot.rod.fiber import curvature_readings
from continuum_robot.rod.rod import Rod
from continuum_robot.rod.tendons import string_matrix, tendon_matrix

Vector = NDArray[np.float64]

_REMEMBERED_SUBSETS = 64


@dataclass(frozen=True, slots=True)
class _Gain:
    """Least squares for one set of sensors: their matrix, c = gain @ values, covariance, what is not seen."""

    matrix: Vector
    gain: Vector
    covariance: Vector
    unseen: NDArray[np.bool_]
    unobservable: tuple[str, ...]


class LengthFit:
    """Strain coefficients of a rod whose N tendons, k strings and g gratings suffice to see them.

    Minimises the sum over the sensors of ((q_j - dq_j/dc c) / sigma_j)^2. Displacements are taken as measured: a
    tendon's stretch is part of its error. For parallel tendons and bending the model is linear, so one step is exact;
    as many sensors as coefficients invert J_lc of johnston (6).

    Where sensors fall out and the rest does not see all coefficients, those that it does not see are NaN with infinite
    variance and are named, the others stay.

    Rates come from the tendons' velocities where those suffice, else from the coefficients' change, by a Kalman filter
    on (c, c', c''), which has no delay on slow motion.
    """

    def __init__(self, robot: Robot, settings: ShapeSettings) -> None:
        self._size, self._tendons = robot.coefficient_count, robot.tendon_count
        self._names = coefficient_names(robot)
        self._sensors = sensor_names(robot)
        of_fiber = curvature_readings(robot)
        self.matrix = np.vstack([tendon_matrix(robot), string_matrix(robot), of_fiber])
        self._watched = self._tendons + len(robot.strings)
        self._sigma = sensor_sigma_m(robot, settings)
        self._frames, self._still = Rod(robot, paths=()).prepared("pose"), np.zeros(self._size)
        self._subsets: dict[bytes, _Gain] = {}
        self._all = self._subset(np.ones(self.matrix.shape[0], dtype=bool))
        if self._all.unobservable:
            raise ParameterError(
                "sensors",
                f"{len(self._sigma)}, of rank {_rank(self.matrix / self._sigma[:, None])}",
                f"sensors that see all {self._size} coefficients; these are not seen: {self._named(self._all.unseen)}",
            )
        self.gain = self._all.gain
        self._from_velocity = self._rate_gain(np.ones(self._tendons, dtype=bool))
        self.needs_strings = self._from_velocity is None
        self.coefficient_scale = coefficient_scale(robot)
        self.coefficient_orders = np.concatenate(
            [np.arange(segment.basis.coefficient_count) // 2 for segment in robot.segments]
        )
        self._filter = ModalKalmanFilter(
            self.matrix, sensor_noise_m(robot, settings), settings.bending_jerk_rad * self.coefficient_scale
        )

    def watch(self, settings: WatchSettings) -> SensorWatch | None:
        """Settings as of :class:`~continuum_robot.estimation.shape.ShapeFit`; None where tendons see it alone.

        It judges tendons and strings by each other where these see all. A fibre shows what a touch does between them,
        faster than they move: by it sound ones would be called broken, and it by them.
        """
        without_fiber = slice(0, self._watched)
        if not self.needs_strings or unseen_coefficients(self.matrix[without_fiber]).any():
            return None
        return SensorWatch(
            self.matrix[without_fiber],
            self._sensors[without_fiber],
            self._names,
            coefficient_scale=self.coefficient_scale,
            coefficient_orders=self.coefficient_orders,
            settings=settings,
        )

    def set_payload(self, payload_kg: float) -> None:
        """Of no effect: lengths alone show the shape, whatever ``payload_kg`` is."""

    def set_gravity(self, gravity_m_per_s2: Vector) -> None:
        """Of no effect: lengths alone show the shape, whatever ``gravity_m_per_s2`` is."""

    def reset(self) -> None:
        """Forget earlier updates, which rates that no tendon velocity gives depend on."""
        self._filter.reset()

    def update(self, readings: Vector, velocity: Vector | None, tension: Vector | None, dt: float) -> ShapeEstimate:
        """Arguments as of :class:`~continuum_robot.estimation.shape.ShapeFit`; lengths alone show the shape."""
        del tension
        if math.isfinite(readings.sum()):
            fit, values = self._all, readings
        else:
            finite = np.isfinite(readings)
            fit, values = self._subset(finite), readings[finite]
            readings = np.where(finite, readings, np.nan)
        coefficients = fit.gain @ values
        miss = values - fit.matrix @ coefficients
        residual_m = math.sqrt(float(miss @ miss) / miss.size) if miss.size else math.nan
        if fit.unobservable:
            coefficients[fit.unseen] = np.nan
            tip = np.full((4, 4), np.nan)
        else:
            last = self._frames(coefficients, self._still)
            tip = se3.transform(last.rotation[-1], last.position[-1])
        rates, motion = self._rates(velocity, readings, dt)
        rates[fit.unseen] = np.nan
        return ShapeEstimate(
            coefficients,
            rates,
            fit.covariance.copy(),
            residual_m,
            miss.size,
            tip,
            motion,
            fit.unobservable,
        )

    def _rates(self, velocity: Vector | None, readings: Vector, dt: float) -> tuple[Vector, ModalState | None]:
        if velocity is not None and len(velocity) != self._tendons:
            raise ParameterError("velocity", velocity, f"{self._tendons} values, one a tendon")
        gain = None
        if velocity is not None and self._from_velocity is not None:
            finite = np.isfinite(velocity)
            gain = self._from_velocity if finite.all() else self._rate_gain(finite)
            if gain is not None:
                return gain @ np.asarray(velocity)[finite], None
        motion = self._filter.update(readings, dt)
        return motion.c_rate.copy(), motion

    def _rate_gain(self, finite: NDArray[np.bool_]) -> Vector | None:
        """Least squares of the rates from the velocities of some tendons; None where those do not suffice."""
        matrix = self.matrix[: self._tendons][finite]
        return None if _rank(matrix) < self._size else np.asarray(np.linalg.pinv(matrix))

    def _subset(self, finite: NDArray[np.bool_]) -> _Gain:
        key = finite.tobytes()
        if key not in self._subsets:
            if len(self._subsets) >= _REMEMBERED_SUBSETS:
                self._subsets.clear()
            self._subsets[key] = self._fit(np.flatnonzero(finite))
        return self._subsets[key]

    def _fit(self, sensors: NDArray[np.intp]) -> _Gain:
        matrix, sigma = self.matrix[sensors], self._sigma[sensors]
        weighted = matrix / sigma[:, None]
        unseen = unseen_coefficients(weighted)
        inverse = np.linalg.pinv(weighted, rcond=SMALLEST_SINGULAR_FRACTION)
        covariance = inverse @ inverse.T
        unobservable: tuple[str, ...] = ()
        if unseen.any():
            covariance[unseen, :] = covariance[:, unseen] = np.nan
            covariance[unseen, unseen] = np.inf
            absent = [name for index, name in enumerate(self._sensors) if index not in sensors]
            unobservable = (f"{self._named(unseen)} unobservable without {', '.join(absent)}",)
        return _Gain(matrix, inverse / sigma, covariance, unseen, unobservable)

    def _named(self, unseen: NDArray[np.bool_]) -> str:
        return ", ".join(name for name, one in zip(self._names, unseen, strict=True) if one)


def coefficient_scale(robot: Robot) -> Vector:
    """Rate of each coefficient at 1 rad/s of bending: the reciprocal of its segment's length, (n,), 1/m."""
    return np.repeat(
        [1 / segment.length_m for segment in robot.segments],
        [segment.basis.coefficient_count for segment in robot.segments],
    )


def _rank(matrix: Vector) -> int:
    if matrix.shape[0] == 0:
        return 0
    singular = np.linalg.svd(matrix, compute_uv=False)
    return int(np.sum(singular > SMALLEST_SINGULAR_FRACTION * max(singular[0], math.ulp(0.0))))
