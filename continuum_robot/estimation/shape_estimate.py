# SPDX-License-Identifier: Apache-2.0
"""What an estimate of a robot's shape is, and how much its sensors are trusted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from continuum_robot.estimation.modal_filter import ModalState
from continuum_robot.robot.description import Robot
from continuum_robot.robot.schema import quantity
from continuum_robot.rod.fiber import curvature_lever_m2

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeSettings:
    """How much the sensors are trusted."""

    tendon_sigma_m: float = quantity(
        "standard deviation of a tendon's displacement: its stretch and friction rather than its encoder",
        "m",
        default=2e-4,
        gt=0,
        le=1,
    )
    string_sigma_m: float = quantity("standard deviation of a string's extension", "m", default=5e-5, gt=0, le=1)
    tendon_noise_m: float = quantity(
        "white part of a tendon's error, quantisation included", "m", default=1e-5, gt=0, le=1
    )
    string_noise_m: float = quantity(
        "white part of a string's error, quantisation included", "m", default=1.2e-5, gt=0, le=1
    )
    bending_jerk_rad: float = quantity(
        "jerk of a segment's bending that the Kalman filter expects, root of its spectral density",
        "rad/s^2.5",
        default=5.0,
        gt=0,
        le=1e6,
    )


@dataclass(frozen=True, slots=True)
class ShapeEstimate:
    """Estimated shape."""

    coefficients: Vector
    coefficient_rates: Vector
    covariance: Vector
    residual_m: float
    sensor_count: int
    tip: Vector
    motion: ModalState | None = None
    unobservable: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()
    named_values: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def unseen(cls, size: int, unobservable: tuple[str, ...]) -> ShapeEstimate:
        """A shape of which nothing is seen."""
        unknown, covariance = np.full(size, np.nan), np.full((size, size), np.nan)
        np.fill_diagonal(covariance, np.inf)
        return cls(unknown, unknown, covariance, np.nan, 0, np.full((4, 4), np.nan), None, unobservable)

    @property
    def is_unobservable(self) -> bool:
        """Whether a coefficient is not seen."""
        return bool(self.unobservable)


def sensor_names(robot: Robot) -> tuple[str, ...]:
    """Of all readings: tendons, strings, then curvatures."""
    curvatures = () if robot.fiber is None else robot.fiber.names
    return (*robot.tendon_names, *(string.name for string in robot.strings), *curvatures)


def sensor_sigma_m(robot: Robot, settings: ShapeSettings, string_sigma_m: float | None = None) -> Vector:
    """Standard deviation of every sensor's systematic error, curvatures times their lever, (m,), m."""
    of_strings_m = settings.string_sigma_m if string_sigma_m is None else string_sigma_m
    return _of_sensors(
        robot, settings.tendon_sigma_m, of_strings_m, 0.0 if robot.fiber is None else robot.fiber.sigma_per_m
    )


def sensor_noise_m(robot: Robot, settings: ShapeSettings) -> Vector:
    """Standard deviation of every sensor's noise from sample to sample, curvatures times their lever, (m,), m."""
    of_fiber_per_m = 0.0 if robot.fiber is None else robot.fiber.noise_per_m
    return _of_sensors(robot, settings.tendon_noise_m, settings.string_noise_m, of_fiber_per_m)


def expected_string_sigma_m(robot: Robot, settings: ShapeSettings) -> float:
    """Standard deviation of a string's systematic error, or its mean error in the simulation where that is more, m."""
    return max(settings.string_sigma_m, robot.simulation.string_mean_error_m)


def _of_sensors(robot: Robot, tendon_m: float, string_m: float, curvature_per_m: float) -> Vector:
    known = np.repeat([tendon_m, string_m], [robot.tendon_count, len(robot.strings)])
    return np.concatenate([known, curvature_per_m * curvature_lever_m2(robot)])
