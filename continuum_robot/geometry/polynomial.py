# SPDX-License-Identifier: Apache-2.0
"""Polynomials of second order in several coordinates (derived here: their monomials)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Vector = NDArray[np.float64]


class Polynomial:
    """All monomials of order zero to two of scaled coordinates.

    Parameters
    ----------
    scale : of each coordinate, shape (m,), in its unit, positive

    Attributes
    ----------
    size : number of monomials
    orders : of each monomial, shape (size,)
    """

    def __init__(self, scale: ArrayLike) -> None:
        self._scale = np.asarray(scale, dtype=float)
        count = self._scale.size
        self._first, self._second = np.triu_indices(count)
        self.orders = np.repeat([0, 1, 2], [1, count, self._first.size])
        self.size = int(self.orders.size)

    def at(self, coordinates: ArrayLike) -> Vector:
        """Monomials, shape (size,), at coordinates (m,)."""
        scaled = np.asarray(coordinates, dtype=float) / self._scale
        return np.concatenate(([1.0], scaled, scaled[self._first] * scaled[self._second]))
