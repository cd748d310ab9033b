# SPDX-License-Identifier: Apache-2.0
"""Displacement actuation: the tensions whose tendon lengths come closest to desired ones. ha section V."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ConvergenceError, ParameterError
from continuum_robot.mechanisms.rolling_joint.statics import Equilibrium, Load, RollingStatics

Array = NDArray[np.float64]

LEAST_FRACTION = 1e-3
"""Least tension on the way, relative to the sum of both; a tendon that stays there is let go at the end."""
_MOST = float(np.log(1 / LEAST_FRACTION - 1))  # logarithm of the ratio of the tensions
_LOG_RATIOS = np.linspace(-3.0, 3.0, 9)
_SUMS = (2.0, 6.0, 20.0, 100.0)
"""Sums of the tensions to start from, relative to the loads."""
_STEPS = 200
_TOLERANCE = 1e-14
_FAR = 1e3  # the error of tensions without an equilibrium: no step goes there
_AT_THE_LEAST = 1e-3


@dataclass(frozen=True, slots=True)
class DisplacementResult:
    """What comes closest to desired tendon lengths.

    Attributes
    ----------
    equilibrium : with its tensions and tendon lengths
    length_error_m : tendon lengths less the desired ones, shape (2,), m; not zero where they cannot be reached
    iterations : steps of the tensions
    converged : the gradient vanishes along all tensions that may still change
    """

    equilibrium: Equilibrium
    length_error_m: Array
    iterations: int
    converged: bool

    @property
    def residual_m(self) -> float:
        """Norm of the length error, m."""
        return float(np.linalg.norm(self.length_error_m))


def solve_displacement(statics: RollingStatics, desired_m: ArrayLike, loads: Sequence[Load] = ()) -> DisplacementResult:
    """Least squares over the tensions: ha (29).

    Without loads only the ratio of the tensions matters, and their sum is 1 N.

    Parameters
    ----------
    desired_m : tendon lengths, left and right, shape (2,), m
    """
    desired = np.asarray(desired_m, dtype=float)
    if desired.shape != (2,) or not np.all(np.isfinite(desired)) or np.any(desired <= 0):
        raise ParameterError("desired_m", desired_m, "two finite lengths above 0 m, left and right")
    search = _Search(statics, desired, loads)
    force = sum(float(np.hypot(*load.force_n)) + abs(load.moment_nm) / statics.linkage.size_m for load in loads)
    # By the logarithms of the tensions' ratio and, with loads, of their sum.
    sums = [np.log(fraction * force) for fraction in _SUMS] if force else []
    starts = [np.array(x) for x in itertools.product(_LOG_RATIOS, *([sums] if sums else []))]
    start = min(starts, key=lambda x: float(np.linalg.norm(search.error(x))))
    least_squares = scipy.optimize.least_squares(
        search.error,
        start,
        search.slope,
        bounds=([-_MOST, -np.inf][: len(start)], [_MOST, np.inf][: len(start)]),
        method="dogbox",
        ftol=_TOLERANCE,
        xtol=_TOLERANCE,
        gtol=_TOLERANCE,
        max_nfev=_STEPS,
    )
    now = statics.solve_tension(_tensions(least_squares.x), loads, start_m=search.near_m)
    if abs(least_squares.x[0]) > _MOST - _AT_THE_LEAST:
        now = _let_go(statics, now, desired, loads)
    return DisplacementResult(now, now.tendon_length_m - desired, int(least_squares.nfev), least_squares.status > 0)


class _Search:
    """Errors of the lengths, relative to the size of a link, over the logarithms of the tensions' ratio and sum."""

    def __init__(self, statics: RollingStatics, desired_m: Array, loads: Sequence[Load]) -> None:
        self._statics, self._desired, self._loads = statics, desired_m, loads
        self.near_m: Array | None = None

    def error(self, x: Array) -> Array:
        try:
            found = self._solved(x)
        except ConvergenceError:
            return np.full(2, _FAR)
        return (found.tendon_length_m - self._desired) / self._statics.linkage.size_m

    def slope(self, x: Array) -> Array:
        found = self._solved(x)
        self.near_m, (left, right) = found.contact_m, found.tension_n
        by_x = np.array([[1.0, left], [-1.0, right]]) * [left * right / (left + right), 1.0]
        jacobian = self._statics.length_jacobian(found, self._loads) @ by_x[:, : len(x)]  # (36)
        return np.asarray(jacobian / self._statics.linkage.size_m)

    def _solved(self, x: Array) -> Equilibrium:
        return self._statics.solve_tension(_tensions(x), self._loads, start_m=self.near_m, exhaustive=False)


def _tensions(x: Array) -> Array:
    total = np.exp(x[1]) if len(x) > 1 else 1.0
    return np.asarray(total / (1 + np.exp(np.array([-x[0], x[0]]))))


def _let_go(statics: RollingStatics, now: Equilibrium, desired: Array, loads: Sequence[Load]) -> Equilibrium:
    """The pose without any tension on the slacker tendon, where that comes closer in good order."""
    tension = np.where(now.tension_n == now.tension_n.min(), 0.0, now.tension_n)
    try:
        ahead = statics.solve_tension(tension, loads, start_m=now.contact_m, exhaustive=False)
    except ConvergenceError:
        return now
    closer = np.linalg.norm(ahead.tendon_length_m - desired) <= np.linalg.norm(now.tendon_length_m - desired)
    # A contact then lies at the hole of the only tendon, where its force has no side.
    return ahead if closer and ahead.stable and set(ahead.lifted_joints) <= set(now.lifted_joints) else now
