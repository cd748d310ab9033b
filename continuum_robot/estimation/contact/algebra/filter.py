# SPDX-License-Identifier: Apache-2.0
"""The Kalman filters of the contact monitor, generated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from continuum_robot.rod.code.generation import compile_functions

Vector = NDArray[np.float64]


class FilterAlgebra:
    """One cycle of the Kalman disturbance observer. For one thread.

    Parameters
    ----------
    size : number n of coordinates
    name : of the robot, for the progress line
    compile, progress : as in :func:`~continuum_robot.rod.code.generation.compile_functions`
    """

    def __init__(
        self, size: int, name: str = "", *, compile: str = "auto", progress: Callable[[str], None] | None = None
    ) -> None:
        blocks = Blocks(size)
        made = compile_functions(
            [_flow(blocks), _doubled(blocks), _filtered(blocks)],
            f"the disturbance observer of {name}",
            compile=compile,
            progress=progress,
        )
        self.size = size
        self._flow, self._doubled, self._filtered = made["flow"], made["doubled"], made["filtered"]

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
        n, terms, flow = self.size, model.terms, self._flow
        mass, by_c, by_rate, transport, force, rate, disturbance, h = flow.inputs
        mass[:], by_c[:], transport[:] = terms.mass, terms.force_by_c, terms.momentum_by_c
        by_rate[:] = terms.force_by_rate
        if model.force_by_c is not None:
            by_c += model.force_by_c
        if model.force_by_rate is not None:
            by_rate += model.force_by_rate
        np.add(terms.known_force, model.force, out=force)
        rate[:], disturbance[:], h[:] = state[n : 2 * n], state[2 * n :], dt * 0.5**halvings
        flow.run()
        transition, step = flow.outputs
        for _ in range(halvings):
            self._doubled.inputs[0][:], self._doubled.inputs[1][:] = transition, step
            self._doubled.run()
            transition, step = self._doubled.outputs
        last = self._filtered
        given: tuple[Any, ...] = (state, P, transition, step, walk, dt, measured, noise)
        for buffer, value in zip(last.inputs, given, strict=True):
            buffer[:] = value
        last.run()
        return last.outputs[0].copy(), last.outputs[1].copy()


class Blocks:
    """Products of (n, n) blocks as functions that others call.

    Parameters
    ----------
    n : rows of a block
    """

    def __init__(self, n: int) -> None:
        self.n = n
        A, B = ca.SX.sym("A", n, n), ca.SX.sym("B", n, n)
        options = {"never_inline": True}
        self.product = ca.Function("product", [A, B], [ca.mtimes(A, B)], options)
        self.transposed = ca.Function("product_transposed", [A, B], [ca.mtimes(A, B.T)], options)
        self.inverse = ca.Function("inverse", [A], [_inverse(A)], {**options, "cse": True})

    def sum(self, *pairs: tuple[Any, Any]) -> Any:
        """A B + C D + ... of ``pairs`` (A, B), (C, D), ..."""
        return sum(self.product(a, b) for a, b in pairs[1:]) + self.product(*pairs[0])

    def symbol(self, name: str) -> Any:
        """A block of symbols with this ``name``."""
        return ca.MX.sym(name, self.n, self.n)

    def vector(self, name: str) -> Any:
        """A column of a block with this ``name``."""
        return ca.MX.sym(name, self.n)

    def split(self, matrix: Any) -> list[Any]:
        """Blocks that stand side by side in a ``matrix``."""
        return list(ca.horzsplit(matrix, self.n))


def _inverse(S: Any) -> Any:
    """Of a symmetric positive definite matrix, by its Cholesky factor."""
    n = S.shape[0]
    L, X = ca.SX(n, n), ca.SX(n, n)
    for j in range(n):
        L[j, j] = ca.sqrt(S[j, j] - ca.sumsqr(L[j, :j]))
        for i in range(j + 1, n):
            L[i, j] = (S[i, j] - ca.mtimes(L[i, :j], L[j, :j].T)) / L[j, j]
    for j in range(n):
        X[j, j] = 1 / L[j, j]
        for i in range(j + 1, n):
            X[i, j] = -ca.mtimes(L[i, j:i], X[j:i, j]) / L[i, i]
    return ca.densify(ca.tril2symm(ca.tril(ca.mtimes(X.T, X))))


# --- DisturbanceObserver: x = (c, c_rate, d) with M c_rate' = known force + d - M' c_rate, johnston (45), by
# exponential Euler, which is exact for a linear model; its series of third order limits the step, see there


def _flow(blocks: Blocks) -> ca.Function:
    """Transition [cc cr cd rc rr rd] and step [c r] for one short step."""
    mass, by_c, by_rate, transport = (blocks.symbol(name) for name in ("mass", "by_c", "by_rate", "transport"))
    force, rate, disturbance = (blocks.vector(name) for name in ("force", "rate", "disturbance"))
    h = ca.MX.sym("h")
    inverse = blocks.inverse(mass)
    Z = h * inverse
    X, Y = blocks.product(Z, by_c), blocks.product(Z, by_rate - transport)
    second = [blocks.product(Y, X), h * X + blocks.product(Y, Y), blocks.product(Y, Z)]
    first, unit = [X, Y, Z], ca.MX(ca.DM.eye(blocks.n))
    third = [h * blocks.product(X, a) + blocks.product(Y, b) for a, b in zip(first, second, strict=True)]
    row_c = [(h / 2) * a + (h / 6) * b for a, b in zip(first, second, strict=True)]
    row_r = [a + b / 2 + c / 6 for a, b, c in zip(first, second, third, strict=True)]
    row_c[0], row_c[1], row_r[1] = row_c[0] + unit, row_c[1] + h * unit, row_r[1] + unit
    step_c, step_r = h * rate, ca.mtimes(Z, force + disturbance - ca.mtimes(transport, rate))
    term_c, term_r = step_c, step_r
    for k in (2, 3, 4):
        term_c, term_r = h * term_r / k, (ca.mtimes(X, term_c) + ca.mtimes(Y, term_r)) / k
        step_c, step_r = step_c + term_c, step_r + term_r
    return ca.Function(
        "flow",
        [mass, by_c, by_rate, transport, force, rate, disturbance, h],
        [ca.densify(ca.horzcat(*row_c, *row_r)), ca.horzcat(step_c, step_r)],
    )


def _doubled(blocks: Blocks) -> ca.Function:
    """The same for twice the time."""
    T, step = ca.MX.sym("T", blocks.n, 6 * blocks.n), ca.MX.sym("step", blocks.n, 2)
    cc, cr, cd, rc, rr, rd = blocks.split(T)
    columns = [[cc, rc], [cr, rr], [cd, rd]]
    row_c = [blocks.sum((cc, a), (cr, b)) for a, b in columns]
    row_r = [blocks.sum((rc, a), (rr, b)) for a, b in columns]
    row_c[2], row_r[2] = row_c[2] + cd, row_r[2] + rd
    step_c = step[:, 0] + ca.mtimes(cc, step[:, 0]) + ca.mtimes(cr, step[:, 1])
    step_r = step[:, 1] + ca.mtimes(rc, step[:, 0]) + ca.mtimes(rr, step[:, 1])
    return ca.Function("doubled", [T, step], [ca.horzcat(*row_c, *row_r), ca.horzcat(step_c, step_r)])


def _filtered(blocks: Blocks) -> ca.Function:
    """Prediction with a transition and a step, and the correction by the measured coefficients."""
    n = blocks.n
    state, P = ca.MX.sym("state", 3 * n), ca.MX.sym("P", 3 * n, 3 * n)
    T, step, walk, dt = ca.MX.sym("T", n, 6 * n), ca.MX.sym("step", n, 2), blocks.symbol("walk"), ca.MX.sym("dt")
    measured, noise = blocks.vector("measured"), blocks.symbol("noise")
    rows = [blocks.split(row) for row in ca.vertsplit(P, n)]
    transition = blocks.split(T)
    top = [transition[:3], transition[3:]]
    moved = [[blocks.sum(*((row[k], rows[k][j]) for k in range(3))) for j in range(3)] for row in top]

    def after(i: int, j: int) -> Any:
        return sum(blocks.transposed(moved[i][k], top[j][k]) for k in range(3))

    cc, rc, rr = after(0, 0), after(1, 0), after(1, 1)
    dc, dr, dd = moved[0][2].T, moved[1][2].T, rows[2][2] + dt * walk
    inverse = blocks.inverse(cc + noise)
    gains = [blocks.product(block, inverse) for block in (cc, rc, dc)]
    miss = measured - state[:n] - step[:, 0]
    newest = ca.vertcat(state[:n] + step[:, 0], state[n : 2 * n] + step[:, 1], state[2 * n :])
    newest = newest + ca.vertcat(*(ca.mtimes(gain, miss) for gain in gains))

    def less(block: Any, i: int, j: int) -> Any:
        updated = block - blocks.transposed(gains[i], (cc, rc, dc)[j])
        return (updated + updated.T) / 2 if i == j else updated

    cc, rc, rr, dc, dr, dd = (
        less(cc, 0, 0),
        less(rc, 1, 0),
        less(rr, 1, 1),
        less(dc, 2, 0),
        less(dr, 2, 1),
        less(dd, 2, 2),
    )
    covariance = ca.vertcat(ca.horzcat(cc, rc.T, dc.T), ca.horzcat(rc, rr, dr.T), ca.horzcat(dc, dr, dd))
    return ca.Function("filtered", [state, P, T, step, walk, dt, measured, noise], [newest, covariance])
