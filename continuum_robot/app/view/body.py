# SPDX-License-Identifier: Apache-2.0
"""Where everything that can be seen of a robot lies in space: rods of any number of segments, and mechanisms."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.estimation.mechanism_shape import make_shape_estimator
from continuum_robot.estimation.sensor_watch import WatchSettings
from continuum_robot.mechanisms.parts import make_drawing
from continuum_robot.robot.coordinates import clarke_manifold
from continuum_robot.robot.description import Robot
from continuum_robot.robot.equilibrium_modulation import EquilibriumModulation
from continuum_robot.robot.routing import RoutedPath
from continuum_robot.rod.strain_rod import StrainRod
from continuum_robot.rod.tendon_modes import coefficients_from_clarke

Array = NDArray[np.float64]

STATIONS = 41
_WIDTH_SHARE = 0.12  # of a mechanism's link across its plane, of the robot's length


@dataclass(frozen=True)
class Geometry:
    """Everything in the base frame, m.

    Attributes
    ----------
    backbone : frames along the backbone, shape (k, 4, 4); none of a robot without a backbone
    disks : frames of the disks, shape (d, 4, 4)
    tendons : path of every tendon, each of shape (points, 3)
    outlines : closed outlines of the parts of a mechanism, each of shape (points, 3)
    tip : frame of the tip, shape (4, 4)
    core : path of what is inserted into the robot, shape (points, 3); empty where nothing is
    """

    backbone: Array
    disks: Array
    tendons: tuple[Array, ...]
    tip: Array
    outlines: tuple[Array, ...] = ()
    core: Array = field(default_factory=lambda: np.zeros((0, 3)))


class Body(Protocol):
    """A robot's looks.

    Attributes
    ----------
    size : number of coefficients that describe its shape
    length_m : from the base to the tip, m
    tube_radius_m : of the backbone as it is drawn, m; larger than the true one where that would hardly be seen
    disk_radii_m, disk_thickness_m : of each disk, shape (d,), m
    plate_thickness_m : of the parts of a mechanism, m
    """

    size: int
    length_m: float
    tube_radius_m: float
    disk_radii_m: Array
    disk_thickness_m: Array
    plate_thickness_m: float

    def geometry(self, coefficients: Array) -> Geometry:
        """Where everything lies for coefficients of shape (size,)."""

    def coefficients(self, clarke: Array) -> Array:
        """Coefficients, shape (size,), of the unloaded robot at Clarke coordinates, shape (coordinates,), m."""

    def pose(self, coefficients: Array, arc_length_m: float) -> Array:
        """Frame of the backbone at an arc length (m), shape (4, 4); of a mechanism that of the tip.

        Parameters
        ----------
        coefficients : of the shape, shape (size,)
        """


def make_body(robot: Robot) -> Body:
    """How a robot looks.

    Parameters
    ----------
    robot : any robot whose shape the stack estimates
    """
    return RodBody(robot) if robot.mechanism is None else MechanismBody(robot)


class RodBody:
    """A rod with disks and tendons, whatever its basis and their paths; attributes as of :class:`Body`."""

    def __init__(self, robot: Robot) -> None:
        self._rod = StrainRod.from_robot(robot)
        self.size, self.length_m = self._rod.size, robot.length_m
        # A rod of a millimetre would be a hair on the screen.
        self.tube_radius_m = max(robot.segments[0].backbone.outer_diameter_m / 2, 0.006 * robot.length_m)
        disks = [segment.disks for segment in robot.segments]
        counts = [disk.disk_count for disk in disks]
        self.disk_radii_m = np.repeat([disk.radius_m for disk in disks], counts)
        self.disk_thickness_m = np.repeat([disk.thickness_m for disk in disks], counts)
        self.plate_thickness_m = 0.0
        self._places = np.concatenate([np.linspace(0.0, robot.length_m, STATIONS), robot.disk_arc_lengths_m])
        self._tracks = [self._track(path) for path in robot.tendon_paths]
        self._from_clarke = coefficients_from_clarke(robot)

    def geometry(self, coefficients: Array) -> Geometry:
        """Parallel tendons run straight from disk to disk, others from station to station; see :class:`Body`."""
        poses = self._rod.poses(coefficients, self._places)
        backbone, disks = poses[:STATIONS], poses[STATIONS:]
        tendons = tuple(poses[used, :3, 3] + np.einsum("kij,kj->ki", poses[used, :3, :2], offset)
                        for used, offset in self._tracks)  # fmt: skip
        return Geometry(backbone, disks, tendons, backbone[-1])

    def coefficients(self, clarke: Array) -> Array:
        """The shape of least elastic energy; see :class:`Body`."""
        return np.asarray(self._from_clarke @ clarke)

    def pose(self, coefficients: Array, arc_length_m: float) -> Array:
        """See :class:`Body`."""
        place = min(max(arc_length_m, 0.0), self.length_m)
        return np.array(self._rod.poses(coefficients, np.array([place]))[0])

    def _track(self, path: RoutedPath) -> tuple[NDArray[np.intp], Array]:
        """Which frames a tendon passes, and where in their cross-sections, shape (frames, 2), m."""
        first = [0, *range(STATIONS, len(self._places))] if path.parallel else range(STATIONS)
        places = self._places[list(first)]
        used = np.array(first)[(places >= path.start_m - 1e-9) & (places <= path.end_m + 1e-9)]
        x, y, _, _ = path.at(self._places[used])
        return used, np.stack([x, y], axis=1)


class MechanismBody:
    """Links and tendons of a mechanism, attributes as of :class:`Body`."""

    def __init__(self, robot: Robot) -> None:
        self._drawing = make_drawing(robot)
        self._manifold = clarke_manifold(robot)
        self._estimator = make_shape_estimator(robot, WatchSettings())
        self._modulated = isinstance(robot.mechanism, EquilibriumModulation)
        self.size, self.length_m = self._drawing.size, robot.length_m
        self.tube_radius_m = 0.012 * robot.length_m
        self.disk_radii_m = self.disk_thickness_m = np.zeros(0)
        self.plate_thickness_m = (0.012 if self._modulated else _WIDTH_SHARE) * robot.length_m

    def geometry(self, coefficients: Array) -> Geometry:
        """See :class:`Body`."""
        frames = self._drawing.frames(coefficients)
        tendons = self._drawing.tendons(coefficients)
        return Geometry(
            np.zeros((0, 4, 4)),
            np.zeros((0, 4, 4)),
            tuple(tendons),
            frames[-1],
            tuple(self._drawing.outlines(coefficients)),
            tendons[-2] if self._modulated else np.zeros((0, 3)),  # then comes the empty part of the same backbone
        )

    def coefficients(self, clarke: Array) -> Array:
        """See :class:`Body`."""
        displacement = self._manifold.displacement(clarke)
        found = self._estimator.update(displacement, np.zeros(displacement.size), None, 0.0).coefficients
        if not np.all(np.isfinite(found)):
            raise ParameterError("clarke", clarke, "finite Clarke coordinates in m")
        return np.asarray(found)

    def pose(self, coefficients: Array, arc_length_m: float) -> Array:
        """See :class:`Body`."""
        del arc_length_m
        return np.asarray(self._drawing.frames(coefficients)[-1])
