# SPDX-License-Identifier: Apache-2.0
"""What an estimate of a robot's shape is, and how much its sensors are trusted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from continuum_robot.estimation.modal_filter import ModalState
from continuum_robot.robot.schema import quantity

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
    """Estimated shape.

    Attributes
    ----------
    coefficients : of the strain basis, shape (n,), 1/m; NaN where the sensors that are left do not see them
    coefficient_rates : shape (n,), 1/(m.s); NaN where nothing gives them yet, or the coefficient is not seen
    covariance : of the coefficients, for the sensors that were used, shape (n, n), 1/m^2; of an unseen coefficient
        infinite on the diagonal and NaN beside it
    residual_m : root mean square of measured less predicted displacements and extensions, m
    sensor_count : sensors that were used; the others were NaN, absent or not to be trusted
    tip : frame of the tip in the base frame, shape (4, 4); NaN where a coefficient is
    motion : of the Kalman filter, if that finds the rates: state and covariance of (c, c', c''); else None
    unobservable : sentences that name the unseen coefficients and the sensors that are missing; empty when all are seen
    broken : a sentence for each sensor that the watch found broken, latched until the reset
    named_values : more numbers of another package's estimator, by name
    """

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
        """A shape of which nothing is seen.

        Parameters
        ----------
        size : number of coefficients
        unobservable : why
        """
        unknown, covariance = np.full(size, np.nan), np.full((size, size), np.nan)
        np.fill_diagonal(covariance, np.inf)
        return cls(unknown, unknown, covariance, np.nan, 0, np.full((4, 4), np.nan), None, unobservable)

    @property
    def is_unobservable(self) -> bool:
        """Whether a coefficient is not seen."""
        return bool(self.unobservable)
