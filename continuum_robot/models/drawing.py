# SPDX-License-Identifier: Apache-2.0
"""Where everything that can be seen of a robot lies in space."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ContinuumRobotError
from continuum_robot.robot.description import Robot

Array = NDArray[np.float64]


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


class Drawing(Protocol):
    """A robot's looks.

    Attributes
    ----------
    size : number of coefficients that describe its shape
    length_m : from the base to the tip, m
    tube_radius_m : of the backbone as it is drawn, m; larger than the true one where that would hardly be seen
    disk_radii_m, disk_thickness_m : of each disk, shape (d,), m
    plate_thickness_m : of the parts of a mechanism, m
    frame_names : of the frames on tf, from the base on; the last is the tip's
    """

    size: int
    length_m: float
    tube_radius_m: float
    disk_radii_m: Array
    disk_thickness_m: Array
    plate_thickness_m: float
    frame_names: tuple[str, ...]

    def frames(self, coefficients: Array) -> Array:
        """Frames under :attr:`frame_names` for coefficients of shape (size,), base frame, (frames, 4, 4)."""

    def geometry(self, coefficients: Array) -> Geometry:
        """Where everything lies for coefficients of shape (size,)."""

    def coefficients(self, clarke: Array) -> Array:
        """Coefficients, shape (size,), of the unloaded robot at Clarke coordinates, shape (coordinates,), m."""

    def pose(self, coefficients: Array, arc_length_m: float) -> Array:
        """Frame of the backbone at an arc length (m), shape (4, 4); of a mechanism that of the tip."""


def desired_coefficients(drawing: Drawing, robot: Robot, reference_m: Array) -> Array | None:
    """Coefficients of the unloaded robot at a reference, m; None where it is unknown, or no shape has it."""
    if reference_m.size != robot.coordinate_count or not np.all(np.isfinite(reference_m)):
        return None
    try:
        return drawing.coefficients(reference_m)
    except ContinuumRobotError:
        return None
