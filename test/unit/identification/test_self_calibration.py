# SPDX-License-Identifier: Apache-2.0
"""A robot of servos calibrates itself: its motion keeps the limits, and finds truths that its file does not know."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from continuum_robot.drivers.mounted_tracker import MountedTracker, pose_of
from continuum_robot.drivers.protocols import TendonReading, TrackedPose
from continuum_robot.errors import ParameterError
from continuum_robot.geometry import so3
from continuum_robot.identification.displaced.fit import slid_by
from continuum_robot.identification.displaced.model import STEPS, DisplacedModel
from continuum_robot.identification.procedures.homing import Homed
from continuum_robot.identification.procedures.procedure import ProcedureError
from continuum_robot.identification.procedures.self_calibration import (
    CalibrationRecord,
    SelfCalibration,
    SelfCalibrationSettings,
)
from continuum_robot.identification.recordings import read_recording
from continuum_robot.identification.self_calibration import columns_of, latency, mounted, with_forces, write_record
from continuum_robot.robot.file.recording import Recording
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.segments.tendons import DisplacedTendons
from continuum_robot.rod.displaced_statics import DisplacedStatics

ROBOT = load_robot("three_segment_servo")
N = ROBOT.tendon_count
SHORT = SelfCalibrationSettings(places=3, rest_s=0.2, slow_s=10.0)
DT = 0.02
SEEN = TrackedPose(0.0, np.eye(4))


class Homing:
    """Stands in for the homing, which has tests of its own: it is where it is."""

    ended = False

    def found(self):
        return Homed(np.full(N, 0.5), np.zeros(N), 4.0, 0.0, np.zeros(3), {})

    def update(self, reading: TendonReading, _dt: float):
        self.ended = True
        return type("Step", (), {"command": reading.displacement_m.copy(), "progress": 1.0, "phase": "homing"})()


def moved(settings=SHORT, *, seen=True, load=None, steps=20000):
    """Go through the motion as perfect servos do, and return all commands less their zero, and the procedure."""
    procedure = SelfCalibration(ROBOT, settings)
    procedure._homing = Homing()
    at, commands, nan = np.full(N, 0.5), [], np.full(N, np.nan)
    for k in range(steps):
        tension = np.full(N, 5.0) if load is None else load(k)
        reading = TendonReading(k * DT, at, np.zeros(N), tension, nan, nan, np.zeros(N))
        if seen:
            procedure.take_pose(replace(SEEN, time_s=k * DT))
        step = procedure.update(reading, DT)
        at = step.command
        commands.append(at - 0.5)
        if step.done:
            break
    return np.array(commands), procedure


def test_the_motion_keeps_the_limits_and_has_no_jump():
    way, procedure = moved()
    limits = ROBOT.limits
    assert np.abs(way).max() <= procedure.most_m * (1 + 1e-3) <= limits.maximum_displacement_m
    assert procedure.most_load_n < 0.71 * limits.maximum_n
    assert np.abs(np.diff(way[2:], axis=0)).max() / DT < limits.speed_m_per_s
    record = procedure.result
    assert len(way) * DT == pytest.approx(procedure.duration_s, rel=0.05)
    assert record.labels[:N] == tuple(f"{name}_alone" for name in ROBOT.tendon_names)
    assert record.labels[-3:] == ("places",) * 3
    assert np.isfinite(record.tip).all()
    assert int((np.diff(record.slow_way_s) < 0).sum()) == 1


def test_less_load_bends_less_and_too_little_is_refused():
    free, careful = (SelfCalibration(ROBOT, replace(SHORT, load_n=load_n)) for load_n in (60.0, 20.0))
    assert careful.most_load_n < 14.1 < free.most_load_n
    assert careful.most_m < free.most_m
    with pytest.raises(ParameterError, match="room to bend"):
        SelfCalibration(ROBOT, replace(SHORT, load_n=5.0))
    with pytest.raises(ParameterError, match=r"limits\.maximum_n"):
        SelfCalibration(ROBOT, replace(SHORT, load_n=61.0))
    with pytest.raises(ParameterError, match="displacements"):
        SelfCalibration(load_robot("two_segment"))


@pytest.mark.parametrize("cycle", [0, 300])
def test_it_stops_at_load(cycle):
    def load(k):
        return np.where((np.arange(N) == 4) & (k == cycle), 21.0, 5.0)

    with pytest.raises(ProcedureError, match=r"middle/tendon_2 bears 21 N, more than 20 N"):
        moved(replace(SHORT, load_n=20.0), load=load)


def test_a_tracker_that_sees_nothing_ends_it():
    with pytest.raises(ProcedureError, match="did not see the tip at 5 places"):
        moved(seen=False)


def test_it_ends_early_where_it_is():
    procedure = SelfCalibration(ROBOT, SHORT)
    procedure._homing = Homing()
    nan = np.full(N, np.nan)
    reading = TendonReading(0.0, np.full(N, 0.5), np.zeros(N), np.full(N, 5.0), nan, nan, np.zeros(N))
    procedure.update(reading, DT)
    procedure.stop()
    step = procedure.update(reading, DT)
    assert step.done
    assert procedure.result is None
    assert step.command == pytest.approx(np.full(N, 0.5), abs=1e-2)


def test_the_record_is_written_as_a_recording(tmp_path: Path):
    record = moved()[1].result
    rests = write_record(ROBOT, record, tmp_path / "record.csv")
    whole = read_recording(tmp_path / "record.csv")
    assert len(rests) == len(record.labels)
    assert set(whole.labels[len(rests) :]) == {"slow"}
    assert rests.displacement_m == pytest.approx(record.displacement_m, abs=1e-9)
    assert rests.sha256 == whole.sha256
    # Of simulated servos all loads are measured; the slow motion has none.
    assert rests.load_n == pytest.approx(record.load_n)
    assert np.isnan(whole.load_n[len(rests) :]).all()


def test_motors_slide_where_they_went_far_enough():
    way_m = 1e-4 * np.array([[0.0], [3.0], [6.0], [5.5], [0.0], [0.0], [1.0], [9.0]])
    assert slid_by(way_m, 1e-4)[:, 0] == pytest.approx(
        [math.nan, math.nan, 1, math.nan, -1, -1, math.nan, 1], nan_ok=True
    )
    # Friction that is there at once, but for readings' noise.
    assert slid_by(way_m, 0.0)[:, 0] == pytest.approx([math.nan, 1, 1, math.nan, -1, -1, math.nan, 1], nan_ok=True)


def test_slopes_of_marker_and_loads_are_derivatives():
    model, rng = DisplacedModel(fitted_robot(), STEPS, loaded=True), np.random.default_rng(4)
    parameters = model.parameters
    sizes = np.minimum(parameters.deviation, 0.1)
    way_m = np.cumsum(4e-4 * rng.standard_normal((4, N)), axis=0) + 4e-4
    slid, x = np.sign(rng.standard_normal((4, N))), parameters.expected + 0.01 * sizes * rng.standard_normal(len(sizes))
    _, marker_slope, _, load_slope = model.shown(x, way_m, slid)
    for way in sizes * rng.standard_normal((4, len(sizes))):
        ahead, back = (model.shown(x + step * way, way_m, slid)[::2] for step in (1e-4, -1e-4))
        for more, less, slope in zip(ahead, back, (marker_slope, load_slope), strict=True):
            numeric = (more - less) / 2e-4
            assert slope @ way == pytest.approx(numeric, abs=1e-3 * np.abs(numeric).max())


def fitted_robot():
    """A robot as a fit leaves it."""
    tendons = DisplacedTendons(
        stiffness_n_per_m=(1.2e4,) * N, zero_m=(1e-4,) * N, gain=(1.0,) * N, friction_fraction=(0.1,) * N
    )
    place = Recording(
        displacement_columns=columns_of(ROBOT),
        displacement_signs=(1.0,) * N,
        marker_in_tip_m=(0.002, -0.003, 0.01),
        base_in_tracker_m=(0.001, 0.002, -0.001),
        base_rotation_in_tracker_rad=(0.02, -0.01, 0.0),
    )
    return ROBOT.changed(displaced_tendons=tendons, recording=place)


@pytest.mark.parametrize("late_s", [0.0, 0.03])
def test_the_latency_is_found_beside_friction_and_a_wrong_model(late_s):
    robot = fitted_robot()
    _, procedure = moved()
    record: CalibrationRecord = procedure.result
    place = robot.recording
    # The truth rubs twice as much as the fit has found, and is softer.
    tendons = replace(robot.displaced_tendons, friction_fraction=(0.2,) * N, stiffness_n_per_m=(0.9e4,) * N)
    way = np.vstack([record.displacement_m, record.slow_displacement_m])
    shown = DisplacedStatics(robot.changed(displaced_tendons=tendons)).replay(way, point_m=place.marker_in_tip_m)
    seen = shown.point[len(record.displacement_m) :] + 1e-4 * np.random.default_rng(3).standard_normal(
        (len(record.slow_time_s), 3)
    )
    tip = np.tile(np.eye(4), (len(seen), 1, 1))
    tip[:, :3, 3] = seen
    still = robot.changed(
        recording=replace(place, base_in_tracker_m=(0.0,) * 3, base_rotation_in_tracker_rad=(0.0,) * 3)
    )
    found_s, deviation_s = latency(still, replace(record, pose_time_s=record.slow_time_s + late_s, pose_tip=tip))
    assert abs(found_s - late_s) < min(2 * deviation_s, 4e-3)
    assert deviation_s < 4e-3


def test_forces_change_no_shape_and_the_tracker_is_mounted_anew():
    robot = fitted_robot().changed(gravity_m_per_s2=(0.0, 0.0, 0.0))
    given = {"bending_stiffness_x_nm2": 0.01, "bending_stiffness_y_nm2": 0.01, "axial_stiffness_n": 1e4}
    robot = robot.changed(
        segments=tuple(
            replace(one, backbone=replace(one.backbone, **given), basis=one.basis.extended) for one in robot.segments
        )
    )
    way = moved()[1].result.displacement_m[:5]
    plain, stiff = (DisplacedStatics(one).replay(way) for one in (robot, with_forces(robot, 3.0)))
    assert stiff.tip == pytest.approx(plain.tip, abs=1e-7)
    assert stiff.tension == pytest.approx(3 * plain.tension, rel=1e-6)
    # What the tracker says with the section as it was, by the true place of base and marker, becomes the tip's pose.
    old = MountedTracker(base_position_m=(0.5, 0.1, 1.0), tip_position_m=(0.0, 0.01, 0.0), latency_s=0.02)
    place, turned = robot.recording, so3.exp([0.0, 0.0, 0.3])
    base, marker, tip = np.eye(4), np.eye(4), plain.tip[3]
    base[:3, :3], base[:3, 3] = so3.exp(np.array(place.base_rotation_in_tracker_rad)), place.base_in_tracker_m
    marker[:3, :3], marker[:3, 3] = turned, place.marker_in_tip_m
    reported = base @ tip @ marker
    seen = pose_of(old.base_position_m, old.base_quaternion) @ reported
    seen = seen @ np.linalg.inv(pose_of(old.tip_position_m, old.tip_quaternion))
    assert old.tip_in_base(seen) == pytest.approx(reported)
    found = SimpleNamespace(robot=robot, tip_turn=turned, latency_s=0.01)
    new = replace(old, **mounted(found, old))
    assert new.tip_in_base(seen) == pytest.approx(tip, abs=1e-9)
    assert new.latency_s == pytest.approx(0.03)
