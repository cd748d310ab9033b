# SPDX-License-Identifier: Apache-2.0
"""Backbones around a segment and a carriage beside it: Clarke coordinates, an insertion, and the manifold they span.

Derived here: muhmann (13) for the backbones, with the insertion of wang as a coordinate of its own.
"""

from __future__ import annotations

import numpy as np

from continuum_robot.geometry.antagonists import AntagonistManifold
from continuum_robot.geometry.clarke import ClarkeManifold


class ModulatedManifold(ClarkeManifold):
    """Coordinates [q_Re, q_Im, insertion]: those of n backbones, and half the difference of two drives of a carriage.

    Backbones and carriage share no drive, so forces are shifted for each of both by itself. The carriage has no tendons
    around a circle: :attr:`transforms` is empty, and the force cannot be redistributed.

    Parameters
    ----------
    count : number n of secondary backbones
    pitch_radius_m : their distance from the central one, m
    """

    def __init__(self, count: int, pitch_radius_m: float) -> None:
        backbones, carriage = ClarkeManifold([count], [pitch_radius_m]), AntagonistManifold()
        self.transforms = ()
        self.pitch_radii_m = backbones.pitch_radii_m
        self.segment_count, self.coordinate_count, self.tendon_count = 1, 3, count + 2
        self.tendon_slices = (slice(0, count), slice(count, count + 2))
        self.displacement_matrix = np.zeros((count + 2, 3))
        self.displacement_matrix[:count, :2] = backbones.displacement_matrix
        self.displacement_matrix[count:, 2:] = carriage.displacement_matrix
        self.clarke_matrix = np.zeros((3, count + 2))
        self.clarke_matrix[:2, :count] = backbones.clarke_matrix
        self.clarke_matrix[2:, count:] = carriage.clarke_matrix
        self._off_manifold = np.eye(count + 2) - self.displacement_matrix @ self.clarke_matrix
        self.shift_direction = np.ones(count + 2)
        for array in (self.displacement_matrix, self.clarke_matrix, self.shift_direction, self._off_manifold):
            array.setflags(write=False)
