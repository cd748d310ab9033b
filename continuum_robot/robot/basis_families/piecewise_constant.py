# SPDX-License-Identifier: Apache-2.0
"""Even pieces of constant strain: what is called piecewise constant curvature or strain."""

from __future__ import annotations

from collections.abc import Sequence


class PiecewiseConstant:
    """f_k is 1 on the k-th of order + 1 equal pieces of the segment, else 0."""

    def values(self, ratio: float, order: int) -> Sequence[float]:
        """1 for the piece at ``ratio``, 0 for all others up to ``order``."""
        values = [0.0] * (order + 1)
        values[min(int(ratio * (order + 1)), order)] = 1.0
        return values

    def breaks(self, order: int) -> Sequence[float]:
        """The inner ends of the pieces of ``order``."""
        return [piece / (order + 1) for piece in range(1, order + 1)]

    def degree(self, _order: int) -> int:
        """Constant."""
        return 0
