# SPDX-License-Identifier: Apache-2.0
import dataclasses
import json
import math
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pytest
from pictures import shows_something
from reference_data import reference_file
from scipy.integrate import solve_ivp

from continuum_robot.control.references import Chirp
from continuum_robot.errors import ConvergenceError, ParameterError, RecordingError, RobotFileError
from continuum_robot.experiments.experiment import PAPERS, Figures, Progress, experiment, experiments
from continuum_robot.experiments.muhmann.ideal_robot import GainRule, IdealRobot, Series
from continuum_robot.experiments.muhmann.pid_pd import ripple_m
from continuum_robot.identification.geometry_fit import identify_geometry
from continuum_robot.identification.robot_file import write_fitted_robot
from continuum_robot.robot.control_settings import ControlSettings
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.schema import Quantity
from continuum_robot.rod.inertia import Parts
from continuum_robot.rod.rod import Rod

BARE = Path(__file__).parents[2] / "robots/bare_rod.yaml"

ROOT = Path(__file__).resolve().parents[3]


def is_flat_json(result):
    for key, value in json.loads(json.dumps(result, allow_nan=False)).items():
        values = value if isinstance(value, list) else [value]
        assert all(item is None or isinstance(item, (bool, int, float)) for item in values), key
    return True


def drawn(one, result, folder):
    files = one.draw(result, folder)
    assert files
    return all(shows_something(file) for file in files)


@pytest.fixture(scope="module")
def two_segments():
    return IdealRobot(load_robot("two_segment"))


# --- the registry


def test_registry_names_every_experiment_with_source_and_paper():
    known = experiments()
    assert {"muhmann.energies", "muhmann.coriolis", "muhmann.tracking", "muhmann.pid_pd", "ftdcr.replay"} <= set(known)
    for name, one in known.items():
        assert one.name == name
        assert one.summary.endswith(".")
        assert "\n" not in one.summary
        assert one.source
        # Comparisons with other programs' solutions, and what goes beyond the papers, have no published number.
        assert one.paper or name.partition(".")[0] not in PAPERS
        assert all("default" in text or "required" in text for text in one.options.values())
    assert known["muhmann.tracking"].paper["mean_rmse_reduction_percent"] == 43.3
    assert known["muhmann.pid_pd"].paper["mean_rmse_reduction_percent"] == 37.1
    assert known["ftdcr.replay"].paper["tip_rmse_mm"] == 18.6


@experiment("toy.one", "nowhere")
def toy(
    progress: Progress,
    length_m: Annotated[float, Quantity("how long", "m")],
    count: Annotated[int, Quantity("how many", ge=1, le=5)] = 2,
    fast: Annotated[bool, Quantity("hurry")] = False,
) -> Any:
    """Counts."""

    def draw(figure: Figures) -> None:
        with figure("Toy") as (_, axis):
            axis.plot([0, length_m], [0, count])

    return {"count": count, "fast": fast}, draw


def test_options_may_be_typed_text():
    assert toy.run({"count": "3", "fast": "yes", "length_m": "1e-3"}) == {"count": 3, "fast": True}
    assert toy.run({"fast": "false", "length_m": 2}) == {"count": 2, "fast": False}
    assert toy.options["length_m"] == "how long, m; required"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"length_m": 1, "count": 9}, "toy.one: count.*in \\[1, 5\\]"),
        ({"length_m": 1, "cuont": 1}, "did you mean 'count'"),
        ({}, "toy.one: length_m"),
        ({"length_m": "long"}, "length_m"),
        ({"length_m": 1, "fast": "maybe"}, "true or false"),
    ],
)
def test_wrong_options_are_refused(options, words):
    with pytest.raises(ParameterError, match=words):
        toy.run(options)


def test_drawing_needs_a_run_and_a_folder(tmp_path):
    with pytest.raises(ParameterError, match="which can draw itself"):
        toy.draw({"count": 1}, tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(ParameterError, match="folder"):
        toy.draw(toy.run({"length_m": 1}), tmp_path / "file" / "below")


# --- the closed loop on ideal tension sources


def test_loop_follows_an_adaptive_integrator(two_segments):
    """The same held tensions, cycle by cycle, through the adaptive method with tight tolerances."""
    robot = two_segments
    control = ControlSettings(gains=robot.gains(GainRule(stiffness_ratio=3)), tendon_forces="shift", pretension_n=0.0)
    reference = Chirp(np.array([0.01, 0.005, 0.005, 0.02]), np.array([1.0, 0.5, 1.5, 2.0]), 0.5, 60.0)
    run = robot.run(control, reference, 0.15)
    state, rod = np.zeros(8), robot.rod
    for index in range(150):
        np.testing.assert_allclose(run.clarke_m[index], robot.from_curvature @ state[:4], atol=2e-7)
        held = -rod.lengths(np.zeros(4)).gradient.T @ run.tension_n[index]

        def derivative(_, y, held=held):
            return np.concatenate([y[4:], rod.acceleration(y[:4], y[4:], held)])

        state = solve_ivp(derivative, (0, 1e-3), state, "DOP853", rtol=1e-9, atol=1e-9).y[:, -1]


def test_shift_gives_the_asked_force_and_clip_does_not(two_segments):
    robot = two_segments
    gains = robot.gains(GainRule(stiffness_ratio=3))
    reference = Chirp(np.array([0.01, 0.005, 0.005, 0.02]), np.array([1.0, 0.5, 1.5, 2.0]), 0.5, 60.0)
    runs = {
        method: robot.run(ControlSettings(gains=gains, tendon_forces=method, pretension_n=0.0), reference, 0.3)
        for method in ("shift", "clip")
    }
    for run in runs.values():
        assert run.tension_n.min() >= 0
    np.testing.assert_allclose(runs["shift"].applied_force_n, runs["shift"].generalized_force_n, atol=1e-9)
    miss = np.abs(runs["clip"].applied_force_n - runs["clip"].generalized_force_n).max()
    assert miss > 0.1 * np.abs(runs["clip"].generalized_force_n).max()


def test_gain_rule_is_what_it_says():
    (gains,) = GainRule(stiffness_ratio=10, damping_ratio=0.8, integral_fraction=0.3).gains([290.0], [0.46], [23.0])
    assert gains.p == pytest.approx(2900)
    frequency = math.sqrt(3190 / 0.46)
    assert (gains.d + 23) / (2 * math.sqrt(3190 * 0.46)) == pytest.approx(0.8)
    assert gains.i == pytest.approx(0.3 * 2900 * frequency)
    (overdamped,) = GainRule(damping_ratio=0.01).gains([1.0], [1.0], [50.0])
    assert overdamped.d == 0


def test_spectral_radius_is_the_decay_of_the_simulated_loop(two_segments):
    """Below the ultimate ratio the loop settles as fast as the slowest eigenvalue reports, above it diverges."""
    robot = two_segments
    straight = np.zeros((1, 4))
    gains = robot.gains(GainRule(stiffness_ratio=3, integral_fraction=0.0))
    radius = robot.spectral_radius([dataclasses.replace(one, i=0.0) for one in gains], straight)
    assert radius == pytest.approx(1.0)  # the integral that does nothing
    stable = robot.gains(GainRule(stiffness_ratio=3))
    assert robot.spectral_radius(stable, straight) < 1
    reference = Chirp(np.array([0.002, 0.0, 0.001, 0.0]), np.full(4, 3.0), 0.0, 60.0)
    ultimate = robot.ultimate_ratio(GainRule(), straight)
    beyond = ControlSettings(gains=robot.gains(GainRule(stiffness_ratio=1.5 * ultimate)), pretension_n=0.0)
    with pytest.raises(ConvergenceError, match="unstable"):
        robot.run(beyond, reference, 5.0)
    within = ControlSettings(gains=robot.gains(GainRule(stiffness_ratio=0.5 * ultimate)), pretension_n=0.0)
    assert robot.run(within, reference, 1.0).rmse_m.max() < 1e-3


def test_other_bases_are_refused():
    robot = load_robot("opencr_five_tendon")
    basis = dataclasses.replace(robot.segments[0].basis, kind="chebyshev_bending", order=2)
    bent = dataclasses.replace(robot, segments=(dataclasses.replace(robot.segments[0], basis=basis),))
    with pytest.raises(ParameterError, match="bending of order 0"):
        IdealRobot(bent)


# --- the papers' experiments, short


def test_energies(tmp_path):
    experiment = experiments()["muhmann.energies"]
    lines = []
    result = experiment.run({"dwell_s": "0.3"}, lines.append)
    assert is_flat_json(result)
    # Disks and rod are thin: their turning is less than a hundredth of their moving.
    assert 0 < result["ratio_rotational_to_translational_of_maxima"] < 0.01
    assert result["max_translational_j"] > 1e-4
    assert result["n_samples"] == 900
    assert lines
    assert drawn(experiment, result, tmp_path / "new")
    assert experiment.run({"dwell_s": "0.3"}) == result


def test_rotational_energy_against_disks_by_hand():
    """Straight and turning at theta' = 1: disk k of the segment turns at s_k / l, rod and disks summed by hand."""
    robot = load_robot("opencr_five_tendon")
    still, turning = (Rod(robot, parts=Parts(rotational_energy=one)) for one in (False, True))
    segment = robot.segments[0]
    c_rate = np.array([0.0, 1.0 / segment.length_m])
    rotational_j = (turning.energies(np.zeros(2), c_rate).kinetic_j) - still.energies(np.zeros(2), c_rate).kinetic_j
    fractions = segment.disks.positions_m(segment.length_m) / segment.length_m
    disks = 0.5 * segment.disks.inertia_transverse_kg_m2 * np.sum(fractions**2)
    rod = 0.5 * segment.backbone.density_kg_per_m3 * segment.backbone.second_moment_m4 * segment.length_m / 3
    assert rotational_j == pytest.approx(disks + rod, rel=1e-6)


def test_coriolis(tmp_path):
    experiment = experiments()["muhmann.coriolis"]
    result = experiment.run({"dwell_s": 0.3})
    assert is_flat_json(result)
    assert 0 < result["ratio_coriolis_to_overall_of_maxima"] < 0.05
    assert result["max_overall_re_n"] <= result["max_overall_n"]
    assert drawn(experiment, result, tmp_path)


def test_tracking(tmp_path):
    experiment = experiments()["muhmann.tracking"]
    result = experiment.run({"duration_s": 3, "sweep": "no"})
    assert is_flat_json(result)
    assert len(result["rmse_shift_m"]) == len(result["rmse_clip_m"]) == 4
    assert np.all(np.array(result["rmse_shift_m"]) < np.array(result["rmse_clip_m"]))
    expected = 100 * np.mean(1 - np.array(result["rmse_shift_m"]) / np.array(result["rmse_clip_m"]))
    assert result["mean_rmse_reduction_percent"] == pytest.approx(expected)
    assert result["min_tension_shift_n"] == 0
    assert result["stiffness_ratio"] == pytest.approx(0.5 * result["ultimate_stiffness_ratio"])
    assert not any(key.startswith("sweep") for key in result)
    assert drawn(experiment, result, tmp_path)


def test_tracking_sweep_reports_other_gains():
    result = experiments()["muhmann.tracking"].run({"duration_s": 0.5})
    columns = [key for key in result if key.startswith("sweep_")]
    assert len({len(result[key]) for key in columns}) == 1
    assert 0.0 in result["sweep_integral_fraction"]
    assert result["mean_rmse_reduction_with_file_gains_percent"] == pytest.approx(
        experiments()["muhmann.tracking"].run({"duration_s": 0.5, "gains": "file"})["mean_rmse_reduction_percent"]
    )
    assert is_flat_json(result)


def test_tracking_refuses_robots_without_a_reference():
    with pytest.raises(ParameterError, match="reference"):
        experiments()["muhmann.tracking"].run({"robot": str(BARE)})
    with pytest.raises(RobotFileError, match="nowhere"):
        experiments()["muhmann.tracking"].run({"robot": "nowhere.yaml"})


def test_pid_pd(tmp_path):
    experiment = experiments()["muhmann.pid_pd"]
    result = experiment.run({"duration_s": 2, "sweep": "no"})
    assert is_flat_json(result)
    assert len(result["rmse_pid_m"]) == len(result["rmse_pd_m"]) == 2
    # With equal p and d the PD leaves about K / (K + p) of the bend, and the motors' friction, to the error.
    robot = load_robot("opencr_five_tendon")
    segment, p = robot.segments[0], robot.control.gains[0].p
    K = segment.backbone.bending_stiffness_nm2 / (segment.length_m * segment.tendons.pitch_radius_m**2)
    assert result["rmse_pd_m"][0] > 0.5 * K / (K + p) * 0.01
    assert result["rmse_pid_m"][0] < result["rmse_pd_m"][0]
    assert drawn(experiment, result, tmp_path)
    short = {"duration_s": 0.3, "sweep": "no"}
    assert experiment.run(short) == experiment.run(short) != experiment.run(short | {"seed": 2})
    with pytest.raises(ParameterError, match="section control"):
        experiment.run({"robot": str(BARE)})


def test_ripple_is_the_fast_part():
    time_s = 1e-3 * np.arange(1000)
    slow, fast = 1e-3 * time_s, 2e-5 * np.sin(2 * np.pi * 50 * time_s)
    moved, nothing = np.stack([slow, slow + fast], axis=1), np.zeros((1000, 2))
    run = Series(time_s, nothing, moved, nothing, nothing, nothing, np.zeros((1000, 5)))
    # The mean over an even window is centred half a sample off, so the ramp leaves half a micrometre.
    np.testing.assert_allclose(ripple_m(run), [0, 2e-5 / math.sqrt(2)], atol=6e-7)


def test_ftdcr_replay_on_real_recordings(tmp_path):
    robot = load_robot("ftdcr_v4")
    pull, train = reference_file("ftdcr", "ftdcr_v4_tendon_pull.csv"), reference_file("ftdcr", "ftdcr_v4_train.csv")
    fitted = tmp_path / "fitted.yaml"
    write_fitted_robot(robot, identify_geometry(robot, pull), fitted)
    experiment = experiments()["ftdcr.replay"]
    result = experiment.run({"robot": str(fitted), "data": str(train)})
    assert is_flat_json(result)
    assert result["n_samples"] == 1620
    assert result["tip_rmse_mm"] == result["tip_rmse_slack_resolved_mm"] < 12.0
    assert result["tip_rmse_slack_projected_mm"] < 20.0
    assert result["fitted_on_this_file"] is False
    assert drawn(experiment, result, tmp_path)
    projected = experiment.run({"robot": str(fitted), "data": str(pull), "slack": "project"})
    assert projected["tip_rmse_mm"] == projected["tip_rmse_slack_projected_mm"]
    assert projected["fitted_on_this_file"] is True


def test_ftdcr_replay_names_what_is_missing(tmp_path):
    experiment = experiments()["ftdcr.replay"]
    with pytest.raises(ParameterError, match="robot"):
        experiment.run({"data": "somewhere.csv"})
    with pytest.raises(RecordingError, match="somewhere"):
        experiment.run({"robot": "ftdcr_v4", "data": "somewhere.csv"})
    recording = tmp_path / "recording.csv"
    recording.write_text("timestamp,pattern_label,servo_1_mm,tip_x,tip_y,tip_z\n0,a,0,0,0,0\n", encoding="utf-8")
    with pytest.raises(RobotFileError, match="identify-geometry"):
        experiment.run({"robot": "ftdcr_v4", "data": str(recording)})
