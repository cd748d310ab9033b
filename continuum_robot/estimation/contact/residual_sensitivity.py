# SPDX-License-Identifier: Apache-2.0
"""What errors of the state do to the residual of the momentum observer: johnston section 8, (62)-(69).

The derivatives of momentum and known force are exact (rod/contact/functions.py); dr/dx follows the observer's own
recursion. A constant error Delta x moves r by dr/dx Delta x; errors that change from sample to sample pass the observer
as noise, whose stationary covariance has a closed form:

With a = 1 / (1 + K dt) the residual is r_k = a r_(k-1) + a K (U e_k + W e_(k-1)) of the errors e, with
U = P - F dt / 2 and W = - P - F dt / 2. One error gives a K U at once and a^(j-1) a K (a U + W) after j cycles, so
with Z = a U + W and S the errors' covariance that of channels i, j is
a_i K_i a_j K_j [U S U^T + Z S Z^T / (1 - a_i a_j)]_ij.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ParameterError

Vector = NDArray[np.float64]


class ResidualSensitivity:
    """dr/dx of the momentum observer for x = (c, c_rate), johnston (65), (69), by the observer's recursion.

    S_k = (S_(k-1) + K (P_k - P_(k-1)) - K (F_k + F_(k-1)) / 2 dt) / (1 + K dt) with P = dp/dx, F = d(known force)/dx.
    The first P counts in full, as in (65): the error is taken to begin with the observation. The next S is computed
    with the error budget, see :meth:`.algebra.BudgetAlgebra.gmo_budget`.

    Parameters
    ----------
    gain : K_o, (n,), 1/s

    Attributes
    ----------
    gain : (n,), 1/s
    matrix : dr/dx, (n, 2 n)
    momentum, force : derivatives of momentum and force of the last cycle, (n, 2 n) each
    fresh : before the first cycle

    Raises
    ------
    ParameterError : a gain that is not positive and finite
    """

    def __init__(self, gain: ArrayLike) -> None:
        self.gain: Vector = np.asarray(gain, dtype=float)
        if not np.all(self.gain > 0):
            raise ParameterError("gain", gain, "positive numbers, 1/s")
        self.reset()

    def reset(self) -> None:
        """Restart."""
        n = self.gain.size
        self.matrix: Vector = np.zeros((n, 2 * n))
        self.momentum: Vector = np.zeros((n, 2 * n))
        self.force: Vector = np.zeros((n, 2 * n))
        self.fresh = True

    def take(self, matrix: Vector, momentum_by_state: Vector, force_by_state: Vector) -> None:
        """Keep a cycle.

        Parameters
        ----------
        matrix : dr/dx after it, (n, 2 n)
        momentum_by_state : derivative dp/dx = [dp/dc, M], (n, 2 n), johnston (66)-(68)
        force_by_state : derivative of the known force with friction, (n, 2 n)
        """
        self.matrix, self.momentum, self.force, self.fresh = matrix, momentum_by_state, force_by_state, False
