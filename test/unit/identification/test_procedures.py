# SPDX-License-Identifier: Apache-2.0
"""Procedures on simulated actuators in virtual time: what they find, what they refuse, how they are left."""

from __future__ import annotations

import dataclasses
from datetime import datetime, timezone
from pathlib import Path

import numpy as np
import pytest
from robot_files import robot_file

from continuum_robot.errors import DeviceError, ParameterError, RobotFileError
from continuum_robot.identification.procedures.homing import Homed, Homing, HomingSettings, string_zeros
from continuum_robot.identification.procedures.hung_weight import HungWeight, HungWeightResult, fit_torque_constant
from continuum_robot.identification.procedures.procedure import CANCELLED, ProcedureRun
from continuum_robot.identification.procedures.record import (
    calibration_folder,
    load_record,
    make_record,
    record_path,
    simulated_folder,
)
from continuum_robot.identification.procedures.tendon_check import (
    OK,
    TendonCheck,
    TendonCheckSettings,
    expected_loads,
    expected_response,
    judge,
)
from continuum_robot.identification.robot_file import write_fitted_robot
from continuum_robot.robot.loading import load_robot, parse_robot
from continuum_robot.robot.reading_thresholds import reading_thresholds
from continuum_robot.runtime.cycle.assembly import QuietWatcher, make_loop
from continuum_robot.runtime.pace import VirtualPace
from continuum_robot.simulation.benches import HungWeightBench
from continuum_robot.simulation.devices.tendon_actuators import SimulatedTendonActuators

ROBOT = load_robot("opencr_five_tendon")
LIMITS = ROBOT.limits
DT = 2e-3  # half the cycles of a robot's 1 kHz: the procedures measure for seconds


class Rewired:
    """Actuators whose motors pull other tendons than the driver believes, in other directions."""

    simulated = True

    def __init__(self, inner, order=None, polarity=None):
        self.inner, self.tendon_count = inner, inner.tendon_count
        self.order = np.arange(inner.tendon_count) if order is None else np.array(order)
        self.polarity = np.ones(inner.tendon_count) if polarity is None else np.array(polarity)

    def read(self, now_s):
        reading = self.inner.read(now_s)
        values = {
            name: getattr(reading, name)[self.order] * (self.polarity if signed else 1)
            for name, signed in (
                ("displacement_m", True),
                ("velocity_m_per_s", True),
                ("tension_n", True),
                ("current_a", True),
                ("temperature_c", False),
                ("age_s", False),
            )
        }
        return dataclasses.replace(reading, **values)

    def write(self, tension_n, now_s):
        wired = np.zeros_like(tension_n)
        wired[self.order] = tension_n * self.polarity
        self.inner.write(wired, now_s)


class Onlooker(QuietWatcher):
    """Called after each cycle."""

    def __init__(self, look):
        self.on_row = look


def drive(actuators, procedure, *, safety=None, cancel_s=None, longest_s=120.0, body=None, strings=False, missed=0):
    """Run a procedure to its end; gives the run, the safety logic, and the greatest true tension, N."""
    device = body or getattr(actuators, "inner", actuators)
    has_plant = isinstance(device, SimulatedTendonActuators)
    peak_n = [0.0]
    device.open()
    pace = VirtualPace(DT)

    def look(_row):
        if cancel_s is not None and pace.now_s() >= cancel_s:
            run.cancel()
        if strings and loop.cycle.cycles % 5 == 0:
            procedure.take_strings(device.plant.string_extension)
        if missed and loop.procedure is not None:
            pace.pass_time(missed * DT)
        if has_plant:
            peak_n[0] = max(peak_n[0], float(device.plant.tension.max()))

    loop = make_loop(ROBOT, actuators, Onlooker(look), pace, safety=safety)
    run = ProcedureRun(procedure, loop.safety)
    loop.start()
    pace.run_one()
    device.enable()
    loop.begin_procedure(run)
    assert pace.wait(lambda: run.finished, longest_s)
    assert loop.safety.commanded == pytest.approx(np.full(actuators.tendon_count, LIMITS.safe_n))
    run.restore()
    return run, loop.safety, peak_n[0]


def slack_robot(slack_m, **options):
    actuators = SimulatedTendonActuators(ROBOT, **options)
    for tendon, value in enumerate(slack_m):
        actuators.inject("slack_tendon", tendon, float(value))
    return actuators


# Homing


def test_homing_finds_the_straight_pose_of_a_robot_with_friction():
    slack_m = np.array([0.004, 0.0, 0.01, 0.002, 0.006])
    procedure = Homing(ROBOT)
    run, safety, peak_n = drive(slack_robot(slack_m), procedure)
    assert run.succeeded
    assert run.problem == ""
    # Within the tendons' stretch (0.15 mm at 3 N) and what cogging leaves.
    np.testing.assert_allclose(procedure.result.zero_m, slack_m, atol=4e-4)
    assert (procedure.result.inconsistency_m < reading_thresholds(ROBOT).inconsistency_m).all()
    assert peak_n < LIMITS.maximum_n
    assert not safety.faults
    assert safety.positions_known


def test_homing_takes_the_middle_of_its_strings_and_no_others():
    procedure = Homing(ROBOT)
    taken = procedure.take_strings
    procedure.take_strings = lambda extension_m: (taken(np.append(extension_m, 0.0)), taken(extension_m))
    run, _, _ = drive(SimulatedTendonActuators(ROBOT), procedure, strings=True)
    assert run.succeeded, run.problem
    zeros = procedure.result.string_zero_m
    assert list(zeros) == [string.name for string in ROBOT.strings]
    assert np.abs(list(zeros.values())).max() < 5e-4


@pytest.mark.parametrize("procedure", [Homing, TendonCheck])
def test_a_computer_that_runs_a_quarter_of_the_cycles_is_fast_enough_for_a_procedure(procedure):
    asked = procedure(ROBOT)
    run, safety, _ = drive(SimulatedTendonActuators(ROBOT), asked, missed=3)
    assert run.problem == ""
    assert run.succeeded
    assert safety.faults == ()


def test_a_computer_that_is_too_slow_even_for_a_procedure_is_said_with_numbers_and_what_to_do():
    run, safety, _ = drive(SimulatedTendonActuators(ROBOT), Homing(ROBOT), missed=9)
    assert safety.faults == ("loop_too_slow",)
    assert "90.0 % of the cycles missed over a second (80 % allowed)" in run.problem
    assert "lower rate_hz = 1000" in run.problem


def test_homing_refuses_a_tendon_that_is_not_attached():
    procedure = Homing(ROBOT)
    run, _, peak_n = drive(slack_robot([0, 0, 0, 0.2, 0]), procedure)
    assert not run.succeeded
    assert procedure.result is None
    assert "tendon_4 ran 50 mm without resistance" in run.problem
    assert "polarity" in run.problem
    assert peak_n < LIMITS.maximum_n


def test_homing_refuses_a_reversed_tendon():
    actuators = SimulatedTendonActuators(ROBOT)
    run, _, _ = drive(Rewired(actuators, polarity=[1, 1, -1, 1, 1]), Homing(ROBOT))
    assert not run.succeeded
    assert "tendon_3" in run.problem


def test_homing_refuses_a_robot_that_does_not_sway():
    actuators = SimulatedTendonActuators(ROBOT)
    actuators.inject("stuck_motor", 1)
    run, _, peak_n = drive(actuators, Homing(ROBOT))
    assert not run.succeeded
    assert "does not sway" in run.problem
    assert peak_n < LIMITS.maximum_n


def test_homing_refuses_swapped_tendons():
    run, _, _ = drive(Rewired(SimulatedTendonActuators(ROBOT), order=[1, 0, 2, 3, 4]), Homing(ROBOT))
    assert not run.succeeded


@pytest.mark.parametrize("tension_n", [0.1, 11.0])
def test_homing_refuses_a_tension_without_room(tension_n):
    with pytest.raises(ParameterError, match="tension_n"):
        Homing(ROBOT, HomingSettings(tension_n=tension_n))


@pytest.mark.parametrize("cancel_s", [0.3, 3.0, pytest.param(6.0, marks=pytest.mark.long)])
def test_a_cancelled_homing_leaves_safe_tensions_and_no_result(cancel_s):
    run, safety, _ = drive(slack_robot([0.004, 0.001, 0.003, 0.002, 0.006]), Homing(ROBOT), cancel_s=cancel_s)
    assert not run.succeeded
    assert run.problem == CANCELLED
    assert safety.state == "inactive"


def test_a_fault_ends_a_procedure_with_its_name():
    actuators = SimulatedTendonActuators(ROBOT)
    actuators.inject("nan_reading", 2, start_s=1.0, duration_s=0.2)
    run, safety, _ = drive(actuators, Homing(ROBOT))
    assert not run.succeeded
    assert "reading_not_finite" in run.problem
    assert safety.state == "safe"


# The check of the tendons


def test_tendons_that_are_right_pass():
    procedure = TendonCheck(ROBOT)
    run, _, peak_n = drive(slack_robot([0.004, 0.0, 0.003, 0.002, 0.006]), procedure)
    assert run.succeeded
    assert procedure.result.passed
    assert procedure.result.misfit < 0.35
    assert peak_n < LIMITS.maximum_n


def test_swapped_tendons_are_named():
    procedure = TendonCheck(ROBOT)
    run, _, _ = drive(Rewired(SimulatedTendonActuators(ROBOT), order=[1, 0, 2, 3, 4]), procedure)
    assert run.succeeded
    verdicts = procedure.result.verdicts
    assert "tendon_2" in verdicts[0]
    assert "tendon_1" in verdicts[1]
    assert verdicts[2:] == (OK, OK, OK)


def test_a_stuck_motor_is_named():
    actuators = SimulatedTendonActuators(ROBOT)
    actuators.inject("stuck_motor", 3)
    procedure = TendonCheck(ROBOT)
    drive(actuators, procedure)
    assert procedure.result.verdicts[3].startswith("is stuck")
    assert not procedure.result.passed


def noisy_responses(order, seed):
    """What tendons and strings do when motors pull other tendons than the file states, and what they should do."""
    tendons, strings = expected_response(ROBOT)
    rng, scale = np.random.default_rng(seed), 5e-3 / tendons.max()
    noise = [0.05 * tendons.max() * rng.normal(size=one.shape) for one in (tendons, strings)]
    return (scale * (tendons[np.ix_(order, order)] + noise[0]), scale * (strings[order] + noise[1])), (tendons, strings)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("places", range(5))
def test_strings_tell_turned_and_mirrored_orders(places, sign):
    order = np.array([(sign * index + places) % 5 for index in range(5)])
    measured, model = noisy_responses(order, 10 * places + sign + 1)
    verdicts = judge(ROBOT, measured, model)
    assert verdicts.orientation_known
    right = list(order) == list(range(5))
    assert verdicts.passed == right
    for index, verdict in enumerate(verdicts.verdicts):
        assert verdict == OK if order[index] == index else f"tendon_{order[index] + 1}, by the strings" in verdict
    assert ("neither turned nor mirrored" in verdicts.orientation) == right
    # Without strings all of these look right, and it is reported that nobody knows.
    invalid = judge(ROBOT, (measured[0], np.full((5, 2), np.nan)), model)
    assert invalid.passed
    assert not invalid.orientation_known
    assert "turned by some places, or mirrored, is not known" in invalid.orientation


def test_strings_that_fit_nothing_or_do_not_move_decide_nothing():
    measured, model = noisy_responses(np.arange(5), 7)
    still = judge(ROBOT, (measured[0], np.zeros((5, 2))), model)
    assert still.passed
    assert "did not move" in still.orientation
    wild = judge(ROBOT, (measured[0], np.random.default_rng(1).normal(0, 5e-3, (5, 2))), model)
    assert not wild.orientation_known
    assert "fit no order" in wild.orientation


@pytest.mark.parametrize(
    "order", [*(pytest.param(o, marks=pytest.mark.long) for o in ([0, 1, 2, 3, 4], [1, 2, 3, 4, 0])), [0, 4, 3, 2, 1]]
)
def test_a_turned_or_mirrored_robot_is_found_by_its_strings(order):
    procedure = TendonCheck(ROBOT)
    run, _, _ = drive(Rewired(SimulatedTendonActuators(ROBOT), order=order), procedure, strings=True)
    assert run.succeeded
    result = procedure.result
    assert result.orientation_known, result.orientation
    assert result.passed == (order == [0, 1, 2, 3, 4])
    assert np.isfinite(result.string_response_m).all()
    for index, place in enumerate(order):
        assert (place == index) == (result.verdicts[index] == OK)
        assert place == index or f"tendon_{place + 1}," in result.verdicts[index]


@pytest.mark.parametrize("first", range(5))
@pytest.mark.parametrize("second", range(5))
def test_any_swap_is_found_up_to_turns_and_mirror_images(first, second):
    order = np.arange(5)
    order[[first, second]] = order[[second, first]]
    (response, _), model = noisy_responses(order, first * 5 + second)
    verdicts = judge(ROBOT, (response, np.full((5, 2), np.nan)), model)
    assert not verdicts.orientation_known
    assert verdicts.passed == (first == second)
    if first != second:
        assert sum(verdict != OK for verdict in verdicts.verdicts) == 2


def answers(robot, order, gain, seed):
    """What a robot with friction answers whose motors pull tendons of an order, with a gain each; and the model."""
    rng, rows = np.random.default_rng(seed), robot.tendon_slices
    segment = np.concatenate([np.full(one.stop - one.start, k) for k, one in enumerate(rows)])
    if robot.takes_displacements:
        model = expected_loads(robot, 10.0, np.full(robot.tendon_count, 1e4))[0].T / 1e4
    else:
        model = expected_response(robot)[0]
    # Friction takes from what comes from other segments, and holds the rod against a part of each pull.
    came = np.where(segment[:, None] == segment, 1.0, rng.uniform(0.1, 1.0))
    own = rng.uniform(0.1, 0.3) * np.abs(model).max() * np.eye(len(segment)) * robot.takes_displacements
    true = (model * came + own) * rng.uniform(0.9, 1.1, len(segment))
    noise = 0.03 * np.abs(model).max() * rng.normal(size=model.shape)
    return (true[np.ix_(order, order)] + noise) * np.outer(gain, gain), model


@pytest.mark.parametrize("name", ["two_segment", "three_segment_servo", "ftdcr_v4", "ftdcr_v6"])
@pytest.mark.parametrize("seed", range(6))
def test_errors_of_wiring_drawn_at_random_are_found_and_no_others(name, seed):
    robot, rng = load_robot(name), np.random.default_rng(seed)
    count, names = robot.tendon_count, robot.tendon_names
    strings = np.full((count, 0), np.nan)
    right, ones = np.arange(count), np.ones(count)

    def wrong(order, gain):
        response, model = answers(robot, order, gain, seed)
        found = judge(robot, (response, strings), (model, strings), loads=robot.takes_displacements)
        return {index: one for index, one in enumerate(found.verdicts) if one != OK}

    assert wrong(right, rng.uniform(0.95, 1.05, count)) == {}
    first = int(rng.integers(robot.tendon_slices[0].stop))
    other = int(rng.integers(robot.tendon_slices[1].start, count))
    order = right.copy()
    order[[first, other]] = other, first
    found = wrong(order, ones)
    assert set(found) == {first, other}
    assert names[other] in found[first]
    gain = ones.copy()
    gain[other] = rng.choice([0.4, 2.5])
    found = wrong(right, gain)
    assert set(found) == {other}
    assert "spool" in found[other] or "bears no more" in found[other]


def test_opposite_signs_of_current_and_encoder_are_named():
    (response, strings), model = noisy_responses(np.arange(5), 0)
    response[:, 2] *= -1
    assert "opposite signs" in judge(ROBOT, (response, strings), model).verdicts[2]


def test_a_pull_beyond_the_limits_is_refused():
    with pytest.raises(ParameterError, match="pull_n"):
        TendonCheck(ROBOT, TendonCheckSettings(pull_n=30.0))


# Hung weights


@pytest.mark.parametrize("fraction", [0.9, 1.12])
def test_the_torque_constant_is_found_whatever_the_file_says(fraction):
    procedure = HungWeight(ROBOT, 1, 0.6)
    run, _, _ = drive(HungWeightBench(ROBOT, 1, 0.6, torque_constant_fraction=fraction), procedure)
    assert run.succeeded, run.problem
    assert procedure.result.torque_constant_nm_per_a == pytest.approx(0.0235 * fraction, rel=1e-3)
    coulomb_n = ROBOT.actuators.coulomb_friction_nm * ROBOT.actuators.gear_ratio / ROBOT.actuators.spool_radius_m
    assert procedure.result.friction_n == pytest.approx(coulomb_n, rel=0.1)


def test_a_cancelled_weight_is_put_down_not_dropped():
    bench = HungWeightBench(ROBOT, 1, 0.6)
    run, _, _ = drive(bench, HungWeight(ROBOT, 1, 0.6), cancel_s=4.0)
    assert run.problem == CANCELLED
    assert bench.height_m < 2e-3


def test_a_weight_that_is_not_there_is_noticed():
    run, _, _ = drive(HungWeightBench(ROBOT, 1, 5.0), HungWeight(ROBOT, 1, 0.5))
    assert not run.succeeded
    assert "lags" in run.problem


@pytest.mark.parametrize(("tendon", "mass_kg"), [(5, 0.5), (-1, 0.5), (0, 0.0), (0, 50.0)])
def test_an_impossible_weight_is_refused(tendon, mass_kg):
    with pytest.raises(ParameterError):
        HungWeight(ROBOT, tendon, mass_kg)


def test_several_weights_are_fitted_through_the_origin(tmp_path):
    results = [HungWeightResult(2, mass, mass + 0.1, mass - 0.1, 9.80665, 0.0147, 1.0) for mass in (0.2, 0.5, 1.0)]
    fit = fit_torque_constant(results)
    assert fit.torque_constant_nm_per_a == pytest.approx(0.0147)
    assert fit.deviation_nm_per_a == pytest.approx(0.0, abs=1e-9)
    with pytest.raises(ParameterError):
        fit_torque_constant([*results, dataclasses.replace(results[0], tendon=1)])
    written = write_fitted_robot(ROBOT, fit, tmp_path / "calibrated.yaml")
    constants = [motor.torque_constant_nm_per_a for motor in written.hardware.tendon_actuators.motors]
    assert constants == [None, None, pytest.approx(0.0147), None, None]
    assert written.newton_per_ampere[2] == pytest.approx(0.0147 * 6 / 0.009)
    key = "hardware.tendon_actuators.motors[2].torque_constant_nm_per_a"
    text = Path(ROBOT.file_name).read_text(encoding="utf-8").replace("assumed:\n", f"assumed:\n  - {key}\n")
    guessed = parse_robot(text)
    known = write_fitted_robot(guessed, fit, tmp_path / "known.yaml")
    assert set(guessed.assumed) - set(known.assumed) == {key}
    with pytest.raises(RobotFileError, match="hardware"):
        write_fitted_robot(load_robot("two_segment"), fit, tmp_path / "other.yaml")


# The record


@pytest.fixture
def homed():
    return Homed(np.arange(5) * 1e-3, np.zeros(5), 3.0, 1.5, np.zeros(1), {"string_x": 1e-4})


@pytest.fixture
def robot(tmp_path):
    return load_robot(robot_file(tmp_path))


def test_the_middle_of_a_string_survives_some_unknown_readings():
    phase = np.linspace(0, 6 * np.pi, 3000, endpoint=False)
    readings = np.stack([0.01 + 0.002 * np.cos(phase), 0.02 + 0.002 * np.sin(phase)], axis=1)
    readings[[100, 1700]] = np.nan
    zeros = string_zeros(("x", "y"), list(readings))
    assert zeros == pytest.approx({"x": 0.01, "y": 0.02}, abs=2e-6)
    readings[:310, 0] = np.nan
    assert set(string_zeros(("x", "y"), list(readings))) == {"y"}
    assert string_zeros(("x", "y"), []) == {}


def test_a_record_comes_back_as_it_was(homed, robot, tmp_path):
    moment = datetime(2026, 11, 21, 5, 0, tzinfo=timezone.utc)
    record = make_record(robot, homed, moment)
    path = record_path(robot, tmp_path)
    record.store(path)
    assert load_record(robot, path) == record
    assert record.date == "2026-11-21T05:00:00+00:00"
    np.testing.assert_array_equal(record.zero, homed.zero_m)
    np.testing.assert_array_equal(record.string_zero(("string_x", "string_y")), [1e-4, np.nan])


def edit(path, old, new):
    path.write_text(path.read_text(encoding="utf-8").replace(old, new, 1), encoding="utf-8")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda robot, record: edit(robot, "length_m: 0.2", "length_m: 0.21"), "another robot file"),
        (lambda robot, record: edit(robot, "serial_number: prototype", "serial_number: 7"), "7"),
        (
            lambda robot, record: edit(record, "serial_number: prototype", "serial_number: other"),
            "another serial number",
        ),
        (lambda robot, record: edit(record, "tension_n: 3.0", "tension_n: -3.0"), "cannot be used"),
        (lambda robot, record: record.write_bytes(b"\xff\x00: ["), "cannot be used"),
        (lambda robot, record: record.unlink(), "is not homed: there is no"),
    ],
)
def test_a_record_that_does_not_fit_is_refused(homed, robot, tmp_path, change, said):
    path = record_path(robot, tmp_path)
    make_record(robot, homed).store(path)
    file = tmp_path / "robot.yaml"
    if said == "7":
        change(file, path)
        edit(file, "serial_number: 7", "serial_number: seven")
        said = "is not homed: there is no"
    else:
        change(file, path)
    robot = load_robot(file)
    with pytest.raises(DeviceError, match=said) as caught:
        load_record(robot, record_path(robot, tmp_path))
    assert "continuum-robot home" in str(caught.value)


def test_records_of_simulated_robots_are_kept_apart(monkeypatch, tmp_path):
    monkeypatch.setenv("CONTINUUM_ROBOT_CALIBRATION", str(tmp_path))
    assert calibration_folder() == tmp_path
    assert simulated_folder() == tmp_path / "simulated"
    assert record_path(ROBOT).parent == tmp_path
