# SPDX-License-Identifier: Apache-2.0
"""Cogging over the angle of each motor, from readings of a sweep: least squares of a Fourier series of the turn."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.signal import savgol_filter

from continuum_robot.errors import ParameterError
from continuum_robot.identification.cogging_table import CoggingFit
from continuum_robot.identification.fit import linear
from continuum_robot.identification.procedures.cogging_sweep import CoggingSamples
from continuum_robot.robot.schema import quantity

Vector = NDArray[np.float64]

# Smoothing of positions to speeds and accelerations: cubic over seven cycles.
_WINDOW, _ORDER = 7, 3


@dataclass(frozen=True, slots=True, kw_only=True)
class CoggingFitSettings:
    """How the table is fitted."""

    entries: int = quantity("entries of the table over a turn", default=1440, ge=8, le=100_000)
    lowest_order: int = quantity(
        "lowest harmonic of a turn; slower ones look as the tendon's load does", default=8, ge=1, le=5000
    )
    highest_order: int = quantity("highest harmonic of a turn", default=160, ge=1, le=5000)
    load_orders: int = quantity("harmonics of the circle in the load of the tendon", default=3, ge=0, le=20)
    significance: float = quantity("standard deviations from which on a harmonic is kept", default=3.5, gt=0, le=100)
    friction_speed_m_per_s: float = quantity(
        "speed below which dry friction fades out", "m/s", default=5e-4, gt=0, le=1
    )
    slowest: float = quantity("least speed of used readings, as a fraction of the fastest", default=0.25, ge=0, lt=1)


def fit_cogging(
    samples: CoggingSamples,
    m_per_turn: Vector,
    mass_kg: Vector,
    settings: CoggingFitSettings | None = None,
    known: CoggingFit | None = None,
) -> CoggingFit:
    """Fit force - mass * acceleration = load(circle, stretch) + friction(speed) + cogging(angle), of each motor.

    With a table that was compensated during the sweep (``known``) the current contains it, and the robot ran the
    smoother for it: what the tendon's spring and a wrong mass falsified in the first sweep becomes small in the next.

    Parameters
    ----------
    samples : of a sweep
    m_per_turn : tendon that a turn of each motor winds, shape (N,), m
    mass_kg : of each rotor and gear, seen from the tendon, shape (N,), kg
    settings : see :class:`CoggingFitSettings`
    known : table that was fed forward during the sweep; its difference to the new one widens the deviation

    Raises
    ------
    ParameterError : too few readings, or a motor that did not make a whole turn
    """
    settings = settings or CoggingFitSettings()
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
        _fit_motor(samples, motor, float(m_per_turn[motor]), float(mass_kg[motor]), period_s, usable, settings)
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
    settings: CoggingFitSettings,
) -> tuple[Vector, Vector, float, tuple[int, ...]]:
    place = samples.displacement_m[:, motor]
    speed = savgol_filter(place, _WINDOW, _ORDER, deriv=1, delta=period_s)
    acceleration = savgol_filter(place, _WINDOW, _ORDER, deriv=2, delta=period_s)
    # The same filter on the current: both are then smoothed alike, and no harmonic comes out too small in one of them.
    force = savgol_filter(samples.force_n[:, motor], _WINDOW, _ORDER)
    used = usable & (np.abs(speed) > settings.slowest * np.abs(speed).max())
    turns = place / m_per_turn
    covered = np.unique(np.floor((turns[used] % 1.0) * 64)).size
    if covered < 64:
        raise ParameterError(
            f"samples of motor {motor + 1}", covered / 64, "a whole turn: sweep further, or slower; fraction covered"
        )
    y = (force - mass_kg * acceleration)[used]
    angle, phase, moving = 2 * np.pi * turns[used], samples.phase_rad[used], speed[used]
    load = [np.ones_like(y)]
    for order in range(1, settings.load_orders + 1):
        load += [np.cos(order * phase), np.sin(order * phase)]
    stretch = samples.stretch_m[:, motor]
    stretching = savgol_filter(stretch, _WINDOW, _ORDER, deriv=1, delta=period_s)
    load += [stretch[used] - stretch[used].mean(), stretching[used]]
    nuisance = np.column_stack([*load, moving, np.tanh(moving / settings.friction_speed_m_per_s)])
    orders = np.arange(settings.lowest_order, settings.highest_order + 1)
    if 2 * orders.size + nuisance.shape[1] > y.size / 4:
        raise ParameterError("highest_order", settings.highest_order, f"at most {y.size // 10} for so few readings")
    design = np.hstack([nuisance, _harmonics(angle, orders)])
    coefficients, covariance, _ = linear(design, y)
    first = nuisance.shape[1]
    size = coefficients[first:].reshape(-1, 2)
    variance = np.diag(covariance)[first:].reshape(-1, 2)
    kept = orders[(size**2 / variance).sum(axis=1) > 2 * settings.significance**2]
    design = np.hstack([nuisance, _harmonics(angle, kept)])
    coefficients, covariance, square = linear(design, y)
    at = _harmonics(2 * np.pi * np.arange(settings.entries) / settings.entries, kept)
    table = at @ coefficients[first:]
    spread = np.sqrt(np.einsum("ij,jk,ik->i", at, covariance[first:, first:], at))
    return table, spread, float(np.sqrt(square)), tuple(int(order) for order in kept)


def _harmonics(angle: Vector, orders: NDArray[np.int64]) -> Vector:
    arguments = angle[:, None] * orders
    return np.stack([np.cos(arguments), np.sin(arguments)], axis=2).reshape(angle.size, -1)
