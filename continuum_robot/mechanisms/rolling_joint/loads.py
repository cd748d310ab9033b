# SPDX-License-Identifier: Apache-2.0
"""External loads on links: forces and moments that keep their direction in the world, or turn with the link.

The external wrench of ha (10), which is one at each link.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ParameterError

FRAMES = ("world", "body")


@dataclass(frozen=True, slots=True)
class Load:
    """A constant load on one link: ha appendix C."""

    link: int
    force_n: tuple[float, float] = (0.0, 0.0)
    moment_nm: float = 0.0
    point_m: tuple[float, float] = (0.0, 0.0)
    frame: str = "world"


class LinkLoads(NamedTuple):
    """All loads link by link, of the links 2 ... n; vectors are complex, x + i y.

    Attributes
    ----------
    world_n : sum of the forces that keep their direction, shape (n - 1,), N
    body_n : sum of the forces that turn with the link, in its frame, shape (n - 1,), N
    moment_nm : sum of the moments, those of the turning forces about the link's origin among them, shape (n - 1,)
    lever_nm : sum of conj(point) force over the forces that keep their direction: at the link's angle a their moment
        is Im(exp(-i a) lever), ha (56); shape (n - 1,), N.m
    """

    world_n: NDArray[np.complex128]
    body_n: NDArray[np.complex128]
    moment_nm: NDArray[np.float64]
    lever_nm: NDArray[np.complex128]

    @property
    def conservative(self) -> bool:
        """Whether the loads have a potential: no force turns with its link."""
        return not self.body_n.any()

    def scaled(self, factor: float) -> LinkLoads:
        """All loads times a factor."""
        world, body, moment, lever = self
        return LinkLoads(factor * world, factor * body, factor * moment, factor * lever)


def link_loads(loads: Sequence[Load], link_count: int) -> LinkLoads:
    """Sums of the loads on each link; those on the base, which carries anything, are left out."""
    world, body, lever = (np.zeros(link_count, dtype=complex) for _ in range(3))
    moment = np.zeros(link_count)
    for load in loads:
        if not 1 <= load.link <= link_count:
            raise ParameterError("load.link", load.link, f"a link, 1 ... {link_count}")
        if load.frame not in FRAMES:
            raise ParameterError("load.frame", load.frame, "one of " + ", ".join(FRAMES))
        if not np.all(np.isfinite([*load.force_n, load.moment_nm, *load.point_m])):
            raise ParameterError("load", (*load.force_n, load.moment_nm, *load.point_m), "finite values")
        k, force = load.link - 1, complex(*load.force_n)
        about_origin = complex(*load.point_m).conjugate() * force
        moment[k] += load.moment_nm
        if load.frame == "world":
            world[k] += force
            lever[k] += about_origin
        else:
            body[k] += force
            moment[k] += about_origin.imag
    return LinkLoads(world[1:], body[1:], moment[1:], lever[1:])
