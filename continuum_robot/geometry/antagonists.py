# SPDX-License-Identifier: Apache-2.0
"""Two tendons that work against each other: one coordinate, and the interface of the Clarke manifold.

Derived here: what is left of muhmann (13) where two tendons bend in one plane.
"""

from __future__ import annotations

import numpy as np

from continuum_robot.geometry.clarke import ClarkeManifold


class AntagonistManifold(ClarkeManifold):
    """A left and a right tendon; their coordinate is half the difference of their displacements.

    What one tendon is pulled in, the other is paid out by, as far as the mechanism is symmetric; by how much it is not
    shows as inconsistency. There are no tendons around a circle, so :attr:`transforms` is empty, and the force cannot
    be redistributed, only shifted or clipped.
    """

    def __init__(self) -> None:
        self.transforms = ()
        self.pitch_radii_m = np.zeros(0)
        self.segment_count, self.coordinate_count, self.tendon_count = 1, 1, 2
        self.tendon_slices = (slice(0, 2),)
        self.displacement_matrix = np.array([[1.0], [-1.0]])
        self.clarke_matrix = np.array([[0.5, -0.5]])
        self._off_manifold = np.eye(2) - self.displacement_matrix @ self.clarke_matrix
        self.shift_direction = np.ones(2)
        for array in (self.displacement_matrix, self.clarke_matrix, self.shift_direction, self._off_manifold):
            array.setflags(write=False)
