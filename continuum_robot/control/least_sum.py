# SPDX-License-Identifier: Apache-2.0
"""Which tendons may pull together where the sum of all tensions is least: the optimal bases of a linear program.

Derived here, from the duality of linear programs: min sum T with D^T T = f, T >= 0. A set of as many tendons as
coordinates can be the optimum of some force f where no tendon outside of it would lower the sum; which sets these are
does not depend on f.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ParameterError

_MOST_SETS = 50_000
_UNEVEN = 1e-6  # a later tendon counts for that much more, so that no two sets serve the same force equally well
_SINGULAR = 1e-9


@dataclass(frozen=True, slots=True)
class LeastSumBases:
    """The sets of tendons."""

    tendons: NDArray[np.intp]
    inverses: NDArray[np.float64]


def least_sum_bases(displacement_matrix: NDArray[np.float64]) -> LeastSumBases:
    """All sets of tendons that pull with least sum of tensions for some generalised force."""
    D = displacement_matrix
    count, coordinates = D.shape
    sets = math.comb(count, coordinates)
    if sets > _MOST_SETS:
        raise ParameterError(
            "tendon_forces",
            "least_sum",
            f"shift: of {count} tendons {sets} sets of {coordinates} would have to be looked through, more than"
            f" {_MOST_SETS}",
        )
    cost = 1.0 + _UNEVEN * np.arange(count) / count
    tendons, inverses = [], []
    for chosen in combinations(range(count), coordinates):
        square = D[list(chosen)]  # (k, k); D^T T = f on the set is square^T T = f
        scale = np.prod(np.linalg.norm(square, axis=1))
        if abs(np.linalg.det(square)) <= _SINGULAR * scale:
            continue
        price = np.linalg.solve(square, cost[list(chosen)])
        if (cost - D @ price >= -_SINGULAR).all():
            tendons.append(chosen)
            inverses.append(np.linalg.inv(square.T))
    return LeastSumBases(np.array(tendons, dtype=np.intp), np.array(inverses))
