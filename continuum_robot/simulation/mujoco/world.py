# SPDX-License-Identifier: Apache-2.0
"""A world file: obstacles that a simulated robot can touch, in its base frame; read as strictly as a robot file."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuum_robot.geometry import so3
from continuum_robot.geometry.obstacles import ConvexObstacle
from continuum_robot.robot.file.plain_yaml import plain_yaml, read_yaml
from continuum_robot.robot.schema import Source, quantity, read, refuse

Vector = NDArray[np.float64]

MESH_FORMATS = (".stl", ".obj")


@dataclass(frozen=True)
class Part:
    """A convex piece of an obstacle, as MuJoCo takes it."""

    shape: str
    sizes_m: tuple[float, ...]
    position_m: Vector
    rotation: Vector
    file: Path | None = None
    scale: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Surface:
    """What all obstacles have: name, friction and softness."""

    name: str = quantity("name, unique in the world", filled=True)
    friction_coefficient: float = quantity("Coulomb friction on the robot", "", default=0.3, ge=0, le=5)
    contact_time_constant_s: float = quantity(
        "softness: time in which the contact pushes a penetration out; at least two substeps of the simulation",
        "s",
        default=0.002,
        ge=0.001,
        le=1,
    )
    contact_damping_ratio: float = quantity(
        "damping ratio of the contact; 1: the robot does not bounce", "", default=1.0, gt=0, le=10
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Placed(Surface):
    """An obstacle with a place and an orientation."""

    position_m: tuple[float, ...] = quantity("centre in the base frame", "m", length=3, ge=-100, le=100)
    rotation_rad: tuple[float, ...] = quantity(
        "rotation vector (axis times angle) from the base frame to the obstacle's own",
        "rad",
        default=(0.0, 0.0, 0.0),
        length=3,
        ge=-2 * math.pi,
        le=2 * math.pi,
    )

    def _part(self, shape: str, sizes: tuple[float, ...], **mesh: Any) -> Part:
        return Part(shape, sizes, np.array(self.position_m), so3.exp(self.rotation_rad), **mesh)


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxObstacle(_Placed):
    """A box."""

    kind: str = quantity("a box", choices=("box",))
    size_m: tuple[float, ...] = quantity("edge lengths along its own axes", "m", length=3, gt=0, le=100)

    def parts(self, _folder: Path) -> Iterator[Part]:
        """Itself."""
        yield self._part("box", tuple(edge / 2 for edge in self.size_m))


@dataclass(frozen=True, slots=True, kw_only=True)
class SphereObstacle(_Placed):
    """A sphere."""

    kind: str = quantity("a sphere", choices=("sphere",))
    radius_m: float = quantity("radius", "m", gt=0, le=100)

    def parts(self, _folder: Path) -> Iterator[Part]:
        """Itself."""
        yield self._part("sphere", (self.radius_m,))


@dataclass(frozen=True, slots=True, kw_only=True)
class CylinderObstacle(_Placed):
    """A cylinder about its own z axis."""

    kind: str = quantity("a cylinder about its own z axis", choices=("cylinder",))
    radius_m: float = quantity("radius", "m", gt=0, le=100)
    length_m: float = quantity("length", "m", gt=0, le=100)

    def parts(self, _folder: Path) -> Iterator[Part]:
        """Itself."""
        yield self._part("cylinder", (self.radius_m, self.length_m / 2))


@dataclass(frozen=True, slots=True, kw_only=True)
class CapsuleObstacle(_Placed):
    """A cylinder about its own z axis with a half sphere on each end."""

    kind: str = quantity("a cylinder with half spheres at its ends", choices=("capsule",))
    radius_m: float = quantity("radius", "m", gt=0, le=100)
    length_m: float = quantity("length without the half spheres", "m", gt=0, le=100)

    def parts(self, _folder: Path) -> Iterator[Part]:
        """Itself."""
        yield self._part("capsule", (self.radius_m, self.length_m / 2))


@dataclass(frozen=True, slots=True, kw_only=True)
class MeshObstacle(_Placed):
    """The convex hull of a mesh."""

    kind: str = quantity("the convex hull of a mesh; split a hollow part into convex meshes", choices=("mesh",))
    file: str = quantity("STL (binary) or OBJ file, relative to the world file", filled=True)
    scale: float = quantity("metres for a unit of the file", "m", default=1.0, gt=0, le=1000)

    def parts(self, folder: Path) -> Iterator[Part]:
        """Itself, with the file's path below ``folder``."""
        yield self._part("mesh", (), file=folder / self.file, scale=self.scale)


@dataclass(frozen=True, slots=True, kw_only=True)
class PathPoint:
    """A point of a tube's centre line."""

    point_m: tuple[float, ...] = quantity("point in the base frame", "m", length=3, ge=-100, le=100)


@dataclass(frozen=True, slots=True, kw_only=True)
class TubeObstacle(Surface):
    """A tube to go into: straight pieces between points, each of flat walls around the inner radius."""

    kind: str = quantity("a tube of straight pieces with flat walls", choices=("tube",))
    path: tuple[PathPoint, ...] = quantity("points of the centre line")
    inner_radius_m: float = quantity("distance of the flat walls from the centre line", "m", gt=0, le=10)
    wall_m: float = quantity("thickness of the walls", "m", default=0.003, gt=0, le=1)
    sides: int = quantity("flat walls around", default=12, ge=3, le=64)

    def __post_init__(self) -> None:
        if len(self.path) < 2:
            raise refuse("path", len(self.path), "two or more points")
        for index, (first, second) in enumerate(pairwise(self.path)):
            if math.dist(first.point_m, second.point_m) < 1e-6:
                raise refuse(f"path[{index + 1}].point_m", second.point_m, "a point apart from the one before")

    def parts(self, _folder: Path) -> Iterator[Part]:
        """Walls of all pieces; at a bend they reach so far into each other that the outer side is closed."""
        points = [np.array(one.point_m) for one in self.path]
        directions = [(b - a) / np.linalg.norm(b - a) for a, b in pairwise(points)]
        outer = self.inner_radius_m + self.wall_m
        bends = [0.0, *(math.tan(min(_angle(a, b), 2.0) / 2) * outer for a, b in pairwise(directions)), 0.0]
        width = outer * math.tan(math.pi / self.sides)
        across = _perpendicular(directions[0])
        for k, (a, b) in enumerate(pairwise(points)):
            z = directions[k]
            across = across - (across @ z) * z
            across = across / np.linalg.norm(across) if np.linalg.norm(across) > 1e-9 else _perpendicular(z)
            side = np.cross(z, across)
            start, end = a - bends[k] * z, b + bends[k + 1] * z
            for j in range(self.sides):
                angle = 2 * math.pi * j / self.sides
                out = math.cos(angle) * across + math.sin(angle) * side
                center = (start + end) / 2 + (self.inner_radius_m + self.wall_m / 2) * out
                half = (self.wall_m / 2, width, float(np.linalg.norm(end - start)) / 2)
                yield Part("box", half, center, np.stack([out, np.cross(z, out), z], axis=1))


Obstacle = BoxObstacle | SphereObstacle | CylinderObstacle | CapsuleObstacle | MeshObstacle | TubeObstacle


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What a world file holds."""

    obstacles: tuple[
        BoxObstacle | SphereObstacle | CylinderObstacle | CapsuleObstacle | MeshObstacle | TubeObstacle, ...
    ] = quantity("what the robot can touch")

    def __post_init__(self) -> None:
        names = [obstacle.name for obstacle in self.obstacles]
        if not names:
            raise refuse("obstacles", 0, "at least one obstacle")
        if len(set(names)) != len(names):
            raise refuse("obstacles", names, "a different name for each obstacle")


@dataclass(frozen=True)
class PlacedWorld:
    """A world and where its meshes are looked for."""

    obstacles: tuple[Obstacle, ...]
    folder: Path

    def parts(self) -> Iterator[tuple[int, Part]]:
        """Every convex piece with the index of its obstacle."""
        for index, obstacle in enumerate(self.obstacles):
            for part in obstacle.parts(self.folder):
                yield index, part

    def convex(self) -> list[ConvexObstacle]:
        """All pieces, for distances to them. Raises :class:`ParameterError` for a mesh."""
        return [ConvexObstacle(p.shape, p.sizes_m, p.position_m, p.rotation) for _, p in self.parts()]


def parse_world(text: str, file: Path | str | None = None) -> PlacedWorld:
    """Read a world from YAML text: a mapping with the key ``obstacles``, a list."""
    path = None if file is None else Path(file)
    mapping, lines = plain_yaml(text, path)
    source = Source(path, lines)
    world: World = read(World, mapping, source)
    folder = Path() if path is None else path.resolve().parent
    for index, obstacle in enumerate(world.obstacles):
        if isinstance(obstacle, MeshObstacle):
            mesh = folder / obstacle.file
            if mesh.suffix.lower() not in MESH_FORMATS or not mesh.is_file():
                expected = f"an existing file {' or '.join(MESH_FORMATS)}; looked at {mesh}"
                raise source.error(f"obstacles[{index}].file", obstacle.file, expected)
    return PlacedWorld(world.obstacles, folder)


def load_world(file: Path | str) -> PlacedWorld:
    """Read a world file; errors as for :func:`parse_world`."""
    path = Path(file)
    return parse_world(read_yaml(path, "world file"), path)


def _angle(a: Vector, b: Vector) -> float:
    return math.acos(float(np.clip(a @ b, -1.0, 1.0)))


def _perpendicular(z: Vector) -> Vector:
    axis = np.eye(3)[int(np.argmin(np.abs(z)))]
    across = axis - (axis @ z) * z
    return np.asarray(across / np.linalg.norm(across))
