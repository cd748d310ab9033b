# SPDX-License-Identifier: Apache-2.0
"""One implicit stage of the general rod's motion: c - c_0 = g v, p - p_0 = g f(c, v), with tendons on moving spools.

Equation and Newton's correction with a given matrix are one generated function: a sweep along the rod and one back
(rod/step.py) give momentum and forces, each tendon's spool is solved for by itself. The matrix

    A = A_0 + g^2 J^T dT/dc

is that of differences of the equation, is kept as long as it serves, and learns from every step (Broyden). But dT/dc,
how the tensions change with c, is that of each iteration (spring, damper, the spool's own motion and friction): it
enters by the formula of Sherman, Morrison and Woodbury.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import casadi as ca
import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ConvergenceError, ParameterError
from continuum_robot.rod.code_generation import FastFunction, compile_functions
from continuum_robot.rod.step import (
    carry_functions,
    local_load_function,
    own_motion_function,
    path_rates_function,
    step_force_function,
)
from continuum_robot.rod.strain_dynamics import HeldTendons, Pull, StrainDynamics
from continuum_robot.rod.strain_problem import checked_tension

Vector = NDArray[np.float64]
Force = Callable[[Vector, Vector], ArrayLike]

_OPTIONS = {"cse": True}
_SPOOL_ITERATIONS = 6
_SPOOL_TOLERANCE_M_PER_S = 1e-11
_FAR = 1e30
_ITERATIONS = 40
_BURST = 6
_QUICK = 5  # iterations of a stage after which the next one needs no new mass
_RENEWALS = 4
_SLOW = 0.5  # share of the correction that may be left after an iteration, before a new matrix is made
_LARGEST_CORRECTION = 1.0
_LEAST_SHARE = 1e-3
_LEAST_LEARNED = 0.1
_DIFFERENCE = 3e-6
_OTHER_STAGE = 1e-6


class SpoolModel(Protocol):
    """What pulls the tendons, and what turns their spools.

    Attributes
    ----------
    size : number of parameters
    """

    size: int

    def terms(self, stretch: Any, stretch_rate: Any, wound: Any, speed: Any, parameters: Any, /) -> tuple[Any, Any]:
        """Tension (N) of every tendon and acceleration (m/s^2) of its spool: expressions, (N,), tendon by tendon.

        Parameters
        ----------
        stretch, stretch_rate : of the tendons, m and m/s
        wound, speed : tendon on the spools, 0 at c = 0, and its rate, m and m/s
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


@dataclass(frozen=True, slots=True)
class Spools:
    """Spools before a stage.

    Attributes
    ----------
    wound_m, speed_m_per_s : (N,) tendon on every spool, 0 at c = 0, and its rate
    parameters : of the :class:`SpoolModel`, (size,), in its units
    """

    wound_m: Vector
    speed_m_per_s: Vector
    parameters: Vector


@dataclass(frozen=True, slots=True)
class Stage:
    """The end of a stage.

    Attributes
    ----------
    c, c_rate, momentum : (n,)
    tension : (N,) N
    spool_speed_m_per_s : (N,)
    """

    c: Vector
    c_rate: Vector
    momentum: Vector
    tension: Vector
    spool_speed_m_per_s: Vector


class StageSolver:
    """Newton's method of stages c - c_0 = g v, p - p_0 = g f(c, v); keeps its matrix from stage to stage.

    The matrix is made again where an iteration leaves more than half of the correction before it; the correction is
    shortened where the next one with the same matrix would not be smaller (Deuflhard's monotonicity test, which does
    not depend on how forces are weighed).

    Parameters
    ----------
    dynamics : what moves; this object is for one thread
    spools : what pulls the tendons; None: given tensions, and springs held at their ends (:class:`HeldTendons`)
    touching : what touches the rod
    compile, progress : as in :func:`~continuum_robot.rod.code_generation.compile_functions`

    Attributes
    ----------
    iterations : evaluations of the stage's equation, without those for matrices
    matrices : how often the matrix was made, but for renewals of the mass in it
    """

    def __init__(
        self,
        dynamics: StrainDynamics,
        spools: SpoolModel | None = None,
        touching: Touching | None = None,
        *,
        compile: str = "auto",
        progress: Callable[[str], None] | None = None,
    ) -> None:
        self.dynamics = dynamics
        n, count = dynamics.size, dynamics.rod.tendon_count
        self._driven = spools is not None
        model = _GivenTension(count) if spools is None else spools
        self._touching = touching if touching is not None and touching.size else None
        if spools is None and self._touching is None:
            made = _of_given_tension(dynamics, compile, progress)
            self._one, self._many = (function.clone() for function in made)
        else:
            self._one, self._many = _stage_functions(dynamics, model, self._touching, compile, progress)
        self._left, self._pull, self._pull_slope = (self._one.outputs[k] for k in (6, 8, 9))
        # Both have the same arguments; they are kept in those of the second.
        self._c, base, self._speed_guess, self._inverse, latest = self._many.inputs
        self._latest_c, self._latest_left, self._learns = np.split(latest, [n, 2 * n])
        self._base_c, self._base_p, self._extra, self._numbers, self._wound, self._speed_before, rest = np.split(
            base, np.cumsum([n, n, n, 2, count, count])
        )
        self._parameters, self._contacts = rest[: model.size], rest[model.size :]
        self.iterations = self.matrices = 0
        self._made_for_s, self._slow = 0.0, False
        self._rest_of_matrix = np.zeros((n, n))

    @property
    def compiled(self) -> bool:
        """Whether it is machine code."""
        return self._one.compiled

    def forget(self) -> None:
        """Make a new matrix at the next stage."""
        self._made_for_s = 0.0

    def solve(
        self,
        g: float,
        base_c: Vector,
        base_momentum: Vector,
        guess: Vector,
        pull: Pull | Spools = None,
        *,
        force: ArrayLike | Force | None = None,
        contacts: Vector | None = None,
        tolerance: float = 1e-10,
    ) -> Stage:
        """Solve a stage.

        Parameters
        ----------
        g : its length, s
        base_c, base_momentum : (n,) c_0 and p_0
        guess : (n,) guess of the coefficients c
        pull : of the tendons
        force : more generalised force, (n,), N.m^2 for curvatures; or a function of c and its rate that gives it, whose
            derivative Newton's method does not know
        contacts : parameters of what touches the rod, (size,), in its units
        tolerance : of the last correction, bending angle (rad) or relative stretch

        Raises
        ------
        ParameterError : tensions of another number, not finite or negative
        ConvergenceError : Newton's method does not converge
        """
        self._set_pull(pull)
        if self._touching is not None:
            self._contacts[:] = 0.0 if contacts is None else contacts
        more = force if callable(force) else None
        self._extra[:] = 0.0 if force is None or callable(force) else np.asarray(force, dtype=float)
        self._base_c[:], self._base_p[:], self._c[:], self._numbers[:] = base_c, base_momentum, guess, (g, tolerance)
        rate, momentum, tension, speed = self._newton(g, tolerance, more)
        return Stage(self._c.copy(), rate.copy(), momentum.copy(), tension.copy(), speed.copy())

    def _newton(self, g: float, tolerance: float, more: Force | None) -> tuple[Vector, Vector, Vector, Vector]:
        """Solve for ``self._c``: rate, momentum, tensions and speeds of the spools there."""
        if abs(g - self._made_for_s) > _OTHER_STAGE * g:
            self.forget()
        elif self._slow:
            self._renew_mass()
        best, share, size, renewals = math.inf, 1.0, math.inf, 0
        best_c, best_step = self._c.copy(), np.zeros_like(self._c)
        exact, begun = False, self.iterations
        for _ in range(_ITERATIONS):
            if self._made_for_s:
                correction, rate, momentum, tension, speed, (size, unsettled) = self._evaluate(g, more, many=True)
                if size <= tolerance and unsettled <= _SPOOL_TOLERANCE_M_PER_S:
                    self._slow = self.iterations - begun > _QUICK
                    return rate, momentum, tension, speed
                if math.isfinite(size) and size <= (1 - share / 4) * best:
                    best, share, exact = size, 1.0, False
                    best_c[:], best_step[:] = self._c, correction
                elif exact:  # with a matrix made there: a shorter step
                    share /= 2
                    if share < _LEAST_SHARE:
                        break
                    self._c[:] = best_c + share * best_step
                    continue
                else:
                    self._c[:] = best_c
            if renewals == _RENEWALS:
                break
            exact = renewals > 0
            if not self._make_matrix(g, more, exact=exact):
                size = math.nan
                break
            renewals += 1
            correction, *_, (best, _) = self._evaluate(g, more, many=False)
            if not math.isfinite(best):
                size = best
                break
            share = min(1.0, _LARGEST_CORRECTION / best) if best > 0 else 1.0
            best_c[:], best_step[:] = self._c, correction
            self._c += share * best_step
        self.forget()
        raise ConvergenceError("time step of the rod", float(size), tolerance, self.iterations)

    def _evaluate(self, g: float, more: Force | None, *, many: bool) -> tuple[Any, ...]:
        """The stage's equation at c; with ``many``, first Newton's method from there on while it converges.

        Returns
        -------
        correction, rate, momentum, tension, speed of the spools, (size of the correction, unsettled speed)
        """
        if more is not None and many:
            return self._step_by_step(g, more)
        if more is not None:
            self._extra[:] = more(self._c, (self._c - self._base_c) / g)
        if many:
            self._many.run()
            c, correction, rate, momentum, tension, speed, last, _, learned, count = self._many.outputs
            self._c[:] = c
            self.iterations += int(count[0])
        else:
            for buffer, value in zip(self._one.inputs, self._many.inputs, strict=True):
                buffer[:] = value
            self._one.run()
            correction, rate, momentum, tension, speed, last, left, learned, *_ = self._one.outputs
            self._latest_c[:], self._latest_left[:] = self._c, left
            self.iterations += 1
        self._speed_guess[:], self._inverse[:], self._learns[0] = speed, learned, 0.0
        return correction, rate, momentum, tension, speed, last.tolist()

    def _step_by_step(self, g: float, more: Force) -> tuple[Any, ...]:
        """What the generated Newton's method does, for forces that are not among its expressions."""
        before = _FAR
        for _ in range(_BURST):
            found = self._evaluate(g, more, many=False)
            size, unsettled = found[5]
            settled = size <= self._numbers[1] and unsettled <= _SPOOL_TOLERANCE_M_PER_S
            if settled or not (size <= _LARGEST_CORRECTION and size <= _SLOW * before):
                return found
            self._c += found[0]
            before, self._learns[0] = size, 1.0
        return self._evaluate(g, more, many=False)

    def _make_matrix(self, g: float, more: Force | None, *, exact: bool) -> bool:
        """The matrix without the tendons' springs at c, inverted. False: singular, or the rod is nowhere there.

        Mass, damping and elasticity are most of it; the rest, of loads and speeds, takes differences of the equation.
        """
        self._rest_of_matrix, self._made_for_s = g * self.dynamics.damping + g * g * self.dynamics.rod.stiffness, g
        self.matrices += 1
        if exact:
            _, _, momentum, tension, *_ = self._evaluate(g, more, many=False)
            if not (np.isfinite(momentum).all() and np.isfinite(tension).all()):
                return False
            self._rest_of_matrix = self._differences(g, more) - self.dynamics.mass_matrix(self._c)
        return self._renew_mass()

    def _differences(self, g: float, more: Force | None) -> Vector:
        c, plain, iterations = self._c.copy(), self._left.copy(), self.iterations
        matrix = -self._pull.reshape(len(c), -1) @ self._pull_slope.reshape(len(c), -1).T
        for k, nudge in enumerate(_DIFFERENCE / self.dynamics.rod.strain_scale):
            self._c[k] += nudge
            self._evaluate(g, more, many=False)
            matrix[:, k] += (self._left - plain) / nudge
            self._c[:] = c
        self.iterations = iterations
        return matrix

    def _renew_mass(self) -> bool:
        """Invert the matrix with the mass at c, which changes fastest: a straight rod hardly resists being twisted."""
        try:
            self._inverse[:] = np.linalg.inv(self._rest_of_matrix + self.dynamics.mass_matrix(self._c))
        except np.linalg.LinAlgError:
            self.forget()
            return False
        return True

    def _set_pull(self, pull: Pull | Spools) -> None:
        count = self.dynamics.rod.tendon_count
        if isinstance(pull, Spools):
            self._wound[:], self._speed_before[:] = pull.wound_m, pull.speed_m_per_s
            self._speed_guess[:], self._parameters[:] = pull.speed_m_per_s, pull.parameters
        elif self._driven:
            raise ParameterError("pull", pull, "the spools that this stage was made for")
        elif isinstance(pull, HeldTendons):
            wound = np.asarray(pull.displacement_m, dtype=float)
            if wound.shape != (count,) or not np.isfinite(wound).all():
                raise ParameterError("displacement_m", pull.displacement_m, f"{count} finite lengths, m")
            self._wound[:], self._parameters[:count], self._parameters[count:] = wound, pull.stiffness_n_per_m, 0.0
        else:
            self._parameters[:count], self._parameters[count:] = 0.0, checked_tension(self.dynamics.rod, pull)


class _GivenTension:
    """Springs that only pull, of held ends, and given tensions: spools that do not turn."""

    def __init__(self, count: int) -> None:
        self.size, self._count = 2 * count, count

    def terms(self, stretch: Any, _rate: Any, _wound: Any, _speed: Any, parameters: Any) -> tuple[Any, Any]:
        tension = parameters[self._count :] + ca.fmax(parameters[: self._count] * stretch, 0)
        return tension, ca.SX(self._count, 1)


def _spool_function(count: int, model: SpoolModel) -> ca.Function:
    """Spools at a stage's end from the paths' lengthening (m) and its rate: speeds w with w - w_0 = g a.

    Newton's method on each, within the bracket that it finds, a fixed number of iterations from a guess. Also the
    tensions, their derivatives by the paths' lengths and rates, and the last correction of any speed, m/s.
    """
    longer, rate, wound, before, guess = (
        ca.SX.sym(name, count) for name in ("longer", "rate", "wound", "before", "guess")
    )
    parameters, g = ca.SX.sym("parameters", model.size), ca.SX.sym("g")
    speed = ca.SX.sym("speed", count)
    tension, acceleration = model.terms(longer + wound + g * speed, rate + speed, wound + g * speed, speed, parameters)
    value = speed - before - g * acceleration
    ones = ca.DM.ones(count)
    slope = ca.jtimes(value, speed, ones)
    yields = ca.jtimes(tension, speed, ones) / slope
    stiffness, resistance = (
        ca.jtimes(tension, of, ones) - yields * ca.jtimes(value, of, ones) for of in (longer, rate)
    )
    arguments = [longer, rate, wound, before, parameters, g, speed]
    at = ca.Function("at", arguments, [value, slope])
    low, high, found, last = ca.SX(-_FAR * ones), ca.SX(_FAR * ones), guess, ca.SX.zeros(count)
    turning = bool(acceleration.nnz())
    if not turning:
        found = before
    for _ in range(_SPOOL_ITERATIONS if turning else 0):
        here, steep = at(longer, rate, wound, before, parameters, g, found)
        high, low = ca.if_else(here > 0, found, high), ca.if_else(here > 0, low, found)
        step = -here / ca.if_else(steep > 0, steep, 1)
        bracketed = ca.logic_and(low > -_FAR, high < _FAR)
        outside = ca.logic_and(bracketed, ca.logic_or(found + step <= low, found + step >= high))
        last = ca.if_else(outside, ca.if_else(bracketed, (low + high) / 2 - found, 0), step)
        found = found + last
    end = ca.Function("end", arguments, [tension, stiffness, resistance])
    tension, stiffness, resistance = end(longer, rate, wound, before, parameters, g, found)
    settled = ca.fabs(last) / (1 + ca.fabs(found))
    return ca.Function(
        "rod_spools",
        [longer, rate, wound, before, guess, parameters, g],
        [tension, found, stiffness, resistance, ca.mmax(settled) if count else ca.SX(0)],
        _OPTIONS,
    )


def _correction_functions(n: int, count: int, scale: Vector) -> tuple[ca.Function, ca.Function]:
    """Newton's correction with ``force`` times ``slope``^T, (n, N) each, added to the matrix whose inverse is given.

    The first argument is whether there is something to add. Before that the inverse learns from the latest step and what that changed (Broyden's method, in scaled coordinates).
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

    (c, [c_0, p_0, more force, g, tolerance, wound, speeds before, parameters of spools and contacts], guess of speeds,
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
    base_c, base_p, extra, g, _, wound, before, parameters, contacts = ca.vertsplit(
        base, np.cumsum([0, n, n, n, 1, 1, count, count, model.size, touched]).tolist()
    )
    rate = (c - base_c) / g
    momentum, force = _motion(dynamics, c, rate)
    tension, speed, unsettled = ca.MX(0, 1), ca.MX(0, 1), ca.MX(0)
    gradient = by_rate = slope = ca.MX(n, 0)
    elastic = ca.MX(0)
    if count:
        longer, longer_rate, gradient, by_rate = _path_rates(dynamics, c, rate)
        tension, speed, stiffness, resistance, unsettled = _spool_function(count, model)(
            longer, longer_rate, wound, before, guess, parameters, g
        )
        slope = gradient @ ca.diag(stiffness + resistance / g) + by_rate @ ca.diag(resistance)
        elastic = ca.sumsqr(stiffness) + ca.sumsqr(resistance) > 0
        force -= gradient @ tension
    force += extra - ca.MX(_sparse(rod.stiffness)) @ c - ca.MX(_sparse(dynamics.damping)) @ rate
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


def _stage_functions(
    dynamics: StrainDynamics,
    model: SpoolModel,
    touching: Touching | None,
    compile: str,
    progress: Callable[[str], None] | None,
) -> tuple[FastFunction, FastFunction]:
    """The stage's equation, and Newton's method on it."""
    stage = _stage_function(dynamics, model, touching)
    functions = [stage, _newton_function(stage)]
    made = compile_functions(functions, f"the motion of {dynamics.rod.name}", compile=compile, progress=progress)
    return made["rod_stage"], made["rod_newton"]


@lru_cache(maxsize=4)
def _of_given_tension(
    dynamics: StrainDynamics, compile: str, progress: Callable[[str], None] | None
) -> tuple[FastFunction, FastFunction]:
    """The same for tendons that are pulled by given tensions or held, once for all motions of a rod."""
    model = _GivenTension(dynamics.rod.tendon_count)
    return _stage_functions(dynamics, model, None, compile, progress)


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
    for _ in range(_BURST):
        size, unsettled = known[5][0], known[5][1]
        done = ca.logic_and(size <= tolerance, unsettled <= _SPOOL_TOLERANCE_M_PER_S)
        falls = ca.logic_and(size <= _LARGEST_CORRECTION, size <= _SLOW * before)
        goes_on = ca.logic_and(ca.logic_not(done), falls)
        before, c, *known = maybe(goes_on, given[1], before, c, *known)
        count += goes_on
    return ca.Function("rod_newton", given, [c, *known, count])


def _motion(dynamics: StrainDynamics, c: Any, rate: Any) -> tuple[Any, Any]:
    """Momentum, and dT/dc with the force of the loads, expressions (n,)."""
    chain, loads = dynamics.chain, dynamics.loaded
    steps = len(chain.step_m)
    pattern = chain.pattern
    picked = list(pattern.picked)
    nodal = _sparse(chain.nodal[:, picked].reshape(-1, dynamics.size))
    at_nodes = _product_function("rod_at_nodes", nodal)
    strain = ca.reshape(at_nodes(c) + ca.DM(chain.rest[:, picked].reshape(-1)), len(picked), steps)
    strain_rate = ca.reshape(at_nodes(rate), len(picked), steps)
    lengths = ca.DM(chain.step_m.reshape(1, -1))
    turns, shifts, own = own_motion_function(pattern).map(steps)(strain, strain_rate, lengths)
    turn, shift, own = (ca.horzsplit(value) for value in (turns, shifts, own))
    out, back = carry_functions()
    load = local_load_function()
    rotation, twist = [ca.MX(ca.vec(ca.DM.eye(3)))], [ca.MX.zeros(6)]
    for k in range(steps):
        turned, moved = out(rotation[-1], twist[-1], turn[k], shift[k], own[k])
        rotation.append(turned)
        twist.append(moved)
    acting: dict[int, list[Any]] = {}
    for station, law in zip(loads.law_station.tolist(), loads.laws, strict=True):
        acting.setdefault(station, []).append(law)
    pressed, loaded = ca.MX.zeros(6), ca.MX.zeros(6)
    momenta, wrenches = [pressed] * steps, [loaded] * steps
    for k in reversed(range(steps)):
        pressed += ca.MX(_sparse(dynamics.inertia[k + 1])) @ twist[k + 1]
        for law in acting.get(k + 1, []):
            loaded += load(rotation[k + 1], ca.DM(law))
        momenta[k], wrenches[k] = pressed, loaded
        pressed, loaded = back(turn[k], shift[k], pressed), back(turn[k], shift[k], loaded)
    on_rate, on_strain = step_force_function(pattern).map(steps)(
        ca.horzcat(*twist[:-1]), strain, strain_rate, lengths, ca.horzcat(*momenta), ca.horzcat(*wrenches)
    )
    from_nodes = _product_function("rod_from_nodes", nodal.T)
    return from_nodes(ca.vec(on_rate)), from_nodes(ca.vec(on_strain))


def _path_rates(dynamics: StrainDynamics, c: Any, rate: Any) -> tuple[Any, Any, Any, Any]:
    """How much longer than at c = 0 the tendons' paths are, (N,), its rate, and the gradients of both by c, (n, N)."""
    tendons = dynamics.rod.tendons
    if tendons.linear:  # as long as no path lies beyond the centre of the bend
        slope = ca.DM(tendons.jacobian(np.zeros(tendons.size)))
        along = _product_function("rod_along_paths", slope)
        return along(c), along(rate), ca.MX(slope.T), ca.MX(tendons.size, tendons.count)
    nodes, count = len(tendons.nodes_m), tendons.count
    basis = _sparse(tendons.basis.reshape(-1, tendons.size))
    along = _product_function("rod_along_paths", basis)
    strain = ca.reshape(along(c) + ca.DM(tendons.rest.reshape(-1)), 6, nodes)
    lengths, rates, *by_strain = path_rates_function(count).map(nodes)(
        strain,
        ca.reshape(along(rate), 6, nodes),
        ca.DM(tendons.places.reshape(nodes, -1).T),
        ca.DM(tendons.running_m.T),
    )

    gather = _product_function("rod_from_paths", basis.T).map(len(by_strain))
    gradients = gather(ca.horzcat(*(ca.vec(value) for value in by_strain)))
    longer = ca.sum2(lengths) - ca.DM(tendons.rest_m)
    return longer, ca.sum2(rates), gradients[:, :count], gradients[:, count:]


def _product_function(name: str, matrix: ca.DM) -> ca.Function:
    """Of a vector: its product with a sparse matrix, written out; several times as fast as by indices."""
    x = ca.SX.sym("x", matrix.size2())
    return ca.Function(name, [x], [ca.densify(ca.SX(matrix) @ x)])


def _sparse(matrix: Vector) -> ca.DM:
    return ca.sparsify(ca.DM(matrix))


class Extrapolation:
    """Rates of the latest stages drawn on, as a guess for the next.

    Parameters
    ----------
    points : how many stages, which a polynomial passes through
    """

    def __init__(self, points: int) -> None:
        self._points = points
        self._times_s: list[float] = []
        self._rates = np.zeros((0, 0))

    def clear(self) -> None:
        """Forget all."""
        self._times_s.clear()

    def add(self, time_s: float, rate: Vector) -> None:
        """A rate that was found.

        Parameters
        ----------
        rate : of c, shape (n,)
        """
        times_s = self._times_s
        if times_s and time_s <= times_s[-1]:
            times_s.clear()
        if self._rates.shape != (self._points, len(rate)):
            self._rates = np.zeros((self._points, len(rate)))
        if len(times_s) == self._points:
            del times_s[0]
            self._rates[:-1] = self._rates[1:]
        self._rates[len(times_s)] = rate
        times_s.append(time_s)

    def at(self, time_s: float) -> Vector | None:
        """The guess, shape (n,); None where nothing is known."""
        times_s = self._times_s
        if not times_s:
            return None
        weights = [1.0] * len(times_s)
        for k, own in enumerate(times_s):
            for other in times_s:
                if other != own:
                    weights[k] *= (time_s - other) / (own - other)
        return np.asarray(weights @ self._rates[: len(times_s)])
