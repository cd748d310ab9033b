# SPDX-License-Identifier: Apache-2.0
"""Signed distances to convex obstacles and their gradients, SE(3) poses, closed forms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ParameterError

Vector = NDArray[np.float64]

_LEAST_M = 1e-12


@dataclass(frozen=True)
class ConvexObstacle:
    """A box, cylinder or capsule about its z axis, or sphere.

    Attributes
    ----------
    shape : ``box``, ``cylinder``, ``capsule`` or ``sphere``
    sizes_m : half edges of a box, (3,); radius and half length without the caps; radius of a sphere
    position_m : of its centre in the base frame, (3,), m
    rotation : its axes in the base frame, (3, 3)

    Raises
    ------
    ParameterError : another shape
    """

    shape: str
    sizes_m: tuple[float, ...]
    position_m: Vector
    rotation: Vector

    def __post_init__(self) -> None:
        if self.shape not in _DISTANCES:
            raise ParameterError("obstacle", self.shape, f"one of {', '.join(_DISTANCES)}; replace a mesh by those")

    def distance(self, points_m: ArrayLike) -> tuple[Vector, Vector]:
        """Signed distances of points and their gradients."""
        own = (np.asarray(points_m, dtype=float) - self.position_m) @ self.rotation
        distance, gradient = _DISTANCES[self.shape](own, self.sizes_m)
        return distance, gradient @ self.rotation.T


def least_distance(obstacles: Sequence[ConvexObstacle], points_m: Vector) -> tuple[Vector, Vector]:
    """Distance of each point to the nearest obstacle."""
    least, gradients = np.full(len(points_m), np.inf), np.zeros((len(points_m), 3))
    for obstacle in obstacles:
        distance, gradient = obstacle.distance(points_m)
        nearer = distance < least
        least[nearer], gradients[nearer] = distance[nearer], gradient[nearer]
    return least, gradients


def _box(points: Vector, sizes: tuple[float, ...]) -> tuple[Vector, Vector]:
    beyond = np.abs(points) - np.array(sizes)
    return _of_excess(beyond, np.where(points < 0, -1.0, 1.0))


def _of_excess(beyond: Vector, sign: Vector) -> tuple[Vector, Vector]:
    """From how far points are beyond each pair of faces: outside the closest point counts, inside the nearest face."""
    out = np.maximum(beyond, 0.0)
    length = np.linalg.norm(out, axis=1)
    inside = length < _LEAST_M
    face = beyond.argmax(axis=1)
    gradient = sign * out / np.where(inside, 1.0, length)[:, None]
    rows = np.flatnonzero(inside)
    gradient[rows] = 0.0
    gradient[rows, face[rows]] = sign[rows, face[rows]]
    return np.where(inside, beyond.max(axis=1), length), gradient


def _cylinder(points: Vector, sizes: tuple[float, ...]) -> tuple[Vector, Vector]:
    radius, half = sizes
    across = np.linalg.norm(points[:, :2], axis=1)
    outward = np.where(across[:, None] > _LEAST_M, points[:, :2] / np.maximum(across, _LEAST_M)[:, None], [1.0, 0.0])
    beyond = np.stack([across - radius, np.abs(points[:, 2]) - half], axis=1)
    distance, slope = _of_excess(
        beyond, np.stack([np.ones(len(points)), np.where(points[:, 2] < 0, -1.0, 1.0)], axis=1)
    )
    return distance, np.column_stack([slope[:, :1] * outward, slope[:, 1]])


def _capsule(points: Vector, sizes: tuple[float, ...]) -> tuple[Vector, Vector]:
    radius, half = sizes
    axis = np.zeros_like(points)
    axis[:, 2] = np.clip(points[:, 2], -half, half)
    return _round(points - axis, radius)


def _sphere(points: Vector, sizes: tuple[float, ...]) -> tuple[Vector, Vector]:
    return _round(points, sizes[0])


def _round(away: Vector, radius: float) -> tuple[Vector, Vector]:
    length = np.linalg.norm(away, axis=1)
    gradient = np.where(length[:, None] > _LEAST_M, away / np.maximum(length, _LEAST_M)[:, None], [1.0, 0.0, 0.0])
    return length - radius, gradient


_DISTANCES = {"box": _box, "cylinder": _cylinder, "capsule": _capsule, "sphere": _sphere}
