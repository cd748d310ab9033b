# SPDX-License-Identifier: Apache-2.0
"""How far a rod's numbers are off by its Gauss nodes: the same calls with more of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from continuum_robot.robot.description import Robot
from continuum_robot.rod.kernel.arrays import rod_arrays
from continuum_robot.rod.kernel.reference import lengths
from continuum_robot.rod.rod import Rod

LARGEST_ERROR = 1e-4
"""Of a rod that is used: far below what masses and stiffnesses are known to."""
MORE_NODES = 4
_BEND, _STRAIN = 1.0, 0.02


@dataclass(frozen=True, slots=True)
class RodAccuracy:
    """Errors by the quadrature where each segment is bent by about a radian."""

    nodes: tuple[int, ...]
    tip: float
    mass: float
    force: float
    tendons: float

    @property
    def largest(self) -> float:
        """Largest of all."""
        return max(self.tip, self.mass, self.force, self.tendons)

    @property
    def good(self) -> bool:
        """Whether it is at most ``LARGEST_ERROR``; NaN is not."""
        return self.largest <= LARGEST_ERROR


def rod_accuracy(robot: Robot) -> RodAccuracy:
    """Estimate the quadrature's errors of a rod, with the nodes that its bases state or get."""
    rod = Rod(robot)
    nodes = tuple(len(piece.nodes) for piece in rod.arrays.pieces)
    finer = Rod(robot, nodes=max(nodes) + MORE_NODES)
    rows = rod.arrays.rows
    waves = np.cos(2.0 * np.arange(rod.n)) / (1 + np.arange(rod.n) % 5)  # of either sign, in every mode
    c = np.where(rows < 3, _BEND, _STRAIN) * waves / rod.scale
    one, other = rod.terms(c, c), finer.terms(c, c)
    by_angle = np.outer(rod.scale, rod.scale)
    per_piece = np.bincount(rod.arrays.path_node[:, 0]) if len(rod.arrays.path_node) else np.zeros(1, int)
    path_nodes = int(per_piece.max()) + MORE_NODES
    finest = rod_arrays(rod.description, nodes=max(nodes) + MORE_NODES, path_nodes=path_nodes)
    length_m = lengths(rod.arrays, c, rod.tendon_count)[0] - lengths(finest, c, rod.tendon_count)[0]
    return RodAccuracy(
        nodes=nodes,
        tip=float(np.linalg.norm(one.position[-1] - other.position[-1])) / robot.length_m,
        mass=_apart(one.mass / by_angle, other.mass / by_angle),
        force=_apart(one.bias / rod.scale, other.bias / rod.scale),
        tendons=float(np.abs(length_m).max(initial=0.0)) / robot.length_m,
    )


def _apart(found: np.ndarray, finer: np.ndarray) -> float:
    return float(np.abs(found - finer).max() / max(np.abs(finer).max(), np.finfo(float).tiny))
