# SPDX-License-Identifier: Apache-2.0
"""What moves: a rod under its weight, loads that stay on it and damping, with the mass of its chain of stations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.rod.bases import strain_matrix
from continuum_robot.rod.loads import Load, PointWrench
from continuum_robot.rod.strain.loaded_chain import LoadedChain
from continuum_robot.rod.strain.rod import StrainRod

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class HeldTendons:
    """Tendons held at their spools: springs that only pull.

    Attributes
    ----------
    displacement_m : (N,) tendon that is spooled, 0 at c = 0, m
    stiffness_n_per_m : (N,) of every tendon, N/m
    """

    displacement_m: Vector
    stiffness_n_per_m: Vector

    def __post_init__(self) -> None:
        stiffness = np.asarray(self.stiffness_n_per_m, dtype=float)
        if not (np.isfinite(stiffness).all() and (stiffness > 0).all()):
            raise ParameterError("stiffness_n_per_m", self.stiffness_n_per_m, "positive, N/m")


Pull = ArrayLike | HeldTendons | None


@dataclass(frozen=True, slots=True)
class MotionEnergy:
    """Energies in J: of motion; elastic with that of loads in the base frame (0 at c = 0 but for the loads).

    Attributes
    ----------
    kinetic_j : of motion, J
    potential_j : elastic, with that of loads in the base frame, J; 0 at c = 0 but for the loads
    """

    kinetic_j: float
    potential_j: float


class StrainDynamics:
    """What moves of a rod under its weight, loads that stay on it and damping.

    Parameters
    ----------
    rod : with masses
    loads : besides its weight
    damping : Kelvin-Voigt: a time (s), that times the elastic stiffness resists every strain's rate; or six numbers as
        :attr:`RodSegment.stiffness` in N.m^2.s and N.s, the same all along; or the matrix (n, n) itself

    Attributes
    ----------
    size : number n of coefficients
    damping : (n, n)
    loaded, chain : its loads, and the chain of frames that bears them
    mass : of that chain

    Raises
    ------
    ParameterError : a coefficient that moves no mass, or damping of another form or negative
    """

    def __init__(self, rod: StrainRod, loads: Sequence[Load] = (), *, damping: ArrayLike = 0.0) -> None:
        self.rod, self.size = rod, rod.size
        bodies = [mass for mass in rod.masses if mass.mass_kg > 0 or mass.inertia_kg_m2.any()]
        marks = [PointWrench(s_m=body.s_m) for body in bodies]  # stations at all of them, also where none is loaded
        self.loaded = LoadedChain(rod, [*rod.weight, *loads, *marks])
        self.chain = self.loaded.chain
        self.mass = rod.mass_on(self.chain)
        self.damping = damping_matrix(rod, damping)
        root, _ = rod.stiffness_root
        moved = np.linalg.solve(root, np.linalg.solve(root, self.mass_matrix(np.zeros(self.size))).T)
        values = np.linalg.eigvalsh((moved + moved.T) / 2)
        if not values[0] > 0:
            raise ParameterError(f"masses of {rod.name}", float(values[0]), "mass that every strain moves")

    def mass_matrix(self, c: ArrayLike) -> Vector:
        """M(c), (n, n)."""
        return self.mass.matrix(self.rod.coefficients(c))

    def momentum(self, c: ArrayLike, c_rate: ArrayLike) -> Vector:
        """M(c) c_rate, (n,), N.m^2.s for curvatures."""
        return np.asarray(self.mass_matrix(c) @ np.asarray(c_rate, dtype=float))

    def rate(self, c: ArrayLike, momentum: ArrayLike) -> Vector:
        """c_rate of a generalised momentum, (n,).

        Parameters
        ----------
        momentum : M(c) c_rate, (n,), N.m^2.s for curvatures
        """
        return np.asarray(np.linalg.solve(self.mass_matrix(c), np.asarray(momentum, dtype=float)))

    def energy(self, c: ArrayLike, c_rate: ArrayLike) -> MotionEnergy:
        """Energy of motion, and of strain and loads."""
        coefficients, rate = self.rod.coefficients(c), np.asarray(c_rate, dtype=float)
        moving_j = float(rate @ self.momentum(coefficients, rate)) / 2
        loads_j = float(self.loaded.terms(coefficients, stiffness=False).potential_j)
        return MotionEnergy(moving_j, float(coefficients @ self.rod.stiffness @ coefficients) / 2 + loads_j)


def damping_matrix(rod: StrainRod, damping: ArrayLike) -> Vector:
    """Damping (n, n) of the coefficients' rates from any of the forms of :class:`StrainDynamics`.

    Parameters
    ----------
    damping : in any of these forms: a time (s), six numbers (N.m^2.s and N.s), or the matrix (n, n)

    Raises
    ------
    ParameterError : another form, or negative
    """
    given = np.asarray(damping, dtype=float)
    expected = "a time, six numbers or a matrix (n, n); finite, not negative"
    if not np.isfinite(given).all():
        raise ParameterError("damping", damping, expected)
    if given.ndim == 0 and given >= 0:
        return np.asarray(given * rod.stiffness)
    if given.shape == (6,) and (given >= 0).all():
        return strain_matrix((segment.basis, segment.length_m, given) for segment in rod.segments)
    if given.shape == (rod.size, rod.size):
        values = np.linalg.eigvalsh((given + given.T) / 2)
        if values[0] >= -1e-12 * max(values[-1], 0.0):
            return given
    raise ParameterError("damping", damping, expected)
