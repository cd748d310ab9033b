# SPDX-License-Identifier: Apache-2.0
"""Shape of a rod from tendons, strings and a fibre's curvatures, whatever its strains and its routing.

:class:`AnyShapeEstimator` is what the nodes ask of it; the estimators of mechanisms share
:class:`MechanismShapeEstimator`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.estimation.length_fit import LengthFit, coefficient_scale
from continuum_robot.estimation.modal_filter import ModalKalmanFilter
from continuum_robot.estimation.sensor_watch import SensorWatch, WatchSettings
from continuum_robot.estimation.shape_estimate import (
    ShapeEstimate,
    ShapeSettings,
    expected_string_sigma_m,
    sensor_names,
    sensor_noise_m,
    sensor_sigma_m,
)
from continuum_robot.estimation.static_fit import StaticFit
from continuum_robot.mechanisms.equilibrium_modulation.drawing import ModulationParts
from continuum_robot.mechanisms.rolling_joint.building import make_linkage, rolling_joint_of
from continuum_robot.mechanisms.rolling_joint.statics import RollingStatics
from continuum_robot.mechanisms.rolling_joint.unloaded_curve import UnloadedCurve, pose_in_space
from continuum_robot.robot.coordinates import clarke_manifold
from continuum_robot.robot.description import Robot
from continuum_robot.robot.traits import LENGTHS, STATICS
from continuum_robot.rod.fiber import curvature_lever_m2

Vector = NDArray[np.float64]


class ShapeFit(Protocol):
    """How a shape is found from readings."""

    def watch(self, settings: WatchSettings) -> SensorWatch | None:
        """What judges the sensors by each other; None where they cannot."""

    def set_payload(self, payload_kg: float) -> None:
        """Go on with another mass at the tip."""

    def set_gravity(self, gravity_m_per_s2: Vector) -> None:
        """Go on in another gravity, as a stage turns the robot."""

    def reset(self) -> None:
        """Forget earlier updates."""

    def update(self, readings: Vector, velocity: Vector | None, tension: Vector | None, dt: float) -> ShapeEstimate:
        """Estimate from one set of readings."""


_FITS: dict[str, Callable[..., ShapeFit]] = {LENGTHS: LengthFit, STATICS: StaticFit}


class ShapeEstimator:
    """Strain coefficients of a rod from its tendons, strings and fibre, by its lengths or by its statics.

    Where displacements are linear in the coefficients and the sensors see all of them, lengths alone show the shape,
    johnston (6) (estimation/length_fit.py); else the rod's statics fill in what the sensors leave open
    (estimation/static_fit.py). Broken sensors that the watch finds are left out and named.

    Parameters
    ----------
    robot : with N tendons, k strings and a fibre with g gratings, or without
    settings : how much the sensors are trusted
    watch : what counts as a broken sensor; None: readings are believed unless they are NaN. Of effect where the shape
        needs strings: tendons that see it alone are watched by their driver, and slack that is taken up is no fault of
        a string

    Attributes
    ----------
    fit : how the shape is found
    sensor_names : of tendons, strings and curvatures, N + k + 2 g
    watch : the watch over the sensors; None where there is none

    Raises
    ------
    ParameterError : tendons and strings together do not see all coefficients; names those
    """

    def __init__(
        self,
        robot: Robot,
        settings: ShapeSettings | None = None,
        *,
        watch: WatchSettings | None = None,
    ) -> None:
        self.settings = settings or ShapeSettings()
        self._tendons, self._strings = robot.tendon_count, len(robot.strings)
        self.sensor_names = sensor_names(robot)
        self._no_strings = np.full(self._strings, np.nan)
        self._lever_m2 = curvature_lever_m2(robot)
        self._no_curvature = np.full(self._lever_m2.size, np.nan)
        self.fit = _FITS[robot.traits.shape_from](robot, self.settings)
        self.watch = None if watch is None else self.fit.watch(watch)

    def set_payload(self, payload_kg: float) -> None:
        """Go on with another mass at the tip, kg."""
        self.fit.set_payload(payload_kg)

    def set_gravity(self, gravity_m_per_s2: Vector) -> None:
        """Go on in another gravity in the base frame, (3,), m/s^2."""
        self.fit.set_gravity(gravity_m_per_s2)

    def reset(self) -> None:
        """Forget earlier updates, and trust all sensors again."""
        self.fit.reset()
        if self.watch is not None:
            self.watch.reset()

    def update(
        self,
        displacement: Vector,
        velocity: Vector | None,
        string_extension: Vector | None = None,
        dt: float = 0.0,
        tension: Vector | None = None,
        curvature: Vector | None = None,
    ) -> ShapeEstimate:
        """Estimate from one set of readings.

        Parameters
        ----------
        displacement : at the spools, shape (N,), m; NaN: unknown
        velocity : its rate, shape (N,), m/s; NaN: unknown; None: not measured
        string_extension : shape (k,), m; NaN: unknown; None: no strings
        dt : time since the previous update, s; 0 at the first
        tension : of the tendons, shape (N,), N; NaN or None: unknown
        curvature : about x and y at every grating of the fibre, shape (2 g,), 1/m; NaN: unknown; None: no fibre

        Raises
        ------
        ParameterError : wrong shapes, or a time step that is negative or not finite
        """
        strings = self._no_strings if string_extension is None else string_extension
        if len(displacement) != self._tendons or len(strings) != self._strings:
            raise ParameterError(
                "displacement, string_extension",
                (len(displacement), len(strings)),
                f"{self._tendons} tendons and {self._strings} strings",
            )
        bent = self._no_curvature if curvature is None else curvature
        if len(bent) != self._lever_m2.size:
            raise ParameterError("curvature", len(bent), f"{self._lever_m2.size} curvatures, two a grating")
        readings = np.concatenate([displacement, strings, self._lever_m2 * bent])
        if self.watch is None:
            return self.fit.update(readings, velocity, tension, dt)
        health = self.watch.update(readings[: self._tendons + self._strings], dt)
        readings[: self._tendons + self._strings] = health.readings
        found = self.fit.update(readings, velocity, tension, dt)
        return replace(found, unobservable=health.unobservable, broken=health.reasons)


@dataclass(frozen=True, slots=True)
class SensorAccuracy:
    """How well a robot's sensors see its motion, all of them sound; n coefficients."""

    coefficient_error_per_m: Vector
    rate_noise_per_m_s: Vector


def sensor_accuracy(robot: Robot, settings: ShapeSettings | None = None, *, period_s: float = 0.01) -> SensorAccuracy:
    """Accuracy of coefficients and rates, from the encoders of the robot's file and the trust in the sensors."""
    settings = settings or ShapeSettings()
    fit = LengthFit(robot, settings)
    error_m = sensor_sigma_m(robot, settings, expected_string_sigma_m(robot, settings))
    kalman = ModalKalmanFilter(
        fit.matrix,
        sensor_noise_m(robot, settings),
        settings.bending_jerk_rad * coefficient_scale(robot),
        nominal_dt_s=period_s,
    )
    return SensorAccuracy(np.sqrt(fit.gain**2 @ error_m**2), kalman.steady_rate_sigma(period_s))


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
