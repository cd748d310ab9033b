# SPDX-License-Identifier: Apache-2.0
"""Strain bases: the strain of a segment as a sum of functions of its arc length.

The strain is a twist xi = (u_x, u_y, u_z, v_x, v_y, v_z), angular part first, in the body frame:
R' = R hat(u), p' = R v. As in johnston (4), (5) a basis gives xi(s) = xi* + B(s) c with the
reference strain xi* = (0, 0, 0, 0, 0, 1).

Coefficients of curvature are interleaved by order: c = [kappa_x0, kappa_y0, kappa_x1, kappa_y1, ...] in 1/m, where
kappa_xk multiplies the shifted Chebyshev polynomial T_k(2 s / l - 1). The constant basis is the first two, so raising
the order appends coefficients and leaves the others' meaning. In the families of robot/basis_families those of torsion
(1/m), shear (interleaved) and extension (dimensionless) follow, see :attr:`continuum_robot.robot.basis.Basis.groups`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import block_diag

from continuum_robot.robot.basis import Basis

Vector = NDArray[np.float64]

STRAIN_COUNT = 6
BENDING_ROWS = (0, 1)
REFERENCE_STRAIN: tuple[float, ...] = (0.0, 0.0, 0.0, 0.0, 0.0, 1.0)


def basis_matrix(basis: Basis, ratio: float) -> Vector:
    """B at one place of a segment; at a break of the basis, behind it.

    Returns
    -------
    shape (6, coefficients), dimensionless (coefficients have the units of their strain)
    """
    matrix = np.zeros((STRAIN_COUNT, basis.coefficient_count))
    family, place = basis.family, 0
    for rows, order in basis.groups:
        for value in family.values(float(ratio), order):
            for row in rows:
                matrix[row, place] = value
                place += 1
    return matrix


def gauss_legendre(count: int, end: float = 1.0) -> tuple[Vector, Vector]:
    """Nodes and weights of Gauss-Legendre quadrature on [0, ``end``], each of shape (count,)."""
    nodes, weights = _leggauss(count)
    return end * (nodes + 1) / 2, end * weights / 2


_leggauss = functools.cache(np.polynomial.legendre.leggauss)

Weights: TypeAlias = ArrayLike | Callable[[float], ArrayLike]
"""Of the six strains, (6,), or that at a fraction of the segment's length."""
TAPER_DEGREE = 6
"""Of weights that change along a segment, between their breaks."""


def gram(basis: Basis, weights: Weights, breaks: Sequence[float] = ()) -> Vector:
    """Integral of B^T W B over a segment of length 1, with W = diag(``weights``); exact up to ``TAPER_DEGREE``.

    Returns
    -------
    shape (coefficients, coefficients)
    """
    total = np.zeros((basis.coefficient_count,) * 2)
    nodes = basis.degree + 1 + (TAPER_DEGREE // 2 if callable(weights) else 0)
    for low, high in pairwise(sorted({0.0, *basis.breaks, *breaks, 1.0})):
        for node, weight in zip(*gauss_legendre(nodes, high - low), strict=True):
            rows = basis_matrix(basis, low + node)
            here = weights(low + node) if callable(weights) else weights
            total += weight * rows.T @ (np.asarray(here, dtype=float)[:, None] * rows)
    return total


def strain_matrix(
    parts: Iterable[tuple[Basis, float, Weights, Sequence[float]]],
) -> Vector:
    """Integral of B^T W B along a rod, with W = diag of six weights for each segment: johnston (27)-(29); exact.

    Returns
    -------
    shape (coefficients, coefficients), block by segment
    """
    return np.asarray(block_diag(*(size_m * gram(basis, weights, cuts) for basis, size_m, weights, cuts in parts)))
