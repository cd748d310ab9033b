# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from paper_runs import drawn, run

from continuum_robot.errors import ParameterError


def test_micro_motion_turns_with_a_moment_error_and_not_without(tmp_path):
    result = run("wang.micro_motion")
    assert drawn("wang.micro_motion", result, tmp_path)
    assert result["lambda0_has_turning_point"] is False
    assert result["lambda_linear_has_turning_point"] is True
    turn = result["turning_point_qs_mm"]
    path = np.array(result["lambda_linear_tip_path_um"])
    depth = np.array(result["insertion_mm"])
    # The farthest of the first part of the path lies there.
    farthest = np.argmax(np.linalg.norm(path, axis=1) * (depth < 25))
    assert depth[farthest] == pytest.approx(turn, abs=0.45)
    # Without a moment error the segment straightens all the way: tens of micrometres sideways, and down.
    ideal = np.array(result["lambda0_tip_path_um"])
    assert (np.diff(ideal[:, 0]) < 1e-6).all()
    assert (np.diff(ideal[:, 1]) > -1e-6).all()
    without = run("wang.micro_motion", k_lambda0_nmm=0, k_lambdaq_n=0)
    assert np.isnan(without["turning_point_qs_mm"])
    with pytest.raises(ParameterError, match="deepest_mm"):
        run("wang.micro_motion", deepest_mm=45)


def test_jacobians_are_tangents(tmp_path):
    result = run("wang.jacobians")
    assert drawn("wang.jacobians", result, tmp_path)
    for key in ("macro_configuration", "macro_backbones", "micro_lambda0", "micro_lambda_linear", "identification"):
        assert result[f"{key}_error"] < 1e-8
    assert result["identification_from_tangent_median_deg"] < 10


def test_calibration_recovers_both_parameters(tmp_path):
    result = run("wang.calibration")
    assert drawn("wang.calibration", result, tmp_path)
    for key in ("recovered_k_lambda0_error_percent", "recovered_k_lambdaq_error_percent"):
        assert result[key] < 3
        assert result[f"paper_step_{key}"] < 3
    assert 40 < result["iterations_paper_step"] < 75
    assert result["iterations_lm"] < 8
    # Noise of 2 um on three axes, averaged over ten insertions.
    assert result["rmse_um"] == pytest.approx(2 * np.sqrt(3 / 10), rel=0.05)
    fractions = np.array(result["table3_k_lambda0_1e-2_nmm"][1:5]) / result["table3_k_lambda0_1e-2_nmm"][-1]
    np.testing.assert_allclose(fractions, np.array([4.22, 6.72, 9.06, 9.88]) / 10.24, atol=0.015)


def test_approach_is_drawn(tmp_path):
    result = run("wang.approach", targets=1, duration_s=6)
    assert drawn("wang.approach", result, tmp_path)


def test_rod_engine_agrees_where_the_simple_model_speaks_and_goes_on(tmp_path):
    result = run("wang.rod", samples=7, grid=2)
    assert drawn("wang.rod", result, tmp_path)
    # The simple model stiffens a bend by the secondary backbones' lengths, (r theta / L)^2 / 2 of it.
    assert result["rod_from_simple_percent"] < 1
    assert result["held_has_turning_point"] is True
    own, left, right = result["one_wire_largest_out_of_plane_um"]
    assert own < 1e-6  # the first backbone lies in the plane of bending
    assert left == pytest.approx(right, rel=1e-6)
    assert left > 1
    assert result["all_together_out_of_plane_um"] < 1e-6
