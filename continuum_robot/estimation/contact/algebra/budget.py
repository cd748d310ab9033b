# SPDX-License-Identifier: Apache-2.0
"""Error budgets of the three residual methods, generated: the derivatives of estimation/contact/error_budget.py.

Derived here. The tests hold the same formulas with NumPy against it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from continuum_robot.estimation.contact.algebra.filter import Blocks
from continuum_robot.estimation.contact.error_budget import COVARIANCE_FLOOR, FRACTIONS, Budget
from continuum_robot.estimation.contact.residual_sensitivity import ResidualSensitivity
from continuum_robot.rod.code.generation import compile_functions

Vector = NDArray[np.float64]


class BudgetAlgebra:
    """Error budgets of the three methods; ``fractions`` are the values of ``FRACTIONS``. For one thread.

    Parameters
    ----------
    stiffness : of the robot's coordinates, (n, n)
    strain_count : kinds of strain that the rod has
    name, compile, progress : as of :class:`FilterAlgebra`
    """

    def __init__(
        self,
        stiffness: Vector,
        strain_count: int,
        name: str = "",
        *,
        compile: str = "auto",
        progress: Callable[[str], None] | None = None,
    ) -> None:
        blocks, of = Blocks(len(stiffness)), (strain_count, float(np.trace(stiffness)))
        functions = [_kalman_budget(blocks, of), _gmo_budget(blocks, of), _jfd_budget(blocks, of)]
        made = compile_functions(functions, f"the error budgets of {name}", compile=compile, progress=progress)
        self.size = len(stiffness)
        self._budgets = {method: made[f"{method}_budget"] for method in ("kalman", "gmo", "jfd")}
        self._friction_free = np.zeros(self.size)

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
        return self._budget("kalman", fractions, elastic, by_c, friction, rod_by_rate, spread)[0]

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
        given = (lag, sensitivity.gain, steps, *old, *by_state, *noise)
        budget, more = self._budget("gmo", fractions, elastic, by_state[1][:, : self.size], friction, *given)
        sensitivity.take(more[0].copy(), *by_state)
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
        return self._budget("jfd", fractions, elastic, by_c, friction, by_rate, mass, *noise, acceleration_noise)[0]

    def _budget(
        self, method: str, fractions: Vector, elastic: Vector, by_c: Vector, friction: Vector | None, *more: Any
    ) -> tuple[Budget, tuple[Vector, ...]]:
        function = self._budgets[method]
        given = (
            fractions,
            elastic.T.reshape(function.inputs[1].shape),
            by_c,
            self._friction_free if friction is None else friction,
            *more,
        )
        for buffer, value in zip(function.inputs, given, strict=True):
            buffer[:] = value
        function.run()
        bound, covariance, information, *others = function.outputs
        return Budget(bound.copy(), covariance.copy(), information.copy()), tuple(others)


# --- error budgets


def _kalman_budget(blocks: Blocks, of: tuple[int, float]) -> ca.Function:
    common = _BudgetSymbols(blocks, of)
    rod_by_rate, spread = blocks.symbol("rod_by_rate"), blocks.symbol("spread")
    systematic = common.by_errors(common.by_c, rod_by_rate)
    return common.function("kalman", [rod_by_rate, spread], systematic=systematic, spread=spread)


def _gmo_budget(blocks: Blocks, of: tuple[int, float]) -> ca.Function:
    common, n = _BudgetSymbols(blocks, of), blocks.n
    lag, gain, dt = blocks.vector("lag"), blocks.vector("gain"), ca.MX.sym("dt", 2)
    old = [ca.MX.sym(name, n, 2 * n) for name in ("S", "old_momentum", "old_force")]
    new = [ca.MX.sym(name, n, 2 * n) for name in ("momentum", "force")]
    noise = [blocks.symbol("noise"), blocks.symbol("rate_noise")]
    wide = ca.repmat(gain, 1, 2 * n)
    change = new[0] - old[1] - (new[1] + old[2]) * (dt[0] / 2)
    sensitivity = (old[0] + wide * change) / (1 + wide * dt[0])  # johnston (65), (69)
    pole = 1 / (1 + gain * dt[1])
    now = new[0] - new[1] * (dt[1] / 2)
    before = -new[0] - new[1] * (dt[1] / 2)
    tail = ca.repmat(pole, 1, 2 * n) * now + before  # of estimation/contact/residual_sensitivity.py
    spread, later = (
        sum(
            blocks.transposed(blocks.product(part, covariance), part)
            for part, covariance in zip(blocks.split(matrix), noise, strict=True)
        )
        for matrix in (now, tail)
    )
    spread = (spread + later / (1 - ca.mtimes(pole, pole.T))) * ca.mtimes(pole * gain, (pole * gain).T)
    systematic = common.by_errors(*blocks.split(sensitivity))  # johnston (64)
    more = [lag, gain, dt, *old, *new, *noise]
    return common.function("gmo", more, systematic=systematic, spread=spread, errors=[lag], results=[sensitivity])


def _jfd_budget(blocks: Blocks, of: tuple[int, float]) -> ca.Function:
    common = _BudgetSymbols(blocks, of)
    by_rate, mass = blocks.symbol("by_rate"), blocks.symbol("mass")
    noise, rate_noise, acceleration = blocks.symbol("noise"), blocks.symbol("rate_noise"), ca.MX.sym("acceleration")
    spread = (
        blocks.transposed(blocks.product(common.by_c, noise), common.by_c)
        + blocks.transposed(blocks.product(by_rate, rate_noise), by_rate)
        + blocks.transposed(mass, mass) * acceleration**2
    )
    systematic = common.by_errors(common.by_c, by_rate)
    return common.function(
        "jfd",
        [by_rate, mass, noise, rate_noise, acceleration],
        systematic=systematic,
        spread=spread,
    )


class _BudgetSymbols:
    """What all budgets share."""

    def __init__(self, blocks: Blocks, of: tuple[int, float]) -> None:
        self.blocks = blocks
        self.strains, self.trace = of
        self.fractions = ca.MX.sym("fractions", len(FRACTIONS))
        self.elastic = ca.MX.sym("elastic", blocks.n, self.strains)
        self.by_c, self.friction = blocks.symbol("by_c"), blocks.vector("friction")

    def by_errors(self, by_c: Any, by_rate: Any) -> Any:
        """Largest change of each channel by the constant errors of c and c_rate."""
        return ca.sum2(ca.fabs(by_c)) * self.fractions[0] + ca.sum2(ca.fabs(by_rate)) * self.fractions[1]

    def function(
        self,
        method: str,
        more: list[Any],
        *,
        systematic: Any,
        spread: Any,
        errors: Sequence[Any] = (),
        results: Sequence[Any] = (),
    ) -> ca.Function:
        """(fractions, elastic, by_c, friction, more) -> bound, covariance, its inverse, results."""
        n = self.blocks.n
        stiffer = self.fractions[2] * self.elastic
        rubbing = self.fractions[3] * self.friction
        bound = systematic + ca.sum2(ca.fabs(stiffer)) + ca.fabs(rubbing) + self.fractions[4] * ca.sqrt(ca.diag(spread))
        columns = ca.horzcat(stiffer, rubbing, *errors)
        shift = self.by_c * (self.fractions[0] / np.sqrt(3))
        floor = COVARIANCE_FLOOR * self.trace**2
        covariance = spread + ca.mtimes(columns, columns.T) + self.blocks.transposed(shift, shift)
        covariance = covariance + ca.MX(floor * ca.DM(np.eye(n)))
        return ca.Function(
            f"{method}_budget",
            [self.fractions, self.elastic, self.by_c, self.friction, *more],
            [bound, ca.densify(covariance), self.blocks.inverse(covariance), *results],
        )


# --- ContactLocator
