# SPDX-License-Identifier: Apache-2.0
"""Tendons whose displacements lie on no manifold that geometry alone shows, such as helical ones.

Derived here: the identity in place of muhmann (13).
"""

from __future__ import annotations

import numpy as np

from continuum_robot.geometry.clarke import ClarkeManifold


class UnrelatedTendons(ClarkeManifold):
    """Every displacement is a coordinate of its own: no tendon shows anything about another.

    Where such tendons are, only the rod's mechanics ties them to each other. :attr:`transforms` is empty.

    Parameters
    ----------
    count : number N of tendons
    """

    def __init__(self, count: int) -> None:
        self.transforms = ()
        self.pitch_radii_m = np.ones(0)
        self.segment_count, self.coordinate_count, self.tendon_count = 1, count, count
        self.tendon_slices = (slice(0, count),)
        self.displacement_matrix = np.eye(count)
        self.clarke_matrix = np.eye(count)
        self._off_manifold = np.zeros((count, count))
        self.shift_direction = np.ones(count)
        for array in (self.displacement_matrix, self.clarke_matrix, self.shift_direction, self._off_manifold):
            array.setflags(write=False)
