# SPDX-License-Identifier: Apache-2.0
"""The MuJoCo model (MJCF) of a chain in a world, and which obstacle presses where on the robot, and how strongly."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ContinuumRobotError, ParameterError
from continuum_robot.geometry.so3 import quaternion_from_matrix
from continuum_robot.robot.segments.routing import RoutedPath
from continuum_robot.rod.friction.capstans import drives
from continuum_robot.simulation.contact import ContactLoad
from continuum_robot.simulation.mujoco.chain import Chain
from continuum_robot.simulation.mujoco.library import mujoco_library
from continuum_robot.simulation.mujoco.world import PlacedWorld

Vector = NDArray[np.float64]

ARMATURE_FRACTION = 0.5
"""Of h^2 k, the inertia added to a hinge of stiffness k: see :func:`hinge_armature`."""
# A disk on the piece that is fixed to the base touches nothing that moves.
_ROBOT = {"contype": "1", "conaffinity": "0"}
_OBSTACLE = {"contype": "0", "conaffinity": "1"}
_AXES = ("1 0 0", "0 1 0", "0 0 1")


@dataclass(frozen=True)
class ChainModel:
    """A compiled chain."""

    model: Any
    bodies: NDArray[np.intp]
    obstacle_of: NDArray[np.intp]
    xml: str


def hinge_armature(stiffness: Vector, damping: Vector, substep_s: float) -> Vector:
    """Inertia that is added to hinges, (dof,), kg.m^2.

    h d makes the damping that MuJoCo evaluates at the start of a step h act at its end: (M + h d) dv = h (f - d v) is
    M dv = h (f - d (v + dv)). ``ARMATURE_FRACTION`` h^2 k bounds every frequency below 1.42 / h, so that the explicit
    springs of light links are stable; a mode of frequency w is slowed by the fraction w^2 h^2 / 4.
    """
    return np.asarray(substep_s * damping + ARMATURE_FRACTION * substep_s**2 * stiffness)


def compile_chain(
    chain: Chain,
    world: PlacedWorld | None,
    substep_s: float,
    *,
    given_tensions: bool = False,
    in_pieces: bool = False,
) -> ChainModel:
    """The MuJoCo model of a chain."""
    mujoco = mujoco_library()
    root = ElementTree.Element("mujoco", model=chain.robot.name)
    _settings(root, chain, substep_s)
    asset = ElementTree.SubElement(root, "asset")
    worldbody = ElementTree.SubElement(root, "worldbody")
    owner = {} if world is None else _obstacles(worldbody, asset, world)
    bodies = _links(worldbody, chain, substep_s)
    tendons = ElementTree.SubElement(root, "tendon")
    paths = [*chain.robot.tendon_paths, *(string.path for string in chain.robot.strings)]
    masses = np.zeros(len(paths))
    for drive in drives(chain.robot) if given_tensions else ():
        # Two tendons share the capstan's inertia, johnston (22).
        masses[[drive.pulled, drive.released]] = 0.5 * drive.capstans.inertia_kg_m2 / drive.path_per_radian_m**2
    for index, path in enumerate(paths):
        spatial = ElementTree.SubElement(tendons, "spatial", name=f"path_{index}", armature=_text(masses[index]))
        _path(chain, path, spatial, (worldbody, *bodies))
    for spatial in list(tendons)[: chain.robot.tendon_count if in_pieces else 0]:
        for ends in pairwise([site.attrib for site in spatial]):
            piece = ElementTree.SubElement(tendons, "spatial")
            for end in ends:
                ElementTree.SubElement(piece, "site", end)
    text = ElementTree.tostring(root, encoding="unicode")
    try:
        model = mujoco.MjModel.from_xml_string(text)
    except ValueError as error:
        raise ContinuumRobotError(f"MuJoCo refuses the model of {chain.robot.name}: {error}") from error
    names = [model.body(f"link_{k}").id for k in range(len(bodies))]
    obstacle_of = np.full(model.ngeom, -1, dtype=np.intp)
    for name, obstacle in owner.items():
        obstacle_of[model.geom(name).id] = obstacle
    return ChainModel(model, np.array(names, dtype=np.intp), obstacle_of, text)


def _settings(root: ElementTree.Element, chain: Chain, substep_s: float) -> None:
    ElementTree.SubElement(root, "compiler", angle="radian", autolimits="false")
    option = ElementTree.SubElement(
        root,
        "option",
        timestep=repr(substep_s),
        gravity=_text(chain.robot.gravity_m_per_s2),
        integrator="Euler",
        solver="Newton",
        cone="elliptic",
        iterations="50",
        tolerance="1e-10",
    )
    # The hinges' own armature does what MuJoCo's implicit damping does, and its contact solver knows of it. With
    # several contacts a pair MuJoCo 4.0 takes the face of a disk for the contact plane where its rim touches something
    # round.
    ElementTree.SubElement(option, "flag", eulerdamp="disable", autoreset="disable", multiccd="disable")
    ElementTree.SubElement(root, "size", memory="64M")


def _obstacles(worldbody: ElementTree.Element, asset: ElementTree.Element, world: PlacedWorld) -> dict[str, int]:
    owner: dict[str, int] = {}
    for number, (index, part) in enumerate(world.parts()):
        obstacle, name = world.obstacles[index], f"obstacle_{number}"
        owner[name] = index
        given = {"size": _text(part.sizes_m)} if part.sizes_m else {}
        if part.file is not None:
            given = {"mesh": name}
            ElementTree.SubElement(
                asset, "mesh", name=name, file=str(Path(part.file).resolve()), scale=_text([part.scale] * 3)
            )
        ElementTree.SubElement(
            worldbody,
            "geom",
            _OBSTACLE | given,
            name=name,
            type=part.shape,
            pos=_text(part.position_m),
            quat=_text(quaternion_from_matrix(part.rotation)),
            friction=_text((obstacle.friction_coefficient, 0.0, 0.0)),
            solref=_text((obstacle.contact_time_constant_s, obstacle.contact_damping_ratio)),
            priority="1",
            condim="3",
        )
    return owner


def _links(worldbody: ElementTree.Element, chain: Chain, substep_s: float) -> list[ElementTree.Element]:
    parent, before_m, bodies = worldbody, 0.0, []
    for k, (joint, link) in enumerate(zip(chain.joints, chain.links, strict=True)):
        body = ElementTree.SubElement(parent, "body", name=f"link_{k}", pos=_text((0, 0, link.start_m - before_m)))
        tensor = link.inertia_kg_m2
        full = (tensor[0, 0], tensor[1, 1], tensor[2, 2], tensor[0, 1], tensor[0, 2], tensor[1, 2])
        ElementTree.SubElement(
            body, "inertial", pos=_text(link.center_of_mass_m), mass=repr(link.mass_kg), fullinertia=_text(full)
        )
        armature = hinge_armature(joint.stiffness_nm, joint.damping_nms, substep_s)
        for axis in joint.order:
            ElementTree.SubElement(
                body,
                "joint",
                name=f"joint_{k}_{'xyz'[axis]}",
                type="hinge",
                axis=_AXES[axis],
                stiffness=repr(float(joint.stiffness_nm[axis])),
                damping=repr(float(joint.damping_nms[axis])),
                armature=repr(float(armature[axis])),
            )
        _surface(body, chain, k)
        bodies.append(body)
        parent, before_m = body, link.start_m
    return bodies


def _surface(body: ElementTree.Element, chain: Chain, k: int) -> None:
    """What of a link can touch obstacles: the backbone and the disks on it."""
    link, robot = chain.links[k], chain.robot
    radius_m = robot.segments[chain.joints[k].segment].backbone.outer_diameter_m / 2
    ends = (0.0, 0.0, 0.0, 0.0, 0.0, link.end_m - link.start_m)
    ElementTree.SubElement(
        body, "geom", _ROBOT, name=f"backbone_{k}", type="capsule", fromto=_text(ends), size=repr(radius_m)
    )
    number = 0
    for begin, segment in zip(robot.segment_starts_m, robot.segments, strict=True):
        for place in begin + segment.disks.positions_m(segment.length_m):
            if chain.link_at(float(place)) == k:
                ElementTree.SubElement(
                    body,
                    "geom",
                    _ROBOT,
                    name=f"disk_{k}_{number}",
                    type="cylinder",
                    pos=_text((0, 0, place - link.start_m)),
                    size=_text((segment.disks.radius_m, segment.disks.thickness_m / 2)),
                )
                number += 1


def _path(
    chain: Chain, path: RoutedPath, spatial: ElementTree.Element, bodies: tuple[ElementTree.Element, ...]
) -> None:
    """A spatial tendon through sites, which only measures: its force comes with that of the motors."""
    places = chain.guides_m(path)
    x, y, _, _ = path.at(places)
    for k, place in enumerate(places):
        link, site = chain.link_at(float(place)), f"{spatial.get('name')}_{k}"
        at = _text((x[k], y[k], place - chain.start_m(link)))
        ElementTree.SubElement(bodies[link + 1], "site", name=site, pos=at, size="0.0005")
        ElementTree.SubElement(spatial, "site", site=site)


def _text(values: ArrayLike) -> str:
    return " ".join(repr(float(value)) for value in np.asarray(values, dtype=float).ravel())


class ChainKinematics:
    """The chain as contacts and pushes ask for it: where it is, whatever coordinates they name."""

    def __init__(self, chain: Chain, made: ChainModel, data: Any) -> None:
        self.robot = chain.robot
        self._chain, self._model, self._bodies, self._data = chain, made.model, made.bodies, data
        self._jac = mujoco_library().mj_jac

    def prepare(self, s_m: float) -> None:
        """Nothing: all places of a chain are quick."""

    def poses(self, _coordinates: ArrayLike, s: ArrayLike) -> Vector:
        """Frames (k, 4, 4) at arc lengths ``s`` (k,), m; straight on every link."""
        places = np.atleast_1d(np.asarray(s, dtype=float))
        found = np.tile(np.eye(4), (len(places), 1, 1))
        for pose, place in zip(found, places, strict=True):
            link = self._chain.link_at(float(place))
            if link >= 0:
                body = self._bodies[link]
                pose[:3, :3] = self._data.xmat[body].reshape(3, 3)
                pose[:3, 3] = self._data.xpos[body]
            pose[:3, 3] += (place - self._chain.start_m(link)) * pose[:3, 2]
        return found

    def body_jacobian(self, _coordinates: ArrayLike, s: float) -> Vector:
        """Jacobian (6, dof) of the twist (linear, angular) at arc length ``s`` (m), in the frame's own axes."""
        link = self._chain.link_at(s)
        linear, angular = np.zeros((3, self._model.nv)), np.zeros((3, self._model.nv))
        if link >= 0:
            pose = self.poses((), [s])[0]
            self._jac(self._model, self._data, linear, angular, pose[:3, 3], int(self._bodies[link]))
            linear, angular = pose[:3, :3].T @ linear, pose[:3, :3].T @ angular
        return np.concatenate([linear, angular])


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
