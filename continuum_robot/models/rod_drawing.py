# SPDX-License-Identifier: Apache-2.0
"""How a rod with disks and tendons looks, whatever its basis and the paths of its tendons."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from continuum_robot.models.drawing import Geometry
from continuum_robot.robot.description import Robot
from continuum_robot.robot.segments.routing import RoutedPath
from continuum_robot.rod.strain.rod import StrainRod
from continuum_robot.rod.tendon_modes import coefficients_from_clarke

Array = NDArray[np.float64]

STATIONS = 41
FRAMES_PER_SEGMENT = 4


class RodDrawing:
    """A rod; attributes as of :class:`~continuum_robot.models.drawing.Drawing`.

    Parameters
    ----------
    robot : a rod
    """

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
        parts = range(1, FRAMES_PER_SEGMENT + 1)
        names = [f"seg{index + 1}_{k}" for index in range(len(robot.segments)) for k in parts]
        self.frame_names = (*names, "tip")
        places = [
            start + segment.length_m * k / FRAMES_PER_SEGMENT
            for start, segment in zip(robot.segment_starts_m, robot.segments, strict=True)
            for k in parts
        ]
        self._frame_places = np.minimum([*places, robot.length_m], robot.length_m)

    def frames(self, coefficients: Array) -> Array:
        """Four a segment, and the tip's, at ``coefficients`` (size,); (frames, 4, 4)."""
        return np.asarray(self._rod.poses(coefficients, self._frame_places))

    def geometry(self, coefficients: Array) -> Geometry:
        """Where all lies at ``coefficients`` (size,); parallel tendons run straight from disk to disk."""
        poses = self._rod.poses(coefficients, self._places)
        backbone, disks = poses[:STATIONS], poses[STATIONS:]
        tendons = tuple(poses[used, :3, 3] + np.einsum("kij,kj->ki", poses[used, :3, :2], offset)
                        for used, offset in self._tracks)  # fmt: skip
        return Geometry(backbone, disks, tendons, backbone[-1])

    def coefficients(self, clarke: Array) -> Array:
        """The shape of least elastic energy."""
        return np.asarray(self._from_clarke @ clarke)

    def pose(self, coefficients: Array, arc_length_m: float) -> Array:
        """Frame of the backbone at ``coefficients`` (size,) and ``arc_length_m``, (4, 4)."""
        place = min(max(arc_length_m, 0.0), self.length_m)
        return np.array(self._rod.poses(coefficients, np.array([place]))[0])

    def _track(self, path: RoutedPath) -> tuple[NDArray[np.intp], Array]:
        """Which frames a tendon passes, and where in their cross-sections, shape (frames, 2), m."""
        first = [0, *range(STATIONS, len(self._places))] if path.parallel else range(STATIONS)
        places = self._places[list(first)]
        used = np.array(first)[(places >= path.start_m - 1e-9) & (places <= path.end_m + 1e-9)]
        x, y, _, _ = path.at(self._places[used])
        return used, np.stack([x, y], axis=1)
