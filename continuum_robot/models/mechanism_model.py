# SPDX-License-Identifier: Apache-2.0
"""What the models of mechanisms have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from continuum_robot.estimation.robot_shape import MechanismShapeEstimator
from continuum_robot.estimation.sensor_watch import WatchSettings
from continuum_robot.models.mechanism_drawing import MechanismDrawing, MechanismParts
from continuum_robot.models.robot_model import Feedforward, Progress
from continuum_robot.robot.description import Robot
from continuum_robot.simulation.bodies.choosing import mechanism_body
from continuum_robot.simulation.contact import Contact


class MechanismModel(ABC):
    """A mechanism; attributes as of :class:`~continuum_robot.models.robot_model.RobotModel`.

    Parameters
    ----------
    robot : a mechanism of the model's kind
    """

    largest_push_n = 0.0
    plate_fraction: float
    """Thickness of its parts as they are drawn, of the robot's length."""

    def __init__(self, robot: Robot) -> None:
        self.robot = robot

    @abstractmethod
    def parts(self) -> MechanismParts:
        """Its frames and lines."""

    @abstractmethod
    def estimator(self) -> MechanismShapeEstimator:
        """Of its pose."""

    @abstractmethod
    def holding_force(self) -> Feedforward:
        """Force that holds desired coordinates, as of :meth:`RobotModel.feedforward`."""

    def shape_estimator(self, watch: WatchSettings) -> MechanismShapeEstimator:
        """From the tendons; no sensor is watched, whatever ``watch`` reports."""
        del watch
        return self.estimator()

    def feedforward(self, progress: Progress | None = None) -> Feedforward:
        """Nothing is compiled for it."""
        del progress
        return self.holding_force()

    def drawing(self) -> MechanismDrawing:
        """Parts and tendons."""
        return MechanismDrawing(self.robot, self.parts(), self.estimator(), plate_fraction=self.plate_fraction)

    def prepare(self, rng: np.random.Generator, progress: Progress, contacts: Sequence[Contact] = ()) -> None:
        """The simulated mechanism."""
        del rng, progress, contacts
        mechanism_body(self.robot)
