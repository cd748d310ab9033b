# SPDX-License-Identifier: Apache-2.0
"""Obstacles as triangles, for drawing; in shape and place those of the compiled model."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuum_robot.simulation.mujoco.library import mujoco_library

Vector = NDArray[np.float64]

_AROUND, _RINGS = 24, 6


def geometry_triangles(model: Any, data: Any, geometry: int) -> Vector:
    """Triangles of a geometry in the base frame, shape (k, 3, 3), m."""
    kinds, kind = mujoco_library().mjtGeom, int(model.geom_type[geometry])
    if kind == int(kinds.mjGEOM_MESH):
        mesh = int(model.geom_dataid[geometry])
        first, count = int(model.mesh_vertadr[mesh]), int(model.mesh_vertnum[mesh])
        begin, faces = int(model.mesh_faceadr[mesh]), int(model.mesh_facenum[mesh])
        local = model.mesh_vert[first : first + count].astype(float)[model.mesh_face[begin : begin + faces]]
    elif kind == int(kinds.mjGEOM_BOX):
        local = _box(model.geom_size[geometry])
    else:
        radius, half = (float(size) for size in model.geom_size[geometry][:2])
        local = _turned(*_profile(radius, half, kind, kinds))
    rotation = data.geom_xmat[geometry].reshape(3, 3)
    return np.asarray(local @ rotation.T + data.geom_xpos[geometry])


def _profile(radius: float, half: float, kind: int, kinds: Any) -> tuple[Vector, Vector]:
    """Radii and heights of rings from the bottom to the top of a body of revolution."""
    if kind == int(kinds.mjGEOM_CYLINDER):
        return np.array([0.0, radius, radius, 0.0]), np.array([-half, -half, half, half])
    half = half if kind == int(kinds.mjGEOM_CAPSULE) else 0.0
    angle = np.linspace(0.0, np.pi / 2, _RINGS)
    radii = np.concatenate([radius * np.sin(angle), radius * np.sin(angle[::-1])])
    return radii, np.concatenate([-half - radius * np.cos(angle), half + radius * np.cos(angle[::-1])])


def _turned(radii: Vector, heights: Vector) -> Vector:
    angle = 2 * np.pi * np.arange(_AROUND + 1) / _AROUND
    grid = np.stack(
        [
            radii[:, None] * np.cos(angle),
            radii[:, None] * np.sin(angle),
            np.broadcast_to(heights[:, None], (len(radii), len(angle))),
        ],
        axis=-1,
    )
    return _quads(grid[:-1, :-1], grid[:-1, 1:], grid[1:, 1:], grid[1:, :-1])


def _box(half: Vector) -> Vector:
    sides = []
    for axis in range(3):
        for sign in (-1.0, 1.0):
            corners = []
            for a, b in ((-1, -1), (1, -1), (1, 1), (-1, 1)):
                corner = np.zeros(3)
                corner[axis], corner[(axis + 1) % 3], corner[(axis + 2) % 3] = sign, a, b
                corners.append(corner * half)
            sides.append(_quads(*(np.array(corner) for corner in corners[:: int(sign)])))
    return np.concatenate(sides)


def _quads(a: Vector, b: Vector, c: Vector, d: Vector) -> Vector:
    """Two triangles for each four corners (..., 3)."""
    triangles = np.stack([np.stack([a, b, c], axis=-2), np.stack([a, c, d], axis=-2)], axis=-3)
    return triangles.reshape(-1, 3, 3)
