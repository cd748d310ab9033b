# SPDX-License-Identifier: Apache-2.0
"""Equilibria of a rod with general strains: tensions of its tendons and loads in, shape out.

V(c) + sum tau_j l_j(c) - work of the loads is stationary. Newton's method with the exact Hessian; along the energy with
a line search where all loads have a potential, else by steps whose next one is shorter; and where that fails, the load
is put on in steps with a tangent predictor. Eigenvalues of the Hessian are those of rod/strain/problem.py: 1 for the
rod alone, 0 where it buckles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ConvergenceError, ParameterError
from continuum_robot.rod.loads import Load
from continuum_robot.rod.strain.defect import defect
from continuum_robot.rod.strain.problem import (
    NEUTRAL,
    RESIDUAL_TOLERANCE,
    StaticProblem,
    StaticState,
    checked_tension,
    downhill,
)
from continuum_robot.rod.strain.rod import StrainRod

Vector = NDArray[np.float64]

LARGEST_DEFECT = 0.02
"""Fraction of the length by which a basis may miss the tip and still count as representing the loads."""
LARGEST_DEFECT_RAD = 0.1
"""The same for the tip's rotation, rad."""
_ITERATIONS = 40
_CORRECTIONS = 10
_ARMIJO = 1e-4
_SMALLEST_FRACTION = 1e-6
_FIRST_LOAD_STEP = 0.25
_SMALLEST_LOAD_STEP = 1 / 1024
_SETTLING_STEP = 1e-2
_STRAYED = 1.0
_RELAXATIONS = 300
_NEAR_REST = 1e-3


@dataclass(frozen=True, eq=False)
class StrainEquilibrium:
    """A state of rest.

    Attributes
    ----------
    c : (n,) strain coefficients
    tension : (N,) tension of every tendon, N
    residual : bending angle (rad), or relative stretch, that the force out of balance would cause on the elastic rod
        alone
    iterations : evaluations of the Hessian, of all load steps together
    load_steps : steps of load continuation; 0: solved at once
    stability : smallest real part of an eigenvalue of the Hessian against the elastic stiffness: 1 for the unloaded
        rod, 0 where it buckles; for loads without a potential flutter is possible at any positive value
    condition : largest over smallest modulus of these eigenvalues
    conservative : whether all loads have a potential; then the Hessian is symmetric
    snapped : the state on the loading path, or the first one found, had lost its stability, and this is another one
    snapped_at : fractions of the load after which that was seen
    energy_j : potential energy with the work of tendons and loads, J; None where a load has no potential
    problem : what was solved
    """

    c: Vector
    tension: Vector
    residual: float
    iterations: int
    load_steps: int
    stability: float
    condition: float
    conservative: bool
    snapped: bool
    snapped_at: tuple[float, ...]
    energy_j: float | None
    problem: StaticProblem = field(repr=False)
    _diverges: bool = field(repr=False)

    @property
    def stable(self) -> bool:
        """Whether no eigenvalue of the Hessian has a negative real part.

        A round rod that has buckled turns freely about the load: see ``neutral``. With loads that have no potential, a
        complex pair with a negative real part is no snapping but growing oscillation: see ``diverges``.
        """
        return self.stability > -NEUTRAL

    @property
    def diverges(self) -> bool:
        """Whether a real eigenvalue is negative: from here the rod falls to another equilibrium, if there is any."""
        return not self.stable and self._diverges

    @property
    def neutral(self) -> bool:
        """Whether the rod has no stiffness against some motion, to rounding."""
        return abs(self.stability) <= NEUTRAL

    @cached_property
    def _defect(self) -> tuple[float, float]:
        return defect(self.problem, self.c, self.tension)

    @property
    def defect_m(self) -> float:
        """How far the strain that equilibrium asks for at every cross-section, and the basis lacks, moves the tip, m.

        An estimate to first order; computed when asked for.
        """
        return self._defect[0]

    @property
    def defect_rad(self) -> float:
        """How far that strain turns the tip, rad."""
        return self._defect[1]

    @cached_property
    def kinematic_error_m(self) -> float:
        """About what the tip errs by the steps of the kinematics, m; see :meth:`StrainRod.kinematic_error_m`."""
        return self.problem.rod.kinematic_error_m(self.c)

    @property
    def represented(self) -> bool:
        """Whether basis and steps can represent the shape: False e.g. for a torsion moment on a rod without torsion."""
        rod = self.problem.rod
        return (
            self.defect_m + self.kinematic_error_m <= LARGEST_DEFECT * rod.length_m
            and self.defect_rad <= LARGEST_DEFECT_RAD
        )


def equilibrium(
    rod: StrainRod | StaticProblem,
    tension: ArrayLike | None = None,
    loads: Sequence[Load] = (),
    start: ArrayLike | StrainEquilibrium | None = None,
    *,
    continuation: str = "auto",
    settle: bool = True,
) -> StrainEquilibrium:
    """State of rest under tendon tensions, the rod's weight and loads.

    Parameters
    ----------
    rod : the rod; or a problem with its loads, which spares making it again
    tension : (N,) tension of every tendon, not negative, N; None for none
    loads : besides the weight; none where ``rod`` is a problem
    start : (n,) first guess; or the equilibrium from whose tensions and loads these come about, so that a snap between
        the two is seen; None for the rod at rest
    continuation : "auto": the load is put on in steps where Newton's method fails from ``start``, or passes a shape
        that is not stable on its way from an equilibrium; "always": in steps, so that every loss of stability is seen
    settle : go on from an unstable equilibrium to a stable one, which ``snapped`` then marks; False: return it

    Returns
    -------
    the equilibrium; see its ``stable``, ``snapped`` and ``represented``

    Raises
    ------
    ParameterError : a tension that is negative or not finite, a wrong number of them, an unknown ``continuation``, or
        tensions and loads that bend the rod further than its frames hold
    ConvergenceError : none found, e.g. beyond the load under which the rod has any
    """
    problem = rod if isinstance(rod, StaticProblem) else StaticProblem(rod, loads)
    if continuation not in ("auto", "always"):
        raise ParameterError("continuation", continuation, "auto or always")
    origin = start if isinstance(start, StrainEquilibrium) else None
    guess = np.zeros(problem.rod.size) if start is None else start.c if isinstance(start, StrainEquilibrium) else start
    c = problem.rod.coefficients(guess).copy()
    search = _Search(problem, checked_tension(problem.rod, tension), settle, origin)
    if continuation == "always":
        state = search.continued(None)
    else:
        try:
            state = search.newton(c, 1.0, _ITERATIONS)
        except ConvergenceError as error:
            state = search.continued(error)
        else:
            # Without an energy Newton's method finds any equilibrium; the loading path decides which it is.
            lost = not problem.conservative and start is None and settle and state.diverges
            if lost or (origin is not None and search.crossed):
                try:
                    state = search.continued(None)
                except ConvergenceError:  # the one found stands, but not by the loading path
                    search.snaps.append(1.0)
            state = search.settled(state, 1.0)
    return search.result(state)


class _Search:
    """Newton's method and continuation for one load."""

    def __init__(self, problem: StaticProblem, tension: Vector, settle: bool, origin: StrainEquilibrium | None) -> None:
        self.problem, self.tension, self.settle, self.origin = problem, tension, settle, origin
        self.crossed = False  # whether a Hessian on the way was not positive definite
        self.iterations = self.load_steps = 0
        self.snaps: list[float] = []

    def state(self, c: Vector, scale: float) -> StaticState:
        self.iterations += 1
        if self.origin is None:
            return self.problem.state(c, scale * self.tension, scale)
        if scale == 1:
            return self.problem.state(c, self.tension, 1.0)
        energy, gradient, hessian = self.origin.problem.terms(c, self.origin.tension)
        last_energy, last_gradient, last_hessian = self.problem.terms(c, self.tension)
        return self.problem.scaled(
            c,
            (1 - scale) * energy + scale * last_energy,
            (1 - scale) * gradient + scale * last_gradient,
            (1 - scale) * hessian + scale * last_hessian,
        )

    def newton(self, c: Vector, scale: float, iterations: int) -> StaticState:
        """Newton's method from ``c``; raises ConvergenceError."""
        state = self.state(c, scale)
        along_energy = self.problem.conservative
        for _ in range(iterations):
            if not np.isfinite(state.residual):
                break
            if state.residual < RESIDUAL_TOLERANCE:
                return state
            direction = _direction(state, along_energy)
            self.crossed |= state.bent
            c_step, fraction = self.problem.step(direction)
            slope = float(state.force @ direction)
            length = np.linalg.norm(direction)
            while True:
                trial = self.state(state.c + fraction * c_step, scale)
                if trial.residual < 0.5 * state.residual or (
                    # Near the solution the energy's decrease drowns in rounding: there the residual decides.
                    trial.energy <= state.energy + _ARMIJO * fraction * slope
                    if along_energy
                    # The next step with this Hessian is shorter: that does not depend on how forces are weighed.
                    else np.linalg.norm(_direction(trial, False, state.hessian)) <= (1 - fraction / 4) * length
                ):
                    break
                fraction /= 2
                if fraction < _SMALLEST_FRACTION:
                    raise self._failure("line search failed", state.residual)
            state = trial
        if state.residual < RESIDUAL_TOLERANCE:
            return state
        raise self._failure("Newton's method did not converge", state.residual)

    def relaxed(self, c: Vector, scale: float) -> StaticState:
        """Where a rod whose strain yields in proportion to the force out of balance comes to rest from ``c``.

        Implicit Euler steps that grow as the force falls. Beside an unstable direction they stay short enough to move
        away from it, so that what is found is stable; raises ConvergenceError where nothing is.
        """
        state, step = self.state(c, scale), 1.0
        for _ in range(_RELAXATIONS):
            if state.residual < _NEAR_REST and not state.diverges:
                return self.newton(state.c, scale, _ITERATIONS)
            if state.stability < 0:
                step = min(step, -0.5 / state.stability)
            direction = np.asarray(
                -np.linalg.solve(state.hessian + np.eye(len(state.c)) / step, state.force), dtype=float
            )
            c_step, fraction = self.problem.step(direction)
            found = self.state(state.c + fraction * c_step, scale)
            fall = float(np.linalg.norm(state.force)) / max(float(np.linalg.norm(found.force)), 1e-300)
            step *= fraction * min(max(fall, 0.5), 2.0)
            state = found
        raise self._failure("the rod does not come to rest", state.residual)

    def settled(self, state: StaticState, scale: float) -> StaticState:
        """From an unstable equilibrium along its most unstable direction to a stable one, where it is desired."""
        if not self.settle or not state.diverges:
            return state
        values, vectors = np.linalg.eig(state.hessian)
        direction = vectors[:, int(np.argmin(values.real))].real
        direction = direction * np.sign(direction[np.argmax(np.abs(direction))])
        c_step, fraction = self.problem.step(direction)
        size = self._size(c_step)
        away = state.c + fraction * _SETTLING_STEP / size * c_step
        try:
            found = self._rest_from(away, scale)
        except ConvergenceError:
            return state
        self.snaps.append(scale)
        return found

    def _rest_from(self, c: Vector, scale: float) -> StaticState:
        """A stable equilibrium that the rod falls to from ``c``; raises ConvergenceError."""
        if self.problem.conservative:
            try:
                found = self.newton(c, scale, _ITERATIONS)
            except ConvergenceError:
                return self.relaxed(c, scale)
            if not found.diverges:
                return found
        return self.relaxed(c, scale)

    def continued(self, first: ConvergenceError | None) -> StaticState:
        """The load put on in steps, each with the tangent as a predictor; a step halves where Newton's method fails."""
        state = self.state(np.zeros(self.problem.rod.size) if self.origin is None else self.origin.c, 0.0)
        self.snaps.clear()
        done, step = 0.0, _FIRST_LOAD_STEP
        tangent = self._tangent(state)
        while done < 1:
            scale = min(1.0, done + step)
            try:
                self.crossed = False
                ahead = (scale - done) * tangent
                found = self.newton(state.c + ahead, scale, _CORRECTIONS)
                if found.diverges and not state.diverges and step > _FIRST_LOAD_STEP / 16:
                    raise self._failure("passed a loss of stability", found.residual)
                strayed = self._size(found.c - state.c - ahead) > max(_STRAYED * self._size(ahead), _SETTLING_STEP)
                if not state.diverges and (self.crossed or strayed):
                    raise self._failure("left the branch", found.residual)
            except ConvergenceError as error:
                step /= 2
                if step < _SMALLEST_LOAD_STEP:
                    try:
                        found = self._rest_from(state.c, scale)  # the branch ends here, and the rod snaps
                    except ConvergenceError:
                        raise ConvergenceError(
                            f"no static equilibrium found beyond {100 * done:.3g} % of the load",
                            error.residual,
                            RESIDUAL_TOLERANCE,
                            self.iterations,
                        ) from (first or error)
                    self.snaps.append(scale)
                    step = 2 * _SMALLEST_LOAD_STEP
                else:
                    continue
            found = self.settled(found, scale)
            self.load_steps += 1
            done, step, state = scale, 2 * step, found
            if done < 1:
                tangent = self._tangent(state)
        return state

    def _size(self, change: Vector) -> float:
        """Largest bending angle or stretch of a change of the coefficients."""
        return float(np.abs(self.problem.rod.strain_scale * change).max())

    def _tangent(self, state: StaticState) -> Vector:
        """Dc per fraction of the load."""
        origin = self.origin
        before = (
            self.problem.rod.stiffness @ state.c if origin is None else origin.problem.terms(state.c, origin.tension)[1]
        )
        load = self.problem.inverse_root @ (self.problem.terms(state.c, self.tension)[1] - before)
        step: Vector = self.problem.inverse_root.T @ -np.linalg.lstsq(state.hessian, load, rcond=1e-9)[0]
        return step

    def result(self, state: StaticState) -> StrainEquilibrium:
        problem = self.problem
        problem.rod.check_reach(state.c)
        values = state.spectrum
        moduli = np.abs(values)
        return StrainEquilibrium(
            c=state.c,
            tension=self.tension,
            residual=state.residual,
            iterations=self.iterations,
            load_steps=self.load_steps,
            stability=state.stability,
            condition=float(moduli.max() / moduli.min()) if moduli.min() > 0 else float("inf"),
            conservative=problem.conservative,
            snapped=bool(self.snaps),
            snapped_at=tuple(self.snaps),
            energy_j=state.energy if problem.conservative else None,
            problem=problem,
            _diverges=state.diverges,
        )

    def _failure(self, problem: str, residual: float) -> ConvergenceError:
        return ConvergenceError(f"static equilibrium: {problem}", residual, RESIDUAL_TOLERANCE, self.iterations)


def _direction(state: StaticState, along_energy: bool, hessian: Vector | None = None) -> Vector:
    """Newton's step in scaled coordinates, or one with another Hessian; along the energy turned downhill."""
    if not along_energy:
        return np.asarray(-np.linalg.solve(state.hessian if hessian is None else hessian, state.force), dtype=float)
    direction, state.bent = downhill(state.hessian, state.force)
    return direction
