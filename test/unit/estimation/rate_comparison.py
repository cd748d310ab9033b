# SPDX-License-Identifier: Apache-2.0
"""Filters for rates, side by side on the same signals: delay, noise and error."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from rate_filters import GaussianDerivative, KalmanDifferentiator, PolynomialDerivative

from continuum_robot.errors import ParameterError

Array = NDArray[np.float64]
Sensor = Callable[[Array], Array]


class RateFilter(Protocol):
    """A filter that gives the rate of each sample of a signal with a constant period."""

    def update(self, value: float) -> Array:
        """Rate after a sample.

        Parameters
        ----------
        value : newest sample, in the unit of the signal

        Returns
        -------
        the rate, shape (1,), unit of ``value`` per s
        """

    def reset(self) -> None:
        """Forget all samples."""


@dataclass(frozen=True, slots=True)
class RateScore:
    """How a filter did; rates in the signal's unit per s.

    Attributes
    ----------
    name : of the filter
    stated_delay_s : what the filter states, s
    ramp_delay_s : found on a signal of constant acceleration without noise, s
    noise : standard deviation of the rate at rest, with the sensor's errors
    sine_rmse : root mean square error of the rate of each sine, with the sensor's errors, shape (frequencies,)
    """

    name: str
    stated_delay_s: float
    ramp_delay_s: float
    noise: float
    sine_rmse: Array


def usual_filters(dt: float, noise: float, jerk_density: float) -> dict[str, RateFilter]:
    """The filter of johnston and what can stand in its place.

    Parameters
    ----------
    dt : sample period, s
    noise : standard deviation of a sample
    jerk_density : root of the spectral density of the signal's jerk, unit per s^2.5

    Returns
    -------
    by name: ``gaussian_30`` and ``gaussian_10`` of the paper, a quadratic through 30 points, the Kalman filter
    """
    return {
        "gaussian_30": GaussianDerivative(30, dt),
        "gaussian_10": GaussianDerivative(10, dt),
        "quadratic_30": PolynomialDerivative(30, dt),
        "kalman": KalmanDifferentiator(dt, noise, jerk_density),
    }


def compare_rate_filters(
    filters: Mapping[str, RateFilter],
    sensor: Sensor,
    *,
    dt: float,
    amplitude: float,
    frequencies_hz: Sequence[float] = (0.1, 0.25, 0.5, 1.0),
    duration_s: float = 20.0,
) -> list[RateScore]:
    """Run filters on a ramp of the rate, on sines and at rest.

    Parameters
    ----------
    filters : by name, made for samples every ``dt`` s
    sensor : samples of a signal, shape (T,), to measured ones: its noise, resolution and systematic errors
    dt : sample period, s
    amplitude : of the sines, in the signal's unit; the ramp has the acceleration ``amplitude`` per s^2
    frequencies_hz : of the sines, Hz
    duration_s : of each run, s; the first quarter is left to the filters to settle

    Returns
    -------
    a score for each filter, in their order

    Raises
    ------
    ParameterError : a value out of range
    """
    for name, value in (("dt", dt), ("amplitude", amplitude), ("duration_s", duration_s)):
        if not 0 < value < math.inf:
            raise ParameterError(name, value, "a positive number")
    time_s = np.arange(round(duration_s / dt)) * dt
    settled = time_s >= duration_s / 4
    ramp_rate = amplitude * time_s
    measured_rest = sensor(np.zeros(time_s.size))
    sines = [amplitude * np.sin(2 * math.pi * f * time_s) for f in frequencies_hz]
    rates = [2 * math.pi * f * amplitude * np.cos(2 * math.pi * f * time_s) for f in frequencies_hz]
    measured = [sensor(sine) for sine in sines]
    scores = []
    for name, rate_filter in filters.items():
        late = ramp_rate - _run(rate_filter, amplitude * time_s**2 / 2)
        rest = _run(rate_filter, measured_rest)
        misses = [_run(rate_filter, values) - rate for values, rate in zip(measured, rates, strict=True)]
        scores.append(
            RateScore(
                name,
                float(getattr(rate_filter, "delay_s", math.nan)),
                float(late[settled].mean()) / amplitude,
                float(rest[settled].std()),
                np.array([math.sqrt(float(np.mean(miss[settled] ** 2))) for miss in misses]),
            )
        )
    return scores


def _run(rate_filter: RateFilter, samples: Array) -> Array:
    rate_filter.reset()
    return np.array([float(rate_filter.update(value)) for value in samples])
