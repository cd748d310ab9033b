# SPDX-License-Identifier: Apache-2.0
"""Families of functions for the strains of a segment, and where they are found by their names.

A family is a class with the methods of :class:`BasisFamily`. It gets its name in a robot file by its line in
:data:`SHIPPED`, by an installed package's entry point of the group ``continuum_robot.basis_families``, or by
:func:`register` in a program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Protocol, runtime_checkable

from continuum_robot.errors import ParameterError
from continuum_robot.robot.doors import BASIS_FAMILIES, made

CUBIC = 3


@runtime_checkable
class BasisFamily(Protocol):
    """Functions f_0 .. f_order of the fraction s / l of a segment's length, independent and piecewise polynomial.

    What is no polynomial is taken as one of the degree that :meth:`degree` gives, in the quadratures along the rod.
    """

    def values(self, ratio: float, order: int) -> Sequence[float]:
        """The order + 1 functions at one place."""
        ...

    def breaks(self, order: int) -> Sequence[float]:
        """Places s / l inside (0, 1), ascending, where a function or a derivative of it jumps at an ``order``."""
        ...

    def degree(self, order: int) -> int:
        """Highest degree of the polynomials between the breaks at an ``order``."""
        ...


class Polynomials:
    """Without breaks; the order is the degree. Raising it leaves the other coefficients' meaning."""

    def breaks(self, _order: int) -> Sequence[float]:
        """None."""
        return ()

    def degree(self, order: int) -> int:
        """The order."""
        return order


class Chebyshev(Polynomials):
    """Shifted Chebyshev polynomials T_k(2 s / l - 1), as in johnston (5)."""

    def values(self, ratio: float, order: int) -> Sequence[float]:
        """Polynomials T_0 .. of the highest ``order``, at ``ratio``."""
        x = 2 * ratio - 1
        values = [1.0, x]
        for _ in range(order - 1):
            values.append(2 * x * values[-1] - values[-2])
        return values[: order + 1]


class Legendre(Polynomials):
    """Shifted Legendre polynomials P_k(2 s / l - 1).

    They are orthogonal over the segment, so its stiffness matrix is diagonal where its section is even.
    """

    def values(self, ratio: float, order: int) -> Sequence[float]:
        """Polynomials P_0 .. of the highest ``order``, at ``ratio``, by Bonnet's recursion."""
        x = 2 * ratio - 1
        values = [1.0, x]
        for k in range(1, order):
            values.append(((2 * k + 1) * x * values[k] - k * values[k - 1]) / (k + 1))
        return values[: order + 1]


class PiecewiseConstant:
    """f_k is 1 on the k-th of order + 1 equal pieces of the segment, else 0: piecewise constant curvature or strain."""

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


class BSpline:
    """B-splines on even knots, cubic where there are enough of them.

    Each function is local: a coefficient bends its part of the segment alone. They sum up to 1.
    """

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


SHIPPED: dict[str, Callable[[], BasisFamily]] = {
    "chebyshev": Chebyshev,
    "legendre": Legendre,
    "b_spline": BSpline,
    "piecewise_constant": PiecewiseConstant,
}
_registered: dict[str, Callable[[], BasisFamily]] = {}


def register(name: str, family: Callable[[], BasisFamily]) -> None:
    """Give a family a name in this program; a package gives it by an entry point."""
    if name in SHIPPED or _registered.get(name, family) is not family:
        raise ParameterError("name", name, "a name that no other basis family has")
    _registered[name] = family
    basis_family.cache_clear()


@lru_cache(maxsize=32)
def basis_family(name: str) -> BasisFamily:
    """The family of a name."""
    own = SHIPPED.get(name) or _registered.get(name)
    family = made(BASIS_FAMILIES, name, "kind", known=(*SHIPPED, *_registered)) if own is None else own()
    if not isinstance(family, BasisFamily):
        raise ParameterError("kind", name, "a family with the methods values, breaks and degree")
    return family
