# SPDX-License-Identifier: Apache-2.0
import json
import math

import numpy as np
import pytest
from paper_runs import drawn, run

from continuum_robot.experiments.experiment import experiments
from continuum_robot.experiments.rucker.prototype import TABLE_II, prototype, prototype_robot
from continuum_robot.experiments.rucker.two_solvers import solve_both
from continuum_robot.geometry import so3
from continuum_robot.robot.basis import Basis
from continuum_robot.robot.segments.routing import RoutedPath
from continuum_robot.rod.description import RodDescription, RodSegment

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


def test_a_tendon_of_the_first_of_three_segments_bends_it_to_a_circle():
    """The others go on from its end straight."""
    tension, modulus, radius_m = 3.0, 54e9, 7e-4
    bending, area = modulus * math.pi / 4 * radius_m**4, math.pi * radius_m**2
    shear = modulus / 2.6
    stiffness = (bending, bending, 2 * shear * bending / modulus, shear * area, shear * area, modulus * area)
    basis = Basis(kind="chebyshev", bending_order=4, torsion_order=4, shear_order=4, extension_order=4)
    path = RoutedPath(name="tendon", start_m=0.0, end_m=0.1, pitch_radius_m=0.01, angle_rad=math.pi / 2)
    segments = tuple(RodSegment(length_m=one, basis=basis, stiffness=stiffness) for one in (0.1, 0.08, 0.06))
    answers = solve_both(RodDescription(segments=segments, tendon_paths=(path,), name="three"), np.array([tension]), ())
    turn, stretch = tension * 0.01 * 0.1 / bending, 1 - tension / (modulus * area)
    circle_m = 0.1 * stretch / turn
    y, z = circle_m * (1 - math.cos(turn)) + 0.14 * math.sin(turn), circle_m * math.sin(turn) + 0.14 * math.cos(turn)
    np.testing.assert_allclose(answers.cosserat_tip_m, [0, y, z], atol=1e-8)
    np.testing.assert_allclose(answers.energy_tip_m, [0, y, z], atol=1e-8)
    np.testing.assert_allclose(answers.cosserat.tip_rotation, so3.exp(np.array([-turn, 0, 0])), atol=1e-8)


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
