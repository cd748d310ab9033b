# SPDX-License-Identifier: Apache-2.0
import json
import math

import numpy as np
import pytest
from paper_runs import drawn, run

from continuum_robot.errors import ParameterError, RecordingError
from continuum_robot.experiments.experiment import experiments
from continuum_robot.experiments.rucker.prototype import TABLE_II, prototype, prototype_robot

LENGTH_M = prototype_robot().length_m


def test_the_cases_are_those_of_table_2():
    assert len(TABLE_II) == len(set(TABLE_II)) == 37
    assert [sum(case.tendon in tendons for case in TABLE_II) for tendons in ((1, 2, 3, 4), (5,), (6,))] == [25, 7, 5]
    assert sum(case.tension_n == 0 for case in TABLE_II) == 1
    # 13 in the plane of weight and 12 across it, as Table IV counts them.
    assert [sum(case.tendon in tendons for case in TABLE_II) for tendons in ((1, 3), (2, 4))] == [13, 12]


def test_the_polynomial_tendon_begins_and_ends_on_top_and_runs_on_the_right():
    """What the paper states of (28)."""
    (path,) = prototype(6, 0).tendon_paths
    x, y, _, _ = path.at(np.array([0.0, LENGTH_M / 2, LENGTH_M]))
    assert x[0] == pytest.approx(0.008)
    assert y[0] == 0
    assert y[1] > 0.006
    assert x[2] > 0.006


def test_every_case_converges_and_the_solvers_agree_the_more_the_higher_the_order(tmp_path):
    experiment = experiments()["rucker.table2"]
    result = experiment.run({"highest_order": 5})
    assert result["n_cases"] == result["n_converged"] == result["n_stable"] == 37
    assert result["high_tension_converged"]
    assert result["max_difference_percent_of_length"] < 0.01
    assert result["max_integration_error_mm"] < 1e-5
    assert len(result["tip_m"]) == 39
    assert 15 < result["high_tension_models_differ_percent_of_length"] < 30
    assert result["problems"] == []
    json.dumps(result, allow_nan=False)
    errors = result["max_difference_percent_of_length_by_order"]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < errors[0] / 50
    assert len(experiment.draw(result, tmp_path)) == 3
    assert all(file.is_file() for file in tmp_path.iterdir())


def test_models_differ_out_of_plane_alone(tmp_path):
    result = run("rucker.fig1")
    for name in ("without_force", "in_plane_towards_tendon", "in_plane_away"):
        assert result[f"models_differ_percent_of_length_{name}"] < 0.01
    assert result["models_differ_percent_of_length_out_of_plane"] > 15
    for name, tips in result["tip_m"].items():
        assert tips["coupled"] == pytest.approx(tips["coupled_energy"], abs=1e-4 * LENGTH_M), name
    assert drawn("rucker.fig1", result, tmp_path)


def test_the_sag_is_the_measured_one(tmp_path):
    result = run("rucker.sag")
    assert result["sag_mm_calibrated_modulus"] == pytest.approx(44, abs=2)
    assert result["sag_mm_calibrated_modulus"] == pytest.approx(result["sag_mm_calibrated_modulus_energy"], abs=1e-3)
    assert result["sag_mm_calibrated_modulus"] < result["sag_mm_calibrated_modulus_small_deflection"]
    assert 210 < result["modulus_gpa_that_sags_as_measured"] < 229.6
    assert drawn("rucker.sag", result, tmp_path)


def three_segments() -> dict[str, object]:
    """One tendon of the first segment alone bends it to a circle, which the others go on from straight."""
    robot = {
        "L": [0.1, 0.08, 0.06],
        "E": 54e9,
        "nu": 0.3,
        "backbone_radius": 7e-4,
        "pitch_radius": [0.01, 0.009, 0.008],
    }
    tension = 3.0
    bending, area = 54e9 * math.pi / 4 * 7e-4**4, math.pi * 7e-4**2
    turn, stretch = tension * 0.01 * 0.1 / bending, 1 - tension / (54e9 * area)
    radius = 0.1 * stretch / turn
    y, z = radius * (1 - math.cos(turn)) + 0.14 * math.sin(turn), radius * math.sin(turn) + 0.14 * math.cos(turn)
    case = {
        "robot": "three",
        "tension_N": [tension, *[0] * 8],
        "tip_force_base_frame_N": [0, 0, 0],
        "tip_moment_base_frame_Nm": [0, 0, 0],
        "tip_m": [0, y, z],
        "R_tip": [[1, 0, 0], [0, math.cos(turn), math.sin(turn)], [0, -math.sin(turn), math.cos(turn)]],
    }
    return {"robots": {"three": robot}, "cases": [case]}


def test_a_file_of_cases_is_met(tmp_path):
    file = tmp_path / "cases.json"
    file.write_text(json.dumps(three_segments()))
    experiment = experiments()["cosserat.two_segment"]
    result = experiment.run({"data": str(file), "order": 4})
    assert result["n_cases"] == result["n_converged"] == result["n_converged_energy"] == 1
    assert result["max_tip_error_mm"] < 1e-5
    assert result["max_tip_error_mm_energy"] < 1e-5
    assert result["max_tip_rotation_error_deg"] < 1e-6
    assert experiment.draw(result, tmp_path)[0].is_file()


def test_a_file_of_cases_that_is_not_one_is_refused(tmp_path):
    experiment = experiments()["cosserat.two_segment"]
    with pytest.raises(RecordingError, match="cannot be read"):
        experiment.run({"data": str(tmp_path / "none.json")})
    spoiled = []
    for key, value in (("tension_N", [1.0]), ("tension_N", [-1.0] * 9), ("tip_m", None), ("robot", "other")):
        content = three_segments()
        content["cases"][0][key] = value
        spoiled.append(json.dumps(content))
    for key, value in (("L", [0.1]), ("E", "stiff"), ("backbone_radius", -1e-3)):
        content = three_segments()
        content["robots"]["three"][key] = value
        spoiled.append(json.dumps(content))
    for text in ("{", "[]", "{}", *spoiled):
        file = tmp_path / "bad.json"
        file.write_text(text)
        with pytest.raises((RecordingError, ParameterError)):
            experiment.run({"data": str(file)})


def test_a_step_of_the_helical_tendon_moves_the_rod_as_a_chain_of_cross_sections():
    """Against finite differences of rucker (21)-(27) on 64 cross-sections, 20 steps a ms: another engine, now gone."""
    chain_m = [
        [0.0, 0.0, 0.242],
        [0.001920, -0.008499, 0.239055],
        [-0.002861, -0.015697, 0.231631],
        [-0.010071, -0.018653, 0.224327],
        [-0.015943, -0.017156, 0.220024],
        [-0.030226, -0.010935, 0.215157],
    ]
    result = experiments()["rucker.helical_step"].run({"duration_ms": 5})
    apart_m = np.linalg.norm(np.array(list(result["tip_m"].values())) - chain_m, axis=1)
    assert apart_m.mean() < 0.005 * LENGTH_M
    assert apart_m.max() < 0.01 * LENGTH_M
    assert result["energy_change_percent_of_kinetic"] < 0.03


@pytest.mark.long
def test_a_step_of_the_helical_tendon_keeps_its_energy(tmp_path):
    experiment = experiments()["rucker.helical_step"]
    coarse = {"duration_ms": 3, "order": 4, "steps_per_ms": 200}
    result = experiment.run(coarse)
    assert list(result["tip_m"]) == [f"{k} ms" for k in range(4)]
    assert result["tip_m"]["0 ms"] == pytest.approx([0, 0, LENGTH_M])
    moved = np.linalg.norm(np.array(result["tip_m"]["3 ms"]) - [0, 0, LENGTH_M])
    assert moved > 0.02
    assert result["max_basis_difference_percent_of_length"] < 15
    assert result["energy_change_percent_of_kinetic"] < 0.5
    assert result["shortest_step_us"] == pytest.approx(5.0)
    assert all(file.is_file() for file in experiment.draw(result, tmp_path))
    # Twelve times the mass moves less in that time.
    heavy = experiment.run(coarse | {"inertia": "prototype"})
    assert np.linalg.norm(np.array(heavy["tip_m"]["3 ms"]) - [0, 0, LENGTH_M]) < moved
