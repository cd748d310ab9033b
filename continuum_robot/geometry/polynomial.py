# SPDX-License-Identifier: Apache-2.0
"""Polynomials of second order in several coordinates (derived here: monomials, and their derivative by time)."""

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

    def rate(self, coordinates: ArrayLike, velocity: ArrayLike) -> Vector:
        """Their derivative by time, shape (size,), 1/s.

        Parameters
        ----------
        coordinates, velocity : shape (m,), in their unit and that a second
        """
        scaled = np.asarray(coordinates, dtype=float) / self._scale
        moving = np.asarray(velocity, dtype=float) / self._scale
        products = moving[self._first] * scaled[self._second] + scaled[self._first] * moving[self._second]
        return np.concatenate(([0.0], moving, products))
