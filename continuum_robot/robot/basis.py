# SPDX-License-Identifier: Apache-2.0
"""The strain basis of a segment: which strains it has, each as a sum of how many functions of which family.

A family is a class with the methods of :class:`BasisFamily`. It gets its name in a robot file by its line in
:data:`SHIPPED`, by an installed package's entry point of the group ``continuum_robot.basis_families``, or by
:func:`register` in a program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import Protocol, runtime_checkable

import numpy as np

from continuum_robot.errors import ParameterError
from continuum_robot.robot.doors import BASIS_FAMILIES, made
from continuum_robot.robot.schema import quantity, refuse

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


BENDING_KINDS = ("constant_bending", "chebyshev_bending")
HIGHEST_DEGREE = 60
"""Of the polynomials of a family."""
_CURVATURES = (0, 1)
_LEAST_CONDITION = 1e-10
"""Of the functions of a family at some places: below, one is the sum of others to rounding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Basis:
    """Strain basis of a segment: each strain as a sum of functions of its arc length.

    ``constant_bending`` and ``chebyshev_bending`` have curvature alone, of the order ``order``. The other kinds are
    families of functions, robot/basis_families: they have an order for each kind of strain, the number of its functions
    less one, and a strain without an order is rigid. Order 0 is constant along the segment.
    """

    kind: str = quantity(
        f"{', '.join(BENDING_KINDS)}, or a family: {', '.join(SHIPPED)}, or one that an installed package adds",
        default="constant_bending",
    )
    order: int = quantity("highest order of the curvature of chebyshev_bending", default=0, ge=0, le=12)
    bending_order: int | None = quantity("of a family: highest order of the curvatures", default=None, ge=0, le=24)
    torsion_order: int | None = quantity("of a family: highest order of the torsion", default=None, ge=0, le=24)
    shear_order: int | None = quantity("of a family: highest order of both shears", default=None, ge=0, le=24)
    extension_order: int | None = quantity("of a family: highest order of the extension", default=None, ge=0, le=24)

    nodes: int | None = quantity(
        "Gauss nodes between breaks, for energies and lengths; none: 6 and the order", default=None, ge=6, le=64
    )

    def __post_init__(self) -> None:
        own = self._own
        if self.kind == "constant_bending" and self.order != 0:
            raise refuse("order", self.order, "0 for a constant basis; use chebyshev_bending for more")
        if self._kind_bends:
            for key, order in own.items():
                if order is not None:
                    raise refuse(key, order, f"nothing for {self.kind}; it belongs to the families, as chebyshev")
            return
        try:
            family = basis_family(self.kind)
        except ParameterError as error:
            raise refuse("kind", self.kind, f"{', '.join(BENDING_KINDS)}, or {error.expected}") from error
        if self.order != 0:
            raise refuse("order", self.order, f"no order for {self.kind}; give bending_order, torsion_order, ...")
        if all(order is None for order in own.values()):
            raise refuse("bending_order", None, "an order for one strain at least")
        if self.kind not in SHIPPED:
            for key, order in own.items():
                if order is not None:
                    _check(family, self.kind, key, order)

    @property
    def bending_alone(self) -> bool:
        """Whether curvature is the only strain, whatever its functions are called."""
        return all(rows == _CURVATURES for rows, _ in self.groups)

    @property
    def groups(self) -> tuple[tuple[tuple[int, ...], int], ...]:
        """Rows of the strain (u_x, u_y, u_z, v_x, v_y, v_z) that have the same functions, and the order of these.

        Coefficients come group by group: curvatures, torsion, shears, extension; in a group function by function.
        """
        if self._kind_bends:
            return ((_CURVATURES, self.order),)
        rows = (_CURVATURES, (2,), (3, 4), (5,))
        return tuple((those, order) for those, order in zip(rows, self._own.values(), strict=True) if order is not None)

    @property
    def extended(self) -> Basis:
        """The same strains, and an extension that is constant along the segment; its coefficient is the last."""
        if self._kind_bends:
            return Basis(kind="chebyshev", bending_order=self.order, extension_order=0)
        return replace(self, extension_order=0)

    @property
    def rows(self) -> tuple[int, ...]:
        """For each coefficient the row of the strain."""
        return tuple(row for rows, order in self.groups for _ in range(order + 1) for row in rows)

    @property
    def family(self) -> BasisFamily:
        """Where the functions come from."""
        return basis_family("chebyshev" if self._kind_bends else self.kind)

    @property
    def highest_order(self) -> int:
        """Highest order of any strain."""
        return max(order for _, order in self.groups)

    @property
    def degree(self) -> int:
        """Highest degree of the polynomials between the breaks."""
        return max(self.family.degree(order) for _, order in self.groups)

    @property
    def breaks(self) -> tuple[float, ...]:
        """Fractions of the segment's length, inside (0, 1), where a function or a derivative of it jumps."""
        return tuple(sorted({float(at) for _, order in self.groups for at in self.family.breaks(order)}))

    @property
    def coefficient_count(self) -> int:
        """Number of coefficients of the segment."""
        return len(self.rows)

    @property
    def _kind_bends(self) -> bool:
        return self.kind in BENDING_KINDS

    @property
    def _own(self) -> dict[str, int | None]:
        return {
            "bending_order": self.bending_order,
            "torsion_order": self.torsion_order,
            "shear_order": self.shear_order,
            "extension_order": self.extension_order,
        }


def _check(family: BasisFamily, kind: str, key: str, order: int) -> None:
    """Refuse a family of others whose functions are not what they must be."""
    breaks, degree = [0.0, *family.breaks(order), 1.0], family.degree(order)
    if not all(low < high for low, high in pairwise(breaks)) or not 0 <= degree <= HIGHEST_DEGREE:
        raise refuse(key, order, f"ascending breaks of {kind} in (0, 1) and a degree from 0 to {HIGHEST_DEGREE}")
    # As many places as determine the pieces.
    ratios = np.concatenate(
        [low + (high - low) * np.linspace(0.01, 0.99, degree + 1) for low, high in pairwise(breaks)]
    )
    values = [list(family.values(float(ratio), order)) for ratio in ratios]
    if any(len(row) != order + 1 or not np.isfinite(row).all() for row in values):
        raise refuse(key, order, f"{order + 1} finite functions of {kind}")
    sizes = np.linalg.svd(np.array(values), compute_uv=False)
    if len(sizes) <= order or sizes[-1] < _LEAST_CONDITION * sizes[0]:
        raise refuse(key, order, f"functions of {kind} of which none is the sum of others")
