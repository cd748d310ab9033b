# SPDX-License-Identifier: Apache-2.0
"""Calibration of stiffness and friction: the chirp, derivatives of the simulated motion, known values found again."""

import dataclasses
import math

import numpy as np
import pytest
from pictures import shows_something

from continuum_robot.app.procedures.pictures import draw_dynamics_fit
from continuum_robot.errors import ConvergenceError, ParameterError, RecordingError, RobotFileError
from continuum_robot.identification import dynamics_fit
from continuum_robot.identification.dynamics_fit import (
    MASSES,
    CapstanRod,
    DynamicsFit,
    dynamics_in_file,
    fit_dynamics,
    kinds_in_file,
)
from continuum_robot.identification.fit import Parameters
from continuum_robot.identification.recorded_motion import (
    STRING_SIGMA_M,
    RecordedMotion,
    columns_of,
    read_recorded_motion,
    write_recorded_motion,
)
from continuum_robot.identification.robot_file import write_fitted_robot
from continuum_robot.identification.robot_keys import DAMPING, MASS, mass_kg, with_factor
from continuum_robot.robot.loading import load_robot
from continuum_robot.simulation.benches import Chirp, simulate_calibration

ROBOT = load_robot("vanderbilt_segment")
TWO = load_robot("vanderbilt_two_segment")
TRUE = np.array([1.1440, 1.0373, 0.0312, 0.1637])  # johnston table 4


@pytest.fixture(scope="module")
def run():
    return simulate_calibration(ROBOT, np.random.default_rng(71), sample_s=0.01)


@pytest.fixture(scope="module")
def recording(run, tmp_path_factory):
    motion = RecordedMotion(run.time_s, run.tendon_displacement_m, run.capstan_torque_nm, run.string_extension_m)
    return write_recorded_motion(ROBOT, motion, tmp_path_factory.mktemp("calibration") / "chirp.csv")


@pytest.fixture(scope="module")
def fit(recording):
    """A fit that knows none of what it looks for: the robot that it gets has others."""
    capstans = dataclasses.replace(ROBOT.segments[0].capstans, inertia_kg_m2=0.0186, friction_coefficients=(0.1, 0.05))
    backbone = dataclasses.replace(ROBOT.segments[0].backbone, bending_stiffness_x_nm2=0.9, bending_stiffness_y_nm2=1.4)
    unlike = dataclasses.replace(ROBOT.segments[0], backbone=backbone, capstans=capstans)
    robot = with_factor(with_factor(ROBOT.changed(segments=(unlike,)), MASS, 0, 0.75), DAMPING, 0, 1.35)
    return robot, fit_dynamics(robot, recording)


# --- the chirp


def test_the_chirp_runs_from_slow_to_fast_as_the_text_says():
    chirp = Chirp()
    assert chirp.frequency_hz(0.0) == pytest.approx(0.01)
    assert chirp.frequency_hz(6.0) == pytest.approx(0.25)
    assert chirp.position(0.0) == pytest.approx(2 * math.pi)
    assert abs(chirp.rate(0.0)) < 1e-12  # at rest at the start
    t = np.linspace(0.5, 5.5, 50)
    np.testing.assert_allclose((chirp.position(t + 1e-5) - chirp.position(t - 1e-5)) / 2e-5, chirp.rate(t), atol=1e-6)


# --- the motion


@pytest.fixture(scope="module")
def rod():
    return capstan_rod(ROBOT)


def capstan_rod(robot):
    return CapstanRod(robot, Parameters(kinds_in_file(robot)))


def with_factors(robot, factors):
    """Stiffnesses and friction of the file, and factors (3 S,) on the rest."""
    return np.append(dynamics_in_file(robot)[: 4 * len(robot.segments)], factors)


@pytest.mark.parametrize(("robot", "atol"), [(ROBOT, 0.02), (TWO, 0.1)], ids=["one", "two"])
def test_steps_follow_the_independent_simulation(robot, atol):
    """The recorded torques of another integration in small steps, fed to the implicit one."""
    run = simulate_calibration(robot, np.random.default_rng(71), sample_s=0.01)
    rod = capstan_rod(robot)
    start = np.concatenate([run.c[0], run.c_rate[0]])
    states, _ = rod.simulate(start, run.capstan_torque_nm, [(1, 0.01)] * 300, range(300), slopes=False)
    np.testing.assert_allclose(states, run.c[:301], atol=atol)


@pytest.mark.parametrize("k", [50, 250, 420, 560])
def test_slopes_of_a_motion_are_those_of_its_differences(rod, run, k):
    start, factors = np.concatenate([run.c[k], run.c_rate[k]]), np.array([1.2, 0.9, 1.4])
    values, steps = with_factors(ROBOT, factors), [(2, 0.005)] * 700

    def after(changed, x, slopes=False):
        rod.take(x)
        states, by = rod.simulate(changed, run.capstan_torque_nm, steps, range(k, k + 3), slopes=slopes)
        return by[-1] if slopes else states[-1]

    found = after(start, values, slopes=True)
    e = 1e-6
    expected = [(after(start, values + e * d) - after(start, values - e * d)) / (2 * e) for d in np.eye(7)]
    expected += [(after(start + e * d, values) - after(start - e * d, values)) / (2 * e) for d in np.eye(12)]
    for column, difference in zip(found.T, expected, strict=True):
        np.testing.assert_allclose(column, difference, atol=1e-4 * np.abs(difference).max() + 1e-6)


def unlike(robot, factors):
    """The robot with what the factors, (3, S), multiply."""
    segments = []
    for segment, inertia in zip(robot.segments, factors[1], strict=True):
        capstans = dataclasses.replace(segment.capstans, inertia_kg_m2=inertia * segment.capstans.inertia_kg_m2)
        segments.append(dataclasses.replace(segment, capstans=capstans))
    robot = robot.changed(segments=tuple(segments))
    for index, (mass, damping) in enumerate(zip(factors[0], factors[2], strict=True)):
        robot = with_factor(with_factor(robot, MASS, index, mass), DAMPING, index, damping)
    return robot


@pytest.mark.parametrize(
    "robot",
    [ROBOT, ROBOT.changed(payload_kg=0.3), TWO, TWO.changed(payload_kg=0.3)],
    ids=["one", "loaded", "two", "two_loaded"],
)
def test_forces_with_factors_are_those_of_a_robot_that_has_them(robot):
    count, rng = len(robot.segments), np.random.default_rng(3)
    factors, rod = rng.uniform(0.7, 1.4, (3, count)), capstan_rod(robot)
    state = *rng.normal(size=(2, 4, rod.size)), 3 * rng.normal(size=(4, rod.size)), rng.normal(size=(4, 2 * count))
    missing = rod.missing_forces(*state)
    rod.take(with_factors(robot, factors.ravel()))
    expected = capstan_rod(unlike(robot, factors)).missing_forces(*state)()
    np.testing.assert_allclose(missing(), expected, rtol=1e-7, atol=1e-9 * np.abs(expected).max())


def test_a_motion_that_runs_away_is_an_error(rod):
    torque = np.tile([3000.0, 0.0], (200, 1))
    with pytest.raises(ConvergenceError):
        rod.simulate(np.zeros(12), torque, [(1, 0.01)] * 200, range(200))


# --- the fit


def test_known_values_are_found_again_under_the_papers_noise(fit):
    _, fit = fit
    assert fit.names[4:] == MASSES
    segment = ROBOT.segments[0]
    truth = np.array([*TRUE, mass_kg(segment), segment.capstans.inertia_kg_m2, segment.bending_damping_nms])
    assert fit.shown.all()
    assert (np.abs(fit.values - truth) < 2.5 * fit.deviations).all(), fit.numbers()
    assert (np.abs(fit.values / truth - 1) < [0.04, 0.04, 0.03, 0.03, 0.05, 0.06, 0.4]).all(), fit.numbers()
    assert (fit.deviations[:4] < 0.05 * TRUE).all()
    np.testing.assert_allclose(fit.covariance, fit.covariance.T, rtol=1e-6, atol=1e-12)
    assert (fit.rmse_tip_m < 2e-3).all()
    assert (fit.rmse_coefficients < 0.1).all()
    assert np.isfinite(fit.open_loop_rmse_tip_m).all()
    assert fit.limited == ()


@pytest.mark.long
def test_a_string_that_reads_wrong_moves_the_values_by_no_more_than_their_deviations(recording):
    """A drum off its axis: one reading a deviation too long wherever it is in the upper half of its range."""
    right, strings = fit_dynamics(ROBOT, recording), recording.string_extension_m
    for string in range(strings.shape[1]):
        wrong = strings.copy()
        upper = strings[:, string] > (strings[:, string].min() + strings[:, string].max()) / 2
        wrong[upper, string] += STRING_SIGMA_M
        moved = fit_dynamics(ROBOT, dataclasses.replace(recording, string_extension_m=wrong)).values - right.values
        assert (np.abs(moved) < right.deviations).all(), (string, moved / right.deviations)


@pytest.mark.long
def test_what_ended_at_a_bound_is_named(recording, monkeypatch):
    monkeypatch.setattr(dynamics_fit, "_LARGEST_FRICTION", 0.1)
    assert fit_dynamics(ROBOT, recording).limited == ("friction_coefficient_2",)


def test_what_was_found_goes_into_the_file_in_proportion(fit, recording, tmp_path):
    robot, fit = fit
    written = write_fitted_robot(robot, fit, tmp_path / "fitted.yaml")
    fitted, (found,) = written.segments[0], written.provenance
    np.testing.assert_allclose(fitted.backbone.bending_stiffnesses_nm2, fit.values[:2])
    np.testing.assert_allclose(fitted.capstans.friction_coefficients, fit.values[2:4])
    assert (found.data, found.sha256, found.date) == ("chirp.csv", recording.sha256, fit.date)
    tip = [one.rmse for one in found.errors if one.of.startswith("tip") and "windows" in one.of]
    np.testing.assert_allclose(tip, fit.rmse_tip_m, rtol=1e-5)
    assert [one.deviation for one in found.values] == pytest.approx(fit.deviations, rel=1e-4)
    assert mass_kg(fitted) == pytest.approx(fit.values[4], rel=1e-4)
    spacers = fitted.disks.individual
    assert spacers[-1].mass_kg / spacers[0].mass_kg == pytest.approx(0.74312 / 0.30881, rel=1e-4)
    assert fitted.capstans.inertia_kg_m2 == pytest.approx(fit.values[5], rel=1e-4)
    assert fitted.bending_damping_nms == pytest.approx(fit.values[6], rel=1e-4)
    with pytest.raises(RobotFileError, match="capstans"):
        write_fitted_robot(load_robot("two_segment"), fit, tmp_path / "other.yaml")


def test_of_several_segments_each_parameter_goes_to_its_own(recording, tmp_path):
    keys = Parameters(kinds_in_file(TWO)).keys
    values = np.linspace(0.7, 1.4, 14) * dynamics_in_file(TWO)
    coefficients = slice(0, 6), slice(6, 12)
    none = np.zeros((1, 1))
    fit = DynamicsFit(
        keys=keys, before=values, values=values, priors=np.full(14, np.inf), deviations=0.1 * values,
        file=recording.file, sha256=recording.sha256, covariance=np.eye(14), limited=(), segments=(0, 1),
        coefficients=coefficients, rmse_coefficients=np.arange(12.0), rmse_tip_m=np.ones(3),
        open_loop_rmse_coefficients=np.arange(12.0), open_loop_rmse_tip_m=np.ones(3), evaluations=3, time_s=none,
        measured_c=none, window_c=none, open_loop_c=none, measured_tip_m=none, open_loop_tip_m=none,
    )  # fmt: skip
    fitted = write_fitted_robot(TWO, fit, tmp_path / "fitted.yaml")
    assert dynamics_in_file(fitted) == pytest.approx(values, rel=1e-6)
    assert fit.names[3] == "segments[1].bending_stiffness_y_nm2"
    assert fit.names[-1] == "segments[1].bending_damping_nms"
    (found,) = fitted.provenance
    assert [one.key for one in found.values] == list(fit.names)
    assert [one.deviation for one in found.values] == pytest.approx(fit.deviations, rel=1e-5)
    assert {one.prior_deviation for one in found.values} == {None}
    assert [one.rmse for one in found.errors[:12]] == pytest.approx(np.arange(12.0))


def test_the_plot_is_drawn(fit, tmp_path):
    draw_dynamics_fit(fit[1], tmp_path / "fit.png")
    assert shows_something(tmp_path / "fit.png")


def test_what_cannot_be_fitted_is_refused(recording):
    with pytest.raises(ParameterError, match="capstans"):
        fit_dynamics(load_robot("two_segment"), recording)
    still = dataclasses.replace(
        recording,
        displacement_m=np.zeros_like(recording.displacement_m),
        string_extension_m=np.zeros_like(recording.string_extension_m),
    )
    with pytest.raises(RecordingError, match="does not move"):
        fit_dynamics(ROBOT, still)
    sampled = ("time_s", "displacement_m", "effort", "string_extension_m")
    short = dataclasses.replace(recording, **{name: getattr(recording, name)[:100] for name in sampled})
    with pytest.raises(RecordingError, match="windows"):
        fit_dynamics(ROBOT, short)


# --- recordings


def test_a_recording_reads_back_as_written(recording, run):
    again = read_recorded_motion(ROBOT, recording.file)
    np.testing.assert_allclose(again.effort, run.capstan_torque_nm, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(again.string_extension_m, run.string_extension_m, rtol=1e-7, atol=1e-9)
    assert len(again.time_s) == len(run.time_s)


def table(change):
    columns = list(columns_of(ROBOT))
    rows = [[f"{0.01 * k:.2f}", *["0.5"] * (len(columns) - 1)] for k in range(25)]
    return change(columns, rows)


def edited(name):
    def change(columns, rows):
        if name == "missing":
            columns[3] = "tendon_displacement_9_m"
        elif name == "doubled":
            columns[4] = columns[3]
        elif name == "text":
            rows[6][2] = "many"
        elif name == "nan":
            rows[6][2] = "nan"
        elif name == "short":
            rows[6].pop()
        elif name == "time":
            rows[6][0] = rows[5][0]
        elif name == "few":
            del rows[10:]
        return columns, rows

    return change


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing", "line 1: no column tendon_displacement_1_m"),
        ("doubled", "line 1: column tendon_displacement_1_m appears more than once"),
        ("text", "line 8, column capstan_torque_2_nm: 'many'"),
        ("nan", "line 8, column capstan_torque_2_nm: 'nan'"),
        ("short", "line 8: 10 cells where the header has 11 columns"),
        ("time", "line 8, column time_s"),
        ("few", "10 rows"),
    ],
)
def test_bad_recordings_name_line_and_column(name, message, tmp_path):
    columns, rows = table(edited(name))
    file = tmp_path / "bad.csv"
    file.write_text("\n".join(",".join(row) for row in [columns, *rows]))
    with pytest.raises(RecordingError) as caught:
        read_recorded_motion(ROBOT, file)
    assert message in str(caught.value)
    assert str(file) in str(caught.value)


def test_no_file_and_no_text_are_said(tmp_path):
    with pytest.raises(RecordingError, match="cannot be read"):
        read_recorded_motion(ROBOT, tmp_path / "none.csv")
    (tmp_path / "empty.csv").write_text("")
    with pytest.raises(RecordingError, match="empty"):
        read_recorded_motion(ROBOT, tmp_path / "empty.csv")
