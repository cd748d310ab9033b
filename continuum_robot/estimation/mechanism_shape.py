# SPDX-License-Identifier: Apache-2.0
"""Which estimator finds the shape of a robot; the one of rolling joints.

Derived here: of the poses that ha's statics have without loads, the one whose displacements come closest.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.estimation.modulation_shape import ModulationShapeEstimator
from continuum_robot.estimation.sensor_watch import SensorWatch, WatchSettings
from continuum_robot.estimation.shape import ShapeEstimate, ShapeEstimator, ShapeSettings
from continuum_robot.estimation.strain_shape import StrainShapeEstimator
from continuum_robot.mechanisms.rolling_joint.building import make_linkage, rolling_joint_of
from continuum_robot.mechanisms.rolling_joint.drawing import pose_in_space
from continuum_robot.mechanisms.rolling_joint.statics import RollingStatics
from continuum_robot.mechanisms.rolling_joint.unloaded_curve import UnloadedCurve
from continuum_robot.robot.description import Robot
from continuum_robot.robot.equilibrium_modulation import EquilibriumModulation
from continuum_robot.robot.rolling_joint import RollingJoint
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


def make_shape_estimator(robot: Robot, watch: WatchSettings) -> AnyShapeEstimator:
    """The estimator of a robot's shape.

    Parameters
    ----------
    robot : any robot
    watch : over the sensors of a robot that needs its strings

    Raises
    ------
    ParameterError : a mechanism that cannot be used
    """
    if isinstance(robot.mechanism, RollingJoint):
        return RollingShapeEstimator(robot)
    if isinstance(robot.mechanism, EquilibriumModulation):
        return ModulationShapeEstimator(robot)
    if beyond_bending(robot):
        return StrainShapeEstimator(robot)
    estimator = ShapeEstimator(robot)
    return ShapeEstimator(robot, watch=watch) if estimator.needs_strings else estimator


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
