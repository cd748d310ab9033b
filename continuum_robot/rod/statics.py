# SPDX-License-Identifier: Apache-2.0
"""Static equilibrium of a robot: Newton's method on its energy, with line search and load continuation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ConvergenceError
from continuum_robot.rod.dynamics import RodDynamics

Vector = NDArray[np.float64]

_RESIDUAL_TOLERANCE = 1e-9
_ITERATIONS = 60
_LARGEST_STEP_RAD = 0.8
_ARMIJO = 1e-4
_SMALLEST_LOAD_STEP = 1 / 256


@dataclass(frozen=True, slots=True)
class Equilibrium:
    """A state of rest.

    Attributes
    ----------
    c : (n,) strain coefficients, 1/m
    residual : norm of the generalised force out of balance over the elastic stiffness, as bending angle, rad
    iterations : Newton steps, of all load steps together
    stable : whether the energy has a minimum there (its Hessian is positive definite)
    energy_j : potential energy with the work of tendons and loads, J
    """

    c: Vector
    residual: float
    iterations: int
    stable: bool
    energy_j: float


def equilibrium(
    dynamics: RodDynamics,
    tension: ArrayLike,
    generalized_force: ArrayLike | None = None,
    start: ArrayLike | None = None,
) -> Equilibrium:
    """State of rest under tendons, gravity and a constant load.

    Minimises V(c) - (G^T tension + force) . c, exact Hessian, line search. Where a full load does not converge it is
    put on in steps from the unloaded state, gravity included.

    Parameters
    ----------
    dynamics : the robot
    tension : (N,) tension of every tendon, N
    generalized_force : (n,) other constant load, N.m^2
    start : (n,) first guess, 1/m; None for the straight robot

    Returns
    -------
    the equilibrium that Newton's method reaches from ``start``; see its ``stable``

    Raises
    ------
    ConvergenceError : none found
    ParameterError : it bends beyond what the kinematics resolve
    """
    load = dynamics.symbolic.tendon_matrix.T @ np.asarray(tension, dtype=float)
    if generalized_force is not None:
        load = load + np.asarray(generalized_force, dtype=float)
    c = np.zeros(dynamics.size) if start is None else np.array(start, dtype=float)
    problem = _Energy(dynamics)
    try:
        c, residual, iterations = problem.minimise(c, load, 1.0)
    except ConvergenceError as error:
        c, residual, iterations = _continued(problem, load, error)
    dynamics.check_reach(c)
    energy, _, hessian = problem.at(c, load, 1.0)
    stable = bool(np.linalg.eigvalsh(hessian)[0] > 0)
    return Equilibrium(c, residual, iterations, stable, energy)


def _continued(problem: _Energy, load: Vector, first: ConvergenceError) -> tuple[Vector, float, int]:
    """Equilibrium with the load put on in steps that halve where Newton's method fails."""
    c, residual = np.zeros(problem.dynamics.size), 0.0
    done, step, iterations = 0.0, 0.25, first.iterations
    while done < 1:
        scale = min(1.0, done + step)
        try:
            c, residual, count = problem.minimise(c, scale * load, scale)
        except ConvergenceError as error:
            iterations += error.iterations
            step /= 2
            if step < _SMALLEST_LOAD_STEP:
                raise ConvergenceError(
                    f"no static equilibrium found beyond {100 * done:.3g} % of the load",
                    error.residual,
                    error.tolerance,
                    iterations,
                ) from first
            continue
        iterations += count
        done, step = scale, 2 * step
    return c, residual, iterations


class _Energy:
    """The energy of a robot in coefficients scaled to bending angles."""

    def __init__(self, dynamics: RodDynamics) -> None:
        self.dynamics = dynamics
        stiffness = dynamics.symbolic.stiffness
        lengths = [np.full(segment.basis.coefficient_count, segment.length_m) for segment in dynamics.robot.segments]
        self._lengths_m = np.concatenate(lengths)
        self._compliance = np.linalg.inv(stiffness)

    def at(self, c: Vector, load: Vector, gravity_scale: float) -> tuple[float, Vector, Vector]:
        """Energy, gradient and Hessian with a share of gravity."""
        dynamics = self.dynamics
        value, gradient, hessian = dynamics.potential(c)
        if gravity_scale < 1:
            stiffness = dynamics.symbolic.stiffness
            rest = 1 - gravity_scale
            value = gravity_scale * value + rest * float(c @ stiffness @ c) / 2
            gradient = gravity_scale * gradient + rest * stiffness @ c
            hessian = gravity_scale * hessian + rest * stiffness
        return value - float(load @ c), gradient - load, hessian

    def residual_rad(self, gradient: Vector) -> float:
        """Bending angle that the force out of balance would cause on the elastic robot alone."""
        return float(np.linalg.norm(self._lengths_m * (self._compliance @ gradient)))

    def minimise(self, c: Vector, load: Vector, gravity_scale: float) -> tuple[Vector, float, int]:
        """Newton's method with a positive definite Hessian and an Armijo line search."""
        value, gradient, hessian = self.at(c, load, gravity_scale)
        residual = self.residual_rad(gradient)
        for iteration in range(_ITERATIONS):
            if residual < _RESIDUAL_TOLERANCE:
                return c, residual, iteration
            step = -np.linalg.solve(self._convex(hessian), gradient)
            step *= min(1.0, _LARGEST_STEP_RAD / float(np.abs(self._lengths_m * step).max()))
            slope = float(gradient @ step)
            share = 1.0
            while True:
                trial = self.at(c + share * step, load, gravity_scale)
                trial_residual = self.residual_rad(trial[1])
                # Near the solution the energy's decrease drowns in rounding: there the residual decides.
                if trial[0] <= value + _ARMIJO * share * slope or trial_residual < 0.5 * residual:
                    break
                share /= 2
                if share < 1e-6:
                    raise ConvergenceError(
                        "static equilibrium: line search failed", residual, _RESIDUAL_TOLERANCE, iteration
                    )
            c = c + share * step
            (value, gradient, hessian), residual = trial, trial_residual
        raise ConvergenceError("static equilibrium", residual, _RESIDUAL_TOLERANCE, _ITERATIONS)

    def _convex(self, hessian: Vector) -> Vector:
        """The Hessian with its negative curvatures turned positive, measured against the elastic stiffness."""
        stiffness = self.dynamics.symbolic.stiffness
        root = np.linalg.cholesky(stiffness)
        inverse = np.linalg.inv(root)
        values, vectors = np.linalg.eigh(inverse @ hessian @ inverse.T)
        if values[0] > 1e-6:
            return hessian
        basis = root @ vectors
        return np.asarray((basis * np.maximum(np.abs(values), 1e-3)) @ basis.T)
