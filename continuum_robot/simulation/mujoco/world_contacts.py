# SPDX-License-Identifier: Apache-2.0
"""The truth about contacts with the world: which obstacle presses where on the robot, and how strongly."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.simulation.contact import ContactLoad
from continuum_robot.simulation.mujoco.chain import Chain
from continuum_robot.simulation.mujoco.library import mujoco_library
from continuum_robot.simulation.mujoco.mjcf import ChainModel
from continuum_robot.simulation.mujoco.world import PlacedWorld

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


_OVERLAP_M = 1e-6


def refuse_overlap(made: ChainModel, data: Any, chain: Chain, world: PlacedWorld) -> None:
    """Refuse a world in which an obstacle stands where the robot is."""
    for contact in data.contact:
        obstacle, geometry = _pair(contact, made.obstacle_of)
        if obstacle >= 0 and contact.dist < -_OVERLAP_M:
            link = int(made.model.geom_bodyid[geometry]) - int(made.bodies[0])
            raise ParameterError(
                f"obstacle {world.obstacles[obstacle].name}",
                f"{-1e3 * contact.dist:.3g} mm inside the straight robot at {1e3 * chain.start_m(link):.0f} mm",
                f"outside of {chain.robot.name} as it starts: move the obstacle, or make it smaller",
            )


def world_loads(
    model: Any, data: Any, obstacle_of: NDArray[np.intp], chain: Chain, world: PlacedWorld
) -> tuple[ContactLoad, ...]:
    """Loads on the robot after a step, one for each obstacle and each part of a link (backbone, disk) that
    it presses.
    """
    mujoco = mujoco_library()
    forces: dict[tuple[int, int], list[tuple[Vector, Vector, float]]] = {}
    result = np.zeros(6)
    for index, contact in enumerate(data.contact):
        if contact.efc_address < 0:
            continue
        obstacle, geometry = _pair(contact, obstacle_of)
        mujoco.mj_contactForce(model, data, index, result)
        # From the first geometry on the second, in the contact's frame, whose rows are its axes.
        force = contact.frame.reshape(3, 3).T @ result[:3]
        if int(contact.geom[0]) == geometry:
            force = -force
        forces.setdefault((obstacle, geometry), []).append((force, contact.pos.copy(), float(contact.dist)))
    return tuple(
        _load(data, chain, world.obstacles[obstacle].name, int(model.geom_bodyid[geometry]), found)
        for (obstacle, geometry), found in sorted(forces.items())
    )


def _load(data: Any, chain: Chain, name: str, body: int, found: list[tuple[Vector, Vector, float]]) -> ContactLoad:
    link = body - 1  # links are the only bodies, in their order
    rotation, origin = data.xmat[body].reshape(3, 3), data.xpos[body]
    force = sum((part[0] for part in found), np.zeros(3))
    sizes = np.array([np.linalg.norm(part[0]) for part in found])
    weights = sizes / sizes.sum() if sizes.sum() > 0 else np.full(len(found), 1 / len(found))
    point = sum((w * part[1] for w, part in zip(weights, found, strict=True)), np.zeros(3))
    length_m = chain.links[link].end_m - chain.links[link].start_m
    along = float(np.clip((point - origin) @ rotation[:, 2], 0.0, length_m))
    center = origin + along * rotation[:, 2]
    moment = sum((np.cross(part[1] - center, part[0]) for part in found), np.zeros(3))
    wrench = np.concatenate([rotation.T @ force, rotation.T @ moment])
    depth = max(0.0, *(-part[2] for part in found))
    return ContactLoad(name, chain.start_m(link) + along, bool(np.any(force)), wrench, force, depth, point)


def _pair(contact: Any, obstacle_of: NDArray[np.intp]) -> tuple[int, int]:
    """Obstacle of a contact and the robot's geometry; -1 where the robot is alone."""
    first, second = (int(geometry) for geometry in contact.geom)
    if obstacle_of[first] >= 0:
        return int(obstacle_of[first]), second
    return int(obstacle_of[second]), first
