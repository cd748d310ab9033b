# SPDX-License-Identifier: Apache-2.0
"""Joint-force deviation, the baseline of johnston section 9: contact forces straight from the equations of motion."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.rod.contact.functions import ContactTerms

Vector = NDArray[np.float64]


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
