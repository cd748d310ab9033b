# SPDX-License-Identifier: Apache-2.0
"""Error budgets of the three residual methods: the derivatives of estimation/contact/error_budget.py, derived here."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuum_robot.estimation.contact.algebra.kernel_call import KernelCall
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
        constant = _constant(fractions, by_c, rod_by_rate)
        return self._budget(fractions, elastic, constant, spread=spread, by_c=by_c, friction=friction)

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
        n, gain = self.size, sensitivity.gain
        step, (momentum, force) = 0.0 if sensitivity.fresh else dt, by_state
        change = momentum - sensitivity.momentum - (force + sensitivity.force) * (step / 2)
        matrix = (sensitivity.matrix + gain[:, None] * change) / (1 + gain[:, None] * step)  # johnston (65), (69)
        sensitivity.take(matrix, momentum, force)
        # Of estimation/contact/residual_sensitivity.py.
        state_noise = np.zeros((2 * n, 2 * n))
        state_noise[:n, :n], state_noise[n:, n:] = noise
        pole = 1 / (1 + gain * dt)
        now = momentum - force * (dt / 2)
        tail = pole[:, None] * now - momentum - force * (dt / 2)
        spread = now @ state_noise @ now.T + (tail @ state_noise @ tail.T) / (1 - np.outer(pole, pole))
        spread *= np.outer(pole * gain, pole * gain)
        constant = _constant(fractions, matrix[:, :n], matrix[:, n:])
        by_c = force[:, :n]
        return self._budget(fractions, elastic, constant, spread=spread, by_c=by_c, friction=friction, errors=[lag])

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
        spread = by_c @ noise[0] @ by_c.T + by_rate @ noise[1] @ by_rate.T + mass @ mass.T * acceleration_noise**2
        constant = _constant(fractions, by_c, by_rate)
        return self._budget(fractions, elastic, constant, spread=spread, by_c=by_c, friction=friction)

    def _budget(
        self,
        fractions: Vector,
        elastic: Vector,
        constant: Vector,
        *,
        spread: Vector,
        by_c: Vector,
        friction: Vector | None,
        errors: Sequence[Vector] = (),
    ) -> Budget:
        rubbing = np.zeros(self.size) if friction is None else fractions[3] * friction
        of_model = np.array([*(fractions[2] * elastic), rubbing])
        rows = np.array([*of_model, *errors])
        # A constant error of the coefficients is as likely in each of them: its variance is a third of its square.
        shift = by_c * (fractions[0] / math.sqrt(3))
        covariance = spread + rows.T @ rows + shift @ shift.T + self.floor * np.eye(self.size)
        bound = constant + np.abs(of_model).sum(axis=0) + fractions[4] * np.sqrt(np.diag(spread))
        return Budget(bound, covariance, np.linalg.inv(covariance))


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
        found = (n,), square, square
        self._calls = {
            method: KernelCall(f"rod_{method}_budget", n, shared + inputs, (*found, wide) if method == "gmo" else found)
            for method, inputs in more.items()
        }

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
        """As above."""
        return self._found("kalman", fractions, elastic, by_c, friction, spread, rod_by_rate)

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
        """As above."""
        steps = (0.0 if sensitivity.fresh else dt, dt)
        old = (sensitivity.matrix, sensitivity.momentum, sensitivity.force)
        more = (lag, sensitivity.gain, steps, *old, *by_state, *noise)
        budget = self._found("gmo", fractions, elastic, by_state[1][:, : self.size], friction, *more)
        sensitivity.take(self._calls["gmo"].outputs[-1].copy(), *by_state)
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
        """As above."""
        more = (by_rate, mass, *noise, acceleration_noise)
        return self._found("jfd", fractions, elastic, by_c, friction, *more)

    def _found(
        self, method: str, fractions: Vector, elastic: Vector, by_c: Vector, friction: Vector | None, *more: Any
    ) -> Budget:
        shared = fractions, elastic, by_c, 0.0 if friction is None else friction, self.floor
        bound, covariance, information, *_ = self._calls[method](self.strain_count, *shared, *more)
        return Budget(bound.copy(), covariance.copy(), information.copy())


def budget_algebra(stiffness: Vector, strain_count: int) -> BudgetAlgebra:
    """The budgets, compiled where the kernel's library was built; parameters as of :class:`BudgetAlgebra`."""
    return (BudgetAlgebra if library() is None else CompiledBudgets)(stiffness, strain_count)
