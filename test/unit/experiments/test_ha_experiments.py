# SPDX-License-Identifier: Apache-2.0
import json

import numpy as np
import pytest
from paper_runs import drawn, run
from reference_data import reference_file

from continuum_robot.errors import ParameterError


def test_solve_speaks_the_conventions_of_the_reference_data():
    for case in json.loads(reference_file("ha", "five_link.json").read_text())["cases"]:
        result = run("ha.solve", case=json.dumps(case))
        assert result["converged"]
        assert result["residual"] < 1e-12
        error = np.abs(np.array(result["link_pose_x_y_theta"]) - case["link_pose_x_y_theta"])
        assert error[:, :2].max() < 0.05
        assert error[:, 2].max() < 5e-4
        np.testing.assert_allclose(result["s_contact"], case["s_contact"], atol=1e-3)
        np.testing.assert_allclose(result["tendon_len_l_r"], case["tendon_len_l_r"], atol=0.01)


def test_solve_takes_loads_lengths_and_friction(tmp_path):
    loaded = run("ha.solve", case='{"tau_l":6,"tau_r":3,"f_ext_x_on_link5":1.0,"m_ext_on_link3_body":2}')
    assert loaded["converged"]
    assert drawn("ha.solve", loaded, tmp_path)
    lengths = json.dumps(
        {"tendon_len_l_r": loaded["tendon_len_l_r"], "f_ext_x_on_link5": 1.0, "m_ext_on_link3_body": 2}
    )
    back = run("ha.solve", case=lengths)
    np.testing.assert_allclose(back["link_pose_x_y_theta"], loaded["link_pose_x_y_theta"], atol=1e-3)
    rough = run("ha.solve", case='{"tau_l":6,"tau_r":3,"friction":0.1,"direction_l_r":[1,-1]}')
    smooth = run("ha.solve", case='{"tau_l":6,"tau_r":3}')
    assert rough["link_pose_x_y_theta"][-1][2] < smooth["link_pose_x_y_theta"][-1][2]


def test_a_case_without_equilibrium_says_so(tmp_path):
    result = run("ha.solve", case='{"tau_l":1,"tau_r":1,"f_ext_x_on_link5":1.0}')
    assert result["converged"] is False
    assert "end of its surface" in result["problem"]
    assert drawn("ha.solve", result, tmp_path)


@pytest.mark.parametrize(
    "case",
    [
        "[]",
        "{",
        "{}",
        '{"tau_l":1}',
        '{"tau_l":1,"tau_r":"x"}',
        '{"tau_l":-1,"tau_r":1}',
        '{"tau_l":1,"tau_r":1,"f_ext_x_on_link6":1}',
        '{"tau_l":1,"tau_r":1,"f_ext_on_link5":1}',
        '{"tau_l":1,"tau_r":1,"pull":1}',
        '{"tendon_len_l_r":[1]}',
        '{"tendon_len_l_r":"x"}',
    ],
)
def test_impossible_cases_are_refused(case):
    with pytest.raises(ParameterError):
        run("ha.solve", case=case)


def test_figures_3_and_4(tmp_path):
    unloaded = run("ha.unloaded")
    assert unloaded["configurations_identical_when_raised"]
    assert unloaded["leans_right_with_right_tension"]
    assert drawn("ha.unloaded", unloaded, tmp_path)
    loaded = run("ha.loaded")
    assert loaded["bends_right_with_pull"]
    assert len(loaded["pull"]) == 4
    assert drawn("ha.loaded", loaded, tmp_path)


def test_predictions_for_the_papers_experiments(tmp_path):
    result = run("ha.experiments")
    assert drawn("ha.experiments", result, tmp_path)
    # The last link ends where the figures show it, within what the paper itself misses by.
    for key in ("1_1", "1_2", "1_3", "2_1", "3_1"):
        assert result[f"unloaded_{key}_predictions_apart_mm"] < 3.74 + 2.19
        assert result[f"unloaded_{key}_length_residual_mm"] < 1.5
    for pull in ("0.5", "1", "1.5"):
        assert result[f"loaded_{pull}_round_trip_from_own_lengths_mm"] < 1e-3
    assert 0.02 < result["friction_coefficient"] < 0.4
    assert result["friction_mean_with_mm"] < result["friction_mean_without_mm"]


def test_random_cases_leave_none_undecided(tmp_path):
    result = run("ha.robustness", cases=12, count_all=False)
    for kind in ("unloaded", "loaded"):
        assert result[f"{kind}_solved"] + result[f"{kind}_none_found"] == 12
        assert result[f"{kind}_published_only"] == 0
    assert result["unloaded_solved"] == 12
    assert drawn("ha.robustness", result, tmp_path)
