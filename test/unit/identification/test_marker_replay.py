# SPDX-License-Identifier: Apache-2.0
import dataclasses

import numpy as np
import pytest
from recorded_robot import LENGTHS_M, RADIUS_M, marker_by_small_steps, write_csv

from continuum_robot.errors import ParameterError, RecordingError
from continuum_robot.identification.recordings import read_recording
from continuum_robot.identification.replay import agreement, marker_errors, marker_in_tracker, replay, rmse_m, tip_poses
from continuum_robot.robot.coordinates import clarke_manifold
from continuum_robot.robot.file.recording import Recording
from continuum_robot.robot.loading import load_robot

COLUMNS = tuple(f"servo_{index}_mm" for index in range(1, 10))
PLACE = Recording(
    displacement_columns=COLUMNS,
    displacement_signs=(1.0,) * 9,
    marker_in_tip_m=(0.004, -0.002, 0.006),
    base_in_tracker_m=(0.1, 0.2, -0.3),
    base_rotation_in_tracker_rad=(0.05, -0.04, 0.3),
)
ROBOT = dataclasses.replace(load_robot("ftdcr_v4"), recording=PLACE)


def recording_of(tmp_path, clarke, marker_mm):
    displacement = clarke_manifold(ROBOT).displacement(clarke)
    rows = [
        ("motion", dict(zip(COLUMNS, 1e3 * q, strict=True)), marker)
        for q, marker in zip(displacement, marker_mm, strict=True)
    ]
    return read_recording(write_csv(tmp_path / "motion.csv", COLUMNS, rows))


def motions(count=12):
    return 0.005 * np.random.default_rng(3).uniform(-1, 1, size=(count, 6))


def measured_mm(clarke):
    bending = clarke.reshape(-1, 3, 2) / RADIUS_M
    return 1e3 * np.array(
        [
            marker_by_small_steps(
                one, PLACE.marker_in_tip_m, PLACE.base_in_tracker_m, PLACE.base_rotation_in_tracker_rad
            )
            for one in bending
        ]
    )


def test_prediction_agrees_with_integration_along_the_backbone(tmp_path):
    clarke = motions()
    result = replay(ROBOT, recording_of(tmp_path, clarke, measured_mm(clarke)))
    np.testing.assert_allclose(result.predicted_marker_m, result.recording.marker_m, atol=2e-6)
    np.testing.assert_allclose(result.clarke, clarke, atol=2e-9)
    numbers = agreement(result)
    assert numbers["tip_rmse_mm"] < 2e-3
    assert numbers["n_samples"] == 12
    assert numbers["n_with_slack"] == 0


def test_mean_offset_is_removed_and_reported(tmp_path):
    clarke = motions()
    shifted = measured_mm(clarke) - [5.0, 0.0, -2.0]
    numbers = agreement(replay(ROBOT, recording_of(tmp_path, clarke, shifted)))
    assert numbers["tip_rmse_mm"] < 2e-3
    assert numbers["mean_offset_x_mm"] == pytest.approx(5.0, abs=1e-2)
    assert numbers["mean_offset_z_mm"] == pytest.approx(-2.0, abs=1e-2)


def test_numbers_of_a_known_error(tmp_path):
    clarke = np.zeros((4, 6))
    errors = np.array([[3, 0, 0], [-3, 0, 0], [0, 4, 0], [0, -4, 0]])
    numbers = agreement(replay(ROBOT, recording_of(tmp_path, clarke, measured_mm(clarke) + errors)))
    assert numbers["tip_rmse_mm"] == pytest.approx(np.sqrt(12.5), abs=1e-3)
    assert numbers["tip_max_mm"] == pytest.approx(4, abs=1e-3)
    assert numbers["tip_rmse_x_mm"] == pytest.approx(np.sqrt(4.5), abs=1e-3)
    assert numbers["tip_spread_mm"] == pytest.approx(numbers["tip_rmse_mm"], abs=1e-3)


def test_lost_markers_are_counted_and_left_out(tmp_path):
    clarke = motions()
    marker = measured_mm(clarke)
    marker[2] = np.nan
    numbers = agreement(replay(ROBOT, recording_of(tmp_path, clarke, marker)))
    assert (numbers["n_samples"], numbers["n_without_marker"]) == (11, 1)
    assert numbers["tip_rmse_mm"] < 2e-3
    with pytest.raises(RecordingError, match="never seen"):
        agreement(replay(ROBOT, recording_of(tmp_path, clarke, np.full((12, 3), np.nan))))
    with pytest.raises(ParameterError, match="marker was seen"):
        marker_errors(np.zeros((2, 3)), np.full((2, 3), np.nan))


def test_slack_tendons_are_left_out_or_projected(tmp_path):
    rows = []
    for pulled in (0.0, 1.0, 2.0):
        cells = dict.fromkeys(COLUMNS, -10.0) | {COLUMNS[0]: pulled}
        rows.append(("rep1_tendon0_id1_pull", cells, (0, 0, 0)))
    recording = read_recording(write_csv(tmp_path / "pull.csv", COLUMNS, rows))
    resolved, projected = replay(ROBOT, recording), replay(ROBOT, recording, "project")
    theta = np.linalg.norm(resolved.clarke[:, :2], axis=1) / RADIUS_M
    np.testing.assert_allclose(theta, np.array([0, 1e-3, 2e-3]) / RADIUS_M, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(projected.clarke[2, :2]), 2 / 3 * 0.012, rtol=1e-6)
    manifold = clarke_manifold(ROBOT)
    np.testing.assert_allclose(manifold.inconsistency_m(resolved.path_displacement_m), 0, atol=1e-12)
    assert resolved.slack[:, 1:].all()
    assert not resolved.slack[:, 0].any()
    with pytest.raises(ParameterError, match="slack"):
        replay(ROBOT, recording, "ignore")


def test_marker_frames():
    straight = tip_poses(ROBOT, np.zeros(6))
    np.testing.assert_allclose(straight[:3, 3], [0, 0, sum(LENGTHS_M)], atol=1e-12)
    bare = dataclasses.replace(ROBOT, recording=None)
    np.testing.assert_allclose(marker_in_tracker(bare, straight), straight[:3, 3])
    assert rmse_m(np.array([[3.0, 4.0, 0.0]])) == pytest.approx(5.0)
