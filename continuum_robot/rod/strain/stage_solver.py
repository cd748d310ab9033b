# SPDX-License-Identifier: Apache-2.0
"""One implicit stage of the general rod's motion: c - c_0 = g v, p - p_0 = g f(c, v), with tendons on moving spools.

Equation and Newton's correction with a given matrix are generated (rod/strain/stage_functions.py). The matrix

    A = A_0 + g^2 J^T dT/dc

begins with mass, damping and elasticity, is that of differences of the equation where these do not serve, is kept as
long as it serves, and learns from every step (Broyden). But dT/dc, how the tensions change with c, is that of each
iteration (spring, damper, the spool's own motion and friction): it enters by the formula of Sherman, Morrison and
Woodbury.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ConvergenceError, ParameterError
from continuum_robot.rod.strain.dynamics import HeldTendons, Pull, StrainDynamics
from continuum_robot.rod.strain.problem import checked_tension
from continuum_robot.rod.strain.stage_functions import (
    BURST,
    LARGEST_CORRECTION,
    SLOW,
    SPOOL_TOLERANCE_M_PER_S,
    GivenTension,
    SpoolModel,
    Touching,
    given_tension_functions,
    stage_functions,
)

Vector = NDArray[np.float64]
Force = Callable[[Vector, Vector], ArrayLike]

_FAR = 1e30
_ITERATIONS = 40
_QUICK = 4  # iterations of a stage after which the next one needs no new mass
_RENEWALS = 4
_LEAST_FRACTION = 1e-3
_DIFFERENCE = 3e-6
_OTHER_STAGE = 1e-6


@dataclass(frozen=True, slots=True)
class Spools:
    """Spools before a stage.

    Attributes
    ----------
    spooled_m, speed_m_per_s : (N,) tendon on every spool, 0 at c = 0, and its rate
    parameters : of the :class:`SpoolModel`, (size,), in its units
    """

    spooled_m: Vector
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
    compile, progress : as in :func:`~continuum_robot.rod.code.generation.compile_functions`

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
        model = GivenTension(count) if spools is None else spools
        self._touching = touching if touching is not None and touching.size else None
        if spools is None and self._touching is None:
            made = given_tension_functions(dynamics, compile, progress)
            self._one, self._many, self._root = (function.clone() for function in made)
        else:
            self._one, self._many, self._root = stage_functions(dynamics, model, self._touching, compile, progress)
        self._left, self._pull, self._pull_slope = (self._one.outputs[k] for k in (6, 8, 9))
        # Both have the same arguments; they are kept in those of the second.
        self._c, base, self._speed_guess, self._inverse, latest = self._many.inputs
        self._latest_c, self._latest_left, self._learns = np.split(latest, [n, 2 * n])
        self._base_c, self._base_p, self._extra, self._numbers, self._spooled, self._speed_before, rest = np.split(
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
        best, fraction, size, renewals = math.inf, 1.0, math.inf, 0
        best_c, best_step = self._c.copy(), np.zeros_like(self._c)
        exact, begun = False, self.iterations
        for _ in range(_ITERATIONS):
            if self._made_for_s:
                correction, rate, momentum, tension, speed, (size, unsettled) = self._evaluate(g, more, many=True)
                if size <= tolerance and unsettled <= SPOOL_TOLERANCE_M_PER_S:
                    self._slow = self.iterations - begun > _QUICK
                    return rate, momentum, tension, speed
                if math.isfinite(size) and size <= (1 - fraction / 4) * best:
                    best, fraction, exact = size, 1.0, False
                    best_c[:], best_step[:] = self._c, correction
                elif exact:  # with a matrix made there: a shorter step
                    fraction /= 2
                    if fraction < _LEAST_FRACTION:
                        break
                    self._c[:] = best_c + fraction * best_step
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
            fraction = min(1.0, LARGEST_CORRECTION / best) if best > 0 else 1.0
            best_c[:], best_step[:] = self._c, correction
            self._c += fraction * best_step
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
        for _ in range(BURST):
            found = self._evaluate(g, more, many=False)
            size, unsettled = found[5]
            settled = size <= self._numbers[1] and unsettled <= SPOOL_TOLERANCE_M_PER_S
            if settled or not (size <= LARGEST_CORRECTION and size <= SLOW * before):
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
            self._rest_of_matrix = self._differences(g, more) - self._mass()
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
            self._inverse[:] = np.linalg.inv(self._rest_of_matrix + self._mass())
        except np.linalg.LinAlgError:
            self.forget()
            return False
        return True

    def _mass(self) -> Vector:
        """M at c, (n, n)."""
        self._root.inputs[0][:] = self._c
        self._root.run()
        root = self._root.outputs[0]
        return np.asarray(root @ root.T)

    def _set_pull(self, pull: Pull | Spools) -> None:
        count = self.dynamics.rod.tendon_count
        if isinstance(pull, Spools):
            self._spooled[:], self._speed_before[:] = pull.spooled_m, pull.speed_m_per_s
            self._speed_guess[:], self._parameters[:] = pull.speed_m_per_s, pull.parameters
        elif self._driven:
            raise ParameterError("pull", pull, "the spools that this stage was made for")
        elif isinstance(pull, HeldTendons):
            spooled = np.asarray(pull.displacement_m, dtype=float)
            if spooled.shape != (count,) or not np.isfinite(spooled).all():
                raise ParameterError("displacement_m", pull.displacement_m, f"{count} finite lengths, m")
            self._spooled[:], self._parameters[:count], self._parameters[count:] = spooled, pull.stiffness_n_per_m, 0.0
        else:
            self._parameters[:count], self._parameters[count:] = 0.0, checked_tension(self.dynamics.rod, pull)


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
