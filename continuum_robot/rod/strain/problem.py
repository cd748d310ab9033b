# SPDX-License-Identifier: Apache-2.0
"""The static problem of a rod with general strains: energy, force out of balance and stiffness at some coefficients.

In the coordinates y = L^T c with K = L L^T the elastic energy is |y|^2 / 2, so the eigenvalues of the Hessian there are
1 for the rod alone and 0 where it buckles. Derived here. Newton's steps turn downhill where curvature is negative.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg.lapack import dposv, dpotrf

from continuum_robot.errors import ParameterError
from continuum_robot.rod.loads import Load
from continuum_robot.rod.strain.loaded_chain import LoadedChain, LoadTerms
from continuum_robot.rod.strain.rod import StrainRod

Vector = NDArray[np.float64]

RESIDUAL_TOLERANCE = 1e-9
NEUTRAL = 1e-7
"""Eigenvalues of the Hessian against the elastic stiffness that are 0 to rounding."""
_LARGEST_TURN_RAD = 0.8
_LARGEST_STRETCH = 0.2
_LEAST_CURVATURE = 1e-3


@dataclass(slots=True)
class StaticState:
    """Energy, residual force and Hessian at some coefficients, in the scaled coordinates.

    Attributes
    ----------
    c : strain coefficients, (n,)
    energy : J; of no meaning with loads without a potential
    force : gradient of the energy, out of balance, (n,), square root of J
    hessian : its derivative, (n, n)
    residual : angle (rad) or relative stretch that ``force`` would cause on the elastic rod alone
    symmetric : whether all loads have a potential
    bent : whether a direction of negative curvature was turned round on the way on
    """

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
        """Eigenvalues of the Hessian, (n,)."""
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
        self._latest: tuple[bytes, LoadTerms] | None = None

    def terms(self, c: Vector, tension: Vector, load_scale: float = 1.0) -> tuple[float, Vector, Vector]:
        """Energy (J; of no meaning with loads without a potential), its gradient (n,) and Hessian (n, n).

        Parameters
        ----------
        c : (n,)
        tension : (N,), N
        load_scale : fraction of weight and loads
        """
        elastic = self.rod.stiffness @ c
        energy, gradient, hessian = float(c @ elastic) / 2, elastic, self.rod.stiffness
        if tension.any():
            lengths, _, pull, curve = self.rod.tendons.weighted(c, tension)
            energy += float(tension @ (lengths - self.rod.tendons.rest_m))
            gradient, hessian = gradient + pull, hessian + curve
        if load_scale and not self.loaded.empty:
            terms = self._load_terms(c)
            energy += load_scale * float(terms.potential_j)
            gradient, hessian = gradient - load_scale * terms.force, hessian + load_scale * terms.stiffness
        return energy, gradient, hessian

    def _load_terms(self, c: Vector) -> LoadTerms:
        """What the loads do at ``c``, kept until the next shape: who comes from the last equilibrium begins there."""
        shape, latest = c.tobytes(), self._latest
        if latest is None or latest[0] != shape:
            latest = self._latest = (shape, self.loaded.terms(c))
        return latest[1]

    def state(self, c: Vector, tension: Vector, load_scale: float) -> StaticState:
        """The same in the coordinates in which the elastic stiffness is 1.

        Parameters
        ----------
        load_scale : fraction of weight and loads, 0 to 1
        """
        return self.scaled(c, *self.terms(c, tension, load_scale))

    def scaled(self, c: Vector, energy: float, gradient: Vector, hessian: Vector) -> StaticState:
        """Energy, gradient and Hessian at ``c`` in these coordinates.

        Parameters
        ----------
        energy : J
        gradient : its derivative by c, (n,), N.m^2 for curvatures
        hessian : its second derivative, (n, n)
        """
        force = self.inverse_root @ gradient
        scaled = self.inverse_root @ hessian @ self.inverse_root.T
        return StaticState(c, energy, force, scaled, self.residual(force), self.conservative)

    def residual(self, force: Vector) -> float:
        """Angle or relative stretch that a force out of balance, in scaled coordinates, causes on the rod alone.

        Parameters
        ----------
        force : out of balance, in scaled coordinates, (n,), square root of J
        """
        return float(np.linalg.norm(self._flexibility @ force))

    def step(self, direction: Vector) -> tuple[Vector, float]:
        """A step in c for one in scaled coordinates, and the fraction of it that the rod's kinematics allow at once.

        Parameters
        ----------
        direction : in scaled coordinates, (n,), square root of J

        Returns
        -------
        the step in c, (n,), and the fraction, in (0, 1]
        """
        c_step = self.inverse_root.T @ direction
        size = np.abs(self.rod.strain_scale * c_step)
        turning = self.rod.strain_scale != 1.0
        largest = max(
            float(size[turning].max(initial=0.0)) / _LARGEST_TURN_RAD,
            float(size[~turning].max(initial=0.0)) / _LARGEST_STRETCH,
        )
        return c_step, min(1.0, 1.0 / largest) if largest > 0 else 1.0


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
    curved = symmetric.copy()
    curved.flat[:: len(symmetric) + 1] -= _LEAST_CURVATURE
    if dpotrf(curved)[1]:  # NumPy's calls of the same take five times as long
        values, vectors = np.linalg.eigh(symmetric)
        return -vectors @ ((vectors.T @ force) / np.maximum(np.abs(values), _LEAST_CURVATURE)), True
    return np.asarray(-dposv(symmetric, force)[1], dtype=float), False
