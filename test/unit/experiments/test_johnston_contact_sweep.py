# SPDX-License-Identifier: Apache-2.0
import json

import numpy as np
import pytest

from continuum_robot.estimation.contact.settings import METHODS
from continuum_robot.experiments.experiment import experiments
from continuum_robot.experiments.johnston.contact_sweep import Recording, score
from continuum_robot.experiments.johnston.sweep_rig import CASES, PLACES_M, Case, cases


def recording(truth, force, statistic):
    time_s = np.arange(len(truth)) * 0.1
    return Recording(
        Case("+x", 3, 108.0),
        time_s,
        np.column_stack([truth, np.zeros(len(truth))]),
        {"kalman_disturbance_observer": np.column_stack([force, np.zeros(len(truth))])},
        {"kalman_disturbance_observer": np.array(statistic)},
        {"kalman_disturbance_observer": np.full(len(truth), 0.15)},
        np.zeros(0, dtype=bool),
        np.zeros((0, 0)),
    )


def test_cases_are_those_of_table_7():
    every = cases(20)
    assert len(every) == 20
    assert [case.arc_length_m for case in every[:5]] == list(PLACES_M)
    assert {case.direction for case in every} == set(CASES)
    assert [case.speed_deg for case in every if case.direction == "-y"] == list(CASES["-y"]) == [180, 144, 108, 72, 36]
    assert len(cases(2)) == 2


def test_score_counts_delay_from_the_touch_and_missed_force_as_error():
    truth = np.array([0.0] * 10 + [5.0] * 10)
    statistic = [0.5] * 14 + [2.0] * 6
    run = recording(truth, truth, statistic)
    found = score(run, "kalman_disturbance_observer")
    assert found.delay_ms == pytest.approx(600)  # two cycles above the threshold come before the third
    assert found.early == 0
    assert found.place_m == 0.15
    assert found.contact_error_n == pytest.approx(5 * np.sqrt(6 / 10))


def test_score_counts_reports_without_contact():
    truth = np.zeros(20)
    statistic = [0.0] * 5 + [2.0] * 5 + [0.0] * 4 + [2.0] * 6
    found = score(recording(truth, truth, statistic), "kalman_disturbance_observer")
    assert found.early == 2
    assert np.isnan(found.delay_ms)
    spike = [0.0] * 5 + [2.0] * 2 + [0.0] * 13
    assert score(recording(truth, truth, spike), "kalman_disturbance_observer").early == 0


@pytest.mark.long  # half a minute; the monitor finds contacts with a wrong model in test_contact_monitor.py too
def test_two_contacts_are_found_with_a_wrong_model():
    result = experiments()["johnston.contact_sweep"].run({"cases": 2})
    json.dumps(result, allow_nan=False)
    for method in METHODS:
        for key in (
            "detection_rate",
            "false_alarms",
            "median_detection_delay_ms",
            "force_rmse_n",
            "arc_length_median_error_percent_of_length",
        ):
            assert f"{method}_{key}" in result
    assert result["kalman_disturbance_observer_detection_rate"] == 1
    assert result["kalman_disturbance_observer_false_alarms"] == 0
    assert result["kalman_disturbance_observer_detection_rate_disks_3_to_5"] == 1
    assert result["kalman_disturbance_observer_force_rmse_n"] < 2.6
    assert result["kalman_disturbance_observer_arc_length_largest_error_disks_3_to_5_percent_of_length"] < 10
    assert result["largest_force_n"] > 15
