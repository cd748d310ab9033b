# SPDX-License-Identifier: Apache-2.0
"""A robot with known elasticity and friction is found again from its own recording; real ones where there is data."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from reference_data import reference_file

from continuum_robot.errors import ParameterError, RecordingError, RobotFileError
from continuum_robot.experiments.experiment import experiments
from continuum_robot.identification.displaced.fit import blocks_of, identify_displaced
from continuum_robot.identification.displaced.model import missing_pull, predicted_marker
from continuum_robot.identification.recordings import TendonRecording, read_recording
from continuum_robot.identification.replay import repeatability
from continuum_robot.identification.robot_file import write_fitted_robot
from continuum_robot.robot.description import Robot
from continuum_robot.robot.file.recording import Recording
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.segments.tendons import DisplacedTendons
from continuum_robot.rod.displaced_statics import DisplacedStatics

COLUMNS = tuple(f"servo_{number}_mm" for number in range(1, 10))
ANGLES = (0.1, 0.75, 1.3)
SHARE, STIFFNESS, RATIO = 0.08, 0.009, 2.6
SPIRAL = 1.5  # rad/m


def robot_with(angles: tuple[float, ...], marker: tuple[float, float, float]) -> Robot:
    robot = load_robot("ftdcr_v4")
    segments = tuple(
        replace(segment, tendons=replace(segment.tendons, angle_offset_rad=angle))
        for segment, angle in zip(robot.segments, angles, strict=True)
    )
    place = Recording(displacement_columns=COLUMNS, displacement_signs=(1.0,) * 9, marker_in_tip_m=marker)
    return robot.changed(segments=segments, recording=place)


def true_robot() -> Robot:
    robot = robot_with(ANGLES, (0.002, -0.001, 0.004))
    segments = tuple(
        replace(
            segment,
            backbone=replace(segment.backbone, bending_stiffness_x_nm2=STIFFNESS, bending_stiffness_y_nm2=STIFFNESS),
        )
        for segment in robot.segments
    )
    stiffness = RATIO * STIFFNESS / (0.0045**2 * robot.length_m / 3)
    zeros = np.repeat([2e-4, 4e-4, 1e-4], 3)
    tendons = DisplacedTendons(
        stiffness_n_per_m=(stiffness,) * 9,
        zero_m=tuple(map(float, zeros)),
        gain=(1.0,) * 9,
        friction_fraction=(SHARE,) * 9,
        spiral_rad_per_m=SPIRAL,
    )
    return robot.changed(segments=segments, displaced_tendons=tendons)


def recorded(rng: np.random.Generator, *, noise_m: float = 2e-4) -> TendonRecording:
    """Every segment bent towards four sides and back, alone and with another, as servos would."""
    angles = [[angle + 2 * np.pi * j / 3 for j in range(3)] for angle in ANGLES]
    readings, labels = [], []
    for name, weights in {"seg1": (1, 0, 0), "seg2": (0, 1, 0), "seg3": (0, 0, 1), "pair": (0.8, 0, -0.8)}.items():
        for towards in np.arange(4) * np.pi / 2 + 0.3:
            for amount in [*np.linspace(0, 1, 7), *np.linspace(0.83, 0, 6)]:
                # A later segment's tendons run through the ones before, and have to follow their bending.
                row = [
                    sum(4e-3 * amount * weights[i] * np.cos(np.array(angles[k]) - towards) for i in range(k + 1))
                    for k in range(3)
                ]
                readings.append(np.concatenate(row))
                labels.append(f"{name}_{math.degrees(towards):.0f}")
    displacement = np.array(readings)
    blank = TendonRecording(
        Path("made.csv"),
        "0" * 64,
        0.5 * np.arange(len(labels)),
        tuple(labels),
        COLUMNS,
        displacement,
        np.zeros((len(labels), 3)),
    )
    marker = predicted_marker(true_robot(), blank)
    return replace(blank, marker_m=marker + noise_m * rng.normal(size=marker.shape))


def part(recording: TendonRecording, rows: np.ndarray) -> TendonRecording:
    """Some samples of a recording."""
    return replace(
        recording,
        time_s=recording.time_s[rows],
        labels=tuple(recording.labels[row] for row in rows),
        displacement_m=recording.displacement_m[rows],
        marker_m=recording.marker_m[rows],
    )


@pytest.mark.long
def test_known_parameters_are_found_again():
    rng = np.random.default_rng(5)
    start = robot_with((0.2, 0.7, 1.2), (0.0, 0.0, 0.0))
    fit = identify_displaced(start, recorded(rng), steps=("constant_curvature", "statics", "friction"), blocks=2)
    assert all(step.kept for step in fit.steps)
    errors = [step.held_out_rmse_m for step in fit.steps]
    assert errors[0] > 2 * errors[1] > 2.5 * errors[2]
    assert errors[2] < 7e-4
    angles = [segment.tendons.angle_offset_rad for segment in fit.robot.segments]
    assert angles == pytest.approx(ANGLES, abs=0.02)
    tendons = fit.robot.displaced_tendons
    assert tendons.friction_fraction == pytest.approx((SHARE,) * 9, rel=0.15)
    bending = fit.robot.segments[0].backbone.bending_stiffnesses_nm2[0]
    ratio = tendons.stiffness_n_per_m[0] * 0.0045**2 * fit.robot.length_m / 3 / bending
    assert ratio == pytest.approx(RATIO, rel=0.1)
    assert bending == pytest.approx(STIFFNESS, rel=0.3)
    assert tendons.zero_m == pytest.approx(np.repeat([2e-4, 4e-4, 1e-4], 3), abs=1.5e-4)
    # The stated deviations are of the size of what was missed.
    stated = {value.key: value for value in fit.provenance.values}
    fraction = stated["log_friction_fraction"]
    assert abs(fraction.value - math.log(SHARE)) < 4 * fraction.deviation + 0.02
    spiral = stated["tendon_spiral_rad_per_m"]
    assert tendons.spiral_rad_per_m == spiral.value == pytest.approx(SPIRAL, abs=0.4)
    assert abs(spiral.value - SPIRAL) < 4 * spiral.deviation
    assert fit.numbers()["steps_kept"] == ["constant_curvature", "statics", "friction"]


def test_fitted_file_is_read_back_and_validates(tmp_path: Path):
    recording = recorded(np.random.default_rng(6))
    robot = load_robot("ftdcr_v4")
    few = part(recording, np.arange(0, len(recording), 3))
    fitted = identify_displaced(robot_with(ANGLES, (0.0, 0.0, 0.0)), few, steps=("constant_curvature",), blocks=2)
    labels = ["rep1_tendon3_id9_pull", "rep2_pair12_opp_dir60_hold", "pair12_opp_dir120", "still"]
    labelled = replace(few, labels=tuple(labels[k % 4] for k in range(len(few))))
    by_pattern = replace(fitted, recording=labelled).pattern_errors()
    assert list(by_pattern) == ["tendon_pull", "pair12_opp", "still"]
    squares = sum(count * rmse_m**2 for count, rmse_m in by_pattern.values())
    assert sum(count for count, _ in by_pattern.values()) == few.seen.sum()
    assert np.sqrt(squares / few.seen.sum()) == pytest.approx(fitted.steps[-1].held_out_rmse_m)
    exact = replace(fitted, robot=true_robot())
    written = write_fitted_robot(robot, exact, tmp_path / "fitted.yaml")
    assert written.displaced_tendons.friction_fraction == (SHARE,) * 9
    assert not any("angle_offset" in key for key in written.assumed)
    yielding = tuple(
        replace(one, basis=one.basis.extended, backbone=replace(one.backbone, axial_stiffness_n=3e5))
        for one in true_robot().segments
    )
    soft = replace(fitted, robot=true_robot().changed(segments=yielding))
    assert write_fitted_robot(robot, soft, tmp_path / "soft.yaml").segments == yielding
    lines = ["timestamp,pattern_label," + ",".join(COLUMNS) + ",tip_x,tip_y,tip_z"]
    for time, label, reading, marker in zip(
        recording.time_s, recording.labels, recording.displacement_m, recording.marker_m, strict=True
    ):
        lines.append(",".join([f"{time}", label, *(f"{1e3 * value:.9f}" for value in (*reading, *marker))]))
    data = tmp_path / "val.csv"
    data.write_text("\n".join(lines) + "\n", encoding="utf-8")
    experiment = experiments()["ftdcr.validate"]
    result = experiment.run({"robot": str(tmp_path / "fitted.yaml"), "data": str(data)})
    assert result["tip_rmse_mm"] == pytest.approx(0.2 * math.sqrt(3), rel=0.15)
    assert result["n_samples"] == len(recording)
    assert result["tip_rmse_constant_curvature_mm"] > result["tip_rmse_statics_mm"] > result["tip_rmse_friction_mm"]
    assert result["gain_of_friction_mm"] > 0
    json.dumps(result)
    assert [file.is_file() for file in experiment.draw(result, tmp_path)] == [True]


def test_a_block_that_is_left_out_is_judged_by_a_fit_that_knows_nothing_of_it():
    """Markers of the first block that are 5 mm off change what is fitted to all, and nothing of what is predicted."""
    whole = recorded(np.random.default_rng(8))
    right = part(whole, np.arange(0, len(whole), 3))
    first = blocks_of(right.labels, 2) == 0
    wrong = replace(right, marker_m=right.marker_m + np.where(first[:, None], [0.0, 0.005, 0.0], 0.0))
    start = robot_with((0.2, 0.7, 1.2), (0.0, 0.0, 0.0))
    fits = [identify_displaced(start, one, steps=("constant_curvature",), blocks=2) for one in (right, wrong)]
    assert fits[1].steps[0].train_rmse_m > 1.1 * fits[0].steps[0].train_rmse_m
    one, other = ((fit.held_out_m + fit.recording.marker_m)[first] for fit in fits)
    assert np.abs(one - other).max() < 2e-4


def test_blocks_are_contiguous_and_cut_at_changes():
    labels = tuple(f"p{i // 7}" + ("_hold" if i % 7 == 3 else "") for i in range(70))
    block = blocks_of(labels, 5)
    assert np.all(np.diff(block) >= 0)
    assert set(block) == set(range(5))
    cuts = np.flatnonzero(np.diff(block)) + 1
    assert all(cut % 7 == 0 for cut in cuts)
    assert np.bincount(blocks_of(("one",) * 50, 5)).tolist() == [10] * 5


def test_repeatability_of_known_noise():
    rng = np.random.default_rng(2)
    displacement = np.tile(3e-3 * rng.normal(size=(60, 9)), (2, 1))
    model = displacement[:, :3]
    recording = replace(
        recorded(rng),
        time_s=5.0 * np.arange(120.0),
        labels=("a",) * 120,
        displacement_m=displacement,
        marker_m=model + 1e-3 * rng.normal(size=(120, 3)),
    )
    found = repeatability(recording, model)
    assert found.pairs == 60
    assert found.floor_m == pytest.approx(1e-3 * math.sqrt(3), rel=0.2)
    assert found.difference_m == pytest.approx(found.floor_m * math.sqrt(2))
    assert math.isnan(found.later_floor_m)  # no pair is more than 300 s apart
    # The second half in another order, and all of it creeps: the later the pair, the further apart.
    order = np.append(np.arange(60), 60 + rng.permutation(60))
    crept = np.array([4e-5, 0.0, 0.0]) * recording.time_s[:, None]
    other = replace(recording, displacement_m=displacement[order], marker_m=recording.marker_m[order] + crept)
    creeps = repeatability(other, model[order])
    assert creeps.pairs == 60
    assert creeps.later_floor_m > 1.2 * creeps.floor_m
    assert repeatability(replace(recording, time_s=np.zeros(120)), model).numbers()["repeatability_floor_mm"] is None


def test_what_cannot_be_identified_is_named():
    recording = recorded(np.random.default_rng(1))
    robot = robot_with(ANGLES, (0.0, 0.0, 0.0))
    with pytest.raises(RecordingError, match="20 samples with a marker"):
        identify_displaced(robot, part(recording, np.arange(20)))
    still = recording.displacement_m.copy()
    still[:, 4] = 0
    with pytest.raises(RecordingError, match="servo_5_mm never moves: angle, zero and stiffness"):
        identify_displaced(robot, replace(recording, displacement_m=still))
    with pytest.raises(RecordingError, match="time goes back after sample 10"):
        identify_displaced(robot, replace(recording, time_s=np.where(np.arange(len(recording)) < 10, 1e6, 0.0)))
    with pytest.raises(RecordingError, match="pulled alone"):
        identify_displaced(load_robot("ftdcr_v4"), recording)
    with pytest.raises(ParameterError, match="in this order"):
        identify_displaced(robot, recording, steps=("friction",))
    with pytest.raises(ParameterError, match="blocks"):
        identify_displaced(robot, recording, blocks=1)
    with pytest.raises(RobotFileError, match="displaced_tendons"):
        predicted_marker(robot, recording)


@pytest.mark.parametrize(
    ("name", "every", "blocks", "bound_mm"),
    [("v4", 20, 2, 8.0), pytest.param("v6", 4, 5, 12.0, marks=pytest.mark.long)],
)
def test_real_robot_on_a_block_left_out(name: str, every: int, blocks: int, bound_mm: float):
    """Fitted to the first four fifths, thinned; judged on the last fifth, of which the fit saw nothing."""
    recording = read_recording(reference_file("ftdcr", f"ftdcr_{name}_train.csv"))
    last = blocks_of(recording.labels) == 4
    pulled = np.array(["_pull" in label for label in recording.labels])
    kept = ~last & (pulled | (np.arange(len(recording)) % every == 0))
    fit = identify_displaced(
        load_robot(f"ftdcr_{name}"),
        part(recording, np.flatnonzero(kept)),
        steps=("constant_curvature", "statics"),
        blocks=blocks,
    )
    other = part(recording, np.flatnonzero(last))
    error = predicted_marker(fit.robot, other) - other.marker_m
    error -= error.mean(axis=0)
    assert 1e3 * math.sqrt(np.mean(np.sum(error**2, axis=1))) < bound_mm


def test_the_inverse_finds_pulls_that_bring_the_marker_where_it_was_and_no_larger_ones_than_were_missing():
    robot, time_s = true_robot(), np.linspace(0, 20, 200)
    pulled_m = np.stack([0.002 * np.sin(0.7 * time_s * (1 + 0.1 * k) + k) for k in range(9)], axis=1)
    missing_m = 3e-4 * np.stack([np.sin(0.3 * time_s + k) for k in range(9)], axis=1)
    place = robot.recording
    statics = DisplacedStatics(robot)
    before, marker = (
        statics.replay(pull, point_m=place.marker_in_tip_m).point for pull in (pulled_m, pulled_m + missing_m)
    )
    counted = np.arange(200) % 7 != 3
    marker[~counted] = np.nan
    found = missing_pull(robot, pulled_m, marker, counted)
    np.testing.assert_array_equal(np.isfinite(found.pull_m).all(axis=1), counted)
    size = np.sqrt(np.mean(np.sum((before - marker)[counted] ** 2, axis=1)))
    assert found.left_rmse_m < 0.1 * size
    assert 0.2 * np.sqrt(np.mean(missing_m**2)) < found.rmse_m < np.sqrt(np.mean(missing_m**2))


def test_a_model_that_is_right_misses_no_pull():
    robot, time_s = true_robot(), np.linspace(0, 20, 100)
    pulled_m = np.stack([0.002 * np.sin(0.7 * time_s + k) for k in range(9)], axis=1)
    marker = DisplacedStatics(robot).replay(pulled_m, point_m=robot.recording.marker_in_tip_m).point
    # Nor does the offset of a tracker that stands elsewhere count.
    found = missing_pull(robot, pulled_m, marker + np.array([0.01, 0.02, 0.0]), np.ones(100, dtype=bool))
    assert found.rmse_m < 1e-9
    with pytest.raises(RobotFileError, match="identify"):
        missing_pull(load_robot("ftdcr_v4"), pulled_m, marker, np.ones(100, dtype=bool))
    with pytest.raises(ParameterError, match="at least one sample"):
        missing_pull(robot, pulled_m, marker, np.zeros(100, dtype=bool))
