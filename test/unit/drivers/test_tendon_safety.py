# SPDX-License-Identifier: Apache-2.0
"""The driver's state machine: what it lets through, what it latches, and properties over random sequences."""

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safety_steps import TendonSafety

from continuum_robot.drivers.protocols import TendonReading
from continuum_robot.drivers.safety import tendon_faults
from continuum_robot.drivers.safety.settings import SafetySettings
from continuum_robot.drivers.safety.tension_rules import BRAKE_DURATION_S
from continuum_robot.errors import DeviceError, ParameterError
from continuum_robot.robot.coordinates import clarke_manifold
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.reading_thresholds import reading_thresholds

ROBOT = load_robot("opencr_five_tendon")
TWO = load_robot("two_segment")
LIMITS = ROBOT.limits
N = ROBOT.tendon_count
DT = 1e-3
NEWTON_PER_AMPERE = ROBOT.actuators.newton_per_ampere
MANIFOLD = clarke_manifold(ROBOT)
THRESHOLDS = reading_thresholds(ROBOT)


def reading_at(stamp_s, displacement=None, tension=None, **changes):
    q = np.zeros(N) if displacement is None else np.asarray(displacement, dtype=float)
    force = np.full(N, 1.0) if tension is None else np.asarray(tension, dtype=float)
    values = {
        "stamp_s": stamp_s,
        "displacement_m": q,
        "velocity_m_per_s": np.zeros(N),
        "tension_n": force,
        "current_a": force / NEWTON_PER_AMPERE,
        "temperature_c": np.full(N, np.nan),
        "age_s": np.zeros(N),
    }
    return TendonReading(**{**values, **changes})


class Driver:
    """Runs the safety logic as the driver node does, with readings that follow the commands."""

    def __init__(self, robot=ROBOT, **settings_):
        self.safety = TendonSafety(robot, SafetySettings(**settings_))
        self.now_s = 10.0
        self.sequence = 0
        self.output = None
        self.safety.activate(reading_at(self.now_s), self.now_s)

    def cycle(self, command=2.0, dt=DT, **changes):
        """One cycle with a fresh command (None: without), and a reading that may be spoilt."""
        self.now_s += dt
        self.sequence += 1
        changes.setdefault("tension", self.safety.commanded)
        # An encoder that flickers by a count, as of a robot that is alive.
        changes.setdefault("displacement", MANIFOLD.displacement([1e-6 * (self.sequence % 2), 0]))
        reading = reading_at(changes.pop("stamp_s", self.now_s), **changes)
        desired = None if command is None else np.broadcast_to(np.asarray(command, dtype=float), N)
        self.output = self.safety.update(reading, desired, 0.0, self.now_s, dt, command_sequence=self.sequence)
        return self.output

    def cycles(self, count, command=2.0, **changes):
        return [self.cycle(command, **changes) for _ in range(count)]


@pytest.fixture
def driver():
    return Driver()


# --- commands


def test_commands_pass_within_the_rate_limit(driver):
    tensions = np.array([output.tension for output in driver.cycles(20, 8.0)])
    np.testing.assert_allclose(tensions[-1], 8.0)
    np.testing.assert_allclose(np.diff(tensions[:3], axis=0), LIMITS.rate_n_per_s * DT)
    assert driver.output.state == "active"
    assert driver.output.write
    assert not driver.output.limited.any()


def test_what_was_limited_is_reported(driver):
    driver.cycles(80, 1.5 * LIMITS.maximum_n)
    np.testing.assert_allclose(driver.output.tension, LIMITS.total_n / N)
    assert driver.output.limited.all()


def test_a_cycle_without_a_fresh_command_sends_nothing(driver):
    driver.cycles(20, 3.0)
    output = driver.cycle(None)
    assert not output.write
    np.testing.assert_array_equal(output.tension, np.full(N, 3.0))


def test_the_same_sequence_again_is_not_fresh(driver):
    driver.cycles(20, 3.0)
    last = driver.sequence
    writes = []
    for k in range(110):
        driver.now_s += DT
        reading = reading_at(driver.now_s, MANIFOLD.displacement([1e-6 * (k % 2), 0]))
        output = driver.safety.update(reading, np.full(N, 3.0), 0.0, driver.now_s, DT, command_sequence=last)
        writes.append(output.write and output.state == "active")
    assert not any(writes)
    assert tendon_faults.COMMAND_TIMEOUT in output.faults


def test_without_a_sequence_the_arrival_counts(driver):
    """A tool that publishes by hand numbers nothing: a later arrival is a fresh command."""
    states = []
    for k in range(300):
        driver.now_s += DT
        age_s = (k % 50) * DT  # a new command every 50 ms
        reading = reading_at(driver.now_s, MANIFOLD.displacement([1e-6 * (k % 2), 0]), driver.safety.commanded)
        output = driver.safety.update(reading, np.full(N, 2.0), age_s, driver.now_s, DT, command_sequence=0)
        states.append((output.state, output.write))
    assert all(state == "active" for state, _ in states)
    assert sum(write for _, write in states) == 6


def test_commands_from_before_the_activation_are_ignored():
    safety = TendonSafety(ROBOT)
    safety.activate(reading_at(10.0), 10.0)
    output = safety.update(reading_at(10.01), np.full(N, 5.0), 0.02, 10.01, DT, command_sequence=9)
    np.testing.assert_array_equal(output.tension, np.full(N, max(1.0, LIMITS.minimum_n)))


def test_the_command_timeout_latches_and_ramps_to_the_safe_tension(driver):
    driver.cycles(50, 6.0)
    silent_s = driver.now_s
    outputs = driver.cycles(250, None)
    began = [output.state for output in outputs].index("safe")
    assert outputs[began].new_faults == (tendon_faults.COMMAND_TIMEOUT,)
    assert began == pytest.approx(LIMITS.command_timeout_s / DT, abs=1)
    tensions = np.array([output.tension for output in outputs])
    assert np.abs(np.diff(tensions, axis=0)).max() <= LIMITS.safe_rate_n_per_s * DT * (1 + 1e-9)
    np.testing.assert_allclose(tensions[-1], LIMITS.safe_n)
    assert outputs[-1].write  # the safe tension is held, not only reached
    assert driver.safety.released
    assert driver.now_s > silent_s
    resumed = driver.cycles(5, 6.0)[-1]
    assert resumed.state == "safe"  # commands do not wake it
    np.testing.assert_allclose(resumed.tension, LIMITS.safe_n)


def test_a_command_that_stood_for_too_long_latches_though_the_next_comes_with_the_stalled_cycle(driver):
    """The motors had an old command, or let go of the robot by themselves, while this program stood still."""
    driver.cycles(20, 6.0)
    driver.now_s += LIMITS.command_timeout_s
    output = driver.cycle(6.0)
    assert output.state == "safe"
    assert output.new_faults == (tendon_faults.COMMAND_TIMEOUT,)


def test_a_stalled_cycle_does_not_jump(driver):
    driver.cycles(5, 1.0)
    driver.now_s += 0.08
    output = driver.cycle(15.0)
    assert output.state == "active"
    assert output.tension.max() <= max(1.0, LIMITS.minimum_n) + LIMITS.rate_n_per_s * DT * 1.001
    before = driver.output.tension
    driver.now_s += 0.05
    output = driver.safety.update(
        reading_at(driver.now_s, tension=before), np.full(N, 20.0), 0.0, driver.now_s, 0.05, command_sequence=10**6
    )
    allowed = LIMITS.rate_n_per_s * driver.safety.settings.maximum_step_s
    assert np.all(output.tension - before <= allowed * (1 + 1e-9))


@pytest.mark.parametrize("command", [np.nan, np.inf, -np.inf, [1, 1, np.nan, 1, 1]])
def test_a_command_that_is_not_finite_latches(driver, command):
    driver.cycles(20, 3.0)
    output = driver.cycle(command)
    assert output.new_faults == (tendon_faults.COMMAND_NOT_FINITE,)
    assert np.isfinite(output.tension).all()


def test_a_command_of_the_wrong_size_latches(driver):
    driver.now_s += DT
    output = driver.safety.update(reading_at(driver.now_s), np.ones(3), 0.0, driver.now_s, DT, command_sequence=5)
    assert output.faults == (tendon_faults.COMMAND_WRONG_SIZE,)


# --- readings


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"displacement": [0, 0, np.nan, 0, 0]}, tendon_faults.READING_NOT_FINITE),
        ({"displacement": [np.inf, 0, 0, 0, 0]}, tendon_faults.READING_NOT_FINITE),
        ({"velocity_m_per_s": np.array([0, np.nan, 0, 0, 0])}, tendon_faults.READING_NOT_FINITE),
        ({"current_a": np.array([0, 0, 0, 0, np.inf])}, tendon_faults.READING_NOT_FINITE),
        ({"age_s": np.array([0, 0, 0.06, 0, 0])}, tendon_faults.READING_TIMEOUT),
        ({"age_s": np.array([0, 0, np.nan, 0, 0])}, tendon_faults.READING_TIMEOUT),
        ({"stamp_s": 9.9}, tendon_faults.READING_TIMEOUT),
        ({"displacement": MANIFOLD.displacement([0.026, 0])}, tendon_faults.DISPLACEMENT_OUT_OF_RANGE),
        ({"displacement": [0.006, 0, 0, 0, 0]}, tendon_faults.INCONSISTENT_DISPLACEMENT),
        ({"displacement": MANIFOLD.displacement([0.004, 0])}, tendon_faults.DISPLACEMENT_JUMP),
        ({"tension": [25, 1, 1, 1, 1]}, tendon_faults.TENSION_OUT_OF_RANGE),
        ({"tension": [-5, 1, 1, 1, 1]}, tendon_faults.TENSION_OUT_OF_RANGE),
        ({"device_faults": ("tendon 0: hot",)}, tendon_faults.DEVICE_FAULT),
    ],
)
def test_each_bad_reading_latches_its_fault_at_once(driver, changes, expected):
    driver.cycles(5)
    output = driver.cycle(**changes)
    assert expected in output.new_faults
    assert output.state == "safe"
    assert driver.safety.last_fault in output.faults
    assert driver.cycle().new_faults == ()  # reported once
    assert expected in driver.output.faults  # and kept


def test_devices_that_never_measure_a_quantity_are_fine(driver):
    unknown = np.full(N, np.nan)
    outputs = driver.cycles(50, velocity_m_per_s=unknown, current_a=unknown, tension=unknown)
    assert outputs[-1].state == "active"


def test_missing_readings_grow_old(driver):
    driver.cycles(5)
    for k in range(1, 60):
        output = driver.safety.update(
            None, np.full(N, 2.0), 0.0, driver.now_s + k * DT, DT, command_sequence=driver.sequence + k
        )
    assert output.faults == (tendon_faults.READING_TIMEOUT,)


def test_a_frozen_tendon_is_found_where_the_others_say_that_it_moved(driver):
    frozen_at = None
    for k in range(1, 400):
        q = MANIFOLD.displacement([2e-5 * k, 1e-5 * k])
        if k > 100:
            q[3] = MANIFOLD.displacement([2e-5 * 100, 1e-5 * 100])[3]
        output = driver.cycle(displacement=q)
        if output.faults:
            frozen_at = k
            break
    assert output.faults == (tendon_faults.FROZEN_READING,)
    assert frozen_at > 100 + driver.safety.settings.frozen_time_s / DT


def test_a_tendon_across_the_plane_of_bending_may_rest():
    """With four tendons, bending in a plane does not move two of them at all."""
    robot = dataclasses.replace(
        ROBOT,
        segments=tuple(
            dataclasses.replace(one, tendons=dataclasses.replace(one.tendons, count=4)) for one in ROBOT.segments
        ),
    )
    manifold, safety = clarke_manifold(robot), TendonSafety(robot)
    zeros = np.zeros(4)

    def reading(k):
        q = manifold.displacement([1e-5 * k, 0])
        q[[1, 3]] = 0.0  # exactly
        return TendonReading(k * DT, q, zeros, zeros + 1, (zeros + 1) / NEWTON_PER_AMPERE, zeros, zeros)

    safety.activate(reading(0), 0.0)
    for k in range(1, 1000):
        output = safety.update(reading(k), zeros + 1, 0.0, k * DT, DT, command_sequence=k)
    assert output.faults == ()


def test_a_resting_robot_is_not_frozen_but_one_that_ignores_its_tensions_is(driver):
    still = np.zeros(N)
    driver.cycles(500, 2.0, displacement=still)
    assert driver.output.faults == ()
    driver.cycles(20, 6.0, displacement=still)  # the same for all tendons bends nothing
    driver.cycles(300, 6.0, displacement=still)
    assert driver.output.faults == ()
    driver.cycles(300, [8, 6, 3, 3, 6], displacement=still)
    assert driver.output.faults == (tendon_faults.FROZEN_READING,)


def test_a_robot_that_rested_long_may_take_a_while_to_begin_to_move(driver):
    """Neither the first reading after a pull is a frozen one, nor that of a tendon that the others drag behind them."""
    still = np.zeros(N)
    driver.cycles(500, [6, 6, 6, 6, 6], displacement=still)
    longest = round(THRESHOLDS.frozen_begin_s / DT)
    driver.cycles(longest - 2, [9, 6, 3, 3, 6], displacement=still)
    assert driver.output.faults == ()
    # It moves, but for a tendon that sticks.
    moved = MANIFOLD.displacement([2e-3, 1e-3])
    moved[3] = 0.0
    for _ in range(longest - 2):
        moved[0] += 1e-6
        driver.cycle([9, 6, 3, 3, 6], displacement=moved)
        assert driver.output.faults == ()
    for _ in range(4):
        moved[0] += 1e-6
        driver.cycle([9, 6, 3, 3, 6], displacement=moved)
    assert driver.output.faults == (tendon_faults.FROZEN_READING,)


def with_friction(friction_n, stiffness_n_per_m=2e4, **limits):
    """The robot with this dry friction at each tendon and tendons of this stiffness."""
    friction_nm = friction_n / ROBOT.actuators.motor_rad_per_m
    return ROBOT.changed(
        actuators=dataclasses.replace(ROBOT.actuators, coulomb_friction_nm=friction_nm, cogging_amplitude_nm=0.0),
        tendon_stiffness_n_per_m=stiffness_n_per_m,
        limits=dataclasses.replace(LIMITS, **limits),
    )


@pytest.mark.parametrize("friction_n", [0.3, 1.0])
def test_a_robot_that_sticks_as_its_motors_do_is_not_frozen_and_one_that_ignores_more_is(friction_n):
    """Stiction: motors turn round, and break away at twice of their friction in motion."""
    driver, still = Driver(with_friction(friction_n)), np.zeros(N)
    driver.cycles(500, 6.0, displacement=still)
    direction = MANIFOLD.displacement([1.0, 0.0]) / np.abs(MANIFOLD.displacement([1.0, 0.0])).max()
    driver.cycles(500, 6.0 + 3.9 * friction_n * direction, displacement=still)
    assert driver.output.faults == ()
    driver.cycles(500, 6.0 + 5.9 * friction_n * direction, displacement=still)
    assert driver.output.faults == (tendon_faults.FROZEN_READING,)


def test_a_force_that_the_robot_file_states_counts():
    driver, still = Driver(with_friction(0.3, frozen_force_n=50.0)), np.zeros(N)
    driver.cycles(500, 6.0, displacement=still)
    driver.cycles(300, [12, 6, 3, 3, 6], displacement=still)
    assert driver.output.faults == ()


@pytest.mark.parametrize("stretches", [0.0, 0.5, 1.0, 1.5])
def test_a_tendon_that_rests_while_others_stretch_is_not_frozen(stretches):
    """A tendon rests at its turn while all are pulled more: the others wind up what stretches, or half, or more."""
    driver = Driver(with_friction(0.0))
    command = np.full(N, 3.0)
    for k in range(600):
        command = np.full(N, 3.0) + min(k, 400) * 0.03
        moved = stretches * (command - 3.0) / 2e4
        moved[2] = 0.0
        driver.cycle(command, displacement=moved)
    assert driver.output.faults == ()


def test_a_frozen_tendon_is_found_while_others_stretch():
    driver = Driver(with_friction(0.0))
    for k in range(600):
        command = np.full(N, 3.0) + min(k, 400) * 0.03
        moved = MANIFOLD.displacement([1e-5 * k, 0.0]) + (command - 3.0) / 2e4
        moved[2] = 0.0
        driver.cycle(command, displacement=moved)
    assert driver.output.faults == (tendon_faults.FROZEN_READING,)


def test_thresholds_follow_from_the_robot_file_unless_it_states_them():
    base = reading_thresholds(with_friction(2.0))
    softer = reading_thresholds(with_friction(2.0, 1e4))
    coarse = with_friction(2.0)
    coarse = reading_thresholds(
        coarse.changed(actuators=dataclasses.replace(coarse.actuators, encoder_counts_per_turn=16))
    )
    heavy = with_friction(2.0)
    heavy = reading_thresholds(
        heavy.changed(
            actuators=dataclasses.replace(heavy.actuators, encoder_counts_per_turn=4096, rotor_inertia_kg_m2=0.01)
        )
    )
    np.testing.assert_allclose(softer.frozen_motion_m, 2 * base.frozen_motion_m, rtol=0.01)
    assert np.all(coarse.frozen_motion_m > base.frozen_motion_m)
    np.testing.assert_allclose(reading_thresholds(with_friction(4.0)).frozen_force_n, 2 * base.frozen_force_n)
    assert heavy.frozen_begin_s > 2 * base.frozen_begin_s
    assert softer.inconsistency_m > LIMITS.maximum_n / 1e4 - 1e-12
    stated = {
        "frozen_motion_m": 0.01,
        "frozen_force_n": 7.0,
        "frozen_begin_s": 0.3,
        "current_mismatch_a": 0.7,
        "inconsistency_m": 0.004,
    }
    found = reading_thresholds(with_friction(2.0, **stated))
    for name, value in stated.items():
        np.testing.assert_array_equal(getattr(found, name), value)


def test_servos_may_measure_their_currents_as_badly_as_they_do():
    """Their currents are not calibrated: a tenth off is no fault, an eighth of the boards' largest is one."""
    servos = load_robot(Path(__file__).parents[3] / "examples" / "five_servos.yaml")
    largest_a = servos.actuators.maximum_current_a
    assert (reading_thresholds(servos).current_mismatch_a > 0.15 * largest_a).all()
    assert (reading_thresholds(ROBOT).current_mismatch_a < 0.125 * ROBOT.actuators.maximum_current_a).all()


def test_values_that_the_device_repeats_with_their_age_are_old_and_not_frozen():
    driver = Driver(frozen_time_s=0.1 * LIMITS.reading_timeout_s)
    still = np.zeros(N)
    driver.cycle(2.0, displacement=still)
    since = driver.now_s
    while not driver.output.faults and driver.now_s - since < 2 * LIMITS.reading_timeout_s:
        age_s = np.full(N, driver.now_s + DT - since)
        driver.cycle([8, 6, 3, 3, 6], displacement=still, age_s=age_s)
    assert driver.output.faults == (tendon_faults.READING_TIMEOUT,)


def test_currents_may_lag_but_not_disagree(driver):
    driver.cycles(30, 10.0, tension=np.full(N, 1.0))
    assert driver.output.state == "active"
    driver.cycles(60, 10.0, tension=np.full(N, 1.0))
    assert driver.output.faults == (tendon_faults.CURRENT_MISMATCH,)


def test_a_stall_does_not_count_as_time_in_which_currents_disagreed(driver):
    """What was seen before and after it reports nothing of the time between."""
    driver.cycles(100, 10.0)
    for _ in range(2):
        driver.cycle(10.0, dt=0.09, tension=np.full(N, 1.0))
    assert tendon_faults.CURRENT_MISMATCH not in driver.output.faults
    driver.cycles(60, 10.0, tension=np.full(N, 1.0))
    assert tendon_faults.CURRENT_MISMATCH in driver.output.faults


# --- activation, deactivation, e-stop, reset


def test_activation_starts_at_the_measured_tension():
    measured = np.array([5.0, 0.0, 1.0, 0.3, 2.0])
    safety = TendonSafety(ROBOT)
    safety.activate(reading_at(1.0, tension=measured), 1.0)
    np.testing.assert_array_equal(safety.commanded, np.maximum(measured, LIMITS.minimum_n))
    output = safety.update(reading_at(1.001, tension=measured), np.full(N, 20.0), 0.0, 1.001, DT, command_sequence=1)
    start = np.maximum(measured, LIMITS.minimum_n)
    assert np.abs(output.tension - start).max() <= LIMITS.rate_n_per_s * DT * (1 + 1e-9)


def test_unknown_tensions_come_from_the_currents():
    safety = TendonSafety(ROBOT)
    unknown = np.full(N, np.nan)
    safety.activate(reading_at(1.0, tension_n=unknown, current_a=np.full(N, 3.0 / NEWTON_PER_AMPERE)), 1.0)
    np.testing.assert_allclose(safety.commanded, 3.0)
    safety = TendonSafety(ROBOT)
    safety.activate(reading_at(1.0, tension_n=unknown, current_a=unknown), 1.0)
    np.testing.assert_allclose(safety.commanded, LIMITS.minimum_n)


@pytest.mark.parametrize(
    ("changes", "phrase"),
    [
        ({"displacement": [np.nan, 0, 0, 0, 0]}, "NaN"),
        ({"displacement": [0.02, 0, 0, 0, 0]}, "Clarke manifold"),
        ({"displacement": MANIFOLD.displacement([0.03, 0])}, "maximum_displacement_m"),
        ({"tension": [21, 0, 0, 0, 0]}, "maximum_n"),
        ({"tension": [15, 15, 15, 15, 15]}, "total_n"),
        ({"age_s": np.full(N, 1.0)}, "older"),
        ({"device_faults": ("x",)}, "fault"),
    ],
)
def test_activation_is_refused_outside_of_the_limits(changes, phrase):
    safety = TendonSafety(ROBOT)
    with pytest.raises(DeviceError, match=phrase):
        safety.activate(reading_at(5.0, **changes), 5.0)
    assert safety.state == "inactive"
    assert not safety.update(reading_at(5.001, **changes), np.ones(N), 0.0, 5.001, DT).write


def test_activation_twice_is_refused(driver):
    with pytest.raises(DeviceError, match="already active"):
        driver.safety.activate(reading_at(driver.now_s), driver.now_s)


def test_deactivation_ramps_and_says_when_it_is_done(driver):
    driver.cycles(30, 5.0)
    assert not driver.safety.released
    driver.safety.deactivate()
    outputs = driver.cycles(20, 9.0)
    assert not driver.safety.released
    assert outputs[-1].state == "inactive"
    np.testing.assert_allclose(outputs[-1].tension, 5.0 - 20 * LIMITS.safe_rate_n_per_s * DT)
    driver.cycles(60, 9.0)
    assert driver.safety.released
    driver.safety.torque_off()
    output = driver.cycle(9.0)
    assert not output.write
    np.testing.assert_array_equal(output.tension, 0.0)


def test_the_ramp_goes_up_too_where_tensions_lie_below():
    safety = TendonSafety(ROBOT)
    safety.activate(reading_at(0.0, tension=np.full(N, LIMITS.minimum_n)), 0.0)
    safety.estop("test")
    for k in range(1, 100):
        output = safety.update(reading_at(k * DT), None, 0.0, k * DT, DT)
    np.testing.assert_allclose(output.tension, LIMITS.safe_n)


@pytest.mark.parametrize("state", ["inactive", "active", "safe"])
def test_the_estop_acts_in_every_state(state):
    safety = TendonSafety(ROBOT)
    if state != "inactive":
        safety.activate(reading_at(0.0), 0.0)
    if state == "safe":
        safety.update(reading_at(1e-3), np.full(N, np.nan), 0.0, 1e-3, DT, command_sequence=1)
    assert safety.state == state
    safety.estop("button")
    assert safety.state == "safe"
    assert tendon_faults.ESTOP in safety.faults
    assert safety.estop_reason == "button"
    with pytest.raises(DeviceError, match="estop"):
        safety.activate(reading_at(0.0), 0.0)


def test_an_estop_without_any_device_can_be_reset():
    safety = TendonSafety(ROBOT)
    safety.estop("button", held=True)
    assert safety.reset() == (tendon_faults.ESTOP,)
    safety.release_estop()
    assert safety.reset() == ()
    assert safety.state == "inactive"
    safety.activate(reading_at(0.0), 0.0)


def test_reset_names_what_is_not_neutral_and_keeps_the_last_fault(driver):
    driver.cycles(5)
    driver.cycle(device_faults=("tendon 0: hot",))
    driver.cycles(3, device_faults=("tendon 0: hot",))
    assert driver.safety.reset() == (tendon_faults.DEVICE_FAULT,)
    assert driver.safety.state == "safe"
    driver.cycle()
    assert driver.safety.reset() == ()
    assert driver.safety.faults == ()
    assert driver.safety.last_fault == tendon_faults.DEVICE_FAULT
    assert driver.output.state == "safe"
    assert driver.cycle().state == "inactive"
    driver.safety.activate(reading_at(driver.now_s, tension=driver.safety.commanded), driver.now_s)
    assert driver.cycle(2.0).state == "active"


def test_several_faults_at_once_are_all_named(driver):
    driver.cycles(5)
    output = driver.cycle(np.nan, device_faults=("x",), age_s=np.ones(N))
    assert set(output.new_faults) == {
        tendon_faults.READING_TIMEOUT,
        tendon_faults.DEVICE_FAULT,
        tendon_faults.COMMAND_NOT_FINITE,
    }


def test_every_fault_has_a_meaning():
    names = {value for name, value in vars(tendon_faults).items() if name.isupper() and isinstance(value, str)}
    assert names == set(tendon_faults.FAULTS)


def test_a_robot_without_limits_is_refused():
    with pytest.raises(ParameterError, match="limits"):
        TendonSafety(dataclasses.replace(ROBOT, limits=None))


@pytest.mark.parametrize("dt", [-1.0, math.nan, 0.0, math.inf])
def test_a_time_step_that_is_none_gives_no_credit(driver, dt):
    before = driver.cycle().tension
    driver.now_s += DT
    output = driver.safety.update(
        reading_at(driver.now_s, tension=before), np.full(N, 20.0), 0.0, driver.now_s, dt, command_sequence=99
    )
    periods = driver.safety.settings.credit_periods if dt == math.inf else 0
    step = np.abs(output.tension - before).max()
    assert step <= LIMITS.rate_n_per_s * DT * periods + 1e-12


# --- properties

anything = st.floats(allow_nan=True, allow_infinity=True)
small = st.floats(-0.03, 0.03)
tensions = st.floats(-5, 40)


def vectors(count, entries):
    return st.lists(st.one_of(entries, entries, entries, anything), min_size=count, max_size=count).map(np.array)


@st.composite
def cycles(draw, count):
    reading = None
    if draw(st.integers(0, 9)):
        good = draw(st.booleans())
        reading = (
            draw(st.floats(-0.1, 0.1)) if draw(st.integers(0, 4)) == 0 else 0.0,
            np.zeros(count) if good else draw(vectors(count, small)),
            np.ones(count) if good else draw(vectors(count, tensions)),
            () if draw(st.integers(0, 9)) else ("fault",),
        )
    command = draw(st.one_of(st.none(), vectors(count, tensions)))
    action = draw(st.sampled_from(["", "", "", "", "estop", "reset", "activate", "activate", "deactivate", "off"]))
    return reading, command, draw(st.floats(0, 0.2)), draw(st.sampled_from([0.0, 1e-3, 1e-3, 0.02, 0.5])), action


@pytest.mark.parametrize("robot", [ROBOT, TWO], ids=lambda robot: robot.name)
@settings(max_examples=2 * settings().max_examples)
@given(data=st.data())
def test_whatever_happens_the_output_is_finite_and_within_the_limits(robot, data):
    count, limits = robot.tendon_count, robot.limits
    safety = TendonSafety(robot)
    now_s = 100.0
    values = (0.0, 0.0, 1.0, 1.0 / NEWTON_PER_AMPERE, 0.0, 0.0)
    safety.activate(TendonReading(now_s, *(np.full(count, value) for value in values)), now_s)
    previous, was = safety.commanded, "active"
    for reading_parts, command, age_s, dt, action in data.draw(st.lists(cycles(count), max_size=15)):
        now_s += dt
        reading = None
        if reading_parts is not None:
            late_s, q, tension, device_faults = reading_parts
            reading = TendonReading(
                now_s - late_s, q, q, tension, tension / NEWTON_PER_AMPERE, q, np.zeros(count), device_faults
            )
        if action == "estop":
            safety.estop("test")
        elif action == "reset":
            safety.reset()
        elif action == "deactivate":
            safety.deactivate()
        elif action == "off":
            safety.torque_off()
        elif action == "activate" and reading is not None:
            try:
                safety.activate(reading, now_s)
            except DeviceError:
                assert safety.state != "active" or was == "active"
        if action in ("activate", "off"):
            previous = safety.commanded  # a new start from the measured tension, or from none
        output = safety.update(reading, command, age_s, now_s, dt)
        assert np.isfinite(output.tension).all()
        assert output.tension.min() >= (-limits.maximum_n if output.state == "safe" else 0)
        assert output.tension.max() <= limits.maximum_n
        assert output.tension.sum() <= limits.total_n * (1 + 1e-12)
        # What brakes is no part of the ramp.
        ramp = safety.commanded
        assert (output.tension <= ramp).all()
        quickest = max(limits.safe_rate_n_per_s, limits.maximum_n / safety.settings.safe_within_s)
        rate = limits.rate_n_per_s if output.state == "active" else quickest
        allowed = rate * safety.settings.maximum_step_s * (1 + 1e-9) + 1e-9
        assert np.abs(ramp - previous).max() <= allowed
        assert output.state == ("safe" if output.faults else output.state)
        assert output.state != "active" or not output.faults
        if was == "safe" and action != "reset":
            assert output.state != "active" or action == "activate"
        previous, was = ramp, output.state


def _active(count, tension_n):
    safety = TendonSafety(ROBOT)
    zero, tension = np.zeros(count), np.full(count, tension_n)
    reading = TendonReading(0.0, zero, zero, tension, tension / NEWTON_PER_AMPERE, zero, zero)
    safety.activate(reading, 0.0)
    return safety, reading


def test_a_fault_at_the_highest_tension_still_ends_at_the_safe_one_in_time():
    highest = min(ROBOT.limits.maximum_n, ROBOT.limits.total_n / ROBOT.tendon_count)
    safety, reading = _active(ROBOT.tendon_count, highest)
    slowly_s = (highest - ROBOT.limits.safe_n) / ROBOT.limits.safe_rate_n_per_s
    assert slowly_s > safety.settings.safe_within_s
    safety.estop("test")
    elapsed_s = 0.0
    while not safety.released:
        elapsed_s += 1e-3
        safety.update(dataclasses.replace(reading, stamp_s=elapsed_s), None, 0.0, elapsed_s, 1e-3)
    assert elapsed_s <= safety.settings.safe_within_s + 2e-3


def test_a_deactivation_keeps_the_slow_ramp():
    safety, reading = _active(ROBOT.tendon_count, 10.0)
    safety.deactivate()
    output = safety.update(dataclasses.replace(reading, stamp_s=1e-3), None, 0.0, 1e-3, 1e-3)
    np.testing.assert_allclose(output.tension, 10.0 - 1e-3 * ROBOT.limits.safe_rate_n_per_s)


def test_a_motor_that_runs_in_after_a_fault_is_braked_for_a_while_and_only_then():
    safety, reading = _active(ROBOT.tendon_count, 5.0)
    running = np.zeros(ROBOT.tendon_count)
    running[1] = 0.1
    safety.estop("test")
    seen = []
    for number in range(1, 300):
        now_s = number * 1e-3
        moving = dataclasses.replace(reading, stamp_s=now_s, velocity_m_per_s=running)
        seen.append(safety.update(moving, None, 0.0, now_s, 1e-3).tension)
    tension = np.array(seen)
    braked = tension[:, 1] < 0
    assert braked[: round(1e3 * BRAKE_DURATION_S) - 1].all()
    assert not braked[round(1e3 * BRAKE_DURATION_S) + 1 :].any()
    assert tension[:, 1].min() >= -ROBOT.limits.maximum_n
    assert (np.delete(tension, 1, axis=1) >= ROBOT.limits.safe_n - 1e-9).all()


@pytest.mark.parametrize("fraction", [-1.1, 2.1])
def test_a_command_far_outside_of_the_limits_is_a_fault_and_one_nearby_is_limited(fraction):
    safety, reading = _active(ROBOT.tendon_count, 3.0)
    command = np.full(ROBOT.tendon_count, 3.0)
    command[2] = 0.8 * fraction * ROBOT.limits.maximum_n
    output = safety.update(dataclasses.replace(reading, stamp_s=1e-3), command, 0.0, 1e-3, 1e-3)
    assert output.state == "active"
    assert output.limited[2]
    command[2] = fraction * ROBOT.limits.maximum_n
    output = safety.update(dataclasses.replace(reading, stamp_s=2e-3), command, 0.0, 2e-3, 1e-3)
    assert output.faults == ("command_out_of_range",)


def test_a_tension_that_the_limits_raise_rises_slowly_too():
    """One command below the minimum: its force is kept by raising the others, as if they had been asked for that."""
    safety, reading = _active(ROBOT.tendon_count, 3.0)
    command = np.array([3.0, 3.0, 9.0, -5.0, 9.0])
    for number in range(1, 20):
        now_s, swaying = number * 1e-3, MANIFOLD.displacement([1e-6 * number, 0])
        moving = dataclasses.replace(reading, stamp_s=now_s, displacement_m=swaying)
        output = safety.update(moving, command, 0.0, now_s, 1e-3, command_sequence=number)
    soft_n = safety.settings.soft_fraction * ROBOT.limits.maximum_n
    assert soft_n < output.tension.max() < soft_n + 0.25 * (ROBOT.limits.maximum_n - soft_n)


def test_a_tension_approaches_its_maximum_slowly_and_reaches_it():
    safety, reading = _active(ROBOT.tendon_count, 3.0)
    highest = (1 - safety.settings.headroom_fraction) * ROBOT.limits.maximum_n
    soft_n = safety.settings.soft_fraction * ROBOT.limits.maximum_n
    command = np.full(ROBOT.tendon_count, 3.0)
    command[0] = ROBOT.limits.maximum_n
    seen = []
    for number in range(1, 800):
        now_s = number * 1e-3
        current = safety.commanded
        swaying = MANIFOLD.displacement([1e-6 * (number % 2), 0])
        moving = dataclasses.replace(
            reading,
            stamp_s=now_s,
            displacement_m=swaying,
            tension_n=current,
            current_a=current / NEWTON_PER_AMPERE,
        )
        seen.append(safety.update(moving, command, 0.0, now_s, 1e-3, command_sequence=number).tension[0])
    tension = np.array(seen)
    assert tension[-1] == pytest.approx(highest, rel=1e-2)
    quick = np.searchsorted(tension, soft_n) * 1e-3
    assert quick < 0.01
    slow = np.searchsorted(tension, soft_n + (highest - soft_n) * (1 - math.exp(-1))) * 1e-3
    assert slow - quick == pytest.approx(safety.settings.soft_time_s, rel=0.05)


def test_what_comes_late_is_explained_with_its_limit():
    safety = TendonSafety(ROBOT)
    for fault, limit_s in (
        ("reading_timeout", LIMITS.reading_timeout_s),
        ("command_timeout", LIMITS.command_timeout_s),
    ):
        assert f"limits.{fault}_s = {limit_s:g} s" in safety.explain(fault)
    assert "docs/how-to/realtime.md" in safety.explain("reading_timeout")
