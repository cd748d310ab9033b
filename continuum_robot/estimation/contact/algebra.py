# SPDX-License-Identifier: Apache-2.0
"""The contact monitor's algebra, generated: filter, error budgets and likelihood of places.

On matrices of 6 to 36 rows NumPy spends its time on calls, not on numbers. Products of blocks are functions of their
own, called again and again, so that the code stays small. Without a compiler it runs in CasADi's virtual machine,
slower. The tests hold the same formulas with NumPy against it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from continuum_robot.estimation.contact.error_budget import COVARIANCE_FLOOR, FRACTIONS, Budget
from continuum_robot.estimation.contact.residual_sensitivity import ResidualSensitivity
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
        blocks = _Blocks(size)
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
        blocks, of = _Blocks(len(stiffness)), (strain_count, float(np.trace(stiffness)))
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


class PlaceAlgebra:
    """Likelihood of the places of a contact. Not for use by two threads at once.

    Parameters
    ----------
    size : number n of coordinates
    free : number m of wrench directions that a contact may have
    places_m, cells_m : places that are compared and the lengths that they stand for, (p,), m
    segment : index of each place's segment, (p,)
    name, compile, progress : as of :class:`FilterAlgebra`
    """

    def __init__(
        self,
        size: int,
        free: int,
        places_m: Vector,
        cells_m: Vector,
        segment: NDArray[np.intp],
        name: str = "",
        *,
        compile: str = "auto",
        progress: Callable[[str], None] | None = None,
    ) -> None:
        function = _place_evidence(size, free, places_m, cells_m, segment)
        made = compile_functions([function], f"the contact's place on {name}", compile=compile, progress=progress)
        self.size = size
        self._places = made["place_evidence"]

    def place_evidence(
        self, B: Vector, residual: Vector, information: Vector, *, prior: float, before: Vector, fraction: float
    ) -> tuple[Vector, Vector, float, float, Vector]:
        """Likelihood of the places, averaged with what was known of them.

        Parameters
        ----------
        B : generalised force of unit wrenches, of place after place, (p, m, n)
        residual, information : generalised force (n,), N.m^2, and the inverse of its covariance (n, n)
        prior : 1 over the variance of an expected force, 1/N^2
        before : averaged log likelihoods so far, (p,)
        fraction : weight of the newest in the average

        Returns
        -------
        averaged log likelihoods (p,), cumulated probability at the edges of the cells (p + 1,), largest log
        likelihood, standard deviation of the place (m), probability of each segment
        """
        n = self.size
        rows = B.reshape(-1, n)
        function = self._places
        plain, weighted, along, expected, past, newest = function.inputs
        plain.T.reshape(rows.shape)[:] = rows
        np.matmul(rows, information, out=weighted.T.reshape(rows.shape))
        np.matmul(information, residual, out=along)
        expected[:], past[:], newest[:] = prior, before, fraction
        function.run()
        profile, cumulative, numbers, of_segment = function.outputs
        top, spread_m = numbers.tolist()
        return profile.copy(), cumulative, top, spread_m, of_segment.copy()


class _Blocks:
    """Products of (n, n) blocks as functions that others call."""

    def __init__(self, n: int) -> None:
        self.n = n
        A, B = ca.SX.sym("A", n, n), ca.SX.sym("B", n, n)
        options = {"never_inline": True}
        self.product = ca.Function("product", [A, B], [ca.mtimes(A, B)], options)
        self.transposed = ca.Function("product_transposed", [A, B], [ca.mtimes(A, B.T)], options)
        self.inverse = ca.Function("inverse", [A], [_inverse(A)], {**options, "cse": True})

    def sum(self, *pairs: tuple[Any, Any]) -> Any:
        """A B + C D + ..."""
        return sum(self.product(a, b) for a, b in pairs[1:]) + self.product(*pairs[0])

    def symbol(self, name: str) -> Any:
        """A block."""
        return ca.MX.sym(name, self.n, self.n)

    def vector(self, name: str) -> Any:
        """A column of a block."""
        return ca.MX.sym(name, self.n)

    def split(self, matrix: Any) -> list[Any]:
        """Blocks that stand side by side."""
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


def _flow(blocks: _Blocks) -> ca.Function:
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


def _doubled(blocks: _Blocks) -> ca.Function:
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


def _filtered(blocks: _Blocks) -> ca.Function:
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


# --- error budgets


def _kalman_budget(blocks: _Blocks, of: tuple[int, float]) -> ca.Function:
    common = _BudgetSymbols(blocks, of)
    rod_by_rate, spread = blocks.symbol("rod_by_rate"), blocks.symbol("spread")
    systematic = common.by_errors(common.by_c, rod_by_rate)
    return common.function("kalman", [rod_by_rate, spread], systematic=systematic, spread=spread)


def _gmo_budget(blocks: _Blocks, of: tuple[int, float]) -> ca.Function:
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


def _jfd_budget(blocks: _Blocks, of: tuple[int, float]) -> ca.Function:
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

    def __init__(self, blocks: _Blocks, of: tuple[int, float]) -> None:
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


def _explained(G: Any, h: Any) -> tuple[Any, Any]:
    """h^T G^-1 h and log det G, by the factors L D L^T of a symmetric positive definite G."""
    m = G.shape[0]
    L, explained, log_determinant = ca.SX.eye(m), ca.SX(0), ca.SX(0)
    D: list[Any] = []
    y: list[Any] = []
    for j in range(m):
        D.append(G[j, j] - sum(L[j, k] ** 2 * D[k] for k in range(j)))
        for i in range(j + 1, m):
            L[i, j] = (G[i, j] - sum(L[i, k] * L[j, k] * D[k] for k in range(j))) / D[j]
        y.append(h[j] - sum(L[j, k] * y[k] for k in range(j)))
        explained, log_determinant = explained + y[j] ** 2 / D[j], log_determinant + ca.log(D[j])
    return explained, log_determinant


def _place_evidence(n: int, free: int, places_m: Vector, cells_m: Vector, segment: NDArray[np.intp]) -> ca.Function:
    """Log likelihoods of estimation/contact/location.py, averaged, and the moments of the place."""
    count = len(places_m)
    rows, weighted = ca.SX.sym("B", free * n), ca.SX.sym("W", free * n)
    along, prior = ca.SX.sym("a", n), ca.SX.sym("prior")
    own, by_noise = (ca.reshape(columns, n, free) for columns in (rows, weighted))
    h, G = ca.mtimes(own.T, along), ca.mtimes(by_noise.T, own) + prior * ca.SX.eye(free)
    explained, log_determinant = _explained(G, h)
    value = (explained - log_determinant + free * ca.log(prior)) / 2
    one = ca.Function("place_likelihood", [rows, weighted, along, prior], [value])

    newest, before, fraction = ca.SX.sym("newest", count), ca.SX.sym("before", count), ca.SX.sym("fraction")
    profile = before + (newest - before) * fraction
    top = profile[0]
    for k in range(1, count):
        top = ca.fmax(top, profile[k])
    parts = ca.DM(cells_m) * ca.exp(profile - top)
    total = ca.SX(0)
    edges = [ca.SX(0)]
    for k in range(count):
        total = total + parts[k]
        edges.append(total)
    probability = parts / total
    mean = ca.dot(probability, ca.DM(places_m))
    spread = ca.sqrt(ca.dot(probability, (ca.DM(places_m) - mean) ** 2))
    of_segment = [
        sum(probability[int(k)] for k in np.flatnonzero(segment == index)) for index in range(int(segment.max()) + 1)
    ]
    summary = ca.Function(
        "place_summary",
        [newest, before, fraction],
        [profile, ca.vertcat(*edges) / total, ca.vertcat(top, spread), ca.vertcat(*of_segment)],
        {"cse": True},
    )
    B, W = ca.MX.sym("B", free * n, count), ca.MX.sym("W", free * n, count)
    a, p = ca.MX.sym("a", n), ca.MX.sym("prior")
    old, weight = ca.MX.sym("before", count), ca.MX.sym("fraction")
    values = one.map("place_likelihoods", "serial", count, [2, 3], [])(B, W, a, p)
    return ca.Function("place_evidence", [B, W, a, p, old, weight], list(summary(values.T, old, weight)))
