# SPDX-License-Identifier: Apache-2.0
"""Error budgets of the three residual methods: the derivatives of estimation/contact/error_budget.py, derived here."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuum_robot.estimation.contact.algebra.buffered_call import BufferedCall
from continuum_robot.estimation.contact.error_budget import COVARIANCE_FLOOR, Budget
from continuum_robot.estimation.contact.residual_sensitivity import ResidualSensitivity
from continuum_robot.rod.kernel.library import library

Vector = NDArray[np.float64]


class BudgetAlgebra:
    """Error budgets of the three methods, with NumPy; ``fractions`` are the values of ``FRACTIONS``.

    Parameters
    ----------
    stiffness : of the robot's coordinates, (n, n)
    strain_count : kinds of strain that the rod has
    """

    def __init__(self, stiffness: Vector, strain_count: int) -> None:
        self.size, self.strain_count = len(stiffness), strain_count
        self.floor = COVARIANCE_FLOOR * float(np.trace(stiffness)) ** 2

    def kalman_budget(
        self,
        fractions: Vector,
        elastic: Vector,
        *,
        spread: Vector,
        by_c: Vector,
        rod_by_rate: Vector,
        friction: Vector | None,
    ) -> Budget:
        """Of the Kalman disturbance observer.

        Parameters
        ----------
        fractions : values of ``FRACTIONS``, in the units of their names, (5,)
        elastic : force of the stiffness by the strain that it comes from, (strains, n), N.m^2
        spread : the observer's own covariance of the residual, (n, n)
        by_c : derivative of all known forces by c, (n, n)
        rod_by_rate : derivative of the rod's own forces by c_rate, (n, n)
        friction : generalised force, (n,), N.m^2; None: no friction
        """
        return self._budget("kalman", fractions, elastic, by_c, friction, spread, rod_by_rate)[0]

    def gmo_budget(
        self,
        fractions: Vector,
        elastic: Vector,
        *,
        lag: Vector,
        sensitivity: ResidualSensitivity,
        dt: float,
        by_state: tuple[Vector, Vector],
        noise: tuple[Vector, Vector],
        friction: Vector | None,
    ) -> Budget:
        """Of the momentum observer; carries the sensitivity on.

        Parameters
        ----------
        fractions, elastic, friction : as in :meth:`kalman_budget`
        lag : what the residual is late by, (n,), N.m^2
        sensitivity : of the observer; it is updated
        dt : of the cycle, s
        by_state : derivatives of the momentum and of all known forces by (c, c_rate), (n, 2 n) each
        noise : covariances of the samples of c and of c_rate, (n, n) each
        """
        steps = (0.0 if sensitivity.fresh else dt, dt)
        old = (sensitivity.matrix, sensitivity.momentum, sensitivity.force)
        more = (lag, sensitivity.gain, steps, *old, *by_state, *noise)
        budget, (matrix,) = self._budget("gmo", fractions, elastic, by_state[1][:, : self.size], friction, *more)
        sensitivity.take(matrix, *by_state)
        return budget

    def jfd_budget(
        self,
        fractions: Vector,
        elastic: Vector,
        *,
        by_c: Vector,
        by_rate: Vector,
        mass: Vector,
        noise: tuple[Vector, Vector],
        acceleration_noise: float,
        friction: Vector | None,
    ) -> Budget:
        """Of the joint-force deviation.

        Parameters
        ----------
        fractions, elastic, noise, friction : as in :meth:`kalman_budget` and :meth:`gmo_budget`
        by_c, by_rate : derivatives of all known forces, (n, n)
        mass : M, (n, n), kg.m^4
        acceleration_noise : standard deviation of the accelerations, 1/(m.s^2)
        """
        more = (by_rate, mass, *noise, acceleration_noise)
        return self._budget("jfd", fractions, elastic, by_c, friction, *more)[0]

    def _budget(
        self, method: str, fractions: Vector, elastic: Vector, by_c: Vector, friction: Vector | None, *more: Any
    ) -> tuple[Budget, tuple[Vector, ...]]:
        """The budget of a method, with what else it finds."""
        constant, spread, errors, found = _PARTS[method](fractions, by_c, *more)
        rubbing = np.zeros(self.size) if friction is None else fractions[3] * friction
        of_model = np.array([*(fractions[2] * elastic), rubbing])
        rows = np.array([*of_model, *errors])
        # A constant error of the coefficients is as likely in each of them: its variance is a third of its square.
        shift = by_c * (fractions[0] / math.sqrt(3))
        covariance = spread + rows.T @ rows + shift @ shift.T + self.floor * np.eye(self.size)
        bound = constant + np.abs(of_model).sum(axis=0) + fractions[4] * np.sqrt(np.diag(spread))
        return Budget(bound, covariance, np.linalg.inv(covariance)), found


Parts = tuple[Vector, Vector, tuple[Vector, ...], tuple[Vector, ...]]
"""Largest change by constant errors, covariance of the noise, further errors as rows, and what else was found."""


def _kalman(fractions: Vector, by_c: Vector, spread: Vector, rod_by_rate: Vector) -> Parts:
    return _constant(fractions, by_c, rod_by_rate), spread, (), ()


def _gmo(
    fractions: Vector,
    _by_c: Vector,
    lag: Vector,
    gain: Vector,
    steps: tuple[float, float],
    before: Vector,
    old_momentum: Vector,
    old_force: Vector,
    momentum: Vector,
    force: Vector,
    *noise: Vector,
) -> Parts:
    n, (step, dt) = len(gain), steps
    change = momentum - old_momentum - (force + old_force) * (step / 2)
    matrix = (before + gain[:, None] * change) / (1 + gain[:, None] * step)  # johnston (65), (69)
    # Of estimation/contact/residual_sensitivity.py.
    state_noise = np.zeros((2 * n, 2 * n))
    state_noise[:n, :n], state_noise[n:, n:] = noise
    pole = 1 / (1 + gain * dt)
    now = momentum - force * (dt / 2)
    tail = pole[:, None] * now - momentum - force * (dt / 2)
    spread = now @ state_noise @ now.T + (tail @ state_noise @ tail.T) / (1 - np.outer(pole, pole))
    spread *= np.outer(pole * gain, pole * gain)
    return _constant(fractions, matrix[:, :n], matrix[:, n:]), spread, (lag,), (matrix,)


def _jfd(
    fractions: Vector,
    by_c: Vector,
    by_rate: Vector,
    mass: Vector,
    noise: Vector,
    rate_noise: Vector,
    acceleration_noise: float,
) -> Parts:
    spread = by_c @ noise @ by_c.T + by_rate @ rate_noise @ by_rate.T + mass @ mass.T * acceleration_noise**2
    return _constant(fractions, by_c, by_rate), spread, (), ()


_PARTS: dict[str, Callable[..., Parts]] = {"kalman": _kalman, "gmo": _gmo, "jfd": _jfd}


def _constant(fractions: Vector, by_c: Vector, by_rate: Vector) -> Vector:
    """Largest change of each channel by the constant errors of c and c_rate, (n,), johnston (64)."""
    return np.asarray(np.abs(by_c).sum(axis=1) * fractions[0] + np.abs(by_rate).sum(axis=1) * fractions[1])


class CompiledBudgets(BudgetAlgebra):
    """The same in the rod's kernel. For one thread."""

    def __init__(self, stiffness: Vector, strain_count: int) -> None:
        super().__init__(stiffness, strain_count)
        n, square, wide = self.size, (self.size, self.size), (self.size, 2 * self.size)
        shared = (5,), (strain_count, n), square, (n,), (1,)
        more = {
            "kalman": (square, square),
            "jfd": (*(square,) * 4, (1,)),
            "gmo": ((n,), (n,), (2,), *(wide,) * 5, square, square),
        }
        found, extra = ((n,), square, square), {"gmo": (wide,)}
        self._calls = {
            method: BufferedCall(f"rod_{method}_budget", n, shared + inputs, found + extra.get(method, ()))
            for method, inputs in more.items()
        }

    def _budget(
        self, method: str, fractions: Vector, elastic: Vector, by_c: Vector, friction: Vector | None, *more: Any
    ) -> tuple[Budget, tuple[Vector, ...]]:
        shared = fractions, elastic, by_c, 0.0 if friction is None else friction, self.floor
        results = self._calls[method](self.strain_count, *shared, *more)
        bound, covariance, information, *found = (one.copy() for one in results)
        return Budget(bound, covariance, information), tuple(found)


def budget_algebra(stiffness: Vector, strain_count: int) -> BudgetAlgebra:
    """The budgets, compiled where the kernel's library was built; parameters as of :class:`BudgetAlgebra`."""
    return (BudgetAlgebra if library() is None else CompiledBudgets)(stiffness, strain_count)
