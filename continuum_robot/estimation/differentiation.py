# SPDX-License-Identifier: Apache-2.0
"""Causal differentiation of sampled signals. Each filter states its delay and how much it amplifies noise.

A delay of t means: on a ramp of constant acceleration a the rate is late by a t, and a slow sine's rate comes out
shifted by t. The noise gain is the standard deviation of the rate for white noise of unit standard deviation on the
samples.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ParameterError

Array = NDArray[np.float64]


class FilteredDerivative:
    """Backward difference behind a first-order low-pass: rate' = (difference - rate) / time constant, implicit Euler.

    Takes any time step. A sample that is not finite gives NaN for that entry, which restarts with the next ones.
    """

    def __init__(self, time_constant_s: float) -> None:
        if not 0 <= time_constant_s < math.inf:
            raise ParameterError("time_constant_s", time_constant_s, "a time of at least 0 s")
        self.time_constant_s = time_constant_s
        self.reset()

    def reset(self) -> None:
        """Forget all samples."""
        self._previous: Array | None = None
        self._rate: Array | None = None

    def share(self, previous: Array, rate: Array) -> None:
        """Keep the newest sample and its rate in these arrays, for who goes on with them in place."""
        if self._previous is not previous and self._previous is not None and self._rate is not None:
            previous[:], rate[:] = self._previous, self._rate
            self._previous, self._rate = previous, rate

    def delay_s(self, dt: float) -> float:
        """Delay of the rate for samples every ``dt`` s: half a step of the difference, and the low-pass."""
        return self.time_constant_s + dt / 2

    def update(self, value: ArrayLike, dt: float) -> Array:
        """Rate of the newest sample."""
        value = np.asarray(value, dtype=float)
        _check_step(dt)
        if self._previous is None or self._rate is None:
            self._previous, self._rate = value.copy(), np.full(value.shape, np.nan)
        elif dt > 0:
            rate = self._rate
            difference = (value - self._previous) / dt
            fraction = dt / (self.time_constant_s + dt)
            # An unknown rate takes the first difference as it is.
            filtered = rate + fraction * (difference - rate)
            known = math.isfinite(np.vdot(rate, rate))
            self._rate = filtered if known else np.where(np.isfinite(rate), filtered, difference)
            self._previous = value.copy()
        return self._rate.copy()


def _check_step(dt: float) -> None:
    if not 0 <= dt < math.inf:
        raise ParameterError("dt", dt, "a time step of at least 0 s")
