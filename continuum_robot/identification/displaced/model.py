# SPDX-License-Identifier: Apache-2.0
"""The fitted robot, and where it shows the marker, as a function of the fit's parameters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import RobotFileError
from continuum_robot.geometry import se3, so3
from continuum_robot.identification.displaced.parameters import Values, values_of
from continuum_robot.identification.fit import Parameters, by_differences
from continuum_robot.identification.recordings import TendonRecording, tendon_displacements
from continuum_robot.identification.replay import in_tracker, marker_in_tracker
from continuum_robot.robot.description import Robot
from continuum_robot.robot.file.recording import Recording
from continuum_robot.robot.segments.displaced_tendons import DisplacedTendons
from continuum_robot.rod.displaced_statics import DisplacedStatics

Array = NDArray[np.float64]

_TENDON_OVER_ROD = 3.0  # first guess of tendon stiffness against that of a segment
_INEXTENSIBLE = 300.0  # times that: as good as no stretch
_FIRST_FRICTION = 0.05
_STEP = 1e-5  # of differences, relative to what a parameter may differ by


class DisplacedModel:
    """A robot about the one that the fit starts from.

    Parameters
    ----------
    start : the robot from which all parameters are counted
    place : its ``recording``

    Attributes
    ----------
    start : as above
    radius_m : mean of the segments' pitch radii, m
    """

    def __init__(self, start: Robot, place: Recording) -> None:
        self.start, self._place = start, place
        segments = start.segments
        self._owner = np.repeat(np.arange(len(segments)), [segment.tendons.count for segment in segments])
        self._gravity = np.array(start.gravity_m_per_s2)
        weight_n = sum(float(segment.disks.masses_kg.sum()) for segment in segments) * float(
            np.linalg.norm(self._gravity)
        )
        listed = np.array([segment.backbone.bending_stiffness_nm2 for segment in segments])
        # A rod too soft to stand upright would start the fit in a buckled shape.
        self._bending = listed * max(1.0, weight_n * start.length_m**2 / 2 / float(listed.min()))
        self.radius_m = float(np.mean([segment.tendons.pitch_radius_m for segment in segments]))
        mean_m = start.length_m / len(segments)
        rods = [segment.backbone for segment in segments]
        # What resists along a rod of one material: its bending stiffness times its area over its second moment.
        self._compliance = float(np.mean([rod.second_moment_m4 / rod.area_m2 for rod in rods]) / self._bending.mean())
        disks = sum(segment.disks.disk_count for segment in segments)
        self._between_disks_m = start.length_m / disks if disks else 0.0
        self._stretching = float(_TENDON_OVER_ROD * self._bending.mean() / (self.radius_m**2 * mean_m))

    def turned_over(self) -> DisplacedModel:
        """The same with gravity in the opposite direction."""
        return DisplacedModel(self.start.changed(gravity_m_per_s2=_triple(-self._gravity)), self._place)

    def robot(self, values: Values) -> Robot:
        """The robot with parameters.

        Parameters
        ----------
        values : parameters by name, see :mod:`continuum_robot.identification.displaced.parameters`
        """
        weight = self._turned(_of(values, "gravity_turn_rad", 2))
        softer = math.exp(_softer(values))
        segments = tuple(
            replace(
                segment,
                tendons=replace(segment.tendons, angle_offset_rad=_wrapped(segment.tendons.angle_offset_rad + angle)),
                backbone=replace(
                    segment.backbone,
                    bending_stiffness_x_nm2=float(stiffness * softer),
                    bending_stiffness_y_nm2=float(stiffness * softer),
                ),
            )
            for segment, angle, stiffness in zip(
                self.start.segments, _of(values, "angle_rad", len(self._bending)), self._bending, strict=True
            )
        )
        return self.start.changed(
            segments=segments,
            gravity_m_per_s2=_triple(weight if "log_tendon_stiffness" in values else 0 * weight),
            recording=self.place(values),
            displaced_tendons=self.tendons(values),
        )

    def place(self, values: Values) -> Recording:
        """Marker and base with parameters, see :meth:`robot`; a turn of the base about z is in the angles."""
        place = self._place
        return replace(
            place,
            marker_in_tip_m=_triple(np.array(place.marker_in_tip_m) + _of(values, "marker_m", 3)),
            base_in_tracker_m=_triple(np.array(place.base_in_tracker_m) + _of(values, "base_m", 3)),
            base_rotation_in_tracker_rad=_triple(
                np.array(place.base_rotation_in_tracker_rad) + np.append(_of(values, "tilt_rad", 2), 0.0)
            ),
        )

    def tendons(self, values: Values) -> DisplacedTendons:
        """The tendons with parameters, see :meth:`robot`."""
        m, count = len(self.start.segments), self.start.tendon_count
        # Counted from the rod's: what a displacement bends depends on the ratio alone.
        log_stiffness = (
            _softer(values)
            + _of(values, "log_tendon_stiffness", 1)[0]
            + _of(values, "log_tendon_stiffness_of_segment", m)[self._owner]
        )
        elastic = "log_tendon_stiffness" in values
        stiffness = self._stretching * np.exp(log_stiffness) * (1.0 if elastic else _INEXTENSIBLE)
        zero = _of(values, "zero_m", m)[self._owner] + _of(values, "zero_of_tendon_m", count)
        rubbing = float("log_friction" in values)
        friction = _FIRST_FRICTION * np.exp(_of(values, "log_friction", 1)) * np.ones(count) * rubbing
        return DisplacedTendons(
            stiffness_n_per_m=tuple(map(float, stiffness)),
            zero_m=tuple(map(float, zero)),
            gain=tuple(map(float, 1 + _of(values, "gain_of_tendon", count))),
            friction_fraction=tuple(map(float, friction)),
            spiral_rad_per_m=float(_of(values, "spiral_rad_per_m", 1)[0]),
            straight_over_m=_multiple(self._between_disks_m, values, "log_straight_over"),
            compliance_per_n=_multiple(self._compliance, values, "log_compliance") * math.exp(-_softer(values)),
        )

    def marker(self, values: Values, displacement_m: Array) -> Array:
        """Marker in the tracker's frame, (T, 3), m.

        Parameters
        ----------
        values : as for :meth:`robot`
        displacement_m : of the tendons, pulled in positive, in the order of time, (T, N), m
        """
        place = self.place(values)
        shown = DisplacedStatics(self.robot(values)).replay(displacement_m, point_m=place.marker_in_tip_m)
        return in_tracker(place, shown.point)

    def marker_and_slope(self, parameters: Parameters, x: Array, displacement_m: Array) -> tuple[Array, Array]:
        """Marker in the tracker's frame, (T, 3), m, and its derivative by the parameters, (T, 3, p).

        Parameters
        ----------
        parameters : p, see :func:`~.parameters.free`
        x : of these
        displacement_m : as for :meth:`marker`
        """
        values, size = values_of(parameters, x), (len(displacement_m), 3, -1)
        robot, place = self.robot(values), self.place(values)
        model = DisplacedStatics(robot)
        shown = model.replay(displacement_m, point_m=place.marker_in_tip_m, sensitivities=True)
        step = _STEP * parameters.deviation
        _, numbers_by = by_differences(lambda x: _numbers(self.robot(values_of(parameters, x)), model), step)(x)

        def still(x: Array) -> Array:
            """The marker on a robot that keeps its shape."""
            place = self.place(values_of(parameters, x))
            return in_tracker(place, se3.apply(shown.tip, np.array(place.marker_in_tip_m))).ravel()

        marker, still_by = by_differences(still, step)(x)
        turn = so3.exp(np.array(place.base_rotation_in_tracker_rad))
        return marker.reshape(-1, 3), turn @ (np.asarray(shown.sensitivity) @ numbers_by) + still_by.reshape(size)

    def _turned(self, angles_rad: Array) -> Array:
        return np.asarray(so3.exp(np.append(angles_rad, 0.0)) @ self._gravity)


def predicted_marker(robot: Robot, recording: TendonRecording, *, friction: bool = True) -> Array:
    """Marker that a fitted robot predicts for a recording, in the tracker's frame.

    Parameters
    ----------
    robot : with ``recording`` and ``displaced_tendons``
    recording : T samples in the order of time
    friction : False: statics alone

    Returns
    -------
    (T, 3), m

    Raises
    ------
    RobotFileError, RecordingError : robot and recording do not fit together
    """
    displacement = tendon_displacements(robot, recording)
    if robot.displaced_tendons is None:
        raise RobotFileError(robot.file_name or None, "displaced_tendons", None, "a robot file written by `identify`")
    return marker_in_tracker(robot, DisplacedStatics(robot, friction=friction).replay(displacement).tip)


def _numbers(robot: Robot, model: DisplacedStatics) -> Array:
    """What the sensitivities of a model are by, of a robot, (P,)."""
    tendons = robot.displaced_tendons
    assert tendons is not None
    numbers = {
        "angle_rad": [segment.tendons.angle_offset_rad for segment in robot.segments],
        "spiral_rad_per_m": [tendons.spiral_rad_per_m],
        "log_compliance": _logs([tendons.compliance_per_n]),
        "log_straight_over": _logs([tendons.straight_over_m]),
        "log_bending_stiffness": _logs([segment.backbone.bending_stiffness_nm2 for segment in robot.segments]),
        "gravity_m_per_s2": robot.gravity_m_per_s2,
        "log_tendon_stiffness": _logs(tendons.stiffness_n_per_m),
        "zero_m": tendons.zero_m,
        "gain": tendons.gain,
        "friction_fraction": tendons.friction_fraction,
    }
    return np.concatenate([np.asarray(numbers[name], dtype=float) for name in model.parameters])


def _logs(values: Sequence[float]) -> Array:
    """Logarithms; 0 of what is none."""
    return np.array([math.log(value) if value > 0 else 0.0 for value in values])


def _of(values: Values, name: str, size: int) -> Array:
    return values.get(name, np.zeros(size))


def _softer(values: Values) -> float:
    return float(_of(values, "log_bending_stiffness", 1)[0])


def _multiple(unit: float, values: Values, name: str) -> float:
    """A multiple of a unit, of which the logarithm is a parameter; 0 where that is not fitted."""
    return unit * math.exp(values[name][0]) if name in values else 0.0


def _wrapped(angle_rad: float) -> float:
    return float((angle_rad + math.pi) % (2 * math.pi) - math.pi)


def _triple(vector: ArrayLike) -> tuple[float, float, float]:
    x, y, z = np.asarray(vector, dtype=float)
    return float(x), float(y), float(z)
