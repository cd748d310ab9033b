# SPDX-License-Identifier: Apache-2.0
"""One cycle of the Kalman disturbance observer.

x = (c, c_rate, d) with M c_rate' = known force + d - M' c_rate, johnston (45), by exponential Euler, which is exact for
a linear model; its series of third order limits the step, see estimation/contact/disturbance_observer.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuum_robot.estimation.contact.algebra.buffered_call import BufferedCall
from continuum_robot.rod.kernel.library import library

Vector = NDArray[np.float64]


class FilterAlgebra:
    """One cycle of the Kalman disturbance observer, with NumPy.

    Parameters
    ----------
    size : number n of coordinates
    """

    def __init__(self, size: int) -> None:
        self.size = size

    def filtered(
        self,
        state: Vector,
        P: Vector,
        model: Any,
        *,
        walk: Vector,
        measured: Vector,
        noise: Vector,
        dt: float,
        halvings: int,
    ) -> tuple[Vector, Vector]:
        """One cycle of the extended Kalman filter: state (3 n,) and covariance (3 n, 3 n) after it.

        Parameters
        ----------
        state, P : before, (c, c_rate, d) and its covariance, (3 n,) and (3 n, 3 n); d in N.m^2
        model : at ``state``, as :class:`~continuum_robot.estimation.contact.disturbance_observer.StateTerms`
        walk : spectral density of d, (n, n), (N.m^2)^2/s
        measured, noise : coefficients and their covariance, (n,) and (n, n)
        dt : of the cycle, s
        halvings : how often it is halved for the series
        """
        terms, (by_c, by_rate) = model.terms, model.forces_by_state()
        of_rod = terms.mass, by_c, by_rate, terms.momentum_by_c, terms.known_force + model.force
        return self._cycle(halvings, *of_rod, state, P, walk, measured, noise, (dt * 0.5**halvings, dt))

    def _cycle(
        self,
        halvings: int,
        mass: Vector,
        by_c: Vector,
        by_rate: Vector,
        momentum_by_c: Vector,
        known_force: Vector,
        state: Vector,
        P: Vector,
        walk: Vector,
        measured: Vector,
        noise: Vector,
        times: tuple[float, float],
    ) -> tuple[Vector, Vector]:
        n, (h, dt) = self.size, times
        c, rate, d = (slice(k * n, (k + 1) * n) for k in range(3))
        inverse = np.linalg.inv(mass)
        A = np.zeros((3 * n, 3 * n))
        A[c, rate] = np.eye(n) * h
        A[rate] = inverse @ np.concatenate([by_c, by_rate - momentum_by_c, np.eye(n)], axis=1) * h
        force = known_force + state[d] - momentum_by_c @ state[rate]
        step = term = np.concatenate([state[rate], inverse @ force, np.zeros(n)]) * h  # johnston (45)
        for k in (2, 3, 4):
            term = A @ term / k
            step = step + term
        square = A @ A
        transition = np.eye(3 * n) + A + square / 2 + square @ A / 6
        for _ in range(halvings):
            step = step + transition @ step
            transition = transition @ transition
        P = transition @ P @ transition.T
        P[d, d] += walk * dt
        predicted = state + step
        gain = np.linalg.solve(P[c, c] + noise, P[c, :]).T
        updated = P - gain @ P[c, :]
        return predicted + gain @ (measured - predicted[c]), (updated + updated.T) / 2


class CompiledFilter(FilterAlgebra):
    """The same in the rod's kernel. For one thread."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        n, square = size, (size, size)
        inputs = (square,) * 4, ((n,), (3 * n,), (3 * n, 3 * n), square), ((n,), square, (2,))
        self._call = BufferedCall("rod_filter", n, sum(inputs, ()), ((3 * n,), (3 * n, 3 * n)))

    def _cycle(self, halvings: int, *given: Any) -> tuple[Vector, Vector]:
        newest, covariance = self._call(halvings, *given)
        return newest.copy(), covariance.copy()


def filter_algebra(size: int) -> FilterAlgebra:
    """The filter for n = ``size`` coordinates, compiled where the kernel's library was built."""
    return FilterAlgebra(size) if library() is None else CompiledFilter(size)
