# SPDX-License-Identifier: Apache-2.0
"""What a robot of servos is, by the record of its self-calibration and the fits for recordings.

1. ``identify_displaced`` on the rests, marker and loads: tendon angles, gain (spool), zero and stiffness of each
   tendon, friction, bending stiffness, registration of base and marker, gain, offset and friction of each motor.
2. The slow motion gives the latency: how far the poses of a place, passed at two speeds, are apart.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from continuum_robot.drivers.mounted_tracker import MountedTracker, pose_of
from continuum_robot.geometry import so3
from continuum_robot.identification.displaced.fit import DisplacedFit, identify_displaced
from continuum_robot.identification.fit import ROBUST, Parameter, Parameters, by_differences, fit
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
_LATENCY_DEVIATION_S = 0.1  # before the data
# What is known of a robot that somebody described and set up: how it stands, and about how stiff it is.
_KNOWN = {"gravity_turn_rad": 0.1, "bending": 0.3}
_SETTLED = 0.2  # of the slow path, after which friction no longer remembers what was before it
_BLOCKS, _PIECES = 5, 10  # of the rests, and of the slow path, that are left out
_APART_M = 3e-4  # of a place seen twice, an error that counts as ordinary
_LATENCY_STEP_S = 1e-3  # of differences
_LAG_S = 2e-4  # of the rod behind its tendons, which looks the same


@dataclass(frozen=True)
class SelfCalibrationFit:
    """What was found."""

    fit: DisplacedFit
    provenance: Provenance
    latency_s: float
    tip_turn: Array

    @property
    def robot(self) -> Robot:
        """With ``recording`` and ``displaced_tendons``."""
        return self.fit.robot

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
    """A fitted robot with all its forces times a factor: backbones and tendons as much stiffer, shapes the same."""
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
    """Find everything from a record."""
    # Each rest is a place of its own: those left out are taken from all that was done.
    block = np.arange(len(recording)) % _BLOCKS
    rests = identify_displaced(in_order(robot), recording, say, blocks=block, deviations=_KNOWN, runner=runner)
    fitted, values = rests.robot, list(rests.provenance.values)
    say("the tracker's latency")
    latency_s, latency_deviation_s = latency(fitted, record)
    tendons, deviations = fitted.displaced_tendons, rests.tendon_deviations
    assert tendons is not None
    # Readings at which tendons are just taut.
    zero_m = record.homed.zero_m - np.array(tendons.zero_m) / np.array(tendons.gain)
    found = [("servo_zero_{}_m", name, zero_m[j], deviations["zero_m"][j]) for j, name in enumerate(robot.tendon_names)]
    for segment, rows in zip(robot.segments, robot.tendon_slices, strict=True):
        j = rows.start
        for title, value, relative in (
            ("tendon_stiffness_{}_n_per_m", tendons.stiffness_n_per_m[j], deviations["log_tendon_stiffness"][j]),
            ("friction_fraction_{}", tendons.friction_fraction[j], deviations["friction_fraction"][j]),
        ):
            found.append((title, segment.name, value, value * relative))
    values += [
        FoundValue(key=title.format(name), value=float(value), deviation=float(sigma))
        for title, name, value, sigma in found
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
        rests,
        replace(rests.provenance, command=COMMAND, values=tuple(values)),
        latency_s,
        _tip_turn(fitted, record),
    )


def latency(fitted: Robot, record: CalibrationRecord) -> tuple[float, float]:
    """From a pose to its stamp, and the deviation of it, s.

    The error of the model at a place is compared with that the second time, at another speed.
    """
    place = fitted.recording
    assert place is not None
    # The friction's memory begins with the way to the first slow reading.
    every = max(1, len(record.slow_time_s) // 2000)
    way = np.vstack([record.displacement_m, record.slow_displacement_m[::every]])
    shown = DisplacedStatics(fitted).replay(way, point_m=place.marker_in_tip_m).point[len(record.displacement_m) :]
    marker, time_s, way_s = in_tracker(place, shown), record.slow_time_s[::every], record.slow_way_s[::every]
    again = int(np.argmin(np.diff(way_s))) + 1
    places_s = np.linspace(_SETTLED * way_s[again - 1], way_s[again - 1], len(record.pose_time_s) // 2)
    first_s, second_s = (np.interp(places_s, way_s[part], time_s[part]) for part in (slice(again), slice(again, None)))

    def at(when_s: Array, times_s: Array, points_m: Array) -> Array:
        return np.array([np.interp(when_s, times_s, axis) for axis in points_m.T])

    def apart(x: Array) -> Array:
        seen = (at(when_s + x[0], record.pose_time_s, record.pose_tip[:, :3, 3]) for when_s in (first_s, second_s))
        model = (at(when_s, time_s, marker) for when_s in (first_s, second_s))
        (one, other), (here, there) = seen, model
        return ((one - here) - (other - there)).T.ravel() / _APART_M

    key = Parameters({"latency": Parameter(("tracker_latency_s",), 0.0, _LATENCY_DEVIATION_S)})
    found = fit(key, by_differences(apart, _LATENCY_STEP_S), loss=ROBUST, tolerance=1e-6)
    pieces = np.repeat(np.arange(len(places_s)) * _PIECES // len(places_s), 3)
    return float(found.x[0]), float(np.hypot(_LAG_S, np.sqrt(found.covariance(blocks=pieces)[0, 0])))


def mounted(fit: SelfCalibrationFit, settings: MountedTracker) -> dict[str, object]:
    """Values of the tracker's section by what was found of it."""
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
    """Write rests and slow motion as a recording with loads, and return the rests, which are fitted."""
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
        np.vstack([load_n, np.full((len(record.pose_time_s), load_n.shape[1]), np.nan)]),
    )
    written, rests = write_recording(whole), len(record.time_s)
    assert written.load_n is not None
    return replace(
        written,
        time_s=written.time_s[:rests],
        labels=written.labels[:rests],
        displacement_m=written.displacement_m[:rests],
        marker_m=written.marker_m[:rests],
        load_n=written.load_n[:rests],
    )
