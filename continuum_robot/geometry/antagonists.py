# SPDX-License-Identifier: Apache-2.0
"""Pairs of tendons that work against each other: one coordinate a pair, and the interface of the Clarke manifold.

Derived here: what is left of muhmann (13) where two tendons bend in one plane.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from continuum_robot.geometry.clarke import ClarkeManifold


class AntagonistManifold(ClarkeManifold):
    """Two opposite tendons a segment, at psi and psi + pi; the coordinate of a segment is q_k = r_k theta_k.

    theta_k is its bending in the plane of its tendons, towards the first of them. What one tendon is pulled in, the
    other is paid out by: q_ij = +-sum over k <= i of (r_i / r_k) cos(psi_i - psi_k) q_k. Bending across the plane moves
    neither of a pair. How much a pair is not symmetric shows as inconsistency. No two tendons stand around a circle, so
    :attr:`transforms` is empty, and the force cannot be redistributed, only shifted or clipped.

    Parameters
    ----------
    pitch_radii_m : distance of a segment's tendons from the backbone, m values, m
    angles_rad : psi of each segment's first tendon from +x, m values, rad
    from_base : whether a segment's tendons run from the base, m values; None: all do. Else from the segment's own start
    """

    def __init__(
        self,
        pitch_radii_m: Sequence[float] = (1.0,),
        angles_rad: Sequence[float] = (0.0,),
        from_base: Sequence[bool] | None = None,
    ) -> None:
        radius_m, angle_rad = np.array(pitch_radii_m, dtype=float), np.array(angles_rad, dtype=float)
        count = len(radius_m)
        passes = np.tril(np.ones((count, count)))
        if from_base is not None:
            passes[~np.array(from_base, dtype=bool)] = 0.0
            np.fill_diagonal(passes, 1.0)
        lever = passes * radius_m[:, None] / radius_m * np.cos(angle_rad[:, None] - angle_rad)
        self.transforms = ()
        self.pitch_radii_m = radius_m
        self.segment_count, self.coordinate_count, self.tendon_count = count, count, 2 * count
        self.tendon_slices = tuple(slice(2 * k, 2 * k + 2) for k in range(count))
        self.displacement_matrix = np.kron(lever, [[1.0], [-1.0]])
        self.clarke_matrix = np.linalg.solve(lever, np.kron(np.eye(count), [[0.5, -0.5]]))
        self._off_manifold = np.eye(2 * count) - self.displacement_matrix @ self.clarke_matrix
        self.shift_direction = np.ones(2 * count)
        for array in (self.displacement_matrix, self.clarke_matrix, self.shift_direction, self._off_manifold):
            array.setflags(write=False)
