# SPDX-License-Identifier: Apache-2.0
"""The general rod in motion: Lagrangian of :class:`StrainRod` by the exact Jacobians of its chain of frames.

A station with inertia I about itself, twist J c_rate in the base frame and momentum P there adds J^T P to the
generalised momentum p = M(c) c_rate, and the derivative of J^T P by c at constant P, called C(P) in sum, gives both the
force that speed causes and its share of the momentum's rate:

    p' = C(P) c_rate - dV/dc - D c_rate + Q,   dT/dc = C(P) c_rate.

No second derivative of the mass matrix is needed, and nothing is left out: p and c are those of the discrete chain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.rod.bases import strain_matrix
from continuum_robot.rod.loads import Load, PointWrench
from continuum_robot.rod.strain.kinematics import Frames
from continuum_robot.rod.strain.problem import checked_tension
from continuum_robot.rod.strain.rod import LoadedChain, StrainRod

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class HeldTendons:
    """Tendons held at their spools: springs that only pull.

    Attributes
    ----------
    displacement_m : (N,) tendon that is wound in, 0 at c = 0, m
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
class MotionTerms:
    """What moves the rod at given coefficients and rates.

    Attributes
    ----------
    momentum : M(c) c_rate, (n,), N.m^2.s for curvatures
    force : dT/dc - dV/dc - D c_rate + what tendons and loads give: the rate of the momentum, (n,), N.m^2 for curvatures
    tension : (N,) of the tendons, N
    mass, stiffness : (n, n) M, and minus the derivative of ``force`` by c at rest; None where not asked for
    """

    momentum: Vector
    force: Vector
    tension: Vector
    mass: Vector | None
    stiffness: Vector | None


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
    """Motion of a rod under its weight, loads that stay on it, tendons and damping. For one thread.

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
    inertia : (k, 6, 6) of every station, see :meth:`StrainRod.station_inertia`

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
        self.inertia = rod.station_inertia(self.chain)
        self.damping = damping_matrix(rod, damping)
        root, _ = rod.stiffness_root
        moved = np.linalg.solve(root, np.linalg.solve(root, self.mass_matrix(np.zeros(self.size))).T)
        values = np.linalg.eigvalsh((moved + moved.T) / 2)
        if not values[0] > 0:
            raise ParameterError(f"masses of {rod.name}", float(values[0]), "mass that every strain moves")

    def mass_matrix(self, c: ArrayLike) -> Vector:
        """M(c), (n, n)."""
        frames = self.chain.frames(self.rod.coefficients(c))
        inertia = self.chain.spatial_inertia(frames, self.inertia)
        return self.chain.generalized(frames, inertia @ frames.jacobian)

    def momentum(self, c: ArrayLike, c_rate: ArrayLike) -> Vector:
        """M(c) c_rate, (n,)."""
        return self.terms(self.rod.coefficients(c), np.asarray(c_rate, dtype=float)).momentum

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

    def terms(
        self, c: Vector, c_rate: Vector, pull: Pull = None, *, force: Vector | None = None, matrices: bool = False
    ) -> MotionTerms:
        """Momentum and its rate.

        Parameters
        ----------
        c, c_rate : (n,)
        pull : (N,) tensions, N; or held tendons; None for none
        force : (n,) more generalised force, N.m^2 for curvatures
        matrices : also M and the stiffness

        Returns
        -------
        see :class:`MotionTerms`
        """
        loads = self.loaded.terms(c, stiffness=matrices)
        momentum, of_speed, mass = self._moving(loads.frames, c_rate, matrices)
        total = of_speed + loads.force - self.rod.stiffness @ c - self.damping @ c_rate
        if force is not None:
            total = total + force
        stiffness = self.rod.stiffness + loads.stiffness if matrices else None
        tension = _tension(self.rod, c, pull)
        if tension.any():
            _, jacobian, pulled, curve = self.rod.tendons.weighted(c, tension)
            total = total - pulled
            if stiffness is not None:
                stiffness = stiffness + curve
                if isinstance(pull, HeldTendons):
                    stiffness = stiffness + (jacobian.T * np.where(tension > 0, pull.stiffness_n_per_m, 0.0)) @ jacobian
        return MotionTerms(momentum, total, tension, mass, stiffness)

    def _moving(self, frames: Frames, c_rate: Vector, matrices: bool) -> tuple[Vector, Vector, Any]:
        """Momentum, dT/dc and M."""
        chain = self.chain
        spatial = chain.spatial_inertia(frames, self.inertia)
        wrench = (spatial @ (frames.jacobian @ c_rate)[..., None])[..., 0]
        momentum = chain.generalized(frames, wrench)
        force = chain.contraction(frames, wrench) @ c_rate if c_rate.any() else np.zeros(self.size)
        return momentum, force, chain.generalized(frames, spatial @ frames.jacobian) if matrices else None


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


def _tension(rod: StrainRod, c: Vector, pull: Pull) -> Vector:
    if not isinstance(pull, HeldTendons):
        return checked_tension(rod, pull)
    stretch = np.asarray(pull.displacement_m, dtype=float) - (rod.tendons.rest_m - rod.tendons.lengths(c))
    return checked_tension(rod, np.maximum(np.asarray(pull.stiffness_n_per_m) * stretch, 0.0))  # a tendon cannot push
