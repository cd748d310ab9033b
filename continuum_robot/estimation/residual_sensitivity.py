# SPDX-License-Identifier: Apache-2.0
"""What errors of the state do to the residual of the momentum observer: johnston section 8, (62)-(69).

The derivatives of momentum and known force are exact (rod/contact_functions.py); dr/dx follows the observer's own
recursion. A constant error Delta x moves r by dr/dx Delta x; errors that change from sample to sample pass the observer
as noise, whose stationary covariance has a closed form.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ParameterError

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class SensitivityState:
    """dr/dx and the derivatives of momentum and force of the last cycle, (n, 2 n) each; ``fresh`` before the first.

    Attributes
    ----------
    matrix : dr/dx, (n, 2 n)
    momentum, force : derivatives of momentum and force of the last cycle, (n, 2 n) each
    fresh : before the first cycle
    """

    matrix: Vector
    momentum: Vector
    force: Vector
    fresh: bool


class ResidualSensitivity:
    """dr/dx of the momentum observer for x = (c, c_rate), johnston (65), (69), by the observer's recursion.

    S_k = (S_(k-1) + K (P_k - P_(k-1)) - K (F_k + F_(k-1)) / 2 dt) / (1 + K dt) with P = dp/dx, F = d(known force)/dx.
    The first P counts in full, as in (65): the error is taken to begin with the observation.

    Parameters
    ----------
    gain : K_o, (n,), 1/s

    Attributes
    ----------
    matrix : dr/dx, (n, 2 n)

    Raises
    ------
    ParameterError : a gain that is not positive and finite
    """

    def __init__(self, gain: ArrayLike) -> None:
        self.gain: Vector = np.asarray(gain, dtype=float)[:, None]
        if not np.all(self.gain > 0):
            raise ParameterError("gain", gain, "positive numbers, 1/s")
        self.reset()

    def reset(self) -> None:
        """Begin anew."""
        n = self.gain.size
        self.matrix: Vector = np.zeros((n, 2 * n))
        self._momentum: Vector = np.zeros((n, 2 * n))
        self._force: Vector | None = None

    def update(self, momentum_by_state: Vector, force_by_state: Vector, dt: float) -> Vector:
        """One more cycle.

        Parameters
        ----------
        momentum_by_state : derivative dp/dx = [dp/dc, M], (n, 2 n), johnston (66)-(68)
        force_by_state : derivative of the known force with friction, (n, 2 n)
        dt : time since the previous update, s; not used at the first

        Returns
        -------
        dr/dx, (n, 2 n); the array of the object, not a copy
        """
        gain = self.gain
        change = momentum_by_state - self._momentum
        if self._force is None:
            dt = 0.0
        else:
            change -= (force_by_state + self._force) * (dt / 2)
        self.matrix = (self.matrix + gain * change) / (1 + gain * dt)
        self._momentum, self._force = momentum_by_state, force_by_state
        return self.matrix

    @property
    def before(self) -> SensitivityState:
        """What the next cycle starts from, for those who compute it elsewhere."""
        fresh = self._force is None
        return SensitivityState(
            self.matrix, self._momentum, np.zeros_like(self.matrix) if self._force is None else self._force, fresh
        )

    def take(self, matrix: Vector, momentum_by_state: Vector, force_by_state: Vector) -> None:
        """Keep a cycle that was computed elsewhere.

        Parameters
        ----------
        matrix : dr/dx after it, (n, 2 n)
        momentum_by_state, force_by_state : as of :meth:`update`, (n, 2 n) each
        """
        self.matrix, self._momentum, self._force = matrix, momentum_by_state, force_by_state

    def bound(self, state_error: ArrayLike) -> Vector:
        """Largest change of each channel for errors |Delta x_j| up to ``state_error`` (2 n,), shape (n,): (64).

        Parameters
        ----------
        state_error : of every coefficient (1/m) and rate (1/(m.s)), (2 n,)
        """
        return np.abs(self.matrix) @ np.asarray(state_error, dtype=float)

    def covariance(self, state_covariance: ArrayLike) -> Vector:
        """Covariance of the residual for a constant error of covariance (2 n, 2 n), shape (n, n).

        Parameters
        ----------
        state_covariance : covariance of (c, c_rate), (2 n, 2 n)
        """
        return self.matrix @ np.asarray(state_covariance, dtype=float) @ self.matrix.T


def noise_covariance(
    gain: ArrayLike, dt: float, momentum_by_state: Vector, force_by_state: Vector, state_covariance: Vector
) -> Vector:
    """Covariance of a settled residual for errors of the state that are independent from sample to sample.

    With a = 1 / (1 + K dt) the residual is r_k = a r_(k-1) + a K (U e_k + W e_(k-1)) of the errors e, with
    U = P - F dt / 2 and W = - P - F dt / 2. One error gives a K U at once and a^(j-1) a K (a U + W) after j cycles, so
    with Z = a U + W and S the errors' covariance that of channels i, j is
    a_i K_i a_j K_j [U S U^T + Z S Z^T / (1 - a_i a_j)]_ij.

    Parameters
    ----------
    gain : K_o, (n,), 1/s
    dt : cycle time, s
    momentum_by_state, force_by_state : derivatives dp/dx and d(known force)/dx, (n, 2 n), taken as constant
    state_covariance : of one sample's error, (2 n, 2 n)

    Returns
    -------
    (n, n)
    """
    K = np.asarray(gain, dtype=float)
    pole = 1 / (1 + K * dt)
    now = momentum_by_state - force_by_state * (dt / 2)
    before = -momentum_by_state - force_by_state * (dt / 2)
    tail = pole[:, None] * now + before
    spread = now @ state_covariance @ now.T
    spread += (tail @ state_covariance @ tail.T) / (1 - np.outer(pole, pole))
    scale = pole * K
    return scale[:, None] * spread * scale
