# SPDX-License-Identifier: Apache-2.0
"""Polynomials in several coordinates (derived here: their monomials)."""

from __future__ import annotations

from itertools import combinations_with_replacement

import numpy as np
from numpy.typing import ArrayLike, NDArray

Vector = NDArray[np.float64]


class Polynomial:
    """All monomials of scaled coordinates up to an order.

    Parameters
    ----------
    scale : of each coordinate, shape (m,), in its unit, positive

    Attributes
    ----------
    orders : of each monomial, from 0 on, shape (size,)
    """

    def __init__(self, scale: ArrayLike, order: int) -> None:
        self._scale = np.asarray(scale, dtype=float)
        # Each monomial is one of an order less times a coordinate.
        known: dict[tuple[int, ...], int] = {(): 0}
        self._products: list[tuple[slice, NDArray[np.intp], NDArray[np.intp]]] = []
        sizes = [1]
        for degree in range(1, order + 1):
            monomials = list(combinations_with_replacement(range(self._scale.size), degree))
            rest = np.array([known[one[:-1]] for one in monomials], dtype=np.intp)
            last = np.array([one[-1] for one in monomials], dtype=np.intp)
            own = slice(len(known), len(known) + len(monomials))
            known |= {one: own.start + place for place, one in enumerate(monomials)}
            self._products.append((own, rest, last))
            sizes.append(len(monomials))
        self.orders = np.repeat(np.arange(order + 1), sizes)
        self.size = len(known)

    def at(self, coordinates: ArrayLike) -> Vector:
        """Monomials, shape (size,), at coordinates (m,)."""
        scaled = np.asarray(coordinates, dtype=float) / self._scale
        values = np.ones(self.size)
        for own, rest, last in self._products:
            values[own] = values[rest] * scaled[last]
        return values
