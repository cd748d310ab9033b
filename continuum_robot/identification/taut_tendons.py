# SPDX-License-Identifier: Apache-2.0
"""Constant-curvature shape of a robot whose tendons can only pull: one that is paid out too far constrains nothing.

A tendon of displacement q_j allows every shape whose path shortens by at least q_j; it is taut where they are equal.
Of the shapes that all tendons allow, the robot takes the one that bends its backbone least. Where the displacements
obey the tendon constraint (muhmann (1)) every tendon is taut and this is the Clarke transform; where one tendon alone
is taut it is an arc of uniform curvature down to where that tendon ends. Only lengths, pitch radii and the segments'
ratio of bending stiffness enter, so that nothing here needs a fit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import nnls

from continuum_robot.errors import ParameterError
from continuum_robot.geometry.clarke import ClarkeManifold
from continuum_robot.robot.coordinates import clarke_manifold
from continuum_robot.robot.description import Robot

Array = NDArray[np.float64]

# Compliance of the tendons against that of the backbone. It makes the problem strictly convex, so that displacements
# that no inextensible tendons could have (co-contraction) give their least-squares shape.
_TENDON_COMPLIANCE = 1e-6
_ON_MANIFOLD_M = 1e-9


@dataclass(frozen=True)
class TautShape:
    """Shapes of least bending that tendons allow, for T samples of N tendons and m segments."""

    clarke: Array
    displacement: Array
    slack: NDArray[np.bool_]


class TautTendons:
    """Shape from displacements of tendons that can go slack."""

    def __init__(self, robot: Robot, slack_above_m: float = 2e-4) -> None:
        self.manifold: ClarkeManifold = clarke_manifold(robot)
        self._slack_above_m = slack_above_m
        stiffness = [
            segment.backbone.bending_stiffness_nm2 / (segment.length_m * segment.tendons.pitch_radius_m**2)
            for segment in robot.segments
        ]  # energy = sum stiffness / 2 |q_M,i|^2, from E I theta^2 / (2 l) and theta = |q_M| / r_d, muhmann (7), (18)
        D = self.manifold.displacement_matrix
        to_clarke = D.T / np.repeat(stiffness, 2)[:, None]
        size = np.trace(D @ to_clarke) / len(D)  # only the direction of the tensions counts
        self._to_clarke = to_clarke / size
        bent = D.T / np.sqrt(size * np.repeat(stiffness, 2))[:, None]
        # Its square is the compliance of backbone and tendons.
        self._root = np.vstack([bent, np.sqrt(_TENDON_COMPLIANCE) * np.eye(len(D))])

    def shape(self, displacement: ArrayLike) -> TautShape:
        """Shapes of least bending that the tendons allow."""
        given = np.atleast_2d(np.asarray(displacement, dtype=float))
        if given.shape[1] != self.manifold.tendon_count or not np.isfinite(given).all():
            raise ParameterError(
                "displacement", np.shape(displacement), f"finite values, shape (T, {self.manifold.tendon_count})"
            )
        clarke = self.manifold.clarke(given)
        miss = np.abs(self.manifold.displacement(clarke) - given).max(axis=1)
        for row in np.flatnonzero(miss > _ON_MANIFOLD_M):
            # Tensions t >= 0 that minimise t.C t / 2 - q.t, the dual problem; for a backbone of unit stiffness.
            size_m = np.abs(given[row]).max()
            pulled = np.append(np.zeros(clarke.shape[1]), given[row] / (size_m * np.sqrt(_TENDON_COMPLIANCE)))
            clarke[row] = size_m * self._to_clarke @ nnls(self._root, pulled)[0]
        path = self.manifold.displacement(clarke)
        return TautShape(clarke, path, path - given > self._slack_above_m)
