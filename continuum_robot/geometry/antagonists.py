# SPDX-License-Identifier: Apache-2.0
"""Tendons that work against each other: a coordinate a pair, alone or beside backbones with Clarke coordinates.

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
        D, C = np.kron(lever, [[1.0], [-1.0]]), np.linalg.solve(lever, np.kron(np.eye(count), [[0.5, -0.5]]))
        self._set(D, np.asarray(C), [2] * count, segments=count, radii_m=radius_m)


class ModulatedManifold(ClarkeManifold):
    """Coordinates [q_Re, q_Im, insertion]: those of n backbones, and half the difference of two drives of a carriage.

    Derived here: muhmann (13) for the backbones, with the insertion of wang as a coordinate of its own. Backbones and
    carriage share no drive, so forces are shifted for each of both by itself. The carriage has no tendons around a
    circle: :attr:`transforms` is empty, and the force cannot be redistributed.
    """

    def __init__(self, count: int, pitch_radius_m: float) -> None:
        backbones, carriage = ClarkeManifold([count], [pitch_radius_m]), AntagonistManifold()
        D, C = np.zeros((count + 2, 3)), np.zeros((3, count + 2))
        D[:count, :2], D[count:, 2:] = backbones.displacement_matrix, carriage.displacement_matrix
        C[:2, :count], C[2:, count:] = backbones.clarke_matrix, carriage.clarke_matrix
        self._set(D, C, [count, 2], radii_m=[pitch_radius_m])
