# SPDX-License-Identifier: Apache-2.0
"""Shape of a robot whose rod does more than bend, or whose tendons are routed: the rod's statics between its spools.

Such tendons are fewer than the rod's coefficients, so mechanics fills in: the elastic energy of rod and tendons and the
rod's weight are least, with the spools where the motors' encoders see them. Loads that nobody told move the true shape
away, and a rod that swings is seen where it would rest.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ConvergenceError, ParameterError
from continuum_robot.estimation.sensor_watch import SensorWatch
from continuum_robot.estimation.shape import ShapeEstimate, ShapeSettings
from continuum_robot.robot.description import Robot
from continuum_robot.rod.strain_inverse import hold
from continuum_robot.rod.strain_problem import StaticProblem, downhill
from continuum_robot.rod.strain_rod import StrainRod
from continuum_robot.rod.strain_statics import equilibrium

Vector = NDArray[np.float64]

_ITERATIONS = 12
_LEAST_SHARE = 1e-3
_TOLERANCE = 1e-6  # rad, or relative stretch: far below what the encoders see
_BLIND = ("the shape is not seen: a tendon is unknown",)
_LOST = ("the shape is not seen: no equilibrium with these displacements",)


class StrainShapeEstimator:
    """Equilibrium of the rod with its tendons held at the measured displacements, followed from one to the next.

    Parameters
    ----------
    robot : with segments; its tendons have the stiffness of ``simulation.tendon_stiffness_n_per_m``

    Attributes
    ----------
    watch : None: only the mechanics ties one tendon to another
    """

    watch: SensorWatch | None = None

    def __init__(self, robot: Robot) -> None:
        self._robot = robot
        self.rod = StrainRod.from_robot(robot)
        self._problem = StaticProblem(self.rod)
        self._stiffness = np.full(robot.tendon_count, robot.simulation.tendon_stiffness_n_per_m)
        self._sigma_m = ShapeSettings().tendon_sigma_m
        self._rest = equilibrium(self._problem).c
        self.reset()

    def reset(self) -> None:
        """Start from the rod at rest."""
        self._c = self._rest.copy()

    def update(
        self, displacement: Vector, velocity: Vector, string_extension: Vector | None = None, dt: float = 0.0
    ) -> ShapeEstimate:
        """One estimate.

        Parameters
        ----------
        displacement : of the tendons at the spools, shape (N,), m; NaN where unknown
        velocity : its rate, shape (N,), m/s
        string_extension : shape (strings,), m, only for the residual; None or NaN: unknown
        dt : not used: every estimate stands for itself

        Returns
        -------
        coefficients, their rates, and the covariance that the tendons' noise makes; NaN where a displacement is

        Raises
        ------
        ParameterError : a displacement of another shape
        """
        del dt
        wound = np.asarray(displacement, dtype=float)
        if wound.shape != self._stiffness.shape:
            raise ParameterError("displacement", wound.shape, f"shape {self._stiffness.shape}")
        if not np.isfinite(wound).all():
            return ShapeEstimate.unseen(self.rod.size, _BLIND)
        try:
            self._c, hessian, pull = self._settle(self._c, wound)
        except ConvergenceError:
            try:
                self._c = hold(self._problem, wound, tendon_stiffness_n_per_m=self._stiffness).state.c
                self._c, hessian, pull = self._settle(self._c, wound)
            except ConvergenceError:
                self.reset()
                return ShapeEstimate.unseen(self.rod.size, _LOST)
        slope = np.linalg.solve(hessian, pull)
        missed = np.zeros(0)
        if string_extension is not None and len(string_extension):
            missed = np.asarray(string_extension, dtype=float) - self.rod.string_extension(self._c)
            missed = missed[np.isfinite(missed)]
        return ShapeEstimate(
            coefficients=self._c.copy(),
            coefficient_rates=slope @ velocity,
            covariance=self._sigma_m**2 * slope @ slope.T,
            residual_m=float(np.sqrt(np.mean(missed**2))) if missed.size else 0.0,
            sensor_count=len(wound) + int(missed.size),
            tip=self.rod.poses(self._c, [self.rod.length_m])[0],
        )

    def _settle(self, c: Vector, wound: Vector) -> tuple[Vector, Vector, Vector]:
        """Newton's method on the energy: coefficients, Hessian there, and minus the gradient's rate by ``wound``."""
        problem, size = self._problem, np.inf
        energy_j, gradient, hessian, taut = self._terms(c, wound)
        for _ in range(_ITERATIONS):
            scaled = problem.inverse_root @ hessian @ problem.inverse_root.T
            force = problem.inverse_root @ gradient
            direction, _ = downhill(scaled, force)
            step, share = problem.step(direction)
            size = float(np.abs(self.rod.strain_scale * step).max())
            if size <= _TOLERANCE:
                return c, hessian, -taut.T
            while True:  # tendons that become slack or tight on the way would make a whole step go to and fro
                found = self._terms(c + share * step, wound)
                if found[0] <= energy_j + 1e-4 * share * float(force @ direction) or share < _LEAST_SHARE:
                    break
                share /= 2
            c, (energy_j, gradient, hessian, taut) = c + share * step, found
        raise ConvergenceError("shape", size, _TOLERANCE, _ITERATIONS)

    def _terms(self, c: Vector, wound: Vector) -> tuple[float, Vector, Vector, Vector]:
        """Energy of rod and tendons, its gradient (n,) and Hessian (n, n), and the tension's Jacobian (N, n)."""
        stretch = wound - self.rod.tendons.rest_m + self.rod.tendons.lengths(c)
        tension = self._stiffness * np.maximum(stretch, 0.0)
        energy_j, gradient, hessian = self._problem.terms(c, tension)
        jacobian = self.rod.tendons.jacobian(c)
        taut = np.where(tension > 0, self._stiffness, 0.0)[:, None] * jacobian
        # The terms have tension times (path less that at rest) = tension times (stretch - wound); here it is elastic.
        energy_j += float(tension @ (wound - stretch / 2))
        return energy_j, gradient, hessian + jacobian.T @ taut, taut
