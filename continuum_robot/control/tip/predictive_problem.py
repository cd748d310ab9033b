# SPDX-License-Identifier: Apache-2.0
"""The quadratic program of one step of predictive tip control, solved by one of CasADi's solvers.

Derived here. Over N stages of h seconds the Clarke coordinates q, their rates v and accelerations a go on as

    q_k+1 = q_k + h v_k + h^2 / 2 a_k,   v_k+1 = v_k + h a_k,   v_N = 0,

and the cost is sum_k |J_k (q_k - qbar_k) - e_k|^2_W + |v_k|^2_Rv + |a_k|^2_Ra + damping |q_k - qbar_k|^2 + penalties of
the slacks s_k >= 0 with which all rows G_k (q_k, v_k, a_k-1) - s_k <= r_k are kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ParameterError, optional

ca = optional("casadi")

Vector = NDArray[np.float64]

SOLVERS: dict[str, dict[str, Any]] = {
    "piqp": {},
    "daqp": {},
    "osqp": {"osqp": {"verbose": False, "eps_abs": 1e-5, "eps_rel": 1e-5, "max_iter": 4000}},
    "proxqp": {},
    "qpoases": {"printLevel": "none"},
}
"""CasADi's names of the solvers that come with its wheels, and what keeps them quiet."""


@dataclass(frozen=True)
class Stages:
    """Terms of all N stages, about the trajectory that they were linearised at."""

    hessian: Vector
    slope: Vector
    rows: Vector
    bounds: Vector


@dataclass(frozen=True)
class Plan:
    """A trajectory of constant accelerations over the stages."""

    position: Vector
    velocity: Vector
    acceleration: Vector
    slack: Vector


class PredictiveProblem:
    """The program for a number of coordinates, stages and rows; its pattern is fixed, so it is set up once."""

    def __init__(
        self,
        unit_m: Vector,
        stages: int,
        stage_s: float,
        kinds: NDArray[np.intp],
        *,
        filled: NDArray[np.bool_],
        rate_weight: Vector,
        acceleration_weight: Vector,
        penalties: Vector,
        solver: str,
    ) -> None:
        if solver not in SOLVERS or not ca.has_conic(solver):
            raise ParameterError(
                "solver", solver, f"one of {', '.join(name for name in SOLVERS if ca.has_conic(name))}"
            )
        self._unit = np.asarray(unit_m, dtype=float)
        self._n, self._stages, self._h, self._slacks = len(unit_m), stages, stage_s, len(penalties)
        self._rows, self._kinds, self._filled = len(kinds), kinds, np.nonzero(filled)
        self._rate, self._effort = rate_weight * self._unit**2, acceleration_weight * self._unit**2
        self._penalties = np.asarray(penalties)
        self._width = 3 * self._n + self._slacks  # of a stage: a, q, v, slacks
        count = stages * self._width
        entries = self._pattern()
        a, self._a_order = ca.Sparsity.triplet(int(entries[0].max()) + 1, count, entries[0], entries[1], False)
        blocks = self._hessian_pattern()
        h, self._h_order = ca.Sparsity.triplet(count, count, blocks[0], blocks[1], False)
        self._a, self._h_pattern = a, h
        self._solve = ca.conic("predictive", solver, {"h": h, "a": a}, {**SOLVERS[solver], "error_on_fail": False})
        self._constant = self._dynamics()
        self._guess = np.zeros(count)

    def solve(self, position: Vector, velocity: Vector, stages: Stages) -> Plan | None:
        """The plan from a state, or None where the solver found none."""
        n, h, width, rows, many = self._n, self._h, self._width, self._rows, self._stages
        equalities = 2 * n * many
        unit, units = self._unit, np.tile(self._unit, 3)
        position, velocity = position / unit, velocity / unit
        lower = np.concatenate([np.zeros(equalities), np.full(rows * many, -np.inf)])
        upper = np.concatenate([np.zeros(equalities), stages.bounds.ravel()])
        lower[:n] = upper[:n] = position + h * velocity
        lower[n : 2 * n] = upper[n : 2 * n] = velocity
        g = np.zeros((many, width))
        g[:, n : 2 * n], g[:, 3 * n :] = stages.slope * unit, self._penalties[:, 0]
        entries = (stages.rows * units)[:, self._filled[0], self._filled[1]]
        values_a = np.hstack([entries, np.full((many, rows), -1.0)]).ravel()
        squared = (stages.hessian * np.outer(unit, unit)).reshape(many, -1)
        known = [np.tile(one, (many, 1)) for one in (self._effort, self._rate, self._penalties[:, 1])]
        values_h = np.hstack([known[0], squared, *known[1:]]).ravel()
        low, high = np.full((self._stages, width), -np.inf), np.full((self._stages, width), np.inf)
        low[:, 3 * n :] = 0.0
        low[-1, 2 * n : 3 * n] = high[-1, 2 * n : 3 * n] = 0.0  # a plan ends at rest
        try:
            found = self._solve(
                h=ca.DM(self._h_pattern, values_h[self._h_order]),
                a=ca.DM(self._a, np.concatenate([self._constant, values_a])[self._a_order]),
                g=g.ravel(),
                lba=lower,
                uba=upper,
                lbx=low.ravel(),
                ubx=high.ravel(),
                x0=self._guess,
            )
        except RuntimeError:  # some solvers report infeasible data so
            return None
        x = np.array(found["x"]).ravel()
        if not self._solve.stats()["success"] or not np.all(np.isfinite(x)):
            return None
        self._guess = x
        table = x.reshape(self._stages, width)
        return Plan(
            unit * np.vstack([position, table[:, n : 2 * n]]),
            unit * np.vstack([velocity, table[:, 2 * n : 3 * n]]),
            unit * table[:, :n],
            table[:, 3 * n :].copy(),
        )

    def _pattern(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Rows and columns of the constraints' entries: the dynamics, then stage after stage the inequalities."""
        n, width = self._n, self._width
        row: list[NDArray[np.intp]] = []
        column: list[NDArray[np.intp]] = []
        each = np.arange(n)
        for k in range(self._stages):
            at = k * width
            q, v = 2 * k * n + each, (2 * k + 1) * n + each
            for rows, columns in ((q, at + n + each), (q, at + each), (v, at + 2 * n + each), (v, at + each)):
                row.append(rows)
                column.append(columns)
            if k:
                before = at - width
                for rows, columns in ((q, before + n + each), (q, before + 2 * n + each), (v, before + 2 * n + each)):
                    row.append(rows)
                    column.append(columns)
        first = 2 * n * self._stages
        order = np.concatenate([n + each, 2 * n + each, each])  # q, v, a in the stage
        for k in range(self._stages):
            rows = first + k * self._rows + np.arange(self._rows)
            row += [rows[self._filled[0]], rows]
            column += [k * width + order[self._filled[1]], k * width + 3 * n + self._kinds]
        return np.concatenate(row), np.concatenate(column)

    def _dynamics(self) -> Vector:
        """Values of the dynamics' entries, in the order of the pattern."""
        n, h, ones = self._n, self._h, np.ones(self._n)
        values = []
        for k in range(self._stages):
            values += [ones, np.full(n, -(h**2) / 2), ones, np.full(n, -h)]
            values += [-ones, np.full(n, -h), -ones] if k else []
        return np.concatenate(values)

    def _hessian_pattern(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        n, width = self._n, self._width
        row, column = [], []
        each = np.arange(n)
        for k in range(self._stages):
            at = k * width
            diagonal = at + 3 * n + np.arange(self._slacks)
            row += [at + each, np.repeat(at + n + each, n), at + 2 * n + each, diagonal]
            column += [at + each, np.tile(at + n + each, n), at + 2 * n + each, diagonal]
        return np.concatenate(row), np.concatenate(column)
