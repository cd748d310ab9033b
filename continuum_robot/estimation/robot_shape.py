# SPDX-License-Identifier: Apache-2.0
"""What the nodes ask of the estimator of a robot's shape, and what those of mechanisms share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.estimation.sensor_watch import SensorWatch
from continuum_robot.estimation.shape_estimate import ShapeEstimate, ShapeSettings
from continuum_robot.mechanisms.equilibrium_modulation.drawing import ModulationParts
from continuum_robot.mechanisms.rolling_joint.building import make_linkage, rolling_joint_of
from continuum_robot.mechanisms.rolling_joint.drawing import pose_in_space
from continuum_robot.mechanisms.rolling_joint.statics import RollingStatics
from continuum_robot.mechanisms.rolling_joint.unloaded_curve import UnloadedCurve
from continuum_robot.robot.coordinates import clarke_manifold
from continuum_robot.robot.description import Robot

Vector = NDArray[np.float64]


class AnyShapeEstimator(Protocol):
    """What the nodes ask of the estimator of a robot's shape."""

    @property
    def watch(self) -> SensorWatch | None:
        """The watch over the sensors, None where there is none."""

    def reset(self) -> None:
        """Forget what was estimated."""

    def update(
        self,
        displacement: Vector,
        velocity: Vector,
        string_extension: Vector | None,
        dt: float,
        tension: Vector | None = None,
        curvature: Vector | None = None,
    ) -> ShapeEstimate:
        """One estimate from tendons, strings and the ``curvature`` of a fibre, as of ``ShapeEstimator``."""


class MechanismShapeEstimator(ABC):
    """Pose of a mechanism from the displacements of its tendons.

    Parameters
    ----------
    tendon_count, coefficient_count : numbers N and n of the mechanism

    Attributes
    ----------
    watch : None: there is nothing to judge the tendons by
    """

    watch: SensorWatch | None = None
    _order = ""  # of the tendons, for an error message
    _unseen: str

    def __init__(self, tendon_count: int, coefficient_count: int) -> None:
        self._count, self._size = tendon_count, coefficient_count

    def reset(self) -> None:  # noqa: B027 - the same for all
        """Nothing is remembered."""

    def update(
        self,
        displacement: Vector,
        velocity: Vector,
        string_extension: Vector | None = None,
        dt: float = 0.0,
        tension: Vector | None = None,
        curvature: Vector | None = None,
    ) -> ShapeEstimate:
        """One estimate.

        Parameters
        ----------
        displacement : of the tendons, shape (N,), m; NaN where unknown
        velocity : shape (N,), m/s
        string_extension, dt, tension : not used: there are no strings, and every estimate stands for itself
        curvature : not used either, shape (0,), 1/m: there is no fibre

        Returns
        -------
        values that describe the pose as coefficients (n,), m, with their rates, m/s; NaN where a displacement is

        Raises
        ------
        ParameterError : displacements of another shape
        """
        del string_extension, dt, tension, curvature
        if np.shape(displacement) != (self._count,):
            raise ParameterError("displacement", np.shape(displacement), f"shape ({self._count},){self._order}")
        if not np.all(np.isfinite(displacement)):
            return ShapeEstimate.unseen(self._size, (self._unseen,))
        return self._estimate(np.asarray(displacement), velocity)

    @abstractmethod
    def _estimate(self, displacement: Vector, velocity: Vector) -> ShapeEstimate:
        """From known displacements and their rates."""


class RollingShapeEstimator(MechanismShapeEstimator):
    """Contacts of a rolling-joint robot from its two tendons: the unloaded pose whose displacements come closest.

    A load moves the true pose off the curve of unloaded poses; how far the displacements miss it is the residual. Two
    tendons for one coordinate leave nothing to judge them by.
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


class ModulationShapeEstimator(MechanismShapeEstimator):
    """The coordinates [q_Re, q_Im, insertion] nearest to the displacements that wang (56) allows; the tip by its
    model.
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
