# SPDX-License-Identifier: Apache-2.0
"""Static equilibrium of a rod that bends, by the Lagrangian of rod/model.py: the oracle of rod/strain/statics.py."""

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
    """Newton's method on V(c) - (G^T tension + force) . c, with the exact Hessian and a line search."""
    load = dynamics.symbolic.tendon_matrix.T @ np.asarray(tension, dtype=float)
    if generalized_force is not None:
        load = load + np.asarray(generalized_force, dtype=float)
    c = np.zeros(dynamics.size) if start is None else np.array(start, dtype=float)
    problem = _Energy(dynamics)
    c, residual, iterations = problem.minimise(c, load)
    dynamics.check_reach(c)
    energy, _, hessian = problem.at(c, load)
    stable = bool(np.linalg.eigvalsh(hessian)[0] > 0)
    return Equilibrium(c, residual, iterations, stable, energy)


class _Energy:
    """The energy of a robot in coefficients scaled to bending angles."""

    def __init__(self, dynamics: RodDynamics) -> None:
        self.dynamics = dynamics
        stiffness = dynamics.symbolic.stiffness
        lengths = [np.full(segment.basis.coefficient_count, segment.length_m) for segment in dynamics.robot.segments]
        self._lengths_m = np.concatenate(lengths)
        self._compliance = np.linalg.inv(stiffness)

    def at(self, c: Vector, load: Vector) -> tuple[float, Vector, Vector]:
        """Energy, gradient and Hessian."""
        value, gradient, hessian = self.dynamics.potential(c)
        return value - float(load @ c), gradient - load, hessian

    def residual_rad(self, gradient: Vector) -> float:
        """Bending angle that the force out of balance would cause on the elastic robot alone."""
        return float(np.linalg.norm(self._lengths_m * (self._compliance @ gradient)))

    def minimise(self, c: Vector, load: Vector) -> tuple[Vector, float, int]:
        """Newton's method with a positive definite Hessian and an Armijo line search."""
        value, gradient, hessian = self.at(c, load)
        residual = self.residual_rad(gradient)
        for iteration in range(_ITERATIONS):
            if residual < _RESIDUAL_TOLERANCE:
                return c, residual, iteration
            step = -np.linalg.solve(self._convex(hessian), gradient)
            step *= min(1.0, _LARGEST_STEP_RAD / float(np.abs(self._lengths_m * step).max()))
            slope = float(gradient @ step)
            fraction = 1.0
            while True:
                trial = self.at(c + fraction * step, load)
                trial_residual = self.residual_rad(trial[1])
                # Near the solution the energy's decrease drowns in rounding: there the residual decides.
                if trial[0] <= value + _ARMIJO * fraction * slope or trial_residual < 0.5 * residual:
                    break
                fraction /= 2
                if fraction < 1e-6:
                    raise ConvergenceError(
                        "static equilibrium: line search failed", residual, _RESIDUAL_TOLERANCE, iteration
                    )
            c = c + fraction * step
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
