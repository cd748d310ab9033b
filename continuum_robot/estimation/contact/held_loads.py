# SPDX-License-Identifier: Apache-2.0
"""Loads of tendons that servos hold at displacements, where none is measured: by what they stretch, with the errors.

A tendon that takes in q bears k (gain q + zero - path) where its path is shorter by ``path`` than on the straight rod.
That needs a shape that something else than the displacements shows. Derived here.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.robot.description import Robot
from continuum_robot.rod.holding_force import HeldTendons
from continuum_robot.rod.rod import Rod

Vector = NDArray[np.float64]

MEASURED = "measured loads"
HELD = "held displacements and stiffness"
UNTOLD = (
    "no load of the tendons is measured, and no strings or fibre show the shape: held displacements alone show no"
    " contact"
)


class HeldLoads:
    """Loads by displacement and shape."""

    def __init__(self, robot: Robot) -> None:
        if not robot.strings and robot.fiber is None:
            raise ParameterError("robot", robot.name, f"measured loads, strings or a fibre: {UNTOLD}")
        self._rod, self._tendons = Rod(robot), HeldTendons.of(robot)
        actuators = robot.actuators
        self._resolution_m = np.zeros(robot.tendon_count)
        if actuators is not None:
            self._resolution_m = actuators.each("meter_per_count", robot.tendon_count) / np.sqrt(12)

    def loads(
        self, c: Vector, covariance: Vector, displacement: Vector, stiffness_fraction: float
    ) -> tuple[Vector, Vector]:
        """Loads and their standard deviations, (N,) each, N."""
        lengths, tendons = self._rod.lengths(c), self._tendons
        stretch = tendons.spooled(displacement) - (self._rod.rest_m - lengths.length_m)
        load = tendons.stiffness_n_per_m * np.maximum(stretch, 0.0)
        of_shape = np.einsum("ji,ik,jk->j", lengths.gradient, covariance, lengths.gradient)
        length_m = np.sqrt(np.maximum(of_shape, 0.0) + (tendons.gain * self._resolution_m) ** 2)
        part = np.hypot(stiffness_fraction, tendons.friction_fraction)
        return load, np.hypot(tendons.stiffness_n_per_m * length_m, part * load)
