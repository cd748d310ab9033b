# SPDX-License-Identifier: Apache-2.0
"""What a model does not know of the tip's pose, as a function of the robot's coordinates, learned from measured poses.

Derived here, no paper. An error of the model (a pitch radius, a tendon's stretch, a payload) moves the tip by an amount
that depends on where the robot is: it is described by a polynomial of second order in the coordinates, whose
coefficients a Kalman filter follows. So what was learned at one place is known at all places, without waiting there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.geometry.polynomial import Polynomial

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Expected:
    """How large a residual is expected to be before anything was measured, and how fast it changes.

    Attributes
    ----------
    deviation : standard deviation of the coefficients of order 0, 1 and 2, in the residual's unit
    drift_per_root_s : by which those may have changed after a second, in the residual's unit
    """

    deviation: tuple[float, float, float]
    drift_per_root_s: tuple[float, float, float]


class LearnedResidual:
    """A residual of several components over the coordinates of a robot, by a Kalman filter for its coefficients.

    Parameters
    ----------
    polynomial : of the coordinates
    components : of the residual
    expected : of each component
    """

    def __init__(self, polynomial: Polynomial, components: int, expected: Expected) -> None:
        self._polynomial, self._components = polynomial, components
        self._prior = np.square(np.asarray(expected.deviation)[polynomial.orders])
        self._drift = np.square(np.asarray(expected.drift_per_root_s)[polynomial.orders])
        self.reset()

    def reset(self) -> None:
        """Forget what was learned."""
        self._coefficients = np.zeros((self._polynomial.size, self._components))
        self._covariance = np.diag(self._prior)

    def wait(self, dt: float) -> None:
        """Let time pass: what was learned becomes less certain, never less than before anything was measured.

        Parameters
        ----------
        dt : s
        """
        room = np.maximum(self._prior - np.diag(self._covariance), 0.0)
        self._covariance[np.diag_indices(self._prior.size)] += np.minimum(self._drift * dt, room)

    def at(self, coordinates: ArrayLike) -> tuple[Vector, float]:
        """The residual, shape (components,), and the standard deviation of each component, in their unit.

        Parameters
        ----------
        coordinates : shape (m,), in their unit
        """
        features = self._polynomial.at(coordinates)
        return features @ self._coefficients, math.sqrt(features @ self._covariance @ features)

    def surprise(self, coordinates: ArrayLike, residual: ArrayLike, variance: float) -> float:
        """How far a measured residual is from the expected one, in standard deviations of a component.

        Parameters
        ----------
        coordinates : shape (m,), in their unit
        residual : shape (components,), in its unit
        variance : of the measurement, in its unit squared
        """
        value, deviation = self.at(coordinates)
        distance = np.linalg.norm(np.asarray(residual, dtype=float) - value) / math.sqrt(self._components)
        return float(distance / math.sqrt(deviation**2 + variance))

    def learn(self, coordinates: ArrayLike, residual: ArrayLike, variance: float) -> None:
        """Take a measured residual, shape (components,), with the ``variance`` of each component.

        Parameters
        ----------
        coordinates : shape (m,), in their unit
        residual : shape (components,), in its unit
        variance : of the measurement, in its unit squared, positive
        """
        features = self._polynomial.at(coordinates)
        spread = self._covariance @ features
        gain = spread / (features @ spread + variance)
        missing = np.asarray(residual, dtype=float) - features @ self._coefficients
        self._coefficients += np.outer(gain, missing)
        # Joseph's form: positive definite whatever is rounded.
        left = np.eye(features.size) - np.outer(gain, features)
        self._covariance = left @ self._covariance @ left.T + variance * np.outer(gain, gain)
