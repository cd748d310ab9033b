# SPDX-License-Identifier: Apache-2.0
"""External loads on links: forces and moments that keep their direction in the world, or turn with the link.

The external wrench of ha (10), which is one at each link.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ParameterError

Array = NDArray[np.float64]

FRAMES = ("world", "body")


@dataclass(frozen=True, slots=True)
class Load:
    """A constant load on one link: ha appendix C.

    Attributes
    ----------
    link : counted from 1 at the base
    force_n : x and y, N
    moment_nm : counter-clockwise, N.m
    point_m : where the force acts, in the link's body frame, m
    frame : "world": the force keeps its direction; "body": it turns with the link
    """

    link: int
    force_n: tuple[float, float] = (0.0, 0.0)
    moment_nm: float = 0.0
    point_m: tuple[float, float] = (0.0, 0.0)
    frame: str = "world"


def load_matrix(loads: Sequence[Load], link_count: int) -> Array:
    """All loads link by link; those on the base, which carries anything, are left out.

    Parameters
    ----------
    loads : any number, several on a link add up
    link_count : n

    Returns
    -------
    shape (8, n - 1), a column for each of the links 2 ... n: world force (2), world moment, and with the points q of
    the world forces f the sums of q x f and of q . f, which give the moment at any angle of the link; then moment and
    force of the body's loads at the link's origin. N, N.m

    Raises
    ------
    ParameterError : no such link or frame, or a value that is not finite
    """
    matrix = np.zeros((8, link_count - 1))
    for load in loads:
        if not 1 <= load.link <= link_count:
            raise ParameterError("load.link", load.link, f"a link, 1 ... {link_count}")
        if load.frame not in FRAMES:
            raise ParameterError("load.frame", load.frame, "one of " + ", ".join(FRAMES))
        values = (*load.force_n, load.moment_nm, *load.point_m)
        if not np.all(np.isfinite(values)):
            raise ParameterError("load", values, "finite values")
        if load.link == 1:
            continue
        (fx, fy), (x, y) = load.force_n, load.point_m
        column = matrix[:, load.link - 2]
        if load.frame == "world":
            column[:5] += [fx, fy, load.moment_nm, x * fy - y * fx, x * fx + y * fy]
        else:
            column[5:] += [load.moment_nm + x * fy - y * fx, fx, fy]
    return matrix


def is_conservative(matrix: Array) -> bool:
    """Whether all loads of a :func:`load_matrix` have a potential: none turns with its link.

    Parameters
    ----------
    matrix : of all loads, as :func:`load_matrix` gives it
    """
    return not np.any(matrix[6:])
