# SPDX-License-Identifier: Apache-2.0
"""``continuum-robot calibrate``: what it refuses, before anything moves."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from continuum_robot.app.command_line import application, main
from continuum_robot.app.procedures import run as calibrate
from continuum_robot.app.procedures.identify import identify_capstans
from continuum_robot.drivers.motion_capture.settings import MotionCapture
from continuum_robot.errors import ParameterError, RecordingError
from continuum_robot.identification.procedures.self_calibration import SLOW, SelfCalibrationSettings
from continuum_robot.identification.recordings import TendonRecording, read_recording
from continuum_robot.identification.self_calibration import columns_of
from continuum_robot.robot.description import Robot
from continuum_robot.robot.file.recording import Recording
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.simulation_settings import WiringErrors
from continuum_robot.rod.displaced_statics import DisplacedStatics
from continuum_robot.rod.friction.resistance import PathFriction

ROBOT = "three_segment_servo"
SEEDS = range(1, 11)


def drawn(seed: int) -> Robot:
    """A robot that is not as its file states, seen by a tracker that stands askew and is late."""
    robot, rng = load_robot(ROBOT), np.random.default_rng([seed, 40])
    stiffer, friction = 1 + 0.1 * rng.standard_normal(), rng.uniform(0.04, 0.12)
    segments = tuple(
        replace(
            one,
            backbone=replace(one.backbone, youngs_modulus_pa=stiffer * one.backbone.youngs_modulus_pa),
            tendons=replace(
                one.tendons,
                angle_offset_rad=one.tendons.angle_offset_rad + 0.05 * rng.standard_normal(),
                friction_coefficient=friction,
                guide_turn_rad=1.0,
            ),
        )
        for one in robot.segments
    )
    place = Recording(
        displacement_columns=columns_of(robot),
        displacement_signs=(1.0,) * robot.tendon_count,
        marker_in_tip_m=tuple(rng.normal(0, [0.004, 0.004, 0.01]).tolist()),
        base_in_tracker_m=tuple(rng.normal(0, 0.0015, 3).tolist()),
        base_rotation_in_tracker_rad=(*rng.normal(0, 0.02, 2).tolist(), 0.0),
    )
    errors = WiringErrors(
        spool_ratio=tuple((1 + 0.02 * rng.standard_normal(9)).tolist()),
        slack_m=tuple(rng.normal(0, 3e-4, 9).tolist()),
        current_gain=tuple((1 + 0.03 * rng.standard_normal(9)).tolist()),
        current_offset_a=tuple((0.007 * rng.standard_normal(9)).tolist()),
    )
    stiffness = robot.tendon_stiffness_n_per_m * math.exp(0.2 * rng.standard_normal())
    late_s = rng.uniform(0, 0.05)
    tracker = MotionCapture(
        kind="motion_capture", system="mock", hostname="none", tip_body="tip", latency_s=late_s, sigma_m=1e-4
    )
    return robot.changed(
        segments=segments,
        recording=place,
        tendon_stiffness_n_per_m=stiffness,
        hardware=replace(robot.hardware, tracker=tracker),
        simulation=replace(robot.simulation, truth="", substep_s=2.5e-3, wiring_errors=errors),
    )


def true_values(truth: Robot, written: Robot, recording: TendonRecording) -> Iterator[tuple[str, str, float]]:
    """Kind of quantity, its name among the numbers, and its true value.

    Parameters
    ----------
    truth : that moved
    written : what was found of it, of whose shapes the friction is a mean
    recording : of its rests
    """
    place, errors = truth.recording, truth.simulation.wiring_errors
    assert place is not None
    for k, axis in enumerate("xyz"):
        yield "marker", f"marker_in_tip_{axis}_m", place.marker_in_tip_m[k]
        yield "base", f"base_in_tracker_{axis}_m", place.base_in_tracker_m[k]
    for k, axis in enumerate("xy"):
        yield "tilt", f"base_rotation_in_tracker_{axis}_rad", place.base_rotation_in_tracker_rad[k]
    for name, ratio, slack_m in zip(truth.tendon_names, errors.spool_ratio, errors.slack_m, strict=True):
        yield "spool", f"gain_{name}", ratio
        yield "zero", f"servo_zero_{name}_m", slack_m / ratio
    bending = truth.segments[0].backbone.bending_stiffness_nm2
    yield "stiffness", "log_bending_stiffness_segment_1", math.log(bending)
    extended = tuple(replace(one, basis=one.basis.extended) for one in truth.segments)
    rubs = PathFriction(truth.changed(segments=extended))
    shapes = DisplacedStatics(written).replay(recording.displacement_m).c
    fraction = np.mean([rubs.fraction(c) for c in shapes], axis=0)
    for segment, rows in zip(truth.segments, truth.tendon_slices, strict=True):
        yield "angle", f"angle_offset_{segment.name}_rad", segment.tendons.angle_offset_rad
        yield "tendons", f"tendon_stiffness_{segment.name}_n_per_m", truth.tendon_stiffness_n_per_m
        yield "friction", f"friction_fraction_{segment.name}", fraction[rows.start]
    assert truth.hardware is not None
    yield "latency", "tracker_latency_s", truth.hardware.tracker.latency_s


@pytest.mark.long
def test_truths_that_it_does_not_know_are_found_within_two_deviations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """9 of 10 of each kind, and deviations of the size of the errors. Half an hour."""
    monkeypatch.setenv("ROS_DOMAIN_ID", os.environ["CONTINUUM_ROBOT_TEST_DOMAIN_APP"])
    short = partial(SelfCalibrationSettings, places=40, rest_s=0.6, slow_s=15.0)
    monkeypatch.setattr(calibrate, "SelfCalibrationSettings", short)
    errors: dict[str, list[float]] = {}
    for seed in SEEDS:
        truth, numbers = drawn(seed), tmp_path / "numbers.json"
        monkeypatch.setattr(calibrate, "true_robot", lambda _robot, truth=truth: truth)
        assert calibrate.run_calibrate(ROBOT, True, tmp_path / "out.yaml", json_file=numbers) == 0
        found, written = json.loads(numbers.read_text()), load_robot(tmp_path / "out.yaml")
        assert written.provenance[-1].command == "continuum-robot calibrate"
        recording = read_recording(tmp_path / "out.csv")
        rests = np.array(recording.labels) != SLOW
        recording = replace(recording, displacement_m=recording.displacement_m[rests])
        for kind, key, value in true_values(truth, written, recording):
            errors.setdefault(kind, []).append((found[key] - value) / found[f"{key}_deviation"])
    within = {kind: float(np.mean(np.abs(each) < 2)) for kind, each in errors.items()}
    sizes = {kind: float(np.sqrt(np.mean(np.square(each)))) for kind, each in errors.items()}
    assert min(within.values()) >= 0.9, within
    assert 0.3 < min(sizes.values()) < max(sizes.values()) < 1.5, sizes


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["opencr_five_tendon"], "continuum-robot identify"),
        (["vanderbilt_segment"], "continuum-robot identify"),
        ([ROBOT, "--load", "90"], "load_n"),
        ([ROBOT, "--load", "4"], "room to bend"),
        ([ROBOT, "--hardware"], "hardware.tracker"),
    ],
)
def test_what_cannot_be_calibrated_is_refused(
    arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.yaml"
    assert main(["calibrate", *arguments, "--out", str(out)]) == 2
    assert said in capsys.readouterr().err
    assert not out.exists()


def test_on_hardware_it_asks_before_it_opens_anything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(*_: object, **_named: object) -> None:
        raise AssertionError("opened before it asked")

    asked: list[str] = []

    def ask(sentence: str) -> None:
        asked.append(sentence)
        raise ParameterError("move", "no", "yes")

    monkeypatch.setattr(calibrate.backends, "tracker", lambda _robot: None)
    monkeypatch.setattr(calibrate, "run_procedure", opened)
    with pytest.raises(ParameterError, match="move"):
        calibrate.run_calibrate(ROBOT, False, tmp_path / "out.yaml", ask=ask)
    assert len(asked) == 1


def test_a_recording_of_capstans_that_is_not_there_is_named(tmp_path: Path) -> None:
    robot = load_robot("vanderbilt_segment")
    with pytest.raises(RecordingError, match=r"none\.csv"):
        identify_capstans(robot, tmp_path / "none.csv", tmp_path / "out.yaml")
    bare = robot.changed(segments=tuple(replace(one, capstans=None) for one in robot.segments))
    with pytest.raises(ParameterError, match="capstans"):
        identify_capstans(bare, None, tmp_path / "out.yaml")


def test_the_command_explains_itself() -> None:
    answer = CliRunner().invoke(application, ["calibrate", "--help"])
    assert answer.exit_code == 0
    assert "tracker" in answer.output
