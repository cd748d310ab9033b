# SPDX-License-Identifier: Apache-2.0
"""The ``stop`` section of a robot file: what is refused, where, and why."""

import math

import pytest
from robot_files import FIVE_TENDONS, changed_robot

from continuum_robot.errors import RobotFileError
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.stop_policy import STOP_ACTIONS, StopPolicy


def with_stop(brake_holds_n=None, **stop):
    return changed_robot({"stop": stop, "actuators.brake_holds_n": brake_holds_n})


def test_without_the_section_every_stop_releases_and_the_torque_stays_on():
    policy = load_robot(FIVE_TENDONS).stop
    assert policy == StopPolicy()
    assert {getattr(policy, key) for key in ("operator", "commands", "readings", "mechanics")} == {"release"}
    assert not policy.torque_off


def test_the_section_is_read():
    policy = with_stop(operator="hold_tension", commands="hold_place", hold_s=10, torque_off=True).stop
    assert policy == StopPolicy(operator="hold_tension", commands="hold_place", hold_s=10.0, torque_off=True)


@pytest.mark.parametrize(
    ("key", "action", "reason"),
    [
        ("readings", "hold_place", "one of release, hold_tension, brake: the place cannot be held by readings"),
        ("loop_too_slow", "hold_place", "one of release, hold_tension, brake: a loop that is late"),
        ("mechanics", "hold_tension", "one of release, brake: a motor whose tendon snapped"),
        ("devices", "hold_place", "one of release, brake: a motor may be off"),
        ("motor_hot", "hold_tension", "one of release, brake: the motor must cool"),
        ("deactivation", "torque_off", "one of release: without torque a bent robot springs back"),
        ("operator", "freeze", "one of release, hold_tension, hold_place, brake, torque_off"),
    ],
)
def test_an_action_that_cannot_be_is_refused_with_its_line_and_the_reason(key, action, reason):
    with pytest.raises(RobotFileError) as caught:
        with_stop(**{key: action})
    assert (caught.value.key, caught.value.value) == (f"stop.{key}", action)
    assert reason in str(caught.value)
    assert caught.value.line is not None


@pytest.mark.parametrize(
    ("key", "value"), [("hold_s", 0), ("hold_s", math.inf), ("hold_authority_n", -1), ("torque_off", 1), ("hold", 2)]
)
def test_numbers_out_of_range_and_unknown_keys_are_refused(key, value):
    with pytest.raises(RobotFileError, match=rf"stop\.{key}"):
        with_stop(**{key: value})


def test_a_brake_needs_one_that_holds_the_greatest_tension():
    with pytest.raises(RobotFileError, match=r"actuators\.brake_holds_n") as caught:
        with_stop(devices="brake")
    assert caught.value.key == "stop.devices"
    with pytest.raises(RobotFileError, match=r"at least limits\.maximum_n = 20 N, since stop\.operator"):
        with_stop(15.0, operator="brake")
    robot = with_stop(40.0, operator="brake", motor_hot="brake")
    assert robot.stop.braking == "operator"
    assert "brake" in STOP_ACTIONS
