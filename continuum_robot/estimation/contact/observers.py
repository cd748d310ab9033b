# SPDX-License-Identifier: Apache-2.0
"""Generalised force of contacts: momentum observer, joint-force deviation, Kalman disturbance observer.

The momentum observer (johnston section 6) gives what changes the momentum beyond the known forces; the joint-force
deviation, the baseline of johnston section 9, contact forces straight from the equations of motion. The Kalman
disturbance observer needs the coefficients alone. Its state is (c, c_rate, d) with the generalised force d of contacts
as a random walk. The model predicts c_rate, so the coefficients are not differentiated: M c'' = known force + d - M'
c', and d is what makes the measured c fit. An extended Kalman filter weighs the model against the noise of c; the other
observers take the rate as given.

The spread of the random walk is that of forces of a stated rate of change, equally likely at every node of the
backbone, seen in the coefficients: q = sigma^2 mean of B B^T. Directions in which forces hardly act are trusted less.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.estimation.contact.error_budget import BufferedCall
from continuum_robot.rod.contact.functions import ContactTerms

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


class BackwardGaussian:
    """Causal smoothing with the newest ``points`` samples, weighted by half a Gaussian that is highest at the newest.

    The standard deviation is a third of the window, as johnston does not give it. Until the window is full the samples
    that there are share the weight.
    """

    def __init__(self, points: int) -> None:
        if points < 1 or points != int(points):
            raise ParameterError("points", points, "a whole number of at least 1")
        ages = np.arange(int(points))
        weights = np.exp(-0.5 * (ages / (points / 3)) ** 2)
        self.weights: Vector = weights / weights.sum()
        self.delay_samples = float(ages @ self.weights)
        self.reset()

    def reset(self) -> None:
        """Forget all samples."""
        self._samples: Vector | None = None
        self._filled = 0

    def update(self, value: ArrayLike) -> Vector:
        """Smoothed signal at the newest sample ``value``, any shape."""
        sample = np.asarray(value, dtype=float)
        if self._samples is None:
            self._samples = np.zeros((self.weights.size, *sample.shape))
        self._samples[1:] = self._samples[:-1]
        self._samples[0] = sample
        self._filled = min(self._filled + 1, self.weights.size)
        weights = self.weights[: self._filled]
        return np.asarray(np.tensordot(weights, self._samples[: self._filled], axes=1) / weights.sum())


class SmoothedDifference:
    """Derivatives as in johnston section 11.2: smooth, difference, smooth the rate, difference again."""

    def __init__(self, points: int = 10) -> None:
        self._points = points
        self.reset()

    def reset(self) -> None:
        """Forget all samples."""
        self._filters = (BackwardGaussian(self._points), BackwardGaussian(self._points))
        self._previous: list[Vector | None] = [None, None]

    def update(self, value: ArrayLike, dt: float) -> tuple[Vector, Vector, Vector]:
        """Smoothed value, rate and second derivative, each of the shape of ``value``; 0 while there is no
        earlier one.
        """
        smooth = self._filters[0].update(value)
        rate = self._difference(0, smooth, dt)
        second = self._difference(1, self._filters[1].update(rate), dt)
        return smooth, rate, second

    def _difference(self, which: int, value: Vector, dt: float) -> Vector:
        previous = self._previous[which]
        self._previous[which] = value
        return np.zeros(value.shape) if previous is None or dt <= 0 else (value - previous) / dt


class JointForceDeviation:
    """Generalised force of contacts from c, c_rate and c_acceleration: johnston (70).

    kappa_c = M c'' + M' c' - dL/dc - J_qc^T torque + friction + damping; M' c' = (dp/dc) c'.

    Parameters
    ----------
    points : N of the backward Gaussian on the result; johnston has 200 in his experiments, 1 in his simulations
    """

    def __init__(self, points: int = 1) -> None:
        self._filter = BackwardGaussian(points)
        self.reset()

    def reset(self) -> None:
        """Forget everything, a latched invalid state too."""
        self._filter.reset()
        self.invalid_reason = ""

    def update(
        self, terms: ContactTerms, c_rate: ArrayLike, c_acceleration: ArrayLike, other_force: ArrayLike
    ) -> Vector:
        """Generalised force of contacts."""
        rate, acceleration = np.asarray(c_rate, dtype=float), np.asarray(c_acceleration, dtype=float)
        force = terms.mass @ acceleration + terms.momentum_by_c @ rate - terms.known_force - other_force
        if not self.invalid_reason and not math.isfinite(np.vdot(force, force)):
            self.invalid_reason = "the state or the known force is not a number"
        if self.invalid_reason:
            return np.full(force.shape, np.nan)
        return self._filter.update(force)  # johnston (70)


_BRIDGED_PER_M, _BRIDGED_RATE_PER_M_S = 10.0, 1.0  # what is known of shape and motion after a gap
_REFRESH = 20  # cycles after which the spread of the random walk follows the shape
_LONGEST_STEP_S = 2.5e-3  # of the series for the prediction
_STABLE = 1.7  # step times the largest eigenvalue up to which a series of third order does not grow: 3^0.5
_FLOOR = 1e-6  # of the largest variance of the random walk in every direction, so that none is shut out


@dataclass(frozen=True, slots=True)
class StateTerms:
    """The model at a state, with the forces that are known besides it."""

    terms: ContactTerms
    force: Vector
    force_by_c: Vector | None = None
    force_by_rate: Vector | None = None
    friction: Vector | None = None
    shape: Vector | None = None

    def forces_by_state(self) -> tuple[Vector, Vector]:
        """Derivatives of all known forces by c and c_rate, (n, n) each."""
        by_c, by_rate = self.terms.force_by_c, self.terms.force_by_rate
        if self.force_by_c is not None:
            by_c = by_c + self.force_by_c
        if self.force_by_rate is not None:
            by_rate = by_rate + self.force_by_rate
        return by_c, by_rate


class DisturbanceObserver:
    """Extended Kalman filter of (c, c_rate, d). Not for use by two threads at once."""

    def __init__(
        self,
        size: int,
        directions: ArrayLike,
        force_walk_n_per_sqrt_s: float = 30.0,
    ) -> None:
        if not 0 < force_walk_n_per_sqrt_s < math.inf:
            raise ParameterError("force_walk_n_per_sqrt_s", force_walk_n_per_sqrt_s, "a positive number")
        self.size = size
        self._filter = _compiled_cycle(size)
        self._directions = np.asarray(directions, dtype=float)
        self.force_walk_n_per_sqrt_s = force_walk_n_per_sqrt_s
        n = size
        self._P: Vector = np.zeros((3 * n, 3 * n))
        self._walk: Vector = np.zeros((n, n))
        self._c, self._rate, self._d = slice(0, n), slice(n, 2 * n), slice(2 * n, 3 * n)
        self.reset()

    def reset(self) -> None:
        """Forget everything, a latched invalid state too; the next update starts at rest without contact."""
        self.invalid_reason = ""
        self._state: Vector | None = None
        self._model: StateTerms | None = None
        self._cycle = 0
        self._longest_step_s = _LONGEST_STEP_S

    def bridge(self, gap_s: float) -> None:
        """A time without measurements, s: the force walks on, shape and motion are unknown. The next update has dt = 0.

        The force is kept, as at rest nothing but its past distinguishes it from friction that holds the robot.
        """
        state, n = self._state, self.size
        if state is None:
            return
        force = self._P[self._d, self._d] + self._walk * gap_s
        rate_sigma = _BRIDGED_RATE_PER_M_S + np.abs(state[self._rate]).max()
        self._P = np.zeros((3 * n, 3 * n))
        self._P[self._c, self._c] = np.eye(n) * _BRIDGED_PER_M**2
        self._P[self._rate, self._rate] = np.eye(n) * rate_sigma**2
        self._P[self._d, self._d] = force

    @property
    def coefficients(self) -> Vector:
        """Filtered c, (n,), 1/m; NaN before the first update."""
        return np.full(self.size, np.nan) if self._state is None else self._state[self._c].copy()

    @property
    def rates(self) -> Vector:
        """Filtered c_rate, (n,), 1/(m.s); NaN before the first update."""
        return np.full(self.size, np.nan) if self._state is None else self._state[self._rate].copy()

    @property
    def model(self) -> StateTerms:
        """The model at the newest estimate."""
        if self._model is None:
            raise ParameterError("observer", None, "at least one update")
        return self._model

    @property
    def covariance(self) -> Vector:
        """Of the generalised force, (n, n)."""
        return self._P[self._d, self._d].copy()

    def update(
        self, c: ArrayLike, c_covariance: ArrayLike, evaluate: Callable[[Vector, Vector], StateTerms], dt: float
    ) -> Vector:
        """Generalised force of contacts after one more measurement."""
        n = self.size
        measured, noise = np.asarray(c, dtype=float), np.asarray(c_covariance, dtype=float)
        if dt < 0:
            raise ParameterError("dt", dt, "a time step of at least 0 s")
        if not self.invalid_reason and not math.isfinite(np.vdot(measured, measured) + np.vdot(noise, noise) + dt):
            self.invalid_reason = "a coefficient, its covariance or the time step is not a number"
        if self.invalid_reason:
            return np.full(n, np.nan)
        if self._state is None or self._model is None:
            state, model = self._start(measured, noise, evaluate)
        else:
            # The series is for short steps; longer ones are put together from halves, so that stiff modes stay stable.
            halvings = max(0, math.ceil(math.log2(dt / self._longest_step_s) - 1e-9)) if dt > 0 else 0
            model, (by_c, by_rate) = self._model, self._model.forces_by_state()
            of_rod = model.terms.mass, by_c, by_rate, model.terms.momentum_by_c, model.terms.known_force + model.force
            times = (dt * 0.5**halvings, dt)
            state, self._P = self._filter(halvings, *of_rod, self._state, self._P, self._walk, measured, noise, times)
            model = evaluate(state[self._c], state[self._rate])
            self._cycle += 1
            if self._cycle % _REFRESH == 0:
                self._walk = self._spread(model.terms.jacobians)
        self._state, self._model = state, model
        estimate = state[self._d].copy()
        if not math.isfinite(np.vdot(estimate, estimate) + np.vdot(model.force, model.force)):
            self.invalid_reason = "the known force is not a number"
            return np.full(n, np.nan)
        return estimate

    def _start(
        self, c: Vector, noise: Vector, evaluate: Callable[[Vector, Vector], StateTerms]
    ) -> tuple[Vector, StateTerms]:
        n = self.size
        state = np.concatenate([c, np.zeros(2 * n)])
        model = evaluate(state[self._c], state[self._rate])
        self._walk = self._spread(model.terms.jacobians)
        self._P = np.zeros((3 * n, 3 * n))
        self._P[self._c, self._c] = noise
        inverse = np.asarray(np.linalg.inv(model.terms.mass), dtype=float)
        self._longest_step_s = min(_LONGEST_STEP_S, _STABLE / _fastest(model, inverse))
        # An unknown force of what it changes by in a second, and the rates that it makes in a hundredth of one.
        self._P[self._d, self._d] = self._walk
        self._P[self._rate, self._rate] = 1e-4 * inverse @ self._walk @ inverse
        return state, model

    def _spread(self, jacobians: Vector) -> Vector:
        """Spectral density of the random walk of d, (n, n)."""
        B = np.matmul(self._directions.T, jacobians[1:]).reshape(-1, self.size)
        walk = self.force_walk_n_per_sqrt_s**2 / (len(jacobians) - 1) * (B.T @ B)
        walk[np.diag_indices(self.size)] += _FLOOR * float(np.trace(walk))
        return np.asarray(walk)


def _compiled_cycle(size: int) -> Callable[..., tuple[Vector, Vector]]:
    """State (3 n,) and covariance (3 n, 3 n) after a cycle of the extended Kalman filter, in the rod's kernel.

    x = (c, c_rate, d) with M c_rate' = known force + d - M' c_rate, johnston (45), by exponential Euler, which is exact
    for a linear model; its series of third order limits the step. For n = ``size`` coordinates and one thread. It takes
    how often the cycle is halved for the series; M and the derivatives of the known forces and of the momentum, (n, n);
    the known force, (n,); state and covariance before, and the walk of d, (n, n); the coefficients and their
    covariance; the steps of the series and of the cycle, s.
    """
    n, square = size, (size, size)
    inputs = ((square,) * 4, ((n,), (3 * n,), (3 * n, 3 * n), square), ((n,), square, (2,)))
    call = BufferedCall("rod_filter", n, sum(inputs, ()), ((3 * n,), (3 * n, 3 * n)))

    def run(halvings: int, *given: Any) -> tuple[Vector, Vector]:
        newest, covariance = call(halvings, *given)
        return newest.copy(), covariance.copy()

    return run


def _fastest(model: StateTerms, inverse_mass: Vector) -> float:
    """Largest eigenvalue of the free motion, 1/s."""
    n = len(inverse_mass)
    by_c, by_rate = model.forces_by_state()
    by_rate = by_rate - model.terms.momentum_by_c  # of M c'', johnston (45)
    matrix = np.block([[np.zeros((n, n)), np.eye(n)], [inverse_mass @ by_c, inverse_mass @ by_rate]])
    return float(np.abs(np.linalg.eigvals(matrix)).max())
