# SPDX-License-Identifier: Apache-2.0
"""The delay of a tracker's stamps, estimated from the poses themselves.

Derived here, no paper. A pose whose stamp is late by L is compared with the model's tip of an instant L after the
exposure: the residual then has a part -L v along the tip's velocity v. The model and the tracker's registration are off
too, by amounts that depend on the place: a regression separates both, with a shift, a turn and a scale of the places as
further unknowns. What these leave of the model's error has no mean along a path that the tip runs to and fro, or round
and round, so it averages out; a turn that is the same at every place looks like a delay at one speed only.

The regression is a Bayesian one with normal priors. Its errors have Student's distribution: a pose that waited behind a
blocked line, and nothing shows it, is off by many times what the others leave, and must not move the estimate. Data are
forgotten after some time, and at once where the estimate moves so far that they were linearised at the wrong instants.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from continuum_robot.geometry.so3 import hat

Vector = NDArray[np.float64]

_DELAY = 7
_SHIFT_M, _TURN_RAD, _SCALE = 0.02, 0.015, 0.1  # standard deviations before anything was measured
_SHORTEST_MEMORY_S, _LONGEST_MEMORY_S = 2.0, 30.0
_CORRELATED_S, _COMPARED_S = 0.3, 0.1  # residuals within these times are one measurement
_LEAST_RESIDUAL_M = 5e-4
_LEAST_COMPARED_M = 3e-4
_SETTLED_S = 0.03  # within this the delay stays, and memory grows
_TAILS = 4.0  # degrees of freedom of Student's distribution of the residuals: some poses are much later than most


@dataclass(frozen=True, slots=True)
class DelayPrior:
    """What is known of the delay before anything was measured."""

    delay_s: float
    deviation_s: float
    least_s: float = -0.1
    largest_s: float = 0.5
    stated_odds: float = 4.0


class StampDelay:
    """Recursive estimate of the delay."""

    def __init__(self, prior: DelayPrior) -> None:
        self._prior = prior
        deviations = np.array([_SHIFT_M] * 3 + [_TURN_RAD] * 3 + [_SCALE, max(prior.deviation_s, 1e-9)])
        self._prior_information = np.diag(1 / deviations**2)
        self._mean = np.zeros(8)
        self._mean[_DELAY] = prior.delay_s
        self.reset()

    def reset(self) -> None:
        """Forget what was measured."""
        self._information, self._vector = np.zeros((8, 8)), np.zeros(8)
        self._covariance, self._estimate = np.linalg.inv(self._prior_information), self._mean
        self._residual_m2 = 4e-6
        self._anchor_s, self._settled_s = self._prior.delay_s, 0.0
        self.delay_s, self.deviation_s = self._prior.delay_s, self._prior.deviation_s

    def compare(self, residual_m: Vector, velocity_m_per_s: Vector, variance_m2: float, dt: float) -> None:
        """Take what of a residual and of the velocity cannot be explained by the place; before :meth:`update`.

        Where the tip passes a place at several speeds, this shows the delay whatever the model's error is.
        """
        features = np.zeros((3, 8))
        features[:, _DELAY] = -velocity_m_per_s
        self._take(features, residual_m, variance_m2 + _LEAST_COMPARED_M**2, min(dt, _COMPARED_S) / _COMPARED_S)

    def _take(self, features: Vector, measured: Vector, variance_m2: float, weight: float) -> float:
        """Add a measurement, with less weight the less credible it is; return the factor of that weight."""
        left = measured - features @ self._estimate
        expected = features @ self._covariance @ features.T + variance_m2 * np.eye(3)
        credible = (_TAILS + 3) / (_TAILS + float(left @ np.linalg.solve(expected, left)))
        self._information += weight * credible / variance_m2 * features.T @ features
        self._vector += weight * credible / variance_m2 * features.T @ measured
        return credible

    def update(self, residual_m: Vector, place_m: Vector, velocity_m_per_s: Vector, dt: float) -> None:
        """Take a residual."""
        if self._prior.deviation_s == 0:
            return
        features = np.empty((3, 8))
        features[:, :3], features[:, 3:6] = np.eye(3), -hat(place_m)
        features[:, 6], features[:, _DELAY] = place_m, -velocity_m_per_s
        measured = residual_m - velocity_m_per_s * self.delay_s
        memory_s = min(max(self._settled_s, _SHORTEST_MEMORY_S), _LONGEST_MEMORY_S)
        kept = math.exp(-dt / memory_s)
        self._information *= kept
        self._vector *= kept
        self._settled_s += dt
        credible = self._take(features, measured, self._residual_m2, min(dt, _CORRELATED_S) / _CORRELATED_S)
        self._covariance = np.linalg.inv(self._information + self._prior_information)
        self._estimate = self._covariance @ (self._vector + self._prior_information @ self._mean)
        left = measured - features @ self._estimate
        gain = min(1.0, dt / 2.0)
        self._residual_m2 += gain * (credible * float(left @ left) / 3 - self._residual_m2)
        self._residual_m2 = max(self._residual_m2, _LEAST_RESIDUAL_M**2)
        deviation_s = math.sqrt(self._covariance[_DELAY, _DELAY])
        self._weigh_stated(float(self._estimate[_DELAY]) - self._prior.delay_s, deviation_s)
        if abs(self.delay_s - self._anchor_s) > _SETTLED_S:
            self._anchor_s, self._settled_s = self.delay_s, 0.0

    def _weigh_stated(self, apart_s: float, deviation_s: float) -> None:
        """Mean and deviation over both cases: the stated delay is right, or another one is (Savage and Dickey)."""
        prior = self._prior
        stated = prior.stated_odds * prior.deviation_s / deviation_s * math.exp(-0.5 * (apart_s / deviation_s) ** 2)
        other = 1 / (1 + stated)
        self.delay_s = min(max(prior.delay_s + other * apart_s, prior.least_s), prior.largest_s)
        self.deviation_s = math.sqrt(other * (deviation_s**2 + (1 - other) * apart_s**2))
