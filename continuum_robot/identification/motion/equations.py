# SPDX-License-Identifier: Apache-2.0
"""What the fits of a motion share: forces of the samples, what a model leaves of them, and how these are weighed."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from continuum_robot.identification.fit import Parameter, by_differences
from continuum_robot.identification.motion.motors import Motors
from continuum_robot.identification.motion.parameters import MotionFitSettings, looked_for
from continuum_robot.identification.recorded_motion import RecordedMotion
from continuum_robot.robot.description import Robot

Vector = NDArray[np.float64]


class ForceEquations(ABC):
    """The forces of the samples, filtered, and what a model makes of them."""

    forces: Vector
    pulled: Vector
    time_s: Vector

    def __init__(
        self, robot: Robot, samples: RecordedMotion, settings: MotionFitSettings, **further: Parameter
    ) -> None:
        self.samples = samples
        self.parameters = looked_for(robot, float(np.abs(samples.effort).mean()), settings.prior, **further)
        self.motors = Motors(robot, samples, self.parameters, settings)

    @abstractmethod
    def left(self, x: Vector) -> Vector:
        """What is left of the forces, (T, N), N."""

    def linearised(self, x: Vector) -> tuple[Vector, Vector]:
        """The same, and its slopes, (T, N, P)."""
        shape = self.forces.shape
        rows, slopes = by_differences(lambda at: self.left(at).ravel(), self.motors.steps)(x)
        return rows.reshape(shape), slopes.reshape(*shape, -1)
