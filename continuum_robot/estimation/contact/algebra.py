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
from continuum_robot.estimation.contact.filter_algebra import Blocks
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
