# SPDX-License-Identifier: Apache-2.0
"""Kalman filter of strain coefficients, their rates and accelerations from any set of tendons and strings."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.estimation.observability import unseen_coefficients

Array = NDArray[np.float64]

# The gain hardly depends on the period: within this fraction of the nominal one its gain is used, with the true period
# in the prediction.
_PERIOD_TOLERANCE = 0.25
_SETTLED = 1e-9
_LONGEST_STEP_S = 10.0
_REMEMBERED_STEPS = 256


@dataclass(frozen=True, slots=True)
class ModalState:
    """Estimated motion; n coefficients."""

    c: Array
    c_rate: Array
    c_acceleration: Array
    covariance: Array
    unseen: NDArray[np.bool_]


class ModalKalmanFilter:
    """Kalman filter on (c, c', c'') driven by white jerk, measured by tendons and strings that are linear in c.

    The state is predicted over each step as it is, the covariance to within a twentieth of it; a missing reading (NaN)
    is left out and the rest still counts. With all sensors and steps near the nominal period the gain settles and is
    reused. Slow motion, that is motion of constant acceleration, comes out without delay.

    The sensors' noise is the white part of their error: systematic parts (eccentricity, a drum that is not round) do
    not average out and belong in the covariance of the coefficients, not here.
    """

    def __init__(
        self,
        matrix: ArrayLike,
        noise_m: ArrayLike,
        jerk_density: ArrayLike,
        *,
        nominal_dt_s: float | None = None,
        start_rate: float = 5.0,
        start_acceleration: float = 50.0,
        bridge_s: float = 0.0,
    ) -> None:
        self._matrix = np.array(matrix, dtype=float)
        if self._matrix.ndim != 2 or not np.isfinite(self._matrix).all():
            raise ParameterError("matrix", matrix, "finite, of shape (sensors, coefficients)")
        count, self.size = self._matrix.shape
        noise, jerk = np.array(noise_m, dtype=float), np.array(jerk_density, dtype=float)
        for name, value, length in (("noise_m", noise, count), ("jerk_density", jerk, self.size)):
            if value.shape != (length,) or not (np.isfinite(value) & (value > 0)).all():
                raise ParameterError(name, value, f"{length} positive numbers")
        if nominal_dt_s is not None and not 0 < nominal_dt_s < math.inf:
            raise ParameterError("nominal_dt_s", nominal_dt_s, "a positive period in s")
        if not 0 <= bridge_s < math.inf:
            raise ParameterError("bridge_s", bridge_s, "a time of at least 0 s")
        unseen = unseen_coefficients(self._matrix / noise[:, None])
        if unseen.any():
            raise ParameterError("matrix", np.flatnonzero(unseen).tolist(), "sensors that see all coefficients")
        self._noise, self._jerk = noise, jerk
        self._nominal_s, self._given_nominal_s = nominal_dt_s, nominal_dt_s
        self._bridge_s = bridge_s
        # No robot bends more sharply than a circle of one centimetre: that is no knowledge at all.
        starts = np.repeat([100.0, start_rate, start_acceleration], self.size)
        self._start_covariance = np.diag(starts**2)
        self._propagations: dict[float, tuple[Array, Array]] = {}
        self._unseen_by: dict[bytes, NDArray[np.bool_]] = {}
        self.reset()

    def reset(self) -> None:
        """Forget everything; the next reading starts the filter at rest."""
        self._state = np.zeros((3, self.size))
        self._covariance = self._start_covariance.copy()
        self._nominal_s = self._given_nominal_s
        self._unseen_s = np.full(self.size, math.inf)
        self._settled_gain: Array | None = None
        self._started = False

    def steady_rate_sigma(self, dt: float) -> Array:
        """Standard deviation of each rate with all sensors every ``dt`` s, once settled, shape (n,), 1/(m.s)."""
        H, F = np.zeros((self._noise.size, 3 * self.size)), np.kron(_transition(dt), np.eye(self.size))
        H[:, : self.size] = self._matrix
        added = np.kron(_jerk_covariance(dt), np.diag(self._jerk**2))
        before = scipy.linalg.solve_discrete_are(F.T, H.T, added, np.diag(self._noise**2))
        S = H @ before @ H.T + np.diag(self._noise**2)
        after = before - before @ H.T @ np.linalg.solve(S, H @ before)
        rates = slice(self.size, 2 * self.size)
        return np.asarray(np.sqrt(np.diag(after)[rates]))

    def update(self, readings: ArrayLike, dt: float) -> ModalState:
        """Take in one set of readings."""
        values = np.asarray(readings, dtype=float)
        if values.shape != self._noise.shape or np.isinf(values).any():
            raise ParameterError("readings", readings, f"{self._noise.size} readings in m, finite or NaN")
        if not 0 <= dt <= _LONGEST_STEP_S:
            raise ParameterError("dt", dt, f"a time step of 0 to {_LONGEST_STEP_S:g} s")
        if not self._started:
            self._started, dt = True, 0.0
        elif self._nominal_s is None and dt > 0:
            self._nominal_s = dt
        nominal_s = self._nominal_s
        near = nominal_s is not None and abs(dt - nominal_s) <= _PERIOD_TOLERANCE * nominal_s
        complete = math.isfinite(values.sum())
        if dt > 0:
            self._state = _transition(dt) @ self._state
        if complete and near and self._settled_gain is not None:
            innovation = values - self._matrix @ self._state[0]
            self._state += (self._settled_gain @ innovation).reshape(3, -1)
            return self._result()
        self._settled_gain = None
        self._correct(values, dt if nominal_s is None or not near else nominal_s, complete and near)
        self._age(values, dt, complete)
        return self._result()

    def _correct(self, values: Array, dt: float, may_settle: bool) -> None:
        n = self.size
        before = self._covariance
        P = before
        if dt > 0:
            F, Q = self._propagation(dt)
            P = F @ before @ F.T + Q
        finite = np.isfinite(values)
        H = self._matrix[finite]
        if H.shape[0] == 0:
            self._covariance = P
            return
        cross = P[:, :n] @ H.T
        S = H @ cross[:n]
        S.flat[:: len(S) + 1] += self._noise[finite] ** 2
        gain = np.linalg.solve(S, cross.T).T
        P = P - gain @ cross.T
        self._covariance = (P + P.T) / 2
        self._state = self._state + (gain @ (values[finite] - H @ self._state[0])).reshape(3, -1)
        change = np.abs(np.diag(self._covariance) - np.diag(before))
        if may_settle and (change <= _SETTLED * np.diag(before)).all():
            self._settled_gain = gain

    def _propagation(self, dt: float) -> tuple[Array, Array]:
        """Transition and added covariance of a step.

        Steps other than the nominal one are distinguished to a twentieth only, so that these can be kept.
        """
        key = dt if dt == self._nominal_s else math.exp(round(20 * math.log(dt)) / 20)
        if key not in self._propagations:
            if len(self._propagations) >= _REMEMBERED_STEPS:
                self._propagations.clear()
            self._propagations[key] = (
                np.asarray(np.kron(_transition(key), np.eye(self.size)), dtype=float),
                np.asarray(np.kron(_jerk_covariance(key), np.diag(self._jerk**2)), dtype=float),
            )
        return self._propagations[key]

    def _age(self, values: Array, dt: float, complete: bool) -> None:
        if complete:
            self._unseen_s[:] = 0.0
            return
        finite = np.isfinite(values)
        key = finite.tobytes()
        if key not in self._unseen_by:
            self._unseen_by[key] = unseen_coefficients(self._matrix[finite] / self._noise[finite][:, None])
        self._unseen_s = np.where(self._unseen_by[key], self._unseen_s + dt, 0.0)

    def _result(self) -> ModalState:
        state, covariance = self._state.copy(), self._covariance.copy()
        unseen = self._unseen_s > self._bridge_s
        if unseen.any():
            state[:, unseen] = np.nan
            places = np.flatnonzero(np.tile(unseen, 3))
            covariance[places, :] = covariance[:, places] = np.nan
            covariance[places, places] = np.inf
        return ModalState(state[0], state[1], state[2], covariance, unseen)


@lru_cache(maxsize=256)
def _transition(dt: float) -> Array:
    """Value, rate and acceleration after ``dt`` s of constant acceleration, shape (3, 3)."""
    matrix = np.array([[1, dt, dt**2 / 2], [0, 1, dt], [0, 0, 1]])
    matrix.flags.writeable = False
    return matrix


def _jerk_covariance(dt: float) -> Array:
    """Covariance that white jerk of unit density adds to value, rate and acceleration in ``dt`` s, shape (3, 3)."""
    return np.array(
        [
            [dt**5 / 20, dt**4 / 8, dt**3 / 6],
            [dt**4 / 8, dt**3 / 3, dt**2 / 2],
            [dt**3 / 6, dt**2 / 2, dt],
        ]
    )
