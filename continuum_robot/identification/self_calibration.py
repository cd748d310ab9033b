# SPDX-License-Identifier: Apache-2.0
"""What a robot of servos is, by the record of its self-calibration and the fits for recordings.

1. ``identify_displaced`` on the rests: tendon angles, gain (spool), zero and stiffness of each tendon, friction,
   registration of base and marker, and all stiffnesses by their ratios.
2. The loads give the scale of all forces: load = scale x modelled tension, with an offset of each motor and its
   friction against the last motion. The bending stiffness of the file counts beside it, as known to 30 %, where the
   robot's weight does not show it.
3. The slow motion gives the latency: ``StampDelay`` with the fitted model.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from continuum_robot.drivers.mounted_tracker import MountedTracker, pose_of
from continuum_robot.errors import RecordingError
from continuum_robot.estimation.stamp_delay import DelayPrior, StampDelay
from continuum_robot.geometry import so3
from continuum_robot.identification.displaced.fit import identify_displaced
from continuum_robot.identification.displaced.result import DisplacedFit
from continuum_robot.identification.fit import linear
from continuum_robot.identification.procedures.self_calibration import SLOW, CalibrationRecord
from continuum_robot.identification.recordings import TendonRecording, write_recording
from continuum_robot.identification.replay import in_tracker
from continuum_robot.robot.description import Robot
from continuum_robot.robot.file.recording import Recording
from continuum_robot.robot.provenance import FoundValue, Provenance
from continuum_robot.rod.displaced_statics import DisplacedStatics
from continuum_robot.workers import IN_TURN, Tasks

Array = NDArray[np.float64]
Progress = Callable[[str], None]

COMMAND = "continuum-robot calibrate"
_BENDING, _STRAIGHT = "log_bending_stiffness_segment_1", "log_straight_over_disk_distance"
_LATENCY_DEVIATION_S = 0.1  # before the data
# What is known of a robot that somebody described and set up: how it stands, and about how stiff it is.
_KNOWN = {"gravity_turn_rad": 0.1, "bending": 0.3}
_SETTLED = 0.2  # of the slow path, after which friction no longer remembers what was before it
_LEAST_TENDONS = 3  # whose loads show a scale


@dataclass(frozen=True)
class SelfCalibrationFit:
    """What was found.

    Attributes
    ----------
    robot : with ``recording`` and ``displaced_tendons``, forces by the loads
    fit : of the rests; forces by their ratios
    provenance : every value with its deviation
    zero_m, zero_deviation_m : reading of each servo, before any zero, at which its tendon is just taut on the straight
        robot, shape (N,), m
    latency_s, latency_deviation_s : from a pose to its stamp, s
    force_scale, force_scale_deviation : forces by the loads over those of ``fit``; NaN where no load is measured
    tip_turn : of the frame that the tracker reports, in the tip's, a rotation matrix, shape (3, 3)
    """

    robot: Robot
    fit: DisplacedFit
    provenance: Provenance
    zero_m: Array
    zero_deviation_m: Array
    latency_s: float
    latency_deviation_s: float
    force_scale: float
    force_scale_deviation: float
    tip_turn: Array

    def numbers(self) -> dict[str, object]:
        """Everything as a flat mapping for JSON, units in the keys."""
        numbers: dict[str, object] = {}
        for one in self.provenance.values:
            numbers[one.key], numbers[f"{one.key}_deviation"] = one.value, one.deviation
        return self.fit.numbers() | numbers


def columns_of(robot: Robot) -> tuple[str, ...]:
    """Columns of a recording that has the robot's tendons in their order."""
    return tuple(f"servo_{j + 1}_mm" for j in range(robot.tendon_count))


def in_order(robot: Robot) -> Robot:
    """The robot, with a recording's columns in the order of its tendons."""
    return robot.changed(
        recording=Recording(displacement_columns=columns_of(robot), displacement_signs=(1.0,) * robot.tendon_count)
    )


def with_forces(robot: Robot, factor: float) -> Robot:
    """A fitted robot with all its forces times a factor: backbones and tendons as much stiffer, shapes the same.

    Parameters
    ----------
    robot : with ``displaced_tendons``, light enough for its weight not to count
    factor : above 0
    """
    tendons, segments = robot.displaced_tendons, []
    assert tendons is not None
    for one in robot.segments:
        keys = ("bending_stiffness_x_nm2", "bending_stiffness_y_nm2", "axial_stiffness_n")
        known = {key: factor * value for key in keys if (value := getattr(one.backbone, key)) is not None}
        segments.append(replace(one, backbone=replace(one.backbone, **known)))
    stiffness = tuple(factor * value for value in tendons.stiffness_n_per_m)
    return robot.changed(segments=tuple(segments), displaced_tendons=replace(tendons, stiffness_n_per_m=stiffness))


def fit_calibration(
    robot: Robot, record: CalibrationRecord, recording: TendonRecording, say: Progress, runner: Tasks = IN_TURN
) -> SelfCalibrationFit:
    """Find everything from a record.

    Parameters
    ----------
    robot : as its file states
    record : of its procedure
    recording : the rests of it, as written
    say : called with a line of text now and then
    runner : shares out the fits without a block

    Raises
    ------
    RecordingError, ConvergenceError : as of ``identify_displaced``
    """
    fit = identify_displaced(in_order(robot), recording, say, deviations=_KNOWN, runner=runner)
    fitted, tendons = fit.robot, fit.robot.displaced_tendons
    assert tendons is not None
    shown = {one.key: one for one in fit.provenance.values}
    values = list(fit.provenance.values)
    # Logarithm of the factor on all forces, and its deviation, by the weight or else the file, and by the loads.
    bending = shown.get(_BENDING)
    if bending is None or _BENDING in fit.unidentified:
        own = [one.segments[0].backbone.bending_stiffness_nm2 for one in (robot, fitted)]
        known = [(math.log(own[0] / own[1]), _KNOWN["bending"])]
    else:
        known = [(0.0, bending.deviation)]
    scale, scale_deviation = math.nan, math.nan
    if record.measured:
        say("forces by the loads")
        scale, scale_deviation = force_scale(fitted, record, {key: one.deviation for key, one in shown.items()})
        known.append((math.log(scale), scale_deviation / scale))
    logs, deviations = np.array(known).T
    deviation = 1 / math.sqrt(float(np.sum(deviations**-2.0)))
    factor = math.exp(float(np.sum(logs / deviations**2)) * deviation**2)
    if bending is not None:
        by_all = replace(bending, value=bending.value + math.log(factor), deviation=deviation)
        values[values.index(bending)] = by_all
    say("the tracker's latency")
    latency_s, latency_deviation_s = latency(fitted, record)
    zero_m, zero_deviation_m = _zeros(fit, record)
    values += [
        FoundValue(key=f"servo_zero_{name}_m", value=float(zero), deviation=float(sigma))
        for name, zero, sigma in zip(robot.tendon_names, zero_m, zero_deviation_m, strict=True)
    ]
    values.append(
        FoundValue(
            key="tracker_latency_s",
            value=latency_s,
            deviation=latency_deviation_s,
            prior_deviation=_LATENCY_DEVIATION_S,
        )
    )
    return SelfCalibrationFit(
        with_forces(fitted, factor),
        fit,
        replace(fit.provenance, command=COMMAND, values=tuple(values)),
        zero_m,
        zero_deviation_m,
        latency_s,
        latency_deviation_s,
        scale,
        scale_deviation,
        _tip_turn(fitted, record),
    )


def force_scale(fitted: Robot, record: CalibrationRecord, deviations: Mapping[str, float]) -> tuple[float, float]:
    """Measured loads over modelled tensions, and the deviation of it.

    The deviation has the spread of the tendons, and what follows from what the marker hardly shows: stiffness and zero
    of the tendons, over how much they run straight between disks, and friction, of the paths and of the motors.

    Parameters
    ----------
    fitted : to the rests of this record
    record : with measured loads
    deviations : of the fit's values, by their keys
    """
    tendons = fitted.displaced_tendons
    assert tendons is not None
    scales = _scales(fitted, record)
    if len(scales) < _LEAST_TENDONS or not (scales > 0).all():
        raise RecordingError(
            Path("loads"),
            "the measured loads do not grow with those of the model",
            "Check `actuators.torque_constant_nm_per_a` and the polarity of the motors",
        )
    stiffness, zero = np.array(tendons.stiffness_n_per_m), np.array(tendons.zero_m)
    shift = np.zeros(len(zero))
    for segment, rows in zip(fitted.segments, fitted.tendon_slices, strict=True):
        shift[rows] = deviations.get(f"tendon_zero_{segment.name}_m", 0.0)
    softer = math.exp(-deviations.get("log_tendon_over_bending_stiffness", 0.0))
    closer = math.exp(-deviations.get(_STRAIGHT, 0.0))
    others = (
        replace(tendons, stiffness_n_per_m=tuple((softer * stiffness).tolist())),
        replace(tendons, zero_m=tuple((zero - shift).tolist())),
        replace(tendons, straight_over_m=closer * tendons.straight_over_m),
        replace(tendons, friction_fraction=(0.0,) * len(zero)),
    )
    scale = float(scales.mean())
    parts = [_scales(fitted.changed(displaced_tendons=other), record).mean() - scale for other in others]
    parts.append(_scales(fitted, record, motors_rub=False).mean() - scale)
    parts.append(scales.std(ddof=1) / math.sqrt(len(scales)))
    return scale, float(np.linalg.norm(parts))


def _scales(robot: Robot, record: CalibrationRecord, *, motors_rub: bool = True) -> Array:
    """Measured load over modelled tension of each tendon, beside its motor's offset and friction, shape (N,)."""
    modelled = DisplacedStatics(robot).replay(record.displacement_m).tension
    each = zip(record.load_n.T, modelled.T, motors_rub * record.direction.T, strict=True)
    return np.array([linear(np.column_stack([model, 0 * model + 1, way]), load)[0][0] for load, model, way in each])


def latency(fitted: Robot, record: CalibrationRecord) -> tuple[float, float]:
    """From a pose to its stamp, and the deviation of it, s.

    The error of the model at a pose is compared with that at the same place the second time, at another speed.

    Parameters
    ----------
    fitted : to the rests of this record
    record : with the slow motion
    """
    place = fitted.recording
    assert place is not None
    # The friction's memory begins with the way to the first slow reading.
    every = max(1, len(record.slow_time_s) // 2000)
    way = np.vstack([record.displacement_m, record.slow_displacement_m[::every]])
    shown = DisplacedStatics(fitted).replay(way, point_m=place.marker_in_tip_m).point[len(record.displacement_m) :]
    marker, time_s, way_s = in_tracker(place, shown), record.slow_time_s[::every], record.slow_way_s[::every]
    velocity, seen = np.gradient(marker, time_s, axis=0), record.pose_tip[:, :3, 3]
    again = int(np.argmin(np.diff(way_s))) + 1
    delay = StampDelay(DelayPrior(0.0, _LATENCY_DEVIATION_S, stated_odds=0.0))
    settled_s = np.interp(_SETTLED * way_s[again - 1], way_s[:again], time_s[:again])
    stamps_s = record.pose_time_s
    for stamp_s in stamps_s[(stamps_s > settled_s) & (stamps_s < time_s[again - 1])]:
        residual, rate = [], []
        at_s = stamp_s - delay.delay_s
        place_s = np.interp(at_s, time_s[:again], way_s[:again])
        for moment_s in (at_s, np.interp(place_s, way_s[again:], time_s[again:])):
            here, speed, there = (
                np.array([np.interp(at, of, axis) for axis in values.T])
                for at, of, values in (
                    (moment_s, time_s, marker),
                    (moment_s, time_s, velocity),
                    (moment_s + delay.delay_s, record.pose_time_s, seen),
                )
            )
            residual.append(there - here)
            rate.append(speed)
        dt = float(np.median(np.diff(record.pose_time_s)))
        delay.update(residual[0] - residual[1], np.zeros(3), rate[0] - rate[1], dt)
    return delay.delay_s, delay.deviation_s


def _zeros(fit: DisplacedFit, record: CalibrationRecord) -> tuple[Array, Array]:
    """Readings at which tendons are just taut, shape (N,), m, and their deviations: of segments and tendons."""
    robot, tendons = fit.robot, fit.robot.displaced_tendons
    assert tendons is not None
    deviation = {one.key: one.deviation for one in fit.provenance.values}
    zero_m = record.homed.zero_m - np.array(tendons.zero_m) / np.array(tendons.gain)
    spread = np.zeros(robot.tendon_count)
    for segment, rows in zip(robot.segments, robot.tendon_slices, strict=True):
        spread[rows] = deviation.get(f"tendon_zero_{segment.name}_m", 0.0)
    own = np.array([deviation.get(f"tendon_zero_{name}_m", 0.0) for name in robot.tendon_names])
    return zero_m, np.hypot(spread, own)


def mounted(fit: SelfCalibrationFit, settings: MountedTracker) -> dict[str, object]:
    """Values of the tracker's section by what was found of it.

    Parameters
    ----------
    fit : to poses of this tracker
    settings : of the section as it was
    """
    place = fit.robot.recording
    assert place is not None
    base, marker = np.eye(4), np.eye(4)
    base[:3, :3], base[:3, 3] = so3.exp(np.array(place.base_rotation_in_tracker_rad)), place.base_in_tracker_m
    marker[:3, :3], marker[:3, 3] = fit.tip_turn, place.marker_in_tip_m
    stands = pose_of(settings.base_position_m, settings.base_quaternion) @ base
    tip = pose_of(settings.tip_position_m, settings.tip_quaternion) @ np.linalg.inv(marker)
    found: dict[str, object] = {
        # The least that the section may say, where the poses are not late within the errors.
        "latency_s": max(settings.latency_s + fit.latency_s, 0.0),
    }
    for name, pose in (("base", stands), ("tip", tip)):
        found[f"{name}_position_m"] = tuple(map(float, pose[:3, 3]))
        found[f"{name}_quaternion"] = tuple(map(float, so3.quaternion_from_matrix(pose[:3, :3])))
    return found


def _tip_turn(fitted: Robot, record: CalibrationRecord) -> Array:
    """Mean turn of the reported frame in the tip's."""
    place, seen = fitted.recording, np.isfinite(record.tip).all(axis=(1, 2))
    assert place is not None
    tips = DisplacedStatics(fitted).replay(record.displacement_m).tip[seen][:, :3, :3]
    base = so3.exp(np.array(place.base_rotation_in_tracker_rad))
    left, _, right = np.linalg.svd(np.mean(tips.transpose(0, 2, 1) @ base.T @ record.tip[seen][:, :3, :3], axis=0))
    return np.asarray(left @ np.diag([1.0, 1.0, np.linalg.det(left @ right)]) @ right)


def write_record(robot: Robot, record: CalibrationRecord, file: Path) -> TendonRecording:
    """Write rests and slow motion as a recording with loads, and return the rests, which are fitted.

    Parameters
    ----------
    robot : whose record it is
    record : of it
    file : CSV to write

    Raises
    ------
    RecordingError : it cannot be written
    """
    at = [np.interp(record.pose_time_s, record.slow_time_s, axis) for axis in record.slow_displacement_m.T]
    load_n = record.load_n if record.measured else np.full_like(record.load_n, np.nan)
    whole = TendonRecording(
        file,
        "",
        np.concatenate([record.time_s, record.pose_time_s]),
        record.labels + (SLOW,) * len(record.pose_time_s),
        columns_of(robot),
        np.vstack([record.displacement_m, np.column_stack(at)]),
        np.vstack([record.tip[:, :3, 3], record.pose_tip[:, :3, 3]]),
    )
    written = write_recording(whole, np.vstack([load_n, np.full((len(record.pose_time_s), load_n.shape[1]), np.nan)]))
    rests = len(record.time_s)
    return replace(
        written,
        time_s=written.time_s[:rests],
        labels=written.labels[:rests],
        displacement_m=written.displacement_m[:rests],
        marker_m=written.marker_m[:rests],
    )
