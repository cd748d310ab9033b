# SPDX-License-Identifier: Apache-2.0
"""Generalised momentum observer: what changes the momentum beyond the known forces. johnston section 6."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ParameterError

Vector = NDArray[np.float64]


class MomentumObserver:
    """Residual r, a first-order estimate of the generalised force of contacts.

    r_k = K_o [p_k - p_start - sum of (known force + r) dt], johnston (50), (51) in the recursive form: p_start and the
    sum are set again every ``reset_cycles`` cycles so that r stays as it is. The known force enters by the trapezoidal
    rule, r by its newest value (implicit Euler), so that channel i has the discrete pole 1 / (1 + K_i dt): it is
    stable for every gain and step, with unit gain at rest and the time constant 1 / K_i of (56), (57) for K_i dt << 1.
    (The explicit sum of (51) has the pole 1 - K_i dt, which is unstable above K_i dt = 2.)

    On a ramp of the contact force of slope a the residual is late by 1 / K_i and low by (a / K_i) (1 - exp(-K_i t)).
    For a ramp to F in the time T that is held to 2 T, with x = K T, the mean square of that error over 2 T is
    F^2 / x^2 [1 - 2 (1 - e^-x) / x + (1 - e^-2x) / (2 x) + (1 - e^-x)^2 (1 - e^-2x) / (2 x)] / 2: for F = 10 N, T = 1 s
    and K = 10 1/s it is (0.67 N)^2, johnston's noiseless error (table 6).
    """

    def __init__(self, gain: ArrayLike, reset_cycles: int = 1000, size: int | None = None) -> None:
        values = np.atleast_1d(np.asarray(gain, dtype=float))
        if values.ndim != 1 or not np.all(np.isfinite(values) & (values > 0)):
            raise ParameterError("gain", gain, "positive numbers, 1/s, one a coefficient")
        if reset_cycles < 0 or reset_cycles != int(reset_cycles):
            raise ParameterError("reset_cycles", reset_cycles, "a whole number of at least 0")
        self.gain: Vector = np.full(size, values[0]) if size is not None and values.size == 1 else values.copy()
        if size is not None and self.gain.size != size:
            raise ParameterError("gain", gain, f"one positive number or {size}, 1/s")
        self.reset_cycles = int(reset_cycles)
        self.reset()

    def reset(self) -> None:
        """Forget everything, a latched invalid state too; the next update starts with r = 0."""
        self.invalid_reason = ""
        self.residual: Vector = np.zeros(self.gain.size)
        self._start: Vector | None = None
        self._sum: Vector = np.zeros(self.gain.size)
        self._force: Vector = np.zeros(self.gain.size)
        self._cycles = 0

    def with_gain(self, gain: ArrayLike) -> None:
        """Change the gain between two updates; r stays continuous."""
        checked = MomentumObserver(gain, self.reset_cycles, self.gain.size)
        self.gain = checked.gain
        if self._start is not None:
            self._sum = self._momentum - self._start - self.residual / self.gain

    def update(self, momentum: ArrayLike, known_force: ArrayLike, dt: float) -> Vector:
        """Residual after one more cycle."""
        p, force = np.asarray(momentum, dtype=float), np.asarray(known_force, dtype=float)
        if p.shape != self.gain.shape or force.shape != self.gain.shape:
            raise ParameterError("momentum, known_force", (p.shape, force.shape), f"shape {self.gain.shape}")
        if not 0 <= dt < math.inf:
            if math.isnan(dt):
                self._go_invalid("the time step is not a number")
            else:
                raise ParameterError("dt", dt, "a time step of at least 0 s")
        if not self.invalid_reason and not math.isfinite(np.vdot(p, p) + np.vdot(force, force)):
            what = "momentum" if not np.all(np.isfinite(p)) else "known force"
            self._go_invalid(f"the {what} is not a number")
        if self.invalid_reason:
            return self.residual.copy()
        if self._start is None:
            self._start = p.copy()
        else:
            self._sum += (force + self._force) / 2 * dt
            self.residual = self.gain * (p - self._start - self._sum) / (1 + self.gain * dt)  # johnston (50), (51)
            self._sum += self.residual * dt
        self._force, self._momentum = force.copy(), p.copy()
        self._cycles += 1
        if self.reset_cycles and self._cycles >= self.reset_cycles:
            self._start, self._sum, self._cycles = p.copy(), -self.residual / self.gain, 0
        return self.residual.copy()

    def _go_invalid(self, reason: str) -> None:
        self.invalid_reason = reason
        self.residual = np.full(self.gain.size, np.nan)


def ramp_error_rms(gain: float, force: float, ramp_s: float) -> float:
    """Root mean square of the observer's error on a ramp to ``force`` in ``ramp_s`` that is held as long again.

    Returns
    -------
    unit of ``force``; the formula of :class:`MomentumObserver`, from johnston (56)
    """
    x = gain * ramp_s
    short, double = 1 - math.exp(-x), 1 - math.exp(-2 * x)
    mean = (1 - 2 * short / x + double / (2 * x) + short**2 * double / (2 * x)) / 2
    return abs(force) / x * math.sqrt(mean)
