# SPDX-License-Identifier: Apache-2.0
"""Strain bases: the strain of a segment as a sum of functions of its arc length.

The strain is a twist xi = (u_x, u_y, u_z, v_x, v_y, v_z), angular part first, in the body frame:
R' = R hat(u), p' = R v. As in johnston (4), (5) a basis gives xi(s) = xi* + B(s) c with the
reference strain xi* = (0, 0, 0, 0, 0, 1).

Coefficients of curvature are interleaved by order: c = [kappa_x0, kappa_y0, kappa_x1, kappa_y1, ...] in 1/m, where
kappa_xk multiplies the shifted Chebyshev polynomial T_k(2 s / l - 1). The constant basis is the first two, so raising
the order appends coefficients and leaves the others' meaning. In the kind ``chebyshev`` those of torsion (1/m), shear
(interleaved) and extension (dimensionless) follow, see :attr:`continuum_robot.robot.basis.Basis.functions`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuum_robot.robot.basis import Basis
from continuum_robot.robot.segment import Segment

Vector = NDArray[np.float64]

STRAIN_COUNT = 6
REFERENCE_STRAIN: tuple[float, ...] = (0.0, 0.0, 0.0, 0.0, 0.0, 1.0)
BENDING_ROWS = (0, 1)


def shifted_chebyshev(ratio: Any, order: int) -> list[Any]:
    """Shifted Chebyshev polynomials T_0 .. T_order at ``ratio`` = s / l in [0, 1].

    Parameters
    ----------
    ratio : arc length over the segment's length; a number, an array or a CasADi expression
    order : highest order

    Returns
    -------
    order + 1 values of the kind of ``ratio``
    """
    x = 2 * ratio - 1
    values = [ratio * 0 + 1, x]
    for _ in range(order - 1):
        values.append(2 * x * values[-1] - values[-2])
    return values[: order + 1]


def strain(basis: Basis, coefficients: Any, ratio: Any) -> list[Any]:
    """The strain xi = xi* + B c at one place of a segment.

    Parameters
    ----------
    basis : the segment's basis
    coefficients : indexable of ``basis.coefficient_count`` numbers or CasADi scalars, 1/m
    ratio : s / l in [0, 1], a number or a CasADi scalar

    Returns
    -------
    six entries, angular (1/m) then linear (dimensionless), body frame
    """
    values: list[Any] = list(REFERENCE_STRAIN)
    polynomials = shifted_chebyshev(ratio, basis.highest_order)
    for place, (row, order) in enumerate(basis.functions):
        values[row] = values[row] + polynomials[order] * coefficients[place]
    return values


def basis_matrix(basis: Basis, ratio: float) -> Vector:
    """B at one place of a segment.

    Parameters
    ----------
    basis : the segment's basis
    ratio : s / l in [0, 1]

    Returns
    -------
    shape (6, coefficients), dimensionless (coefficients have the units of their strain)
    """
    matrix = np.zeros((STRAIN_COUNT, basis.coefficient_count))
    polynomials = shifted_chebyshev(float(ratio), basis.highest_order)
    for place, (row, order) in enumerate(basis.functions):
        matrix[row, place] = polynomials[order]
    return matrix


def basis_values(basis: Basis, ratios: Vector) -> Vector:
    """The entry of every column of B, which has but one, at places (k,) of a segment: shape (k, coefficients).

    Parameters
    ----------
    ratios : places from the segment's start as shares of its length, shape (k,), 0 to 1
    """
    polynomials = shifted_chebyshev(ratios, basis.highest_order)
    return np.stack([polynomials[order] for _, order in basis.functions], axis=1)


def gauss_legendre(count: int, end: float = 1.0) -> tuple[Vector, Vector]:
    """Nodes and weights of Gauss-Legendre quadrature on [0, ``end``], each of shape (count,)."""
    nodes, weights = np.polynomial.legendre.leggauss(count)
    return end * (nodes + 1) / 2, end * weights / 2


def basis_integral(segment: Segment, end_m: float) -> Vector:
    """Integral of B over the first ``end_m`` of a segment; exact, as B is a polynomial.

    Parameters
    ----------
    segment : the segment
    end_m : upper end of the integral, in [0, length_m], m

    Returns
    -------
    shape (6, coefficients), m
    """
    nodes, weights = gauss_legendre(segment.basis.highest_order // 2 + 1, end_m / segment.length_m)
    total = np.zeros((STRAIN_COUNT, segment.basis.coefficient_count))
    for node, weight in zip(nodes, weights, strict=True):
        total += segment.length_m * weight * basis_matrix(segment.basis, node)
    return total


def bending_gram(segment: Segment) -> Vector:
    """Integral of B^T B of the two curvature rows over a segment; exact. Shape (coefficients, coefficients), m."""
    nodes, weights = gauss_legendre(segment.basis.order + 1)
    total = np.zeros((segment.basis.coefficient_count,) * 2)
    for node, weight in zip(nodes, weights, strict=True):
        rows = basis_matrix(segment.basis, node)[list(BENDING_ROWS)]
        total += segment.length_m * weight * rows.T @ rows
    return total
