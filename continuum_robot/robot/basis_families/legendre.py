# SPDX-License-Identifier: Apache-2.0
"""Shifted Legendre polynomials."""

from __future__ import annotations

from collections.abc import Sequence


class Legendre:
    """P_k(2 s / l - 1): orthogonal over the segment, so its stiffness matrix is diagonal where its section is even."""

    def values(self, ratio: float, order: int) -> Sequence[float]:
        """Polynomials P_0 .. of the highest ``order``, at ``ratio``, by Bonnet's recursion."""
        x = 2 * ratio - 1
        values = [1.0, x]
        for k in range(1, order):
            values.append(((2 * k + 1) * x * values[k] - k * values[k - 1]) / (k + 1))
        return values[: order + 1]

    def breaks(self, _order: int) -> Sequence[float]:
        """None."""
        return ()

    def degree(self, order: int) -> int:
        """The order."""
        return order
