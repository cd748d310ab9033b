# SPDX-License-Identifier: Apache-2.0
"""Values that a robot file may leave out."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import yaml

from continuum_robot.errors import RobotFileError
from continuum_robot.robot.file.derived import RULES
from continuum_robot.robot.file.values import file_values
from continuum_robot.robot.loading import load_robot, parse_robot

TENSION = file_values(load_robot("opencr_five_tendon"))
DISPLACEMENT = {
    **TENSION,
    "actuators": {
        "command": "displacement", "spool_radius_m": 0.01, "torque_constant_nm_per_a": 1.08, "maximum_current_a": 1.3,
        "rotor_inertia_kg_m2": 6e-4, "servo": {"maximum_speed_rad_per_s": 6.0},
    },
    "limits": {"maximum_displacement_m": 0.02, "maximum_n": 70.0},
    "control": {"pretension_n": 4.0},
}  # fmt: skip


def parsed(values: dict[str, Any]) -> Any:
    kept = {key: value for key, value in values.items() if key not in ("hardware", "assumed")}
    return parse_robot(yaml.safe_dump(kept))


def test_a_file_that_states_everything_derives_nothing():
    assert parsed(TENSION).derived == ()


def test_limits_of_tensions_follow_from_the_greatest_and_from_friction():
    values = copy.deepcopy(TENSION)
    values["limits"] = {"maximum_n": 20.0, "maximum_displacement_m": 0.025}
    del values["control"]["pretension_n"]
    robot = parsed(values)
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
    limits = parsed(DISPLACEMENT).limits
    assert limits.speed_m_per_s == pytest.approx(0.03)
    assert limits.acceleration_m_per_s2 == pytest.approx(0.15)
    assert limits.pay_out_m == pytest.approx(0.005)
    without = copy.deepcopy(DISPLACEMENT)
    del without["limits"]["maximum_n"]
    assert parsed(without).limits.maximum_n == pytest.approx(0.5 * 1.08 * 1.3 / 0.01, rel=0.01)


def test_motors_are_wired_in_the_order_of_the_tendons_where_the_file_does_not_say_how():
    values = copy.deepcopy(TENSION)
    motors = values["hardware"]["tendon_actuators"]
    for key in ("motors", "maximum_current_a"):
        del motors[key]
    values.pop("assumed")
    robot = parse_robot(yaml.safe_dump(values))
    stated = load_robot("opencr_five_tendon")
    assert "can2, motor 1, tendon 5" in robot.derived[-1]
    assert [one.place for one in robot.hardware.tendon_actuators.motors] == [
        one.place for one in stated.hardware.tendon_actuators.motors
    ]
    assert robot.newton_per_ampere == pytest.approx(stated.newton_per_ampere)
    values["hardware"]["tendon_actuators"] = {"kind": "dynamixel", "port": "/dev/servos"}
    servos = parse_robot(yaml.safe_dump(values)).hardware.tendon_actuators
    assert [(one.id, one.tendon) for one in servos.motors] == [(k, k) for k in range(1, 6)]
    motors["channels"] = ["can0", "can1"]  # too few: the fifth tendon has no motor
    values["hardware"]["tendon_actuators"] = motors
    with pytest.raises(RobotFileError, match="a motor for tendon 5 too"):
        parse_robot(yaml.safe_dump(values))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{rule.key}-{len(rule.of)}")
def test_what_it_would_follow_from_is_missing_or_no_number(rule):
    """Then the file is refused with a key of the file, and nothing else happens."""
    values = copy.deepcopy(TENSION if rule.command == "tension" else DISPLACEMENT)
    section, key = rule.key.split(".")
    values[section].pop(key, None)
    for one in rule.of:
        *way, last = one.split(".")
        place = values
        for name in way:
            place = place.setdefault(name, {})
        if way:
            place[last] = "much"
    with pytest.raises(RobotFileError) as caught:
        parsed(values)
    assert caught.value.key.startswith(("limits", "actuators", "transmission"))
