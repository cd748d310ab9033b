# SPDX-License-Identifier: Apache-2.0
"""Values that a robot file may leave out."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from robot_files import GONE, changed_robot, made, robot_values

from continuum_robot.errors import RobotFileError
from continuum_robot.robot.file.derived import RULES
from continuum_robot.robot.file.plain_yaml import place_of

TENSION = robot_values({"hardware": GONE})
DISPLACEMENT = {
    **TENSION,
    "actuators": {
        "command": "displacement", "spool_radius_m": 0.01, "torque_constant_nm_per_a": 1.08, "maximum_current_a": 1.3,
        "rotor_inertia_kg_m2": 6e-4, "servo": {"maximum_speed_rad_per_s": 6.0},
    },
    "limits": {"maximum_displacement_m": 0.02, "maximum_n": 70.0},
    "control": {"pretension_n": 4.0},
}  # fmt: skip


def test_a_file_that_states_everything_derives_nothing():
    assert made(TENSION).derived == ()


def test_limits_of_tensions_follow_from_the_greatest_and_from_friction():
    few = {"maximum_n": 20.0, "maximum_displacement_m": 0.025}
    robot = changed_robot({"limits": few, "control.pretension_n": GONE, "hardware": GONE})
    limits = robot.limits
    friction_n = (0.0005 + 0.0015) * 6.0 / 0.009
    assert friction_n < limits.minimum_n < 1.2 * friction_n
    assert robot.control.pretension_n == pytest.approx(2 * limits.minimum_n, rel=0.01)
    assert (limits.rate_n_per_s, limits.total_n, limits.safe_n, limits.safe_rate_n_per_s) == (2000, 60, 0.5, 100)
    assert [line.split(" = ")[0] for line in robot.derived] == [
        "limits.minimum_n", "limits.rate_n_per_s", "limits.total_n", "limits.safe_n", "limits.safe_rate_n_per_s",
        "control.pretension_n",
    ]  # fmt: skip


def test_limits_of_displacements_follow_from_the_servos():
    limits = made(DISPLACEMENT).limits
    assert limits.speed_m_per_s == pytest.approx(0.03)
    assert limits.acceleration_m_per_s2 == pytest.approx(0.15)
    assert limits.pay_out_m == pytest.approx(0.005)
    without = copy.deepcopy(DISPLACEMENT)
    del without["limits"]["maximum_n"]
    assert made(without).limits.maximum_n == pytest.approx(0.5 * 1.08 * 1.3 / 0.01, rel=0.01)


def test_clamps_and_strings_follow_from_what_stands_beside_them():
    entries = [{"p": 1.0, "u_clamp_max": 7.25}, {"p": 1.0, "u_clamp_max": 3.0, "u_clamp_min": -2.0, "i_clamp_max": 1.5}]
    few = {"control.gains": entries, "strings": [{"name": "a", "pitch_radius_m": 0.008, "angle_rad": 0.3}]}
    robot = changed_robot(few, "two_segment")
    clamps = [(one.u_clamp_min, one.i_clamp_min) for one in robot.control.gains]
    assert clamps == [(-7.25, -1000.0), (-2.0, -1.5)]
    assert robot.strings[0].anchor_m == robot.length_m
    assert [line.split(":")[0] for line in robot.derived] == [
        "control.gains[0].u_clamp_min = -7.25", "control.gains[1].i_clamp_min = -1.5", "strings[0].anchor_m = 0.4",
    ]  # fmt: skip


def test_motors_and_strings_are_wired_in_their_order_where_the_file_does_not_say_how():
    board, encoders = "hardware.tendon_actuators", "hardware.string_encoders"
    robot = changed_robot({f"{board}.motors": GONE, f"{encoders}.strings": [{"pulley_radius_m": 0.01}] * 2})
    assert "can2, motor 1, tendon 5" in robot.derived[0]
    places = [("can0", 1), ("can0", 2), ("can1", 1), ("can1", 2), ("can2", 1)]
    assert [one.place for one in robot.hardware.tendon_actuators.motors] == places
    assert robot.newton_per_ampere == pytest.approx(np.full(5, robot.actuators.newton_per_ampere))
    counters = [(one.string, one.channel) for one in robot.hardware.string_encoders.strings]
    assert counters == [("string_x", 0), ("string_y", 1)]
    crossed = [{"string": "string_y", "pulley_radius_m": 0.01}, {"string": "string_x", "pulley_radius_m": 0.02}]
    found = changed_robot({f"{encoders}.strings": crossed}).hardware.string_encoders.strings
    assert [(one.string, one.channel) for one in found] == [("string_y", 0), ("string_x", 1)]
    servos = changed_robot({board: {"kind": "dynamixel", "port": "/dev/servos"}}).hardware.tendon_actuators
    assert [(one.id, one.tendon) for one in servos.motors] == [(k, k) for k in range(1, 6)]
    with pytest.raises(RobotFileError, match="a motor for tendon 5 too"):
        changed_robot({board: {"kind": "odri_can", "channels": ["can0", "can1"]}})


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{rule.key}-{len(rule.of)}")
def test_what_it_would_follow_from_is_missing_or_no_number(rule):
    """Then the file is refused with a key of the file, and nothing else happens."""
    values = copy.deepcopy(DISPLACEMENT if rule.command == "displacement" else TENSION)
    place, name = place_of(values, rule.key.replace("[]", "[0]"))
    place.pop(name, None)
    for key in rule.of:
        own = {"length_m": "segments[0].length_m"}.get(key, key).replace("[]", "[0]")
        place, name = place_of(values, own, make="[" not in own)
        if key != "tendons":
            place[name] = "much"
    with pytest.raises(RobotFileError) as caught:
        made(values)
    assert caught.value.key.startswith(("limits", "actuators", "control", "segments", "transmission"))
