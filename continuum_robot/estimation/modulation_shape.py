# SPDX-License-Identifier: Apache-2.0
"""Bend and insertion of a segment with equilibrium modulation from its drives.

Derived here: the nearest displacements that wang (56) allows; the tip then by the model of equilibrium modulation.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from continuum_robot.estimation.robot_shape import MechanismShapeEstimator
from continuum_robot.estimation.shape_estimate import ShapeEstimate, ShapeSettings
from continuum_robot.mechanisms.equilibrium_modulation.drawing import ModulationParts
from continuum_robot.robot.coordinates import clarke_manifold
from continuum_robot.robot.description import Robot

Vector = NDArray[np.float64]


class ModulationShapeEstimator(MechanismShapeEstimator):
    """The coordinates [q_Re, q_Im, insertion] nearest to the displacements; the tip by wang's model of them.

    Parameters
    ----------
    robot : with equilibrium modulation

    Raises
    ------
    ParameterError : another robot
    """

    _unseen = "the bend is not seen: a drive's displacement is unknown"

    def __init__(self, robot: Robot) -> None:
        self._drawing = ModulationParts(robot)
        self._manifold = clarke_manifold(robot)
        super().__init__(self._manifold.tendon_count, self._manifold.coordinate_count)
        matrix = self._manifold.clarke_matrix
        self._covariance = ShapeSettings().tendon_sigma_m ** 2 * matrix @ matrix.T

    def _estimate(self, displacement: Vector, velocity: Vector) -> ShapeEstimate:
        coordinates, used = self._manifold.clarke(displacement), self._manifold.tendon_count
        miss = float(np.sqrt(np.mean(self._manifold.inconsistency_m(displacement) ** 2)))
        tip = self._drawing.frames(coordinates)[-1]
        return ShapeEstimate(coordinates, self._manifold.clarke(velocity), self._covariance.copy(), miss, used, tip)
