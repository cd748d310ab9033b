# SPDX-License-Identifier: Apache-2.0
"""The experiments beyond the papers, small: what they measure is there, and the robot answers as it should."""

from __future__ import annotations

import numpy as np
import pytest
from pictures import shows_something

from continuum_robot.experiments.experiment import experiments
from validation.contact.reaction import STRATEGIES


@pytest.mark.long
def test_a_wall_is_detected_and_every_answer_takes_most_of_the_force_away(tmp_path):
    experiment = experiments()["contact.reaction"]
    options = {"plant": "rod", "locations": "1.0", "speeds_m_per_s": "0.04", "stiffnesses_n_per_m": "2000"}
    result = experiment.run(options, lambda _text: None)
    assert result["not_detected"] == 0
    assert 0 < result["detected_s"] < 0.2
    for strategy in STRATEGIES[1:]:
        assert 0 < result[f"peak_force_ratio_{strategy}"] < 0.5
    assert result["given_up_m_retract"] > result["given_up_m_comply"]
    (file,) = experiment.draw(result, tmp_path)
    assert shows_something(file)


@pytest.mark.long
def test_a_tracker_brings_the_tip_of_a_robot_that_is_off_to_its_path(tmp_path):
    experiment = experiments()["tip.tracking"]
    options = {"rounds": "1", "learning_rounds": "1", "period_s": "6", "compensate": "false", "outage_s": "0.5"}
    result = experiment.run(options, lambda _text: None)
    assert result["rmse_ratio"] < 0.4
    assert result["rmse_with_m"] < 2e-3 < result["rmse_without_m"]
    # A single segment's tip is on a surface: there the path is too.
    assert result["rmse_off_with_m"] < 1e-4
    (file,) = experiment.draw(result, tmp_path)
    assert shows_something(file)


@pytest.mark.long  # nine contacts, a minute
def test_contacts_are_taken_for_what_they_are(tmp_path):
    experiment = experiments()["contact.kinds"]
    result = experiment.run({"plants": "rod", "speeds_m_per_s": "0.02", "pushes_n": "7"}, lambda _text: None)
    assert result["right_rod"] == result["cases"] == 9
    assert result["told_tip_blocked_rod"] == ["tip_blocked"]
    (file,) = experiment.draw(result, tmp_path)
    assert shows_something(file)


@pytest.mark.long
def test_two_pushes_on_one_segment_are_several_and_not_located(tmp_path):
    experiment = experiments()["contact.pair"]
    options = {"robots": "vanderbilt_segment", "plants": "rod", "lower": "0.4"}
    result = experiment.run(options, lambda _text: None)
    assert result["cases"] == 3
    assert result["reported_vanderbilt_segment_rod"] >= 1
    assert sum(result["located_vanderbilt_segment_rod"]) <= 1
    (file,) = experiment.draw(result, tmp_path)
    assert shows_something(file)


@pytest.mark.long  # two segments, a minute and a half
def test_motion_shows_the_segment_that_a_wall_touches(tmp_path):
    experiment = experiments()["contact.screw"]
    options = {"plants": "rod", "fractions": "0.95", "duration_s": "4"}
    result = experiment.run(options, lambda _text: None)
    assert result["right_by_screw_percent_rod"][0] > 90
    assert result["false_by_screw_percent_rod"] < 20
    free, touched = np.array(result["free_deviations_rod"]), np.array(result["deviations_rod"])
    assert free.max() < 0.15 < touched[1]
    (file,) = experiment.draw(result, tmp_path)
    assert shows_something(file)


@pytest.mark.long
def test_a_robot_unlike_its_file_is_identified_and_followed_better(tmp_path):
    experiment = experiments()["drive.identification"]
    options = {"seeds": "1", "mujoco_seeds": "0", "circled": "1", "duration_s": "20"}
    result = experiment.run(options, lambda _text: None)
    assert result["fraction_within_rod"] >= 7 / 8
    assert result["circle_rmse_mm_found"][0] < 0.85 * result["circle_rmse_mm_file"][0]
    (file,) = experiment.draw(result, tmp_path)
    assert shows_something(file)


@pytest.mark.long
@pytest.mark.parametrize(("robot", "count"), [("vanderbilt_segment", 7), ("vanderbilt_two_segment", 14)])
def test_a_robot_with_capstans_unlike_its_file_is_identified(tmp_path, robot, count):
    experiment = experiments()["drive.capstans"]
    result = experiment.run({"seeds": "1", "robot": robot}, lambda _text: None)
    assert result["fraction_within_rod"] >= 6 / 7
    assert result["shown_rod"] == [1] * count
    (file,) = experiment.draw(result, tmp_path)
    assert shows_something(file)
