# SPDX-License-Identifier: Apache-2.0
"""Triangles for what is drawn: tubes around a backbone, plates from outlines, cylinders."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Faces = NDArray[np.int64]

_AROUND = 14


def tube(frames: Array, radius: float | Array) -> Array:
    """Vertices of a tube along frames, the ends closed by a point each."""
    angle = 2 * np.pi * np.arange(_AROUND) / _AROUND
    circle = np.stack([np.cos(angle), np.sin(angle)])
    radii = np.broadcast_to(np.asarray(radius, dtype=float), (len(frames),))
    rings = frames[:, None, :3, 3] + radii[:, None, None] * (frames[:, :3, :2] @ circle).transpose(0, 2, 1)
    return np.concatenate([rings.reshape(-1, 3), frames[[0, -1], :3, 3]])


def tube_faces(count: int) -> Faces:
    """Triangles of a tube along ``count`` frames, shape (triangles, 3)."""
    j = np.arange(_AROUND)
    k = (j + 1) % _AROUND
    faces = []
    for ring in range(count - 1):
        a, b = ring * _AROUND, (ring + 1) * _AROUND
        faces += [np.stack([a + j, a + k, b + k], -1), np.stack([a + j, b + k, b + j], -1)]
    last = (count - 1) * _AROUND
    base = np.full(_AROUND, count * _AROUND)
    faces += [np.stack([base, k, j], -1), np.stack([base + 1, last + j, last + k], -1)]
    return np.concatenate(faces)


def plate(outline: Array, thickness: float) -> Array:
    """Vertices of a plate with a plane, closed outline whose point k lies opposite to its point -1 - k."""
    points = outline[:-1]
    normal = np.cross(points, np.roll(points, -1, axis=0)).sum(axis=0)
    size = np.sqrt(normal @ normal)
    half = 0.5 * thickness * (normal / size if size > 0 else np.array([0.0, 1.0, 0.0]))
    return np.concatenate([points - half, points + half])


def plate_faces(points: int) -> Faces:
    """Triangles of a plate whose outline has so many different points, shape (triangles, 3)."""
    faces = []
    for k in range(points // 2 - 1 if points % 2 == 0 else points // 2):
        a, b, c, d = k, k + 1, points - 2 - k, points - 1 - k
        faces += [[a, c, b], [a, d, c]]
        faces += [[points + a, points + b, points + c], [points + a, points + c, points + d]]
    for k in range(points):
        following = (k + 1) % points
        faces += [[k, following, points + following], [k, points + following, points + k]]
    return np.array([face for face in faces if len(set(face)) == len(face)])


def plates(outlines: Sequence[Array], thickness: float) -> Array:
    """Vertices of all plates, one after the other; arguments as of :func:`plate`."""
    return np.concatenate([plate(outline, thickness) for outline in outlines])


def plates_faces(counts: Sequence[int]) -> Faces:
    """Triangles of :func:`plates` for outlines with so many different points each, shape (triangles, 3)."""
    starts = np.concatenate([[0], 2 * np.cumsum(counts)[:-1]])
    return np.concatenate([start + plate_faces(count) for start, count in zip(starts, counts, strict=True)])


def cylinder() -> tuple[Array, Faces]:
    """Vertices and faces of a cylinder of radius 1 and height 1 about z, its middle at the origin."""
    around = 32
    angle = 2 * np.pi * np.arange(around) / around
    ring = np.stack([np.cos(angle), np.sin(angle), np.zeros(around)], -1)
    vertices: list[Array] = []
    faces: list[list[int]] = []
    # Rings of caps and wall are apart, so that the edge is sharp in the light.
    for z, flip in ((-0.5, True), (0.5, False)):
        first = sum(len(part) for part in vertices)
        vertices += [np.add(ring, [0, 0, z]), np.array([[0.0, 0.0, z]])]
        for j in range(around):
            face = [first + around, first + j, first + (j + 1) % around]
            faces.append(face[::-1] if flip else face)
    first = sum(len(part) for part in vertices)
    vertices += [np.add(ring, [0, 0, -0.5]), np.add(ring, [0, 0, 0.5])]
    for j in range(around):
        k = (j + 1) % around
        faces += [[first + j, first + k, first + around + k], [first + j, first + around + k, first + around + j]]
    return np.concatenate(vertices), np.array(faces)
