# SPDX-License-Identifier: Apache-2.0
"""The strain basis of a segment: which strains it has, each as a sum of how many polynomials."""

from __future__ import annotations

from dataclasses import dataclass

from continuum_robot.robot.schema import quantity, refuse

BASIS_KINDS = ("constant_bending", "chebyshev_bending", "chebyshev")


@dataclass(frozen=True, slots=True, kw_only=True)
class Basis:
    """Strain basis of a segment: each strain as a sum of shifted Chebyshev polynomials of its arc length.

    ``constant_bending`` and ``chebyshev_bending`` have curvature alone, of the order ``order``. ``chebyshev`` has an
    order for each kind of strain, where 0 is constant along the segment, and a strain without an order is rigid.
    """

    kind: str = quantity("family of functions", default="constant_bending", choices=BASIS_KINDS)
    order: int = quantity("highest order of the curvature of chebyshev_bending", default=0, ge=0, le=12)
    bending_order: int | None = quantity("chebyshev: highest order of the curvatures", default=None, ge=0, le=24)
    torsion_order: int | None = quantity("chebyshev: highest order of the torsion", default=None, ge=0, le=24)
    shear_order: int | None = quantity("chebyshev: highest order of both shears", default=None, ge=0, le=24)
    extension_order: int | None = quantity("chebyshev: highest order of the extension", default=None, ge=0, le=24)

    def __post_init__(self) -> None:
        own = {
            "bending_order": self.bending_order,
            "torsion_order": self.torsion_order,
            "shear_order": self.shear_order,
            "extension_order": self.extension_order,
        }
        if self.kind == "constant_bending" and self.order != 0:
            raise refuse("order", self.order, "0 for a constant basis; use chebyshev_bending for more")
        if self.kind == "chebyshev":
            if self.order != 0:
                raise refuse("order", self.order, "no order for chebyshev; give bending_order, torsion_order, ...")
            if all(order is None for order in own.values()):
                raise refuse("bending_order", None, "an order for one strain at least")
        else:
            for key, order in own.items():
                if order is not None:
                    raise refuse(key, order, f"nothing for {self.kind}; it belongs to the kind chebyshev")

    @property
    def bending_alone(self) -> bool:
        """Whether curvature is the only strain, as the kinds for bending have it."""
        return self.kind != "chebyshev"

    @property
    def functions(self) -> tuple[tuple[int, int], ...]:
        """For each coefficient the row of the strain (u_x, u_y, u_z, v_x, v_y, v_z) and the order of its polynomial.

        Curvatures interleaved by order, as in the kinds for bending; then torsion, shears interleaved, extension.
        """
        if self.bending_alone:
            groups: tuple[tuple[tuple[int, ...], int | None], ...] = (((0, 1), self.order),)
        else:
            groups = (
                ((0, 1), self.bending_order),
                ((2,), self.torsion_order),
                ((3, 4), self.shear_order),
                ((5,), self.extension_order),
            )
        return tuple(
            (row, order)
            for rows, highest in groups
            if highest is not None
            for order in range(highest + 1)
            for row in rows
        )

    @property
    def highest_order(self) -> int:
        """Highest order of any strain."""
        return max(order for _, order in self.functions)

    @property
    def coefficient_count(self) -> int:
        """Number of coefficients of the segment."""
        return len(self.functions)
