# SPDX-License-Identifier: Apache-2.0
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml
from recorded_robot import tendon_pull_rows, write_csv
from reference_data import reference_file

from continuum_robot.errors import ParameterError, RecordingError, RobotFileError
from continuum_robot.identification.geometry_fit import identify_geometry
from continuum_robot.identification.recordings import read_recording
from continuum_robot.identification.replay import agreement, replay
from continuum_robot.identification.robot_file import write_fitted_robot
from continuum_robot.robot.loading import load_robot, parse_robot

OFFSETS_RAD = np.radians([-170.0, -137.0, -101.0])
MARKER_M = np.array([0.004, -0.003, 0.006])
TILT_RAD = np.array([0.02, -0.03, 0.0])
COLUMNS = [f"servo_{number}_mm" for number in (4, 12, 9, 5, 2, 8, 6, 1, 7)]  # in tendon order


def recording(tmp_path, seed=1, signs=None, noise_m=0.0, response=1.0, shuffle=True):
    """A tendon_pull file whose columns and pulls come in a random order."""
    rng = np.random.default_rng(seed)
    signs = np.ones(9) if signs is None else signs
    rows = tendon_pull_rows(
        OFFSETS_RAD, COLUMNS, signs, rng, marker=MARKER_M, tilt=TILT_RAD, response=response, noise_m=noise_m
    )
    columns = list(rng.permutation(COLUMNS)) if shuffle else COLUMNS
    return write_csv(tmp_path / "pull.csv", columns, rows)


def same_up_to_numbering(fit):
    """Tendons of a segment can be numbered from any of them: columns by angle, from the known first."""
    for segment in range(3):
        found = fit.recording.displacement_columns[3 * segment : 3 * segment + 3]
        known = COLUMNS[3 * segment : 3 * segment + 3]
        shift = known.index(found[0])
        assert list(found) == known[shift:] + known[:shift]
        error = fit.angle_offsets_rad[segment] - OFFSETS_RAD[segment] - 2 * np.pi * shift / 3
        yield float(np.angle(np.exp(1j * error)))


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """Fit of the first recording, and the lines that it said."""
    lines = []
    return identify_geometry(load_robot("ftdcr_v4"), recording(tmp_path_factory.mktemp("pull")), lines.append), lines


@pytest.mark.parametrize("seed", [1, 2])
def test_finds_a_known_robot_exactly(tmp_path, seed, found):
    fit = found[0] if seed == 1 else identify_geometry(load_robot("ftdcr_v4"), recording(tmp_path, seed))
    np.testing.assert_allclose(list(same_up_to_numbering(fit)), 0, atol=0.003)
    # Marker, base and tilt share what is observed of them, so each is known only to its stated deviation.
    assert np.all(np.abs(np.array(fit.recording.marker_in_tip_m) - MARKER_M) < fit.marker_deviation_m)
    assert np.all(np.abs(np.array(fit.recording.base_rotation_in_tracker_rad) - TILT_RAD)[:2] < fit.tilt_deviation_rad)
    np.testing.assert_allclose(fit.responses, 1, atol=0.02)
    assert fit.rmse_m < 3e-4
    assert fit.confidence > 3
    assert fit.rmse_m < fit.second_rmse_m


def test_noise_and_weak_response_leave_the_geometry(tmp_path):
    fit = identify_geometry(load_robot("ftdcr_v4"), recording(tmp_path, noise_m=0.002, response=0.8))
    miss = np.array(list(same_up_to_numbering(fit)))
    assert np.abs(miss).max() < 0.05
    assert np.all(np.abs(miss) < 5 * fit.angle_offset_deviations_rad)
    np.testing.assert_allclose(fit.responses, 0.8, atol=0.06)
    assert 0.002 < fit.rmse_m < 0.006


def test_signs_of_single_columns_are_found(tmp_path):
    signs = np.array([1.0, -1, 1, 1, 1, -1, -1, 1, 1])
    fit = identify_geometry(load_robot("ftdcr_v4"), recording(tmp_path, signs=signs))
    found = dict(zip(fit.recording.displacement_columns, fit.recording.displacement_signs, strict=True))
    assert found == dict(zip(COLUMNS, signs, strict=True))
    np.testing.assert_allclose(list(same_up_to_numbering(fit)), 0, atol=0.003)


def test_labels_are_only_compared(tmp_path, found):
    robot = load_robot("ftdcr_v4")
    ordered = identify_geometry(robot, recording(tmp_path, shuffle=False))
    assert ordered.labels_agree is True
    assert found[0].labels_agree is True
    renumbered = recording(tmp_path, shuffle=False)
    text = renumbered.read_text().replace("tendon2_", "tendonx_").replace("tendon7_", "tendon2_")
    renumbered.write_text(text.replace("tendonx_", "tendon7_"), encoding="utf-8")
    assert identify_geometry(robot, renumbered).labels_agree is False
    path = recording(tmp_path, shuffle=False)
    path.write_text(path.read_text().replace("rep1_tendon", "pull of tendon number "), encoding="utf-8")
    unlabelled = identify_geometry(robot, path)
    assert unlabelled.labels_agree is None
    assert unlabelled.recording.displacement_columns == ordered.recording.displacement_columns


def test_numbers_are_flat_json(found):
    fit, lines = found
    numbers = json.loads(json.dumps(fit.numbers()))
    assert numbers["used_samples"] <= numbers["samples"]
    assert len(numbers["angle_offset_deviations_rad"]) == 3
    assert any("1680" in line for line in lines)
    assert fit.covariance.shape == (11, 11)
    assert np.linalg.eigvalsh(fit.covariance).min() > 0


def test_refuses_files_that_are_no_tendon_pull(tmp_path):
    robot = load_robot("ftdcr_v4")
    path = recording(tmp_path)
    lines = path.read_text().splitlines()
    only_one = [line for line in lines if "tendon3" in line]
    short = tmp_path / "short.csv"
    short.write_text("\n".join([lines[0], *only_one]), encoding="utf-8")
    with pytest.raises(RecordingError, match="pulled alone in"):
        identify_geometry(robot, short)
    with pytest.raises(RecordingError, match=r"9 columns .* 10 tendons"):
        identify_geometry(load_robot("two_segment"), path)
    first, *others = robot.segments
    uneven = replace(first.tendons, angle_offset_rad=0.0, uneven_angles_rad=(0.0, 1.8, 4.0))
    with pytest.raises(ParameterError, match="equal angles"):
        identify_geometry(robot.changed(segments=(replace(first, tendons=uneven), *others)), path)
    swapped = tmp_path / "swapped.csv"
    swapped.write_text(path.read_text().replace("_id", "_id9"), encoding="utf-8")
    with pytest.raises(RecordingError, match="disagree"):
        identify_geometry(robot, swapped)


def test_marker_that_does_not_move_is_named(tmp_path):
    path = recording(tmp_path)
    rows = [line.split(",") for line in path.read_text().splitlines()]
    still = [row[:-3] + (rows[1][-3:] if "tendon7" in row[1] else row[-3:]) for row in rows]
    path.write_text("\n".join(",".join(row) for row in still), encoding="utf-8")
    with pytest.raises(RecordingError, match="servo_1_mm does not move"):
        identify_geometry(load_robot("ftdcr_v4"), path)


def test_written_file_reads_back_and_keeps_the_other_keys(tmp_path, found):
    robot, fit = load_robot("ftdcr_v4"), found[0]
    out = tmp_path / "deep" / "fitted.yaml"
    fitted = write_fitted_robot(robot, fit, out)
    assert fitted == load_robot(out)
    assert fitted.recording == fit.recording
    assert fitted.provenance == (fit.provenance,)
    assert fit.provenance.data == "pull.csv"
    before, after = (yaml.safe_load(Path(file).read_text(encoding="utf-8")) for file in (robot.file_name, out))
    for segment, angle in zip(after["segments"], fit.angle_offsets_rad, strict=True):
        assert segment["tendons"].pop("angle_offset_rad") == pytest.approx(angle)
    for segment in before["segments"]:
        segment["tendons"].pop("angle_offset_rad", None)
    dropped = {f"segments[{index}].tendons.angle_offset_rad" for index in range(3)}
    assert set(before.pop("assumed")) - set(after.pop("assumed")) == dropped
    after.pop("recording")
    after.pop("provenance")
    assert before == after
    assert not list(out.parent.glob(".*partial"))
    again = write_fitted_robot(fitted, fit, out)
    assert again == fitted


def test_writes_a_robot_that_came_from_no_file(tmp_path, found):
    robot = load_robot("ftdcr_v4")
    text = Path(robot.file_name).read_text(encoding="utf-8")
    nowhere = parse_robot(text)
    fitted = write_fitted_robot(nowhere, found[0], tmp_path / "fitted.yaml")
    assert fitted.segments[1].length_m == robot.segments[1].length_m


def test_writing_where_it_cannot_or_another_robot_is_an_error(tmp_path, found):
    robot, fit = load_robot("ftdcr_v4"), found[0]
    (tmp_path / "file").write_text("")
    with pytest.raises(RobotFileError, match="can be written"):
        write_fitted_robot(robot, fit, tmp_path / "file" / "fitted.yaml")
    with pytest.raises(RobotFileError, match="one a segment of two_segment"):
        write_fitted_robot(load_robot("two_segment"), fit, tmp_path / "fitted.yaml")


@pytest.mark.parametrize(("robot_name", "limit_mm"), [("ftdcr_v4", 12.0), ("ftdcr_v6", 16.0)])
def test_real_robots_fit_on_pulls_and_hold_on_other_motions(tmp_path, robot_name, limit_mm):
    """The motions of the train file are not in the fit; its rows of tendon pulls are left out here."""
    pull = reference_file("ftdcr", f"{robot_name}_tendon_pull.csv")
    train = reference_file("ftdcr", f"{robot_name}_train.csv")
    robot = load_robot(robot_name)
    fit = identify_geometry(robot, pull)
    assert fit.labels_agree is True
    assert set(fit.recording.displacement_signs) == {1.0}
    assert fit.rmse_m < 0.007
    turns = np.degrees(np.diff(fit.angle_offsets_rad))
    np.testing.assert_allclose(turns, 30, atol=6)  # as the recorded controller's own displacements show
    fitted = write_fitted_robot(robot, fit, tmp_path / "fitted.yaml")
    lines = train.read_text().splitlines()
    motions = tmp_path / "motions.csv"
    motions.write_text("\n".join(line for line in lines if "_tendon" not in line), encoding="utf-8")
    numbers = agreement(replay(fitted, read_recording(motions)))
    assert numbers["tip_rmse_mm"] < limit_mm
    assert numbers["n_samples"] == len(motions.read_text().splitlines()) - 1
