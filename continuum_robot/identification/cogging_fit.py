# SPDX-License-Identifier: Apache-2.0
"""Cogging over the angle of each motor, from readings of a sweep: least squares of a Fourier series of the turn."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.identification.fit import linear

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class CoggingFit:
    """Cogging of N motors over K angles of a turn from the devices' zero on."""

    force_n: Vector
    deviation_n: Vector
    residual_n: Vector
    orders: tuple[tuple[int, ...], ...]


# Smoothing of positions to speeds and accelerations: cubic over seven cycles.
_WINDOW, _ORDER = 7, 3

ENTRIES = 1440
"""Of the table over a turn."""
# Harmonics of a turn; slower ones look as the tendon's load does, which has harmonics of the circle.
_LOWEST_ORDER, _HIGHEST_ORDER, _LOAD_ORDERS = 8, 160, 3
_SIGNIFICANCE = 3.5  # standard deviations from which on a harmonic is kept
_FRICTION_M_PER_S = 5e-4  # below this speed dry friction fades out
_SLOWEST = 0.25  # of the fastest speed, at which readings are used


@dataclass(frozen=True, slots=True)
class CoggingSamples:
    """Readings of a sweep, T cycles of N motors."""

    time_s: Vector
    displacement_m: Vector
    stretch_m: Vector
    force_n: Vector
    phase_rad: Vector


def fit_cogging(
    samples: CoggingSamples,
    m_per_turn: Vector,
    mass_kg: Vector,
    known: CoggingFit | None = None,
) -> CoggingFit:
    """Fit force - mass * acceleration = load(circle, stretch) + friction(speed) + cogging(angle), of each motor.

    With a table that was compensated during the sweep (``known``) the current contains it, and the robot ran the
    smoother for it: what the tendon's spring and a wrong mass falsified in the first sweep becomes small in the next.
    """
    time_s = samples.time_s
    if len(time_s) < 8 * _WINDOW:
        raise ParameterError("samples", len(time_s), f"at least {8 * _WINDOW} readings")
    period_s = float(np.median(np.diff(time_s)))
    even = np.abs(np.diff(time_s) - period_s) < 0.2 * period_s
    half = _WINDOW // 2
    # A reading counts where all readings that its acceleration is taken from are a period apart.
    usable = np.zeros(len(time_s), dtype=bool)
    windows = np.lib.stride_tricks.sliding_window_view(even, _WINDOW - 1)
    usable[half : len(time_s) - half] = windows.all(axis=1)
    fits = [
        _fit_motor(samples, motor, float(m_per_turn[motor]), float(mass_kg[motor]), period_s, usable)
        for motor in range(samples.displacement_m.shape[1])
    ]
    force, deviation, residual, orders = (list(column) for column in zip(*fits, strict=True))
    table, spread = np.array(force), np.array(deviation)
    if known is not None:
        moved = np.sqrt(np.mean((table - known.force_n) ** 2, axis=1, keepdims=True))
        spread = np.hypot(spread, np.minimum(moved, np.abs(table).max(axis=1, keepdims=True)) / 2)
    return CoggingFit(table, spread, np.array(residual), tuple(orders))


def _fit_motor(
    samples: CoggingSamples,
    motor: int,
    m_per_turn: float,
    mass_kg: float,
    period_s: float,
    usable: NDArray[np.bool_],
) -> tuple[Vector, Vector, float, tuple[int, ...]]:
    from scipy.signal import savgol_filter  # noqa: PLC0415  (the driver reads tables, and starts without it)

    place = samples.displacement_m[:, motor]
    speed = savgol_filter(place, _WINDOW, _ORDER, deriv=1, delta=period_s)
    acceleration = savgol_filter(place, _WINDOW, _ORDER, deriv=2, delta=period_s)
    # The same filter on the current: both are then smoothed alike, and no harmonic comes out too small in one of them.
    force = savgol_filter(samples.force_n[:, motor], _WINDOW, _ORDER)
    used = usable & (np.abs(speed) > _SLOWEST * np.abs(speed).max())
    turns = place / m_per_turn
    covered = np.unique(np.floor((turns[used] % 1.0) * 64)).size
    if covered < 64:
        raise ParameterError(
            f"samples of motor {motor + 1}", covered / 64, "a whole turn: sweep further, or slower; fraction covered"
        )
    y = (force - mass_kg * acceleration)[used]
    angle, phase, moving = 2 * np.pi * turns[used], samples.phase_rad[used], speed[used]
    load = [np.ones_like(y)]
    for order in range(1, _LOAD_ORDERS + 1):
        load += [np.cos(order * phase), np.sin(order * phase)]
    stretch = samples.stretch_m[:, motor]
    stretching = savgol_filter(stretch, _WINDOW, _ORDER, deriv=1, delta=period_s)
    load += [stretch[used] - stretch[used].mean(), stretching[used]]
    nuisance = np.column_stack([*load, moving, np.tanh(moving / _FRICTION_M_PER_S)])
    orders = np.arange(_LOWEST_ORDER, _HIGHEST_ORDER + 1)
    least = 4 * (2 * orders.size + nuisance.shape[1])
    if y.size < least:
        raise ParameterError(f"samples of motor {motor + 1}", y.size, f"at least {least} readings of moving motors")
    design = np.hstack([nuisance, _harmonics(angle, orders)])
    coefficients, covariance, _ = linear(design, y)
    first = nuisance.shape[1]
    size = coefficients[first:].reshape(-1, 2)
    variance = np.diag(covariance)[first:].reshape(-1, 2)
    kept = orders[(size**2 / variance).sum(axis=1) > 2 * _SIGNIFICANCE**2]
    design = np.hstack([nuisance, _harmonics(angle, kept)])
    coefficients, covariance, square = linear(design, y)
    at = _harmonics(2 * np.pi * np.arange(ENTRIES) / ENTRIES, kept)
    table = at @ coefficients[first:]
    spread = np.sqrt(np.einsum("ij,jk,ik->i", at, covariance[first:, first:], at))
    return table, spread, float(np.sqrt(square)), tuple(int(order) for order in kept)


def _harmonics(angle: Vector, orders: NDArray[np.int64]) -> Vector:
    arguments = angle[:, None] * orders
    return np.stack([np.cos(arguments), np.sin(arguments)], axis=2).reshape(angle.size, -1)
