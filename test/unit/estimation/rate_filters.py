# SPDX-License-Identifier: Apache-2.0
"""Other causal filters for rates, which the estimator's are held against."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.estimation.differentiation import steady_gain

Array = NDArray[np.float64]

WEIGHTS = ("uniform", "gaussian")


class WindowDerivative:
    """Derivative by fixed weights of the newest samples, a finite impulse response for a constant sample period.

    Parameters
    ----------
    coefficients : of the samples, newest first, shape (k,), 1/s; their sum is 0
    delay_s : of the derivative, s

    Attributes
    ----------
    coefficients, delay_s : as given
    noise_gain : standard deviation of the derivative for unit white noise on the samples, 1/s
    """

    def __init__(self, coefficients: Array, delay_s: float) -> None:
        self.coefficients = coefficients
        self.delay_s = delay_s
        self.noise_gain = float(np.linalg.norm(coefficients))
        self.reset()

    def reset(self) -> None:
        """Forget all samples."""
        self._samples: Array | None = None
        self._filled = 0

    def update(self, value: ArrayLike) -> Array:
        """Derivative ``delay_s`` before the newest sample.

        Parameters
        ----------
        value : sample, any shape, one period after the previous one

        Returns
        -------
        the derivative, of the shape (...) of ``value``, its unit per s; NaN until the window is full, and where it
            holds an unknown sample
        """
        value = np.asarray(value, dtype=float)
        if self._samples is None:
            self._samples = np.full((self.coefficients.size, *value.shape), np.nan)
        self._samples[1:] = self._samples[:-1]
        self._samples[0] = value
        self._filled = min(self._filled + 1, self.coefficients.size)
        if self._filled < self.coefficients.size:
            return np.full(value.shape, np.nan)
        return np.tensordot(self.coefficients, self._samples, axes=1)


class PolynomialDerivative(WindowDerivative):
    """Derivative of a weighted least-squares polynomial through the newest samples, taken a stated time back.

    A finite impulse response for a constant sample period. Quadratic polynomials differentiate constant accelerations
    exactly but for the delay.

    Parameters
    ----------
    sample_count : number of samples
    dt : their period, s
    delay_s : how far behind the newest sample the derivative is taken, s; at most the window's length. The middle of
        the window has the least noise, 0 the most
    order : of the polynomial, 1 to 4
    weights : "uniform" (Savitzky-Golay), or "gaussian" around the time of evaluation, with a third of the window's
        length as standard deviation

    Attributes
    ----------
    coefficients : of the samples, newest first, shape (sample_count,), 1/s
    delay_s : as given
    noise_gain : standard deviation of the rate for unit white noise on the samples, 1/s

    Raises
    ------
    ParameterError : a value out of range
    """

    def __init__(
        self, sample_count: int, dt: float, delay_s: float = 0.0, *, order: int = 2, weights: str = "uniform"
    ) -> None:
        if not 1 <= order <= 4:
            raise ParameterError("order", order, "1 to 4")
        if sample_count <= order:
            raise ParameterError("sample_count", sample_count, f"at least {order + 1} for order {order}")
        if not 0 < dt < math.inf:
            raise ParameterError("dt", dt, "a positive period in s")
        length_s = (sample_count - 1) * dt
        if not 0 <= delay_s <= length_s * (1 + 1e-12):
            raise ParameterError("delay_s", delay_s, f"0 to the window's length, {length_s:g} s")
        if weights not in WEIGHTS:
            raise ParameterError("weights", weights, "one of " + ", ".join(WEIGHTS))
        steps = -np.arange(sample_count) + delay_s / dt  # time from the evaluation, in samples, newest first
        weight = np.ones(sample_count)
        if weights == "gaussian":
            weight = np.exp(-0.5 * (steps / (sample_count / 3)) ** 2)
        powers = np.vander(steps, order + 1, increasing=True)
        root = np.sqrt(weight)
        super().__init__(np.linalg.pinv(root[:, None] * powers)[1] * root / dt, delay_s)


class GaussianDerivative(WindowDerivative):
    """The backward Gaussian filter of johnston (sections 11.2 and 12), then the backward difference.

    The samples are averaged with the weights exp(-(age / sigma)^2 / 2) over the newest ``sample_count``, and the
    averages are subtracted. The paper gives the number of points (30; 10 in the noise study) and no width: the default
    is a fifth of the window, as in the smoothing functions of the package that it used. For a second derivative feed
    the rates to a second one: the delays add.

    Parameters
    ----------
    sample_count : points of the window
    dt : sample period, s
    sigma_samples : width of the Gaussian in samples; None: ``sample_count / 5``

    Raises
    ------
    ParameterError : a value out of range
    """

    def __init__(self, sample_count: int = 30, dt: float = 0.01, sigma_samples: float | None = None) -> None:
        if sample_count < 2:
            raise ParameterError("sample_count", sample_count, "at least 2")
        if not 0 < dt < math.inf:
            raise ParameterError("dt", dt, "a positive period in s")
        width = sample_count / 5 if sigma_samples is None else sigma_samples
        if not 0 < width < math.inf:
            raise ParameterError("sigma_samples", sigma_samples, "a positive number of samples")
        ages = np.arange(sample_count)
        weights = np.exp(-0.5 * (ages / width) ** 2)
        weights /= weights.sum()
        super().__init__(np.convolve(weights, [1.0, -1.0]) / dt, dt * (float(weights @ ages) + 0.5))


class KalmanDifferentiator:
    """Steady-state Kalman filter of a signal with constant acceleration, driven by white jerk.

    The model is the random walk of the acceleration; its bandwidth is set by the ratio of jerk to measurement noise.
    Rates of constant acceleration come out without delay once it has settled; ``settling_s`` reports how long that
    takes.

    Parameters
    ----------
    dt : sample period, s
    measurement_noise : standard deviation of a sample, in the signal's unit
    jerk_density : square root of the white jerk's spectral density, unit per s^2.5: the acceleration drifts by
        ``jerk_density * sqrt(t)`` in the time t

    Attributes
    ----------
    gain : (position, rate, acceleration) fractions of the innovation, shape (3,)
    noise_gain : standard deviation of the rate for unit white noise on the samples, 1/s
    delay_s : delay of slow rates, 0: the model extrapolates
    settling_s : slowest time constant of the filter, s

    Raises
    ------
    ParameterError : a value that is not positive
    """

    delay_s = 0.0

    def __init__(self, dt: float, measurement_noise: float, jerk_density: float) -> None:
        for name, value in (("dt", dt), ("measurement_noise", measurement_noise), ("jerk_density", jerk_density)):
            if not 0 < value < math.inf:
                raise ParameterError(name, value, "a positive number")
        self._transition = np.array([[1, dt, dt**2 / 2], [0, 1, dt], [0, 0, 1]])
        self.gain = steady_gain(dt, (jerk_density / measurement_noise) ** 2)
        closed = (np.eye(3) - np.outer(self.gain, [1, 0, 0])) @ self._transition
        self.settling_s = -dt / math.log(float(np.abs(np.linalg.eigvals(closed)).max()))
        spread = _stationary(closed, np.outer(self.gain, self.gain))
        self.noise_gain = math.sqrt(spread[1, 1])
        self.reset()

    def reset(self) -> None:
        """Forget all samples."""
        self._state: Array | None = None

    @property
    def acceleration(self) -> Array | None:
        """Estimated acceleration, shape (...) of the samples, their unit per s^2; None before the first sample."""
        return None if self._state is None else self._state[2].copy()

    def update(self, value: ArrayLike) -> Array:
        """Rate at the newest sample.

        Parameters
        ----------
        value : sample, any shape, one period after the previous one; NaN: not measured, the model goes on alone

        Returns
        -------
        the rate, of the shape (...) of ``value``, its unit per s; 0 at the first sample, which starts the filter at
            rest
        """
        value = np.asarray(value, dtype=float)
        if self._state is None:
            self._state = np.stack([value, np.zeros(value.shape), np.zeros(value.shape)])
            return self._state[1].copy()
        predicted = np.tensordot(self._transition, self._state, axes=1)
        # An entry that began unknown starts at its first known sample.
        predicted[0] = np.where(np.isfinite(predicted[0]), predicted[0], value)
        innovation = np.where(np.isfinite(value), value - predicted[0], 0.0)
        self._state = predicted + np.multiply.outer(self.gain, innovation)
        return self._state[1].copy()


def _check_step(dt: float) -> None:
    if not 0 <= dt < math.inf:
        raise ParameterError("dt", dt, "a time step of at least 0 s")


def _stationary(closed: Array, drive: Array) -> Array:
    """Covariance X = closed X closed^T + drive of a stable system driven by white noise."""
    size = closed.shape[0]
    vector = np.linalg.solve(np.eye(size**2) - np.kron(closed, closed), drive.ravel())
    return np.asarray(vector).reshape(size, size)
