# SPDX-License-Identifier: Apache-2.0
"""What the models of mechanisms have in common, and their drawing: outlines of the parts and tendons."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.estimation.sensor_watch import WatchSettings
from continuum_robot.estimation.shape import AnyShapeEstimator, MechanismShapeEstimator
from continuum_robot.models.drawing import Geometry
from continuum_robot.models.robot_model import Feedforward
from continuum_robot.robot.coordinates import clarke_manifold
from continuum_robot.robot.description import Robot

Array = NDArray[np.float64]

_TUBE_PART = 0.012  # of the robot's length


class MechanismParts(Protocol):
    """Frames and lines of a mechanism from the values that describe its pose, all in the base frame, m.

    Attributes
    ----------
    size : number n of values that describe a pose
    frame_names : of the frames, the last one at the tip
    core : index of the tendon that is what is inserted, from the end; None: nothing is
    """

    size: int
    frame_names: tuple[str, ...]
    core: int | None

    def frames(self, coefficients: Array) -> Array:
        """Frames under their names, (frames, 4, 4), for ``coefficients`` (n,), m."""

    def outlines(self, coefficients: Array) -> list[Array]:
        """Closed outlines of the parts, each of shape (points, 3), for ``coefficients`` (n,), m."""

    def tendons(self, coefficients: Array) -> list[Array]:
        """Path of every tendon, each of shape (points, 3), for ``coefficients`` (n,), m."""


class MechanismDrawing:
    """A mechanism; attributes as of :class:`~continuum_robot.models.drawing.Drawing`.

    Parameters
    ----------
    robot : a mechanism
    parts : its frames and lines
    estimator : of its pose
    plate_fraction : thickness of its parts as they are drawn, in the robot's length
    """

    def __init__(
        self, robot: Robot, parts: MechanismParts, estimator: AnyShapeEstimator, *, plate_fraction: float
    ) -> None:
        self._parts, self._estimator = parts, estimator
        self._manifold = clarke_manifold(robot)
        self.size, self.length_m, self.frame_names = parts.size, robot.length_m, parts.frame_names
        self.tube_radius_m = _TUBE_PART * robot.length_m
        self.disk_radii_m = self.disk_thickness_m = np.zeros(0)
        self.plate_thickness_m = plate_fraction * robot.length_m

    def frames(self, coefficients: Array) -> Array:
        """Those of the parts at ``coefficients`` (size,), the last one at the tip, (frames, 4, 4)."""
        return self._parts.frames(coefficients)

    def geometry(self, coefficients: Array) -> Geometry:
        """Outlines and tendons at ``coefficients`` (size,); there is no backbone."""
        tendons, core = self._parts.tendons(coefficients), self._parts.core
        return Geometry(
            np.zeros((0, 4, 4)),
            np.zeros((0, 4, 4)),
            tuple(tendons),
            self._parts.frames(coefficients)[-1],
            tuple(self._parts.outlines(coefficients)),
            np.zeros((0, 3)) if core is None else tendons[core],
        )

    def coefficients(self, clarke: Array) -> Array:
        """The pose that the shape estimator finds; raises ParameterError where the displacements are no numbers."""
        displacement = self._manifold.displacement(clarke)
        found = self._estimator.update(displacement, np.zeros(displacement.size), None, 0.0).coefficients
        if not np.all(np.isfinite(found)):
            raise ParameterError("clarke", clarke, "finite Clarke coordinates in m")
        return np.asarray(found)

    def pose(self, coefficients: Array, arc_length_m: float) -> Array:
        """That of the tip at ``coefficients`` (size,), whatever ``arc_length_m``; (4, 4)."""
        del arc_length_m
        return np.asarray(self._parts.frames(coefficients)[-1])


class MechanismModel:
    """A mechanism; attributes as of :class:`~continuum_robot.models.robot_model.RobotModel`.

    Parameters
    ----------
    robot : a mechanism of the model's kind
    parts : makes its frames and lines
    estimator : makes that of its pose, from the tendons
    force : makes what holds desired coordinates, by its own statics
    plate_fraction : thickness of its parts as they are drawn, of the robot's length
    """

    largest_push_n = 0.0

    def __init__(
        self,
        robot: Robot,
        parts: Callable[[Robot], MechanismParts],
        estimator: Callable[[Robot], MechanismShapeEstimator],
        force: Callable[[Robot], Feedforward],
        *,
        plate_fraction: float,
    ) -> None:
        self.robot, self._plate_fraction = robot, plate_fraction
        self._parts, self._estimator, self._force = parts, estimator, force

    def shape_estimator(self, watch: WatchSettings) -> MechanismShapeEstimator:
        """No sensor is watched, whatever ``watch`` is."""
        del watch
        return self._estimator(self.robot)

    def feedforward(self) -> Feedforward:
        """As of :meth:`RobotModel.feedforward`."""
        return self._force(self.robot)

    def drawing(self) -> MechanismDrawing:
        """Parts and tendons."""
        robot = self.robot
        return MechanismDrawing(robot, self._parts(robot), self._estimator(robot), plate_fraction=self._plate_fraction)
