# SPDX-License-Identifier: Apache-2.0
"""The shape of rolling joints from the tendons' displacements.

Derived here: of the poses that ha's statics have without loads, the one whose displacements come closest.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.estimation.sensor_watch import SensorWatch
from continuum_robot.estimation.shape import ShapeEstimate, ShapeSettings
from continuum_robot.mechanisms.rolling_joint.building import make_linkage, rolling_joint_of
from continuum_robot.mechanisms.rolling_joint.drawing import pose_in_space
from continuum_robot.mechanisms.rolling_joint.statics import RollingStatics
from continuum_robot.mechanisms.rolling_joint.unloaded_curve import UnloadedCurve
from continuum_robot.robot.description import Robot

Vector = NDArray[np.float64]


class RollingShapeEstimator:
    """Contacts of a rolling-joint robot from its two tendons: the unloaded pose whose displacements come closest.

    A load moves the true pose off the curve of unloaded poses; how far the displacements miss it is the residual.

    Parameters
    ----------
    robot : a rolling-joint robot

    Attributes
    ----------
    watch : None: two tendons for one coordinate leave nothing to judge them by

    Raises
    ------
    ParameterError : no rolling joints
    """

    watch: SensorWatch | None = None

    def __init__(self, robot: Robot) -> None:
        self._linkage = make_linkage(rolling_joint_of(robot))
        self._curve = UnloadedCurve(RollingStatics(self._linkage))
        self._variance = ShapeSettings().tendon_sigma_m ** 2

    def reset(self) -> None:
        """Nothing is remembered."""

    def update(
        self,
        displacement: Vector,
        velocity: Vector,
        string_extension: Vector | None = None,
        dt: float = 0.0,
        tension: Vector | None = None,
    ) -> ShapeEstimate:
        """One estimate.

        Parameters
        ----------
        displacement : of both tendons, shape (2,), m; NaN where unknown
        velocity : shape (2,), m/s
        string_extension, dt, tension : not used: there are no strings, and every estimate stands for itself

        Returns
        -------
        contacts as coefficients, m, with their rates, m/s; NaN where a displacement is

        Raises
        ------
        ParameterError : a displacement of another shape
        """
        del string_extension, dt, tension
        if np.shape(displacement) != (2,):
            raise ParameterError("displacement", np.shape(displacement), "shape (2,), left and right")
        if not np.all(np.isfinite(displacement)):
            return ShapeEstimate.unseen(self._linkage.joint_count, _BLIND)
        contact, slope, miss_m = self._curve.nearest(np.asarray(displacement))
        tip = pose_in_space(self._linkage.poses(contact)[-1:])[0]
        return ShapeEstimate(contact, slope @ velocity, self._variance * slope @ slope.T, miss_m, 2, tip)


_BLIND = ("the contacts are not seen: a tendon is unknown",)
