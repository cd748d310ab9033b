# SPDX-License-Identifier: Apache-2.0
"""What the nodes ask of the estimator of a robot's shape, and which one a rod has."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from continuum_robot.estimation.sensor_watch import SensorWatch, WatchSettings
from continuum_robot.estimation.shape import ShapeEstimate, ShapeEstimator
from continuum_robot.estimation.strain_shape import StrainShapeEstimator
from continuum_robot.robot.description import Robot
from continuum_robot.rod.tendons import beyond_bending

Vector = NDArray[np.float64]


class AnyShapeEstimator(Protocol):
    """What the nodes ask of the estimator of a robot's shape."""

    @property
    def watch(self) -> SensorWatch | None:
        """The watch over the sensors, None where there is none."""

    def reset(self) -> None:
        """Start anew."""

    def update(
        self,
        displacement: Vector,
        velocity: Vector,
        string_extension: Vector | None,
        dt: float,
        tension: Vector | None = None,
    ) -> ShapeEstimate:
        """One estimate from tendons and strings."""


def rod_shape_estimator(robot: Robot, watch: WatchSettings) -> AnyShapeEstimator:
    """The estimator of a rod's shape.

    Parameters
    ----------
    robot : a rod
    watch : over the sensors of a robot that needs its strings
    """
    if beyond_bending(robot):
        return StrainShapeEstimator(robot)
    estimator = ShapeEstimator(robot)
    return ShapeEstimator(robot, watch=watch) if estimator.needs_strings else estimator
