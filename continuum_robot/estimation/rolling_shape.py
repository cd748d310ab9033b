# SPDX-License-Identifier: Apache-2.0
"""The shape of rolling joints from the tendons' displacements.

Derived here: of the poses that ha's statics have without loads, the one whose displacements come closest.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from continuum_robot.estimation.robot_shape import MechanismShapeEstimator
from continuum_robot.estimation.shape_estimate import ShapeEstimate, ShapeSettings
from continuum_robot.mechanisms.rolling_joint.building import make_linkage, rolling_joint_of
from continuum_robot.mechanisms.rolling_joint.drawing import pose_in_space
from continuum_robot.mechanisms.rolling_joint.statics import RollingStatics
from continuum_robot.mechanisms.rolling_joint.unloaded_curve import UnloadedCurve
from continuum_robot.robot.description import Robot

Vector = NDArray[np.float64]


class RollingShapeEstimator(MechanismShapeEstimator):
    """Contacts of a rolling-joint robot from its two tendons: the unloaded pose whose displacements come closest.

    A load moves the true pose off the curve of unloaded poses; how far the displacements miss it is the residual. Two
    tendons for one coordinate leave nothing to judge them by.

    Parameters
    ----------
    robot : a rolling-joint robot

    Raises
    ------
    ParameterError : no rolling joints
    """

    _order = ", left and right"
    _unseen = "the contacts are not seen: a tendon is unknown"

    def __init__(self, robot: Robot) -> None:
        self._linkage = make_linkage(rolling_joint_of(robot))
        super().__init__(robot.tendon_count, self._linkage.joint_count)
        self._curve = UnloadedCurve(RollingStatics(self._linkage))
        self._variance = ShapeSettings().tendon_sigma_m ** 2

    def _estimate(self, displacement: Vector, velocity: Vector) -> ShapeEstimate:
        contact, slope, miss_m = self._curve.nearest(displacement)
        tip = pose_in_space(self._linkage.poses(contact)[-1:])[0]
        return ShapeEstimate(contact, slope @ velocity, self._variance * slope @ slope.T, miss_m, 2, tip)
