# SPDX-License-Identifier: Apache-2.0
"""Stiff springs and dampers on light links, solved at the end of a step: tendons that only pull, walls, friction.

A row r acts with the magnitude T_r along a generalised direction J_r and answers the rate y = J v at the end of a step:
T_r = max(low_r, e_r - d_r (y_r + g_r T_r)), y = y_free + G T, with G = h J M^-1 J^T and a compliance g_r of its own, of
the spool behind a tendon. As G + diag(g) has no negative eigenvalue and d_r >= 0, there is one solution.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ConvergenceError

Vector = NDArray[np.float64]

_MOST_CHANGES = 50


@dataclass
class Rows:
    """Groups of rows in the order in which they were added.

    Attributes
    ----------
    directions, levels, slopes, compliances, one_sided : one array a group, see :meth:`add`
    """

    directions: list[Vector] = field(default_factory=list)
    levels: list[Vector] = field(default_factory=list)
    slopes: list[Vector] = field(default_factory=list)
    compliances: list[Vector] = field(default_factory=list)
    one_sided: list[NDArray[np.bool_]] = field(default_factory=list)

    def add(
        self,
        directions: Vector,
        levels: Vector,
        slopes: Vector,
        compliances: Vector | None = None,
        one_sided: bool = True,
    ) -> None:
        """Append a group of k rows."""
        count = len(directions)
        self.directions.append(directions)
        self.levels.append(levels)
        self.slopes.append(slopes)
        self.compliances.append(np.zeros(count) if compliances is None else compliances)
        self.one_sided.append(np.ones(count, dtype=bool) if one_sided else np.zeros(count, dtype=bool))


def joined(groups: list[NDArray[Any]]) -> NDArray[Any]:
    """All rows of groups in one array, (rows, ...)."""
    return groups[0] if len(groups) == 1 else np.concatenate(groups)


def solve_rows(
    level: Vector, slope: Vector, compliance: Vector, one_sided: NDArray[np.bool_], free_rate: Vector, coupling: Vector
) -> Vector:
    """Magnitudes T of all rows, (k,), by a Newton method on the set of rows that act."""
    desired = level - slope * free_rate
    matrix = slope[:, None] * coupling
    matrix.flat[:: len(level) + 1] += slope * compliance + 1.0
    acting = before = ~one_sided | (desired > 0)
    for _ in range(_MOST_CHANGES):
        if acting.all():
            found = np.linalg.solve(matrix, desired)
        else:
            # Rows that do not act have an equation of their own: T = 0.
            reduced = matrix * acting[:, None]
            reduced.flat[:: len(level) + 1] += ~acting
            found = np.linalg.solve(reduced, desired * acting)
        # What acts with the wrong sign, and what a row that does not act would give.
        following = ~one_sided | (np.where(acting, found, desired - matrix @ found) > 0)
        if (following == acting).all():
            return found
        before, acting = acting, following
    changed = float(np.count_nonzero(before != acting))
    raise ConvergenceError("forces of tendons and contacts in a step", changed, 0.0, _MOST_CHANGES)
