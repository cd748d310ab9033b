# SPDX-License-Identifier: Apache-2.0
"""Equilibria of a rod with general strains: tensions of its tendons and loads in, shape out.

V(c) + sum tau_j l_j(c) - work of the loads is stationary. Newton's method with the exact Hessian; along the energy with
a line search where all loads have a potential, else by steps whose next one is shorter; and where that fails, the load
is put on in steps with a tangent predictor. In the coordinates y = L^T c with K = L L^T the elastic energy is
|y|^2 / 2, so the eigenvalues of the Hessian there are 1 for the rod alone and 0 where it buckles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ConvergenceError, ParameterError
from continuum_robot.geometry import se3
from continuum_robot.rod.loads import Load
from continuum_robot.rod.strain_kinematics import GAUSS_SHARES, hat
from continuum_robot.rod.strain_rod import LoadedChain, StrainRod

Vector = NDArray[np.float64]

RESIDUAL_TOLERANCE = 1e-9
NEUTRAL = 1e-7
"""Eigenvalues of the Hessian against the elastic stiffness that are 0 to rounding."""
LARGEST_DEFECT = 0.02
"""Share of the length by which a basis may miss the tip and still count as representing the loads."""
LARGEST_DEFECT_RAD = 0.1
"""The same for the tip's rotation, rad."""
_ITERATIONS = 40
_CORRECTIONS = 10
_LARGEST_TURN_RAD = 0.8
_LARGEST_STRETCH = 0.2
_ARMIJO = 1e-4
_SMALLEST_SHARE = 1e-6
_FIRST_LOAD_STEP = 0.25
_SMALLEST_LOAD_STEP = 1 / 1024
_LEAST_CURVATURE = 1e-3
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
    snapped_at : shares of the load after which that was seen
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
        """Whether basis and steps can tell the shape: False e.g. for a torsion moment on a rod without torsion."""
        rod = self.problem.rod
        return (
            self.defect_m + self.kinematic_error_m <= LARGEST_DEFECT * rod.length_m
            and self.defect_rad <= LARGEST_DEFECT_RAD
        )


@dataclass(slots=True)
class _State:
    """Energy, residual force and Hessian at some coefficients, in the scaled coordinates; whether it is no minimum."""

    c: Vector
    energy: float
    force: Vector
    hessian: Vector
    residual: float
    symmetric: bool
    bent: bool = False
    _spectrum: NDArray[np.complex128] | None = None

    @property
    def spectrum(self) -> NDArray[np.complex128]:
        """Eigenvalues of the Hessian."""
        if self._spectrum is None:
            values = np.linalg.eigvalsh(self.hessian) if self.symmetric else np.linalg.eigvals(self.hessian)
            self._spectrum = values.astype(complex)
        return self._spectrum

    @property
    def stability(self) -> float:
        """Smallest real part of an eigenvalue."""
        return float(self.spectrum.real.min())

    @property
    def diverges(self) -> bool:
        """Whether a real eigenvalue is negative: only there branches of equilibria turn or part."""
        real = np.abs(self.spectrum.imag) <= NEUTRAL
        return bool((self.spectrum.real[real] <= -NEUTRAL).any())


class StaticProblem:
    """The energy of a rod under its weight, loads and tendons; make it once for loads that stay at their places.

    Parameters
    ----------
    rod : the rod
    loads : besides its weight
    """

    def __init__(self, rod: StrainRod, loads: Sequence[Load] = ()) -> None:
        self.rod = rod
        self.loaded = LoadedChain(rod, [*rod.weight, *loads])
        self.conservative = self.loaded.conservative
        self.root, self.inverse_root = rod.stiffness_root
        self._flexibility = rod.strain_scale[:, None] * self.inverse_root.T

    def terms(self, c: Vector, tension: Vector, load_scale: float = 1.0) -> tuple[float, Vector, Vector]:
        """Energy (J; of no meaning with loads without a potential), its gradient (n,) and Hessian (n, n).

        Parameters
        ----------
        c : (n,)
        tension : (N,), N
        load_scale : share of weight and loads
        """
        elastic = self.rod.stiffness @ c
        energy, gradient, hessian = float(c @ elastic) / 2, elastic, self.rod.stiffness
        if tension.any():
            lengths, _, pull, curve = self.rod.tendons.weighted(c, tension)
            energy += float(tension @ (lengths - self.rod.tendons.rest_m))
            gradient, hessian = gradient + pull, hessian + curve
        if load_scale and not self.loaded.empty:
            terms = self.loaded.terms(c)
            energy += load_scale * float(terms.potential_j)
            gradient, hessian = gradient - load_scale * terms.force, hessian + load_scale * terms.stiffness
        return energy, gradient, hessian

    def state(self, c: Vector, tension: Vector, load_scale: float) -> _State:
        """The same in the coordinates in which the elastic stiffness is 1.

        Parameters
        ----------
        load_scale : share of weight and loads, 0 to 1
        """
        return self.scaled(c, *self.terms(c, tension, load_scale))

    def scaled(self, c: Vector, energy: float, gradient: Vector, hessian: Vector) -> _State:
        """Energy, gradient and Hessian at ``c`` in these coordinates.

        Parameters
        ----------
        energy : J
        gradient : its derivative by c, (n,), N.m^2 for curvatures
        hessian : its second derivative, (n, n)
        """
        force = self.inverse_root @ gradient
        scaled = self.inverse_root @ hessian @ self.inverse_root.T
        return _State(c, energy, force, scaled, self.residual(force), self.conservative)

    def residual(self, force: Vector) -> float:
        """Angle or relative stretch that a force out of balance, in scaled coordinates, causes on the rod alone.

        Parameters
        ----------
        force : out of balance, in scaled coordinates, (n,), square root of J
        """
        return float(np.linalg.norm(self._flexibility @ force))

    def step(self, direction: Vector) -> tuple[Vector, float]:
        """A step in c for one in scaled coordinates, and the share of it that the rod's kinematics allow at once.

        Parameters
        ----------
        direction : in scaled coordinates, (n,), square root of J

        Returns
        -------
        the step in c, (n,), and the share, in (0, 1]
        """
        c_step = self.inverse_root.T @ direction
        size = np.abs(self.rod.strain_scale * c_step)
        turning = self.rod.strain_scale != 1.0
        largest = max(
            float(size[turning].max(initial=0.0)) / _LARGEST_TURN_RAD,
            float(size[~turning].max(initial=0.0)) / _LARGEST_STRETCH,
        )
        return c_step, min(1.0, 1.0 / largest) if largest > 0 else 1.0


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
    settle : go on from an unstable equilibrium to a stable one, which is then told by ``snapped``; False: return it

    Returns
    -------
    the equilibrium; see its ``stable``, ``snapped`` and ``represented``

    Raises
    ------
    ParameterError : a tension that is negative or not finite, a wrong number of them, or an unknown ``continuation``
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


def checked_tension(rod: StrainRod, tension: ArrayLike | None) -> Vector:
    """Tensions (N,), checked: finite, not negative, as many as there are tendons; None for zeros.

    Raises
    ------
    ParameterError : tensions that are none of that
    """
    pull = np.zeros(rod.tendon_count) if tension is None else np.asarray(tension, dtype=float)
    if pull.shape != (rod.tendon_count,) or not np.isfinite(pull).all() or (pull < 0).any():
        raise ParameterError("tension", tension, f"{rod.tendon_count} finite tensions, none negative, N")
    return pull


class _Search:
    """Newton's method and continuation for one load."""

    def __init__(self, problem: StaticProblem, tension: Vector, settle: bool, origin: StrainEquilibrium | None) -> None:
        self.problem, self.tension, self.settle, self.origin = problem, tension, settle, origin
        self.crossed = False  # whether a Hessian on the way was not positive definite
        self.iterations = self.load_steps = 0
        self.snaps: list[float] = []

    def state(self, c: Vector, scale: float) -> _State:
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

    def newton(self, c: Vector, scale: float, iterations: int) -> _State:
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
            c_step, share = self.problem.step(direction)
            slope = float(state.force @ direction)
            length = np.linalg.norm(direction)
            while True:
                trial = self.state(state.c + share * c_step, scale)
                if trial.residual < 0.5 * state.residual or (
                    # Near the solution the energy's decrease drowns in rounding: there the residual decides.
                    trial.energy <= state.energy + _ARMIJO * share * slope
                    if along_energy
                    # The next step with this Hessian is shorter: that does not depend on how forces are weighed.
                    else np.linalg.norm(_direction(trial, False, state.hessian)) <= (1 - share / 4) * length
                ):
                    break
                share /= 2
                if share < _SMALLEST_SHARE:
                    raise self._failure("line search failed", state.residual)
            state = trial
        if state.residual < RESIDUAL_TOLERANCE:
            return state
        raise self._failure("Newton's method did not converge", state.residual)

    def relaxed(self, c: Vector, scale: float) -> _State:
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
            c_step, share = self.problem.step(direction)
            found = self.state(state.c + share * c_step, scale)
            fall = float(np.linalg.norm(state.force)) / max(float(np.linalg.norm(found.force)), 1e-300)
            step *= share * min(max(fall, 0.5), 2.0)
            state = found
        raise self._failure("the rod does not come to rest", state.residual)

    def settled(self, state: _State, scale: float) -> _State:
        """From an unstable equilibrium along its most unstable direction to a stable one, where it is wanted."""
        if not self.settle or not state.diverges:
            return state
        values, vectors = np.linalg.eig(state.hessian)
        direction = vectors[:, int(np.argmin(values.real))].real
        direction = direction * np.sign(direction[np.argmax(np.abs(direction))])
        c_step, share = self.problem.step(direction)
        size = self._size(c_step)
        away = state.c + share * _SETTLING_STEP / size * c_step
        try:
            found = self._rest_from(away, scale)
        except ConvergenceError:
            return state
        self.snaps.append(scale)
        return found

    def _rest_from(self, c: Vector, scale: float) -> _State:
        """A stable equilibrium that the rod falls to from ``c``; raises ConvergenceError."""
        if self.problem.conservative:
            try:
                found = self.newton(c, scale, _ITERATIONS)
            except ConvergenceError:
                return self.relaxed(c, scale)
            if not found.diverges:
                return found
        return self.relaxed(c, scale)

    def continued(self, first: ConvergenceError | None) -> _State:
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

    def _tangent(self, state: _State) -> Vector:
        """Dc per share of the load."""
        origin = self.origin
        before = (
            self.problem.rod.stiffness @ state.c if origin is None else origin.problem.terms(state.c, origin.tension)[1]
        )
        load = self.problem.inverse_root @ (self.problem.terms(state.c, self.tension)[1] - before)
        step: Vector = self.problem.inverse_root.T @ -np.linalg.lstsq(state.hessian, load, rcond=1e-9)[0]
        return step

    def result(self, state: _State) -> StrainEquilibrium:
        problem = self.problem
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


def _direction(state: _State, along_energy: bool, hessian: Vector | None = None) -> Vector:
    """Newton's step in scaled coordinates, or one with another Hessian; along the energy turned downhill."""
    if not along_energy:
        return np.asarray(-np.linalg.solve(state.hessian if hessian is None else hessian, state.force), dtype=float)
    direction, state.bent = downhill(state.hessian, state.force)
    return direction


def downhill(hessian: Vector, force: Vector) -> tuple[Vector, bool]:
    """Newton's step along an energy, negative curvatures turned positive; whether there were any.

    Parameters
    ----------
    hessian : in scaled coordinates, (n, n)
    force : minus the gradient, (n,), square root of J

    Returns
    -------
    the step (n,), and whether there were negative curvatures
    """
    symmetric = (hessian + hessian.T) / 2
    try:
        np.linalg.cholesky(symmetric - _LEAST_CURVATURE * np.eye(len(symmetric)))
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(symmetric)
        return -vectors @ ((vectors.T @ force) / np.maximum(np.abs(values), _LEAST_CURVATURE)), True
    return np.asarray(-np.linalg.solve(symmetric, force), dtype=float), False


def defect(problem: StaticProblem, c: Vector, tension: Vector) -> tuple[float, float]:
    """What the basis cannot represent: displacement (m) and rotation (rad) of the tip by the strain that it lacks.

    At every cross-section the wrench beyond it, less what the tendons bear, over the stiffness is the strain that
    equilibrium asks for; its difference from the basis' strain moves the tip by the geometric Jacobian.
    """
    chain = problem.loaded.chain
    frames = chain.frames(c)
    wrench = np.zeros((len(chain.s_m), 6)) if problem.loaded.empty else problem.loaded.terms(c, stiffness=False).wrench
    beyond = np.tile(np.cumsum(wrench[::-1], axis=0)[::-1][1:], (2, 1))
    # Both Gauss nodes of every step in one batch, all first ones before all second ones.
    into_m = np.concatenate([share * chain.step_m for share in GAUSS_SHARES])
    places_m = np.tile(chain.s_m[:-1], 2) + into_m
    own = np.concatenate([chain.first @ c, chain.second @ c])
    mean = np.tile(chain.rest + (own[: len(chain.step_m)] + own[len(chain.step_m) :]) / 2, (2, 1))
    part = se3.exp(into_m[:, None] * np.roll(mean, 3, axis=1))  # se3 has the linear part first
    before = np.tile(frames.rotation[:-1], (2, 1, 1))
    rotation = before @ part[:, :3, :3]
    position = np.tile(frames.position[:-1], (2, 1)) + (before @ part[:, :3, 3:])[..., 0]
    moment = beyond[:, :3] - (hat(position) @ beyond[:, 3:, None])[..., 0]
    stress = np.concatenate([(moment[:, None] @ rotation)[:, 0], (beyond[:, None, 3:] @ rotation)[:, 0]], axis=1)
    if tension.any():
        stress -= _tendon_stress(problem.rod, places_m, np.tile(chain.rest, (2, 1)) + own, tension)
    index = np.searchsorted(problem.rod.starts_m, places_m, side="right") - 1
    stiffness = np.array([segment.stiffness for segment in problem.rod.segments])[index]
    missing = (stress / stiffness - own) * np.tile(chain.step_m, 2)[:, None] / 2
    turn = (rotation @ missing[:, :3, None])[..., 0]
    move = (rotation @ missing[:, 3:, None])[..., 0] - (hat(frames.position[-1] - position) @ turn[..., None])[..., 0]
    return float(np.linalg.norm(move.sum(axis=0))), float(np.linalg.norm(turn.sum(axis=0)))


def _tendon_stress(rod: StrainRod, places_m: Vector, strain: Vector, tension: Vector) -> Vector:
    """Moment and force of all tendons across the cross-sections at (k,) arc lengths with strains (k, 6): (k, 6)."""
    stress = np.zeros((len(places_m), 6))
    for path, pull in zip(rod.tendon_paths, tension, strict=True):
        if pull:
            x, y, x_slope, y_slope = path.at(places_m)
            zero = np.zeros_like(x)
            arm = np.stack([x, y, zero], axis=1)
            tangent = strain[:, 3:] + np.cross(strain[:, :3], arm) + np.stack([x_slope, y_slope, zero], axis=1)
            runs = (path.start_m < places_m) & (places_m < path.end_m)
            unit = runs[:, None] * tangent / np.linalg.norm(tangent, axis=1)[:, None]
            stress += pull * np.concatenate([np.cross(arm, unit), unit], axis=1)
    return stress
