# SPDX-License-Identifier: Apache-2.0
"""Shifted Chebyshev polynomials, as in johnston (5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


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


class Chebyshev:
    """T_k(2 s / l - 1): raising the order leaves the other coefficients' meaning."""

    def values(self, ratio: float, order: int) -> Sequence[float]:
        """Polynomials T_0 .. of the highest ``order``, at ``ratio``."""
        return shifted_chebyshev(ratio, order)

    def breaks(self, _order: int) -> Sequence[float]:
        """None."""
        return ()

    def degree(self, order: int) -> int:
        """The order."""
        return order
