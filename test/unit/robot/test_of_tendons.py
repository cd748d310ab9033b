# SPDX-License-Identifier: Apache-2.0
"""Actuators and limits of single tendons: what a file may state, and which number each tendon then has."""

import dataclasses

import numpy as np
import pytest
from changed_robots import SMALL_SPOOLS, restated, with_own
from robot_files import changed_robot, made, robot_values

from continuum_robot.errors import RobotFileError
from continuum_robot.robot.actuation import Actuators
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.reading_thresholds import reading_thresholds, servo_thresholds

FIVE, SMALL = load_robot("opencr_five_tendon"), load_robot(SMALL_SPOOLS)
DISTAL = [6, 7, 8]


def small(section, **changes):
    """The values of the example with a changed entry of a section."""
    values = robot_values({}, SMALL_SPOOLS)
    values[section]["tendons"][0].update(changes)
    return values


def test_each_tendon_has_its_own_numbers_and_else_the_common_ones():
    actuators = SMALL.actuators
    radius_m = np.where(np.isin(np.arange(9), DISTAL), 0.006, 0.01)
    np.testing.assert_array_equal(actuators.each("spool_radius_m", 9), radius_m)
    np.testing.assert_allclose(SMALL.newton_per_ampere, 1.08 / radius_m)
    np.testing.assert_allclose(actuators.each("reflected_mass_kg", 9), 5e-4 / radius_m**2)
    np.testing.assert_allclose(actuators.each("coulomb_n", 9), 0.02 / radius_m)
    assert SMALL.limits.each("maximum_n", 9).tolist() == [60.0] * 6 + [25.0] * 3
    assert SMALL.limits.each("acceleration_m_per_s2", 9).tolist() == [0.5] * 9
    assert (SMALL.limits.smallest("maximum_n", 9), SMALL.limits.largest("maximum_n", 9)) == (25.0, 60.0)
    # The longest release is of a tendon with the common values: 40 mm at 20 mm/s.
    assert SMALL.limits.longest_ramp_s == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("section", "changes", "key", "expected"),
    [
        ("limits", {"tendons": [7, 10]}, "limits.tendons[0].tendons", "tendons of 1 to 9"),
        ("actuators", {"tendons": [0]}, "actuators.tendons[0].tendons[0]", r"\[1, 640\]"),
        ("limits", {"tendons": [7, 7]}, "limits.tendons[0].tendons", "each in one entry and once"),
        ("limits", {"tendons": []}, "limits.tendons[0].tendons", "at least one tendon"),
        ("limits", {"maximum_n": 60.0}, "limits.tendons[0].maximum_n", "another value than all tendons have"),
        ("limits", {"command_timeout_s": 0.2}, "limits.tendons[0].command_timeout_s", "one of the keys tendons, max"),
        ("actuators", {"rate_hz": 100.0}, "actuators.tendons[0].rate_hz", "one of the keys tendons, spool"),
        ("limits", {"maximum_n": 300.0}, "limits.tendons[0].maximum_n", "234 N, which the actuators of tendon 7 give"),
        ("limits", {"slack_n": 26.0}, "limits.tendons[0].slack_n", "less than maximum_n = 25 N"),
        ("limits", {"pay_out_m": 0.025}, "limits.tendons[0].pay_out_m", "at most maximum_displacement_m = 0.02 m"),
        ("limits", {"speed_m_per_s": 0.039}, "limits.tendons[0].speed_m_per_s", "0.03582 m/s.* of tendon 7"),
        ("actuators", {"spool_radius_m": -1}, "actuators.tendons[0].spool_radius_m", r"\(0, 0.2\] m"),
    ],
)
def test_what_does_not_fit_is_refused(section, changes, key, expected):
    with pytest.raises(RobotFileError, match=expected) as raised:
        made(small(section, **changes))
    assert raised.value.key == key


def test_a_tendon_in_two_entries_and_an_entry_of_nothing_are_refused():
    values = small("limits")
    values["limits"]["tendons"].append({"tendons": [3, 9], "maximum_n": 20.0})
    with pytest.raises(RobotFileError, match="each in one entry"):
        made(values)
    values["limits"]["tendons"][1] = {"tendons": [3]}
    with pytest.raises(RobotFileError, match="at least one of the keys maximum_n, maximum_displacement_m"):
        made(values)


def test_limits_bound_other_values_tendon_by_tendon():
    with pytest.raises(RobotFileError, match=r"at most limits.tendons\[0\].maximum_n = 5 N") as raised:
        made({**small("limits", maximum_n=5.0), "control": {"law": "statics", "pretension_n": 6.0}})
    assert raised.value.key == "control.pretension_n"
    total = {"limits.tendons": [{"tendons": [2], "minimum_n": 5.0}], "limits.total_n": 6.0}
    with pytest.raises(RobotFileError, match="which 5 tendons at minimum_n need"):
        changed_robot(total)


def test_motors_that_share_tendons_or_move_a_mechanism_are_of_one_kind():
    for name in ("vanderbilt_two_motors", "rolling_five_link"):
        robot = load_robot(name)
        with pytest.raises(RobotFileError, match="are all of one kind"):
            robot.changed(actuators=with_own(robot.actuators, [1], maximum_current_a=0.1))


def test_a_motors_entry_overrides_but_for_a_gear_of_two_sizes():
    """A calibration writes the torque constant there; a gear ratio is stated once."""
    values = small("actuators", torque_constant_nm_per_a=1.0)
    values["hardware"]["tendon_actuators"]["motors"][6]["torque_constant_nm_per_a"] = 1.02
    assert made(values).newton_per_ampere[DISTAL] == pytest.approx(np.array([1.02, 1.0, 1.0]) / 0.006)
    values = small("actuators", gear_ratio=0.5)
    key = r"hardware.tendon_actuators.motors\[6\].gear_ratio"
    with pytest.raises(RobotFileError, match=rf"{key}: 1.0 -- expected 0.5, as actuators.tendons\[0\].gear_ratio says"):
        made(values)
    for entry in values["hardware"]["tendon_actuators"]["motors"][6:]:
        entry["gear_ratio"] = None
    assert made(values).newton_per_ampere[DISTAL] == pytest.approx(np.full(3, 0.5 * 1.08 / 0.006))


def test_a_limit_that_is_lowered_holds_for_tendons_of_their_own_too():
    limits = with_own(with_own(FIVE.limits, [2], maximum_n=12.0), [4], maximum_n=25.0)
    common = dataclasses.replace(FIVE.limits, maximum_n=15.0)
    assert limits.lowered(common).each("maximum_n", 5).tolist() == [15.0, 12.0, 15.0, 15.0, 15.0]
    same = limits.lowered(dataclasses.replace(limits, tendons=()))
    np.testing.assert_array_equal(same.each("maximum_n", 5), limits.each("maximum_n", 5))


def test_thresholds_follow_from_each_tendons_own_motor_and_limits():
    found = servo_thresholds(SMALL, 0.005)
    w = 2 * np.pi * 12.0
    for number in (1, 9):
        motor, limits = SMALL.actuators.of(number), SMALL.limits.of(number)
        load_m = (limits.maximum_n + motor.coulomb_n) / (motor.reflected_mass_kg * w**2)
        behind_m = limits.speed_m_per_s * (2 / w + 0.01) + load_m + 2 * motor.meter_per_count
        assert found.lag_m[number - 1] == pytest.approx(1.5 * behind_m)
        assert found.highest_n[number - 1] == pytest.approx(
            limits.maximum_n + motor.coulomb_n + 0.5 * motor.reflected_mass_kg
        )
    weak = FIVE.changed(actuators=with_own(FIVE.actuators, [2], maximum_current_a=2.0, coulomb_friction_nm=0.0))
    plain, found = reading_thresholds(FIVE), reading_thresholds(weak)
    assert found.current_mismatch_a[1] == pytest.approx(
        plain.current_mismatch_a[1] - 0.05 * (FIVE.actuators.maximum_current_a - 2.0)
    )
    np.testing.assert_array_equal(np.delete(found.current_mismatch_a, 1), np.delete(plain.current_mismatch_a, 1))
    assert (found.frozen_motion_m <= plain.frozen_motion_m).all()


@pytest.mark.parametrize("name", ["opencr_five_tendon", "three_segment_servo"])
def test_values_that_each_tendon_states_are_all_that_counts(name):
    robot = load_robot(name)
    same, count = restated(robot), robot.tendon_count
    properties = [key for key, value in vars(Actuators).items() if isinstance(value, property)]
    for key in set(properties) - {"all_values", "cycle_hz"}:
        np.testing.assert_array_equal(same.actuators.each(key, count), robot.actuators.each(key, count))
        common = getattr(robot.actuators, key)
        assert getattr(same.actuators, key) != common or np.isinf(common)
    np.testing.assert_array_equal(same.newton_per_ampere, robot.newton_per_ampere)
