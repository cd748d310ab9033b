# SPDX-License-Identifier: Apache-2.0
"""The ``stop`` section of a robot file: what is refused, where, and why."""

import pytest

from continuum_robot.errors import RobotFileError
from continuum_robot.robot.loading import find_robot_file, parse_robot
from continuum_robot.robot.stop_policy import STOP_ACTIONS, StopPolicy

TEXT = find_robot_file("opencr_five_tendon").read_text(encoding="utf-8")
LAST_LINE = len(TEXT.rstrip("\n").splitlines())


def with_stop(lines, brake=""):
    text = TEXT.rstrip("\n").replace("actuators:\n", f"actuators:\n{brake}", 1) if brake else TEXT.rstrip("\n")
    return parse_robot(f"{text}\nstop:\n" + "".join(f"  {line}\n" for line in lines), "robot.yaml")


def test_without_the_section_every_stop_releases_and_the_torque_stays_on():
    policy = parse_robot(TEXT).stop
    assert policy == StopPolicy()
    assert {getattr(policy, key) for key in ("operator", "commands", "readings", "mechanics")} == {"release"}
    assert not policy.torque_off


def test_the_section_is_read():
    policy = with_stop(["operator: hold_tension", "commands: hold_place", "hold_s: 10", "torque_off: true"]).stop
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
        with_stop([f"{key}: {action}"])
    assert (caught.value.key, caught.value.value) == (f"stop.{key}", action)
    assert reason in str(caught.value)
    assert f"robot.yaml:{LAST_LINE + 2}" in str(caught.value)


@pytest.mark.parametrize("line", ["hold_s: 0", "hold_s: .inf", "hold_authority_n: -1", "torque_off: 1", "hold: 2"])
def test_numbers_out_of_range_and_unknown_keys_are_refused(line):
    with pytest.raises(RobotFileError, match=r"stop\."):
        with_stop([line])


def test_a_brake_needs_one_that_holds_the_greatest_tension():
    with pytest.raises(RobotFileError, match=r"actuators\.brake_holds_n") as caught:
        with_stop(["devices: brake"])
    assert caught.value.key == "stop.devices"
    with pytest.raises(RobotFileError, match=r"at least limits\.maximum_n = 20 N, since stop\.operator"):
        with_stop(["operator: brake"], brake="  brake_holds_n: 15.0\n")
    robot = with_stop([f"{key}: brake" for key in ("operator", "motor_hot")], brake="  brake_holds_n: 40.0\n")
    assert robot.stop.braking == "operator"
    assert "brake" in STOP_ACTIONS
