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

_DOUBLINGS = 60


class FilteredDerivative:
    """Backward difference behind a first-order low-pass: rate' = (difference - rate) / time constant, implicit Euler.

    Takes any time step. A sample that is not finite gives NaN for that entry, which restarts with the next ones.

    Parameters
    ----------
    time_constant_s : of the low-pass, s; 0: the plain backward difference

    Raises
    ------
    ParameterError : a negative time constant
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

    def delay_s(self, dt: float) -> float:
        """Delay of the rate for samples every ``dt`` s: half a step of the difference, and the low-pass."""
        return self.time_constant_s + dt / 2

    def update(self, value: ArrayLike, dt: float) -> Array:
        """Rate of the newest sample.

        Parameters
        ----------
        value : sample, any shape, the same at each call
        dt : time since the previous sample, s; 0 gives the previous rate again

        Returns
        -------
        the rate, of the shape (...) of ``value``, its unit per s; NaN until there are two samples
        """
        value = np.asarray(value, dtype=float)
        _check_step(dt)
        if self._previous is None or self._rate is None:
            self._previous, self._rate = value.copy(), np.full(value.shape, np.nan)
        elif dt > 0:
            difference = (value - self._previous) / dt
            fraction = dt / (self.time_constant_s + dt)
            # An unknown rate takes the first difference as it is.
            filtered = self._rate + fraction * (difference - self._rate)
            known = math.isfinite(self._rate.sum())
            self._rate = filtered if known else np.where(np.isfinite(self._rate), filtered, difference)
            self._previous = value.copy()
        return self._rate.copy()


def steady_gain(dt: float, ratio: float) -> Array:
    """Gain of a settled Kalman filter (value, rate, acceleration), for unit noise and white jerk of density ``ratio``.

    The Riccati equation is solved by the doubling algorithm, with the sample period as unit of time.

    Raises
    ------
    ParameterError : a ratio that does not suit the period
    """
    transition = np.array([[1, 1, 0.5], [0, 1, 1], [0, 0, 1]])
    noise = np.array([[1 / 20, 1 / 8, 1 / 6], [1 / 8, 1 / 3, 1 / 2], [1 / 6, 1 / 2, 1]])
    A, G, H = transition.T, np.diag([1.0, 0.0, 0.0]), ratio * dt**5 * noise
    for _ in range(_DOUBLINGS):
        solved = np.linalg.solve(np.eye(3) + G @ H, np.column_stack([A, G]))
        H_next = H + A.T @ H @ solved[:, :3]
        A, G = A @ solved[:, :3], G + A @ solved[:, 3:] @ A.T
        settled = np.abs(H_next - H).max() <= 1e-13 * np.abs(H_next).max()
        H = (H_next + H_next.T) / 2
        if settled:
            gain = H[:, 0] / (H[0, 0] + 1)
            return gain / np.array([1, dt, dt**2])
    raise ParameterError("jerk_density / measurement_noise", math.sqrt(ratio), f"a ratio that suits dt = {dt:g} s")


def _check_step(dt: float) -> None:
    if not 0 <= dt < math.inf:
        raise ParameterError("dt", dt, "a time step of at least 0 s")
