# SPDX-License-Identifier: Apache-2.0
"""The moment lambda by which the simple balance of moments is wrong: wang (17), (18), and its table over theta."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ParameterError

Array = NDArray[Any]

PARAMETER_NAMES = ("k_lambda0", "k_lambdaq", "k_lambda_theta")
_FEWEST_ANGLES = 2
_SLACK_RAD = 1e-9  # angles read from a file need not meet the table's ends to the last digit


class MomentError(Protocol):
    """Any lambda(q_s, theta)."""

    def value(self, theta_rad: Array, insertion_m: Array) -> Array:
        """Lambda, (...), N.m.

        Parameters
        ----------
        theta_rad : nominal angle of the end disk from the base plane, shape (...), rad; straight is pi / 2
        insertion_m : q_s, shape (...), m
        """


@dataclass(frozen=True)
class LinearMomentError:
    """lambda = k_lambda0 + k_lambdaq q_s + k_lambda_theta theta, wang (18)."""

    k_lambda0: float = 0.0
    k_lambdaq: float = 0.0
    k_lambda_theta: float = 0.0

    def __post_init__(self) -> None:
        if not np.isfinite(self.parameters).all():
            raise ParameterError("k_lambda", self.parameters.tolist(), "three finite numbers")

    @property
    def parameters(self) -> Array:
        """k_lambda in the order of wang (18), (3,), SI units."""
        return np.array([self.k_lambda0, self.k_lambdaq, self.k_lambda_theta])

    def value(self, theta_rad: Array, insertion_m: Array) -> Array:
        """Lambda, (...), N.m.

        Parameters
        ----------
        theta_rad : nominal angle of the end disk from the base plane, shape (...), rad; straight is pi / 2
        insertion_m : q_s, shape (...), m
        """
        return self.k_lambda0 + self.k_lambdaq * insertion_m + self.k_lambda_theta * theta_rad  # wang (18)


@dataclass(frozen=True)
class TabledMomentError:
    """lambda = k_lambda0(theta) + k_lambdaq(theta) q_s, both from a table over theta: wang, section 6.2.

    Between the entries monotone cubics run, whose slopes are continuous, so that the Jacobians are too.
    """

    theta_rad: Sequence[float]
    k_lambda0: Sequence[float]
    k_lambdaq: Sequence[float]
    _curve: scipy.interpolate.PchipInterpolator = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        theta = np.asarray(self.theta_rad, dtype=float)
        values = [np.asarray(value, dtype=float) for value in (self.k_lambda0, self.k_lambdaq)]
        if theta.ndim != 1 or len(theta) < _FEWEST_ANGLES or not (np.diff(theta) > 0).all():
            raise ParameterError("theta_rad", self.theta_rad, f"{_FEWEST_ANGLES} or more increasing angles in rad")
        if any(value.shape != theta.shape or not np.isfinite(value).all() for value in values):
            raise ParameterError("k_lambda0, k_lambdaq", (self.k_lambda0, self.k_lambdaq), "a number for each angle")
        object.__setattr__(self, "_curve", scipy.interpolate.PchipInterpolator(theta, np.stack(values, axis=-1)))

    def value(self, theta_rad: Array, insertion_m: Array) -> Array:
        """Lambda, (...), N.m. Raises :class:`ParameterError` outside the table.

        Parameters
        ----------
        theta_rad : nominal angle of the end disk from the base plane, shape (...), rad; straight is pi / 2
        insertion_m : q_s, shape (...), m
        """
        parameters = self.at(theta_rad)
        return parameters[..., 0] + parameters[..., 1] * insertion_m

    def at(self, theta_rad: ArrayLike) -> Array:
        """k_lambda0 (N.m) and k_lambdaq (N) at an angle, (..., 2)."""
        inside = self._inside(theta_rad)
        parameters = self._curve(inside)
        if np.iscomplexobj(theta_rad):
            # The cubics are functions of a real angle; what a complex step asks for is their slope.
            parameters = parameters + 1j * np.imag(theta_rad)[..., None] * self._curve.derivative()(inside)
        return np.asarray(parameters)

    def _inside(self, theta_rad: ArrayLike) -> Array:
        theta = np.real(theta_rad)
        low, high = self.theta_rad[0], self.theta_rad[-1]
        outside = ~((theta >= low - _SLACK_RAD) & (theta <= high + _SLACK_RAD))
        if np.any(outside):
            wrong = float(np.atleast_1d(theta)[np.atleast_1d(outside)][0])
            raise ParameterError("theta_rad", wrong, f"an angle in the table of lambda, [{low:g}, {high:g}] rad")
        return np.clip(theta, low, high)
