# SPDX-License-Identifier: Apache-2.0
"""Families of functions for the strains of a segment, one a file, and where they are found by their names.

A family is a class with the methods of :class:`BasisFamily`. It gets its name in a robot file by its line in
:data:`SHIPPED`, by an installed package's entry point of the group ``continuum_robot.basis_families``, or by
:func:`register` in a program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Protocol, runtime_checkable

from continuum_robot.errors import ParameterError
from continuum_robot.robot.basis_families.b_spline import BSpline
from continuum_robot.robot.basis_families.chebyshev import Chebyshev
from continuum_robot.robot.basis_families.legendre import Legendre
from continuum_robot.robot.basis_families.piecewise_constant import PiecewiseConstant
from continuum_robot.robot.doors import BASIS_FAMILIES, made, offered

SHIPPED: dict[str, Callable[[], BasisFamily]] = {
    "chebyshev": Chebyshev,
    "legendre": Legendre,
    "b_spline": BSpline,
    "piecewise_constant": PiecewiseConstant,
}
_registered: dict[str, Callable[[], BasisFamily]] = {}


@runtime_checkable
class BasisFamily(Protocol):
    """Functions f_0 .. f_order of the fraction s / l of a segment's length, independent and piecewise polynomial.

    What is no polynomial is taken as one of the degree that :meth:`degree` gives, in the quadratures along the rod.
    """

    def values(self, ratio: float, order: int) -> Sequence[float]:
        """The order + 1 functions at one place.

        Parameters
        ----------
        ratio : s / l in [0, 1]; at a break, the value behind it
        order : highest order
        """
        ...

    def breaks(self, order: int) -> Sequence[float]:
        """Places s / l inside (0, 1), ascending, where a function or a derivative of it jumps at an ``order``."""
        ...

    def degree(self, order: int) -> int:
        """Highest degree of the polynomials between the breaks at an ``order``."""
        ...


def register(name: str, family: Callable[[], BasisFamily]) -> None:
    """Give a family a name in this program; a package gives it by an entry point.

    Parameters
    ----------
    name : as in a robot file
    family : class, or whatever makes a family

    Raises
    ------
    ParameterError : the name is taken
    """
    if name in SHIPPED or _registered.get(name, family) is not family:
        raise ParameterError("name", name, "a name that no other basis family has")
    _registered[name] = family
    basis_family.cache_clear()


def family_names() -> tuple[str, ...]:
    """Names that a robot file may have."""
    return (*SHIPPED, *_registered, *offered(BASIS_FAMILIES))


@lru_cache(maxsize=32)
def basis_family(name: str) -> BasisFamily:
    """The family of a name.

    Raises
    ------
    ParameterError : there is none, or it lacks a method
    """
    own = SHIPPED.get(name) or _registered.get(name)
    known = (*SHIPPED, *_registered)
    family = made(BASIS_FAMILIES, name, "kind", known=known) if own is None else own()
    if not isinstance(family, BasisFamily):
        raise ParameterError("kind", name, "a family with the methods values, breaks and degree")
    return family
