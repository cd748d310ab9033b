# SPDX-License-Identifier: Apache-2.0
"""What a stop does, by the class of its fault: release, holds that are bounded in tension and time, brakes."""

import dataclasses
import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safety_steps import TendonSafety

from continuum_robot.drivers.protocols import TendonReading
from continuum_robot.drivers.safety import tendon_faults
from continuum_robot.drivers.safety.settings import SafetySettings
from continuum_robot.robot.coordinates import clarke_manifold
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.stop_policy import StopPolicy

ROBOT = load_robot("opencr_five_tendon")
LIMITS = ROBOT.limits
N = ROBOT.tendon_count
DT = 1e-3
MANIFOLD = clarke_manifold(ROBOT)
COMMAND_N = np.array([3.0, 5.0, 4.0, 2.5, 6.0])
MASS_KG = ROBOT.actuators.reflected_mass_kg


class Driver:
    """An active driver whose robot file has a ``stop`` section, and whose readings follow the commands."""

    def __init__(self, **policy):
        actuators = dataclasses.replace(ROBOT.actuators, brake_holds_n=2 * LIMITS.maximum_n)
        self.robot = dataclasses.replace(ROBOT, actuators=actuators, stop=StopPolicy(**policy))
        self.safety = TendonSafety(self.robot, SafetySettings())
        self.now_s, self.flicker, self.sequence = 10.0, itertools.cycle((0.0, 1e-6)), 0
        self.clarke, self.rate = np.zeros(2), np.zeros(2)
        self.safety.activate(self.reading(), self.now_s)
        for _ in range(100):
            self.cycle(COMMAND_N)
        np.testing.assert_allclose(self.safety.commanded, COMMAND_N)

    def reading(self, **changes):
        tension = self.safety.commanded
        values = {
            "stamp_s": self.now_s,
            "displacement_m": MANIFOLD.displacement(self.clarke + np.array([next(self.flicker), 0.0])),
            "velocity_m_per_s": MANIFOLD.displacement(self.rate),
            "tension_n": tension,
            "current_a": tension / ROBOT.newton_per_ampere,
            "temperature_c": np.full(N, 30.0),
            "age_s": np.zeros(N),
        }
        return TendonReading(**(values | changes))

    def cycle(self, command=None, **changes):
        self.now_s += DT
        self.sequence += 1
        reading = self.reading(**changes)
        return self.safety.update(reading, command, 0.0, self.now_s, DT, command_sequence=self.sequence)

    def cycles(self, duration_s, **changes):
        return np.array([self.cycle(**changes).tension for _ in range(round(duration_s / DT))])

    def lose_controller(self):
        self.cycles(LIMITS.command_timeout_s + 2 * DT)
        assert self.safety.faults == (tendon_faults.COMMAND_TIMEOUT,)


def test_every_fault_has_one_class_that_the_robot_file_knows():
    named = [name for names in tendon_faults.STOP_CLASSES.values() for name in names]
    assert sorted(named) == sorted(tendon_faults.FAULTS)
    fields = {field.name for field in dataclasses.fields(StopPolicy)}
    assert set(tendon_faults.STOP_CLASSES) == fields - {
        "hold_s",
        "deactivation",
        "hold_authority_n",
        "hold_bandwidth_rad_per_s",
        "torque_off",
    }


def test_by_default_every_stop_releases_as_fast_as_ever():
    driver = Driver()
    driver.safety.estop("test")
    tensions = driver.cycles(driver.safety.settings.safe_within_s + 2 * DT)
    np.testing.assert_allclose(tensions[-1], LIMITS.safe_n)
    assert driver.safety.stop_action == "release"
    assert not driver.safety.torque_off_due


def test_holding_tensions_keeps_those_of_the_last_good_command_to_the_last_bit():
    driver = Driver(operator="hold_tension", hold_s=1.0)
    driver.safety.estop("test")
    driver.clarke = np.array([1e-3, -5e-4])
    tensions = driver.cycles(0.9)
    assert np.all(tensions == COMMAND_N)
    assert driver.safety.stop_action == "hold_tension"
    assert driver.safety.state == "safe"
    assert not driver.safety.released


@pytest.mark.parametrize("action", ["hold_tension", "hold_place"])
def test_a_hold_ends_after_its_time_and_ramps_down_slowly(action):
    driver = Driver(commands=action, hold_s=0.5)
    driver.lose_controller()
    assert driver.safety.fallback_holds
    held = driver.cycles(0.5 - 5 * DT)
    np.testing.assert_allclose(held, np.broadcast_to(COMMAND_N, held.shape), atol=0.05)
    ramp = driver.cycles(0.2)
    steps = np.diff(ramp, axis=0)
    assert steps.min() >= -LIMITS.safe_rate_n_per_s * DT - 0.02, "faster than limits.safe_rate_n_per_s"
    np.testing.assert_allclose(ramp[-1], LIMITS.safe_n)
    assert not driver.safety.fallback_holds
    assert driver.safety.stop_action == "release"
    assert driver.safety.released
    assert driver.safety.faults == (tendon_faults.COMMAND_TIMEOUT,)


def test_a_controller_that_comes_back_is_not_heard_before_a_reset():
    driver = Driver(commands="hold_tension", hold_s=0.5)
    driver.lose_controller()
    for _ in range(100):
        assert np.all(driver.cycle(np.full(N, 8.0)).tension == COMMAND_N)


def test_holding_the_place_pulls_back_with_stiffness_damping_and_no_more_than_its_authority():
    driver = Driver(operator="hold_place", hold_authority_n=1.5, hold_bandwidth_rad_per_s=20.0)
    driver.clarke = np.array([1e-3, 0.0])
    driver.cycle(COMMAND_N)
    driver.safety.estop("test")
    driver.cycle()
    before = driver.clarke
    driver.clarke = before + np.array([2e-4, -1e-4])
    driver.rate = np.array([1e-3, 2e-3])
    driver.cycles(0.02)
    expected = -MASS_KG * 20.0**2 * MANIFOLD.displacement([2e-4, -1e-4]) - 2 * MASS_KG * 20.0 * MANIFOLD.displacement(
        driver.rate
    )
    np.testing.assert_allclose(driver.safety.commanded - COMMAND_N, expected, atol=2e-3)
    # The tendon that was pulled in pulls less.
    assert np.sign(expected[0]) == -1 == -np.sign(MANIFOLD.displacement([2e-4, -1e-4])[0])
    driver.rate = np.zeros(2)
    for _ in range(40):
        driver.clarke = driver.clarke + np.array([1e-4, 0.0])
        driver.cycle()
    change = driver.safety.commanded - COMMAND_N
    assert np.abs(change).max() == pytest.approx(1.5)
    assert driver.safety.faults == (tendon_faults.ESTOP,)


def test_without_a_number_the_authority_is_a_tenth_of_the_greatest_tension():
    driver = Driver(operator="hold_place", hold_bandwidth_rad_per_s=100.0)
    driver.safety.estop("test")
    for _ in range(20):
        driver.clarke = driver.clarke + np.array([1e-4, 0.0])
        driver.cycle()
    assert np.abs(driver.safety.commanded - COMMAND_N).max() == pytest.approx(0.1 * LIMITS.maximum_n)


def test_a_missing_reading_leaves_the_tensions_of_a_held_place_and_too_long_a_gap_ends_it():
    driver = Driver(operator="hold_place")
    driver.safety.estop("test")
    driver.cycles(0.01)
    driver.clarke = np.array([1e-4, 0.0])
    driver.cycle()
    before = driver.safety.commanded
    for _ in range(10):
        driver.now_s += DT
        output = driver.safety.update(None, None, 0.0, driver.now_s, DT)
        np.testing.assert_array_equal(output.tension, before)
    for _ in range(round(LIMITS.reading_timeout_s / DT) + 2):
        driver.now_s += DT
        output = driver.safety.update(None, None, 0.0, driver.now_s, DT)
    assert tendon_faults.READING_TIMEOUT in driver.safety.faults
    assert driver.safety.stop_action == "release"
    assert np.all(output.tension < before)


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"temperature_c": np.array([30.0, 200.0, 30.0, 30.0, 30.0])}, tendon_faults.MOTOR_HOT),
        ({"device_faults": ("board 1",)}, tendon_faults.DEVICE_FAULT),
        ({"displacement_m": np.array([6e-3, 0.0, 0.0, 0.0, 0.0])}, tendon_faults.DISPLACEMENT_JUMP),
        ({"displacement_m": np.full(N, math.nan)}, tendon_faults.READING_NOT_FINITE),
        ({"tension_n": np.full(N, 3 * LIMITS.maximum_n)}, tendon_faults.TENSION_OUT_OF_RANGE),
    ],
)
@pytest.mark.parametrize("action", ["hold_tension", "hold_place"])
def test_another_fault_during_a_hold_latches_and_releases_at_once(action, changes, fault):
    driver = Driver(commands=action, hold_s=60.0)
    driver.lose_controller()
    driver.cycles(0.1)
    driver.cycle(**changes)
    assert fault in driver.safety.faults
    assert driver.safety.stop_action == "release"
    assert not driver.safety.fallback_holds
    driver.cycles(driver.safety.settings.safe_within_s + 2 * DT)
    np.testing.assert_allclose(driver.safety.commanded, LIMITS.safe_n)


def test_the_e_stop_ends_the_fallback_where_its_own_action_is_a_release_and_not_where_it_holds():
    for operator, held in (("release", False), ("hold_tension", True), ("hold_place", True)):
        driver = Driver(commands="hold_tension", operator=operator, hold_s=60.0)
        driver.lose_controller()
        driver.safety.estop("test")
        driver.cycles(0.05)
        assert bool(np.all(driver.safety.commanded == COMMAND_N)) == held
        assert driver.safety.stop_action == ("hold_tension" if held else "release")


def test_an_e_stop_of_the_driver_itself_and_procedures_always_release():
    driver = Driver(operator="hold_place", commands="hold_place")
    driver.safety.estop("internal_error", release=True)
    assert driver.safety.stop_action == "release"
    driver = Driver(operator="hold_place", commands="hold_place")
    driver.safety.positions_known = False  # as while the robot is homed
    driver.safety.estop("test")
    assert driver.safety.stop_action == "release"
    driver.cycles(driver.safety.settings.safe_within_s + 2 * DT)
    np.testing.assert_allclose(driver.safety.commanded, LIMITS.safe_n)


def test_a_reset_and_a_deactivation_end_a_hold_with_the_slow_ramp():
    for end in ("reset", "deactivate"):
        driver = Driver(operator="hold_tension", hold_s=60.0)
        driver.safety.estop("test")
        driver.cycles(0.1)
        getattr(driver.safety, end)()
        first = driver.cycle().tension
        np.testing.assert_allclose(COMMAND_N - first, LIMITS.safe_rate_n_per_s * DT, atol=1e-9)
        driver.cycles(COMMAND_N.max() / LIMITS.safe_rate_n_per_s)
        assert driver.safety.released


def test_a_brake_asks_for_the_torque_to_go_off_at_once_and_the_tensions_stay_until_then():
    driver = Driver(operator="brake")
    driver.safety.estop("test")
    output = driver.cycle()
    assert driver.safety.torque_off_due
    np.testing.assert_array_equal(output.tension, COMMAND_N)
    driver.safety.torque_off()
    driver.cycle()
    assert not driver.safety.torque_off_due
    assert driver.safety.faults == (tendon_faults.ESTOP,)


def test_an_e_stop_in_the_ramp_of_a_deactivation_is_as_fast_as_any_other():
    driver = Driver()
    driver.safety.deactivate()
    driver.cycles(5 * DT)
    driver.safety.estop("test")
    driver.cycles(driver.safety.settings.safe_within_s + 2 * DT)
    np.testing.assert_allclose(driver.safety.commanded, LIMITS.safe_n)
    assert driver.safety.faults == (tendon_faults.ESTOP,)


def test_a_hold_asked_for_in_the_ramp_of_a_deactivation_leaves_the_ramp_as_it_is():
    slow, stopped = Driver(operator="hold_tension"), Driver(operator="hold_tension")
    for driver in (slow, stopped):
        driver.safety.deactivate()
        driver.cycles(5 * DT)
    stopped.safety.estop("test")
    np.testing.assert_array_equal(slow.cycles(0.02), stopped.cycles(0.02))
    assert stopped.safety.stop_action == "release"


def _deactivated(driver):
    driver.safety.deactivate()
    driver.cycles(5 * DT)


def _released(driver):
    driver.lose_controller()
    driver.cycles(1.0)
    assert driver.safety.released


def _held_until_it_ran_out(driver):
    driver.lose_controller()
    driver.cycles(driver.robot.stop.hold_s + 3 * DT)
    assert not driver.safety.released


@pytest.mark.parametrize(
    ("commands", "before"),
    [("release", _deactivated), ("release", _released), ("hold_tension", _held_until_it_ran_out)],
)
def test_an_e_stop_closes_the_brake_whatever_was_before(commands, before):
    driver = Driver(operator="brake", commands=commands, hold_s=0.1)
    before(driver)
    driver.safety.estop("test")
    driver.cycle()
    assert driver.safety.torque_off_due
    assert driver.safety.stop_action == "brake"


def test_an_e_stop_after_a_hold_ran_out_hastens_the_slow_ramp_and_a_second_fault_slows_no_ramp():
    driver = Driver(commands="hold_tension", hold_s=0.1)
    _held_until_it_ran_out(driver)
    driver.safety.estop("test")
    driver.cycles(0.5 * driver.safety.settings.safe_within_s)
    driver.cycle(device_faults=("board 1",))
    assert driver.safety.faults == (tendon_faults.COMMAND_TIMEOUT, tendon_faults.ESTOP, tendon_faults.DEVICE_FAULT)
    driver.cycles(0.5 * driver.safety.settings.safe_within_s + 2 * DT)
    np.testing.assert_allclose(driver.safety.commanded, LIMITS.safe_n)


def test_further_faults_latch_in_the_safe_state_while_there_is_power_and_slack_tendons_are_none():
    driver = Driver(devices="brake")
    _released(driver)
    slack_m = MANIFOLD.displacement(np.zeros(2)) + np.linspace(0, 4e-3, N)
    for fraction in np.linspace(0, 1, 20):
        driver.cycle(displacement_m=fraction * slack_m)
    assert driver.safety.conditions == ()  # so that a reset is not refused: activation takes slack up, then looks
    assert driver.safety.faults == (tendon_faults.COMMAND_TIMEOUT,)
    driver.cycle(displacement_m=slack_m, device_faults=("board 1",))
    assert driver.safety.faults == (tendon_faults.COMMAND_TIMEOUT, tendon_faults.DEVICE_FAULT)
    assert driver.safety.torque_off_due
    driver.safety.torque_off()
    driver.cycle(displacement_m=np.full(N, math.nan))
    assert driver.safety.faults == (tendon_faults.COMMAND_TIMEOUT, tendon_faults.DEVICE_FAULT)


def test_after_a_brake_and_a_reset_a_deactivation_ramps_down_again():
    driver = Driver(operator="brake")
    driver.safety.estop("test")
    driver.cycle()
    driver.safety.torque_off()
    driver.cycle()
    assert driver.safety.reset() == ()
    driver.safety.activate(driver.reading(), driver.now_s)
    for _ in range(100):
        driver.cycle(COMMAND_N)
    driver.safety.deactivate()
    driver.cycles(COMMAND_N.max() / LIMITS.safe_rate_n_per_s + 2 * DT)
    assert driver.safety.released


def test_a_cycle_that_hung_latches_when_it_goes_on():
    driver = Driver()
    driver.safety.hang_seen = True
    driver.cycle()
    assert driver.safety.faults[0] == tendon_faults.LOOP_HANGS
    assert driver.safety.stop_action == "release"


def test_the_torque_goes_off_at_the_end_of_a_release_where_the_robot_file_wants_it():
    driver = Driver(torque_off=True, operator="hold_tension", hold_s=0.1)
    driver.safety.estop("test")
    due = []
    for _ in range(300):
        driver.cycle()
        due.append(bool(driver.safety.torque_off_due))
        assert due[-1] == np.allclose(driver.safety.commanded, LIMITS.safe_n, rtol=0, atol=1e-9)
    assert due[-1]
    driver.safety.torque_off()
    driver.cycle()
    assert not driver.safety.torque_off_due


@given(
    st.sampled_from(["hold_tension", "hold_place"]),
    st.floats(0.1, 30.0),
    st.floats(1.0, 200.0),
    st.lists(
        st.tuples(st.floats(-0.02, 0.02), st.floats(-0.02, 0.02), st.floats(-2, 2) | st.just(math.nan)),
        min_size=1,
        max_size=20,
    ),
)
def test_whatever_is_measured_a_hold_stays_within_its_authority_and_the_limits(action, authority_n, bandwidth, moves):
    driver = Driver(operator=action, hold_authority_n=authority_n, hold_bandwidth_rad_per_s=bandwidth, hold_s=60.0)
    driver.safety.estop("test")
    driver.cycle()
    for re, im, speed in moves:
        driver.clarke = np.array([re, im])
        before = driver.safety.commanded
        driver.cycle(velocity_m_per_s=np.full(N, speed))
        tension = driver.safety.commanded
        if driver.safety.stop_action == "release":
            return  # another fault was found
        assert np.all(np.abs(tension - COMMAND_N) <= (authority_n if action == "hold_place" else 0.0) + 1e-9)
        assert np.all((tension >= LIMITS.minimum_n - 1e-9) & (tension <= LIMITS.maximum_n + 1e-9))
        assert tension.sum() <= LIMITS.total_n + 1e-9
        assert np.abs(tension - before).max() <= LIMITS.rate_n_per_s * DT + 1e-9
