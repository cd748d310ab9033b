# SPDX-License-Identifier: Apache-2.0
"""B-splines on even knots, cubic where there are enough of them."""

from __future__ import annotations

from collections.abc import Sequence

CUBIC = 3


class BSpline:
    """Each function is local: a coefficient bends its part of the segment alone. They sum up to 1."""

    def values(self, ratio: float, order: int) -> Sequence[float]:
        """The order + 1 splines at ``ratio``, by the recursion of de Boor and Cox; full knots at the segment's ends."""
        degree = self.degree(order)
        pieces = order + 1 - degree
        knots = [0.0] * degree + [piece / pieces for piece in range(pieces + 1)] + [1.0] * degree
        inside = degree + min(int(ratio * pieces), pieces - 1)
        values = [0.0] * (order + degree + 1)
        values[inside] = 1.0
        for d in range(1, degree + 1):
            for k in range(inside - d, inside + 1):
                left, right = knots[k + d] - knots[k], knots[k + d + 1] - knots[k + 1]
                rising = (ratio - knots[k]) / left * values[k] if left > 0.0 else 0.0
                falling = (knots[k + d + 1] - ratio) / right * values[k + 1] if right > 0.0 else 0.0
                values[k] = rising + falling
        return values[: order + 1]

    def breaks(self, order: int) -> Sequence[float]:
        """The inner knots of ``order``."""
        pieces = order + 1 - self.degree(order)
        return [piece / pieces for piece in range(1, pieces)]

    def degree(self, order: int) -> int:
        """Of the pieces: three, less at an ``order`` below."""
        return min(order, CUBIC)
