# SPDX-License-Identifier: Apache-2.0
"""What solves an implicit stage of a rod's motion, generated: equation, Newton's method on it, the root of the mass.

A sweep along the rod and one back (rod/step.py) give momentum and forces, each tendon's spool is solved for by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Protocol

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from continuum_robot.rod.code.generation import FastFunction, compile_functions
from continuum_robot.rod.code.shared import product_function, sparse
from continuum_robot.rod.step import path_rates_function
from continuum_robot.rod.strain.dynamics import StrainDynamics
from continuum_robot.rod.strain.sweeps import momentum_and_force

Vector = NDArray[np.float64]

SPOOL_TOLERANCE_M_PER_S = 1e-11
BURST = 6
"""Iterations in one call."""
SLOW = 0.5
"""Fraction of the correction that may be left after an iteration, before a new matrix is made."""
LARGEST_CORRECTION = 1.0
_OPTIONS = {"cse": True}
_SPOOL_ITERATIONS = 6
_FAR = 1e30
_LEAST_LEARNED = 0.1


class SpoolModel(Protocol):
    """What pulls the tendons, and what turns their spools.

    Attributes
    ----------
    size : number of parameters
    """

    size: int

    def terms(self, stretch: Any, stretch_rate: Any, spooled: Any, speed: Any, parameters: Any, /) -> tuple[Any, Any]:
        """Tension (N) of every tendon and acceleration (m/s^2) of its spool: expressions, (N,), tendon by tendon.

        Parameters
        ----------
        stretch, stretch_rate : of the tendons, m and m/s
        spooled, speed : tendon on the spools, 0 at c = 0, and its rate, m and m/s
        parameters : as many as ``size``
        """


class Touching(Protocol):
    """What touches the rod; :class:`continuum_robot.simulation.contact.PlantContacts` is it.

    Attributes
    ----------
    size : number of parameters
    """

    size: int

    def expression(self, c: Any, c_rate: Any, parameters: Any) -> Any:
        """Generalised force (n,), CasADi expression of coefficients, rates and parameters."""


class GivenTension:
    """Springs that only pull, of held ends, and given tensions: spools that do not turn.

    Parameters
    ----------
    count : number of tendons
    """

    def __init__(self, count: int) -> None:
        self.size, self._count = 2 * count, count

    def terms(self, stretch: Any, _rate: Any, _spooled: Any, _speed: Any, parameters: Any) -> tuple[Any, Any]:
        """Arguments as of :class:`SpoolModel`."""
        tension = parameters[self._count :] + ca.fmax(parameters[: self._count] * stretch, 0)
        return tension, ca.SX(self._count, 1)


def _spool_function(count: int, model: SpoolModel) -> ca.Function:
    """Spools at a stage's end from the paths' lengthening (m) and its rate: speeds w with w - w_0 = g a.

    Newton's method on each, within the bracket that it finds, a fixed number of iterations from a guess. Also the
    tensions, their derivatives by the paths' lengths and rates, and the last correction of any speed, m/s.
    """
    longer, rate, spooled, before, guess = (
        ca.SX.sym(name, count) for name in ("longer", "rate", "spooled", "before", "guess")
    )
    parameters, g = ca.SX.sym("parameters", model.size), ca.SX.sym("g")
    speed = ca.SX.sym("speed", count)
    tension, acceleration = model.terms(
        longer + spooled + g * speed, rate + speed, spooled + g * speed, speed, parameters
    )
    value = speed - before - g * acceleration
    ones = ca.DM.ones(count)
    slope = ca.jtimes(value, speed, ones)
    yields = ca.jtimes(tension, speed, ones) / slope
    stiffness, resistance = (
        ca.jtimes(tension, of, ones) - yields * ca.jtimes(value, of, ones) for of in (longer, rate)
    )
    arguments = [longer, rate, spooled, before, parameters, g, speed]
    at = ca.Function("at", arguments, [value, slope])
    low, high, found, last = ca.SX(-_FAR * ones), ca.SX(_FAR * ones), guess, ca.SX.zeros(count)
    turning = bool(acceleration.nnz())
    if not turning:
        found = before
    for _ in range(_SPOOL_ITERATIONS if turning else 0):
        here, steep = at(longer, rate, spooled, before, parameters, g, found)
        high, low = ca.if_else(here > 0, found, high), ca.if_else(here > 0, low, found)
        step = -here / ca.if_else(steep > 0, steep, 1)
        bracketed = ca.logic_and(low > -_FAR, high < _FAR)
        outside = ca.logic_and(bracketed, ca.logic_or(found + step <= low, found + step >= high))
        last = ca.if_else(outside, ca.if_else(bracketed, (low + high) / 2 - found, 0), step)
        found = found + last
    end = ca.Function("end", arguments, [tension, stiffness, resistance])
    tension, stiffness, resistance = end(longer, rate, spooled, before, parameters, g, found)
    settled = ca.fabs(last) / (1 + ca.fabs(found))
    return ca.Function(
        "rod_spools",
        [longer, rate, spooled, before, guess, parameters, g],
        [tension, found, stiffness, resistance, ca.mmax(settled) if count else ca.SX(0)],
        _OPTIONS,
    )


def _correction_functions(n: int, count: int, scale: Vector) -> tuple[ca.Function, ca.Function]:
    """Newton's correction with ``force`` times ``slope``^T, (n, N) each, added to the matrix whose inverse is given.

    The first argument is whether there is something to add. Before that the inverse learns from the latest step and
    what that changed (Broyden's method, in scaled coordinates).
    """
    left, inverse, learns = ca.SX.sym("left", n), ca.SX.sym("inverse", n, n), ca.SX.sym("learns")
    force, slope = ca.SX.sym("force", n, count), ca.SX.sym("slope", n, count)
    step, change = ca.SX.sym("step", n), ca.SX.sym("change", n)
    own = change - force @ (slope.T @ step)
    along = inverse.T @ (ca.DM(scale**2) * step)
    size = ca.dot(along, own)
    trusted = ca.logic_and(learns > 0, size > _LEAST_LEARNED * ca.sumsqr(ca.DM(scale) * step))
    learned = inverse + ca.if_else(trusted, 1 / size, 0) * (step - inverse @ own) @ along.T
    learn = ca.Function("rod_learned", [inverse, step, change, learns, force, slope], [learned], _OPTIONS)
    plain, by_force = inverse @ left, inverse @ force
    arguments = [left, inverse, force, slope]
    alone = ca.Function("rod_correction_alone", arguments, [plain], _OPTIONS)
    value = plain - by_force @ _solved(ca.SX.eye(count) + slope.T @ by_force, slope.T @ plain) if count else plain
    added = ca.Function("rod_correction_added", arguments, [value], _OPTIONS)
    return learn, ca.Function.if_else("rod_correction", added, alone)


def _solved(matrix: Any, right: Any) -> Any:
    """Solution of a small system in expressions, by elimination without exchange of rows."""
    a: Any = ca.densify(ca.horzcat(matrix, right))
    x: list[Any] = []
    size = matrix.shape[0]
    for k in range(size):
        for i in range(k + 1, size):
            a[i, k + 1 :] -= a[i, k] / a[k, k] * a[k, k + 1 :]
    for k in reversed(range(size)):
        x.insert(0, (a[k, size] - sum((a[k, k + 1 + i] * later for i, later in enumerate(x)), ca.SX(0))) / a[k, k])
    return ca.vertcat(*x)


def _stage_function(dynamics: StrainDynamics, model: SpoolModel, touching: Touching | None) -> ca.Function:
    """The stage's equation at c, and the correction of c by the matrix given.

    (c, [c_0, p_0, more force, g, tolerance, spooled, speeds before, parameters of spools and contacts], guessed speeds,
    inverse of the matrix, [latest c, what was left there, whether to learn from it]) -> (correction, c_rate, momentum,
    tension, speeds of spools, [size of the correction, unsettled speed], what is left, inverse, g^2 J^T and
    dT/dc, (n, N) each)
    """
    rod, n, count = dynamics.rod, dynamics.size, dynamics.rod.tendon_count
    touched = 0 if touching is None else touching.size
    c = ca.MX.sym("c", n)
    base = ca.MX.sym("base", 3 * n + 2 + 2 * count + model.size + touched)
    guess = ca.MX.sym("guess", count)
    inverse, latest = ca.MX.sym("inverse", n, n), ca.MX.sym("latest", 2 * n + 1)
    base_c, base_p, extra, g, _, spooled, before, parameters, contacts = ca.vertsplit(
        base, np.cumsum([0, n, n, n, 1, 1, count, count, model.size, touched]).tolist()
    )
    rate = (c - base_c) / g
    momentum, force = momentum_and_force(dynamics.chain, dynamics.mass.inertia, dynamics.loaded.laws_at(), c, rate)
    tension, speed, unsettled = ca.MX(0, 1), ca.MX(0, 1), ca.MX(0)
    gradient = by_rate = slope = ca.MX(n, 0)
    elastic = ca.MX(0)
    if count:
        longer, longer_rate, gradient, by_rate = _path_rates(dynamics, c, rate)
        tension, speed, stiffness, resistance, unsettled = _spool_function(count, model)(
            longer, longer_rate, spooled, before, guess, parameters, g
        )
        slope = gradient @ ca.diag(stiffness + resistance / g) + by_rate @ ca.diag(resistance)
        elastic = ca.sumsqr(stiffness) + ca.sumsqr(resistance) > 0
        force -= gradient @ tension
    force += extra - ca.MX(sparse(rod.stiffness)) @ c - ca.MX(sparse(dynamics.damping)) @ rate
    if touching is not None:
        force += touching.expression(c, rate, contacts)
    left = g * (momentum - base_p - g * force)
    learn, correct = _correction_functions(n, count, rod.strain_scale)
    pull = g * g * gradient
    learned = learn(inverse, c - latest[:n], left - latest[n : 2 * n], latest[2 * n], pull, slope)
    correction = -correct(elastic, left, learned, pull, slope)
    size = ca.norm_2(ca.MX(ca.DM(rod.strain_scale)) * correction)  # the largest entry would hide NaN
    if not count:
        pull = slope = ca.MX.zeros(n, 1)  # results have a column at least
    results = [correction, rate, momentum, tension, speed, ca.vertcat(size, unsettled), left, learned, pull, slope]
    return ca.Function("rod_stage", [c, base, guess, inverse, latest], [ca.densify(result) for result in results])


def stage_functions(
    dynamics: StrainDynamics,
    model: SpoolModel,
    touching: Touching | None,
    compile: str,
    progress: Callable[[str], None] | None,
) -> tuple[FastFunction, FastFunction, FastFunction]:
    """The stage's equation, Newton's method on it, and the root of the mass matrix."""
    stage = _stage_function(dynamics, model, touching)
    functions = [stage, _newton_function(stage), dynamics.mass.root_function]
    made = compile_functions(functions, f"the motion of {dynamics.rod.name}", compile=compile, progress=progress)
    return made["rod_stage"], made["rod_newton"], made["rod_mass_root"]


@lru_cache(maxsize=4)
def given_tension_functions(
    dynamics: StrainDynamics, compile: str, progress: Callable[[str], None] | None
) -> tuple[FastFunction, FastFunction, FastFunction]:
    """The same for tendons that are pulled by given tensions or held, once for all motions of a rod."""
    model = GivenTension(dynamics.rod.tendon_count)
    return stage_functions(dynamics, model, None, compile, progress)


def _newton_function(stage: ca.Function) -> ca.Function:
    """Newton's method from c on, up to some iterations while each leaves less than half of the correction before.

    Arguments as of the stage; results: c, those of the stage there but for the last two, and the number of evaluations.
    """
    n = stage.size1_in(0)
    base = ca.MX.sym("base", stage.size1_in(1))
    carried = range(stage.n_out() - 2)  # without the tendons' gradients
    known = [ca.MX.sym(stage.name_out(i), stage.sparsity_out(i)) for i in carried]
    c, before = ca.MX.sym("c", n), ca.MX.sym("before")
    correction, speed, last, left, inverse = (known[i] for i in (0, 4, 5, 6, 7))
    ahead = c + correction
    following = stage(ahead, base, speed, inverse, ca.vertcat(c, left, 1))[:-2]
    arguments = [base, before, c, *known]
    step = ca.Function("rod_step", arguments, [last[0], ahead, *following])
    stay = ca.Function("rod_stay", arguments, [before, c, *known])
    maybe = ca.Function.if_else("rod_maybe", step, stay)
    given = [ca.MX.sym(stage.name_in(i), stage.sparsity_in(i)) for i in range(stage.n_in())]
    before, c, *known = [ca.MX(_FAR), given[0], *stage(*given)[:-2]]
    tolerance = given[1][3 * n + 1]
    count = ca.MX(1)
    for _ in range(BURST):
        size, unsettled = known[5][0], known[5][1]
        done = ca.logic_and(size <= tolerance, unsettled <= SPOOL_TOLERANCE_M_PER_S)
        falls = ca.logic_and(size <= LARGEST_CORRECTION, size <= SLOW * before)
        goes_on = ca.logic_and(ca.logic_not(done), falls)
        before, c, *known = maybe(goes_on, given[1], before, c, *known)
        count += goes_on
    return ca.Function("rod_newton", given, [c, *known, count])


def _path_rates(dynamics: StrainDynamics, c: Any, rate: Any) -> tuple[Any, Any, Any, Any]:
    """How much longer than at c = 0 the tendons' paths are, (N,), its rate, and the gradients of both by c, (n, N)."""
    tendons = dynamics.rod.tendons
    if tendons.linear:  # as long as no path lies beyond the centre of the bend
        slope = tendons.jacobian(np.zeros(tendons.size))
        along = product_function("rod_along_paths", slope)
        return along(c), along(rate), ca.MX(ca.DM(slope.T)), ca.MX(tendons.size, tendons.count)
    nodes, count = len(tendons.nodes_m), tendons.count
    basis = tendons.basis.reshape(-1, tendons.size)
    along = product_function("rod_along_paths", basis)
    strain = ca.reshape(along(c) + ca.DM(tendons.rest.reshape(-1)), 6, nodes)
    lengths, rates, *by_strain = path_rates_function(count).map(nodes)(
        strain,
        ca.reshape(along(rate), 6, nodes),
        ca.DM(tendons.places.reshape(nodes, -1).T),
        ca.DM(tendons.running_m.T),
    )

    gather = product_function("rod_from_paths", basis.T).map(len(by_strain))
    gradients = gather(ca.horzcat(*(ca.vec(value) for value in by_strain)))
    longer = ca.sum2(lengths) - ca.DM(tendons.rest_m)
    return longer, ca.sum2(rates), gradients[:, :count], gradients[:, count:]
