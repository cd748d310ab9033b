# SPDX-License-Identifier: Apache-2.0
import math
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from robot_files import GONE, changed_robot, made, robot_values

from continuum_robot.drivers.dynamixel.settings import Dynamixel
from continuum_robot.drivers.odri_can.actuators import OdriTendonActuators
from continuum_robot.drivers.odri_can.settings import ODRI_CAN, OdriMotor
from continuum_robot.errors import ParameterError, RobotFileError
from continuum_robot.robot.file.plain_yaml import place_of
from continuum_robot.robot.loading import load_robot, plain

TWO_KINDS = Path(__file__).resolve().parents[3] / "examples" / "dynamixel_and_feetech.yaml"

BOARD = "hardware.tendon_actuators"
STRINGS = "hardware.string_encoders.strings"


def test_five_tendons_are_three_boards_on_three_channels():
    robot = load_robot("opencr_five_tendon")
    section = robot.hardware.tendon_actuators
    assert section.kind == ODRI_CAN
    assert section.channels == ("can0", "can1", "can2")
    assert [(entry.channel, entry.motor) for entry in section.motors] == [
        ("can0", 1),
        ("can0", 2),
        ("can1", 1),
        ("can1", 2),
        ("can2", 1),
    ]
    assert [entry.tendon for entry in section.motors] == [1, 2, 3, 4, 5]


def test_what_a_motor_does_not_state_is_taken_from_the_actuators():
    robot = load_robot("opencr_five_tendon")
    plain = robot.hardware.tendon_actuators.motors[0]
    assert plain.newton_per_ampere(robot.actuators) == pytest.approx(robot.actuators.newton_per_ampere)
    assert plain.meter_per_turn(robot.actuators) == pytest.approx(2 * math.pi * 0.009 / 6)
    own = OdriMotor(
        channel="can0", motor=1, tendon=1, gear_ratio=5.0, spool_radius_m=0.01, torque_constant_nm_per_a=0.03
    )
    assert own.newton_per_ampere(robot.actuators) == pytest.approx(0.03 * 5.0 / 0.01)
    assert own.meter_per_turn(robot.actuators) == pytest.approx(2 * math.pi * 0.01 / 5.0)


@pytest.mark.parametrize(
    ("place", "value", "key", "said"),
    [
        (f"{BOARD}.motors[1].motor", 1, "motors[1].motor", "motors[0] is motor 1 of can0 too"),
        (f"{BOARD}.motors[3].tendon", 1, "motors[3].tendon", "motors[0] pulls tendon 1"),
        (f"{BOARD}.motors[4]", GONE, "tendon_actuators.motors", "a motor for tendon 5 too"),
        (f"{BOARD}.motors[4].tendon", 6, "motors[4].tendon", "1 to 5"),
        (f"{BOARD}.motors[4].channel", "can7", "motors[4].channel", "can0, can1, can2"),
        (f"{BOARD}.motors[0].polarity", 0, "motors[0].polarity", "+1 or -1"),
        (f"{BOARD}.motors[0].motor", 3, "motors[0].motor", "[1, 2]"),
        (f"{BOARD}.channels", ["can0", "can0"], "channels", "each once"),
        (f"{BOARD}.kind", "odri_cna", "tendon_actuators.kind", ODRI_CAN),
        (f"{BOARD}.maximum_current_a", 24.0, "maximum_current_a", "24"),
        (f"{BOARD}.receive_timeout_ms", 100, "receive_timeout_ms", "the driver releases first"),
        ("actuators", GONE, "actuators", "since hardware is given"),
        (f"{STRINGS}[1].channel", 0, "strings[1].channel", "strings[0] has it"),
        (f"{STRINGS}[1].string", "string_z", "strings[1].string", "string_x, string_y"),
        (f"{STRINGS}[1].string", "string_x", "strings[1].string", "each string once"),
        (BOARD, None, "tendon_actuators.kind", "one of cia402, dynamixel"),
        ("strings[0].name", "a\n\u2028", "strings[0].string", r"a\n\u2028, string_y"),
        (f"{STRINGS}[1]", GONE, "string_encoders.strings", "a counter for string_y too"),
        ("hardware.force_sensor.baud_bps", 230401, "baud_bps", "460800"),
        (
            "hardware.force_sensor",
            {"kind": "rokubi_serial", "port": "/dev/force", "baud_bps": 230400, "sinc": 64},
            "force_sensor.sinc",
            "at least 83, whose frames fit 230400 bit/s",
        ),
    ],
)
def test_wiring_that_cannot_be_is_one_sentence(place, value, key, said):
    with pytest.raises(RobotFileError) as caught:
        changed_robot({place: value})
    message = str(caught.value)
    assert key in message
    assert said in message
    assert "\n" not in message


def test_what_a_motors_entry_leaves_out_is_that_of_the_actuators():
    found = changed_robot({"actuators.maximum_current_a": 2.0})
    assert found.newton_per_ampere == pytest.approx(np.full(5, found.actuators.newton_per_ampere))
    driver = OdriTendonActuators(found, found.hardware.tendon_actuators)
    assert driver._motors.largest_a.tolist() == [2.0] * 5
    found = changed_robot({"actuators.maximum_current_a": 30.0})
    with pytest.raises(ParameterError, match="less than 24 A"):
        OdriTendonActuators(found, found.hardware.tendon_actuators)


def servos(**changes):
    motors = [{"id": number, "tendon": number} for number in range(1, 6)]
    return {"kind": "dynamixel", "port": "/dev/servos", "maximum_current_a": 1.0, "motors": motors, **changes}


def test_servos_may_pull_instead_of_boards():
    read = changed_robot({BOARD: servos()})
    section = read.hardware.tendon_actuators
    assert isinstance(section, Dynamixel)
    assert section.motors[4].id == 5
    assert section.motors[0].newton_per_ampere(read.actuators) == pytest.approx(0.0235 / 0.009)
    assert section.motors[0].meter_per_turn(read.actuators) == pytest.approx(2 * math.pi * 0.009)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"baud_bps": 115000}, "one of 9600, 57600, 115200"),
        ({"motors": [{"id": 1, "tendon": number} for number in range(1, 6)]}, "each motor once"),
        ({"motors": [{"id": 1, "tendon": 1}]}, "a motor for tendon 2, 3, 4, 5 too"),
        ({"receive_timeout_ms": 60}, "the driver releases first"),
        ({"kind": "stepper"}, "one of cia402, dynamixel"),
    ],
)
def test_servos_that_do_not_fit_are_refused(changes, sentence):
    with pytest.raises(RobotFileError) as caught:
        changed_robot({BOARD: servos(**changes)})
    assert sentence in str(caught.value)


def two_kinds():
    """Values of the robot with two kinds of servos."""
    return robot_values(robot=TWO_KINDS)


def test_motors_of_different_kinds_are_a_list_of_sections():
    robot = made(two_kinds())
    sections = robot.hardware.motor_sections
    assert {key: section.kind for key, section in sections.items()} == {
        f"{BOARD}[0]": "dynamixel",
        f"{BOARD}[1]": "feetech",
    }
    assert [entry.tendon for entry in robot.hardware.tendon_actuators.motors] == list(range(1, 10))
    # What the whole robot has of its motors is that of each tendon's own.
    assert robot.newton_per_ampere.tolist() == pytest.approx([108.0] * 6 + [226.0] * 3)
    assert robot.hardware.motors[f"{BOARD}[1].motors[2]"].tendon == 9
    assert changed_robot({"hardware": plain(asdict(robot.hardware))}, TWO_KINDS).hardware == robot.hardware


def test_a_list_of_one_section_is_as_good_as_the_section():
    values = robot_values()
    given = values["hardware"]["tendon_actuators"]
    values["hardware"]["tendon_actuators"] = [given]
    robot = made(values)
    assert list(robot.hardware.motor_sections.values()) == [load_robot("opencr_five_tendon").hardware.tendon_actuators]


@pytest.mark.parametrize(
    ("place", "value", "key", "said"),
    [
        ("[1].motors[1].tendon", 3, f"{BOARD}[1].motors[1].tendon", "tendon_actuators[0].motors[2] pulls tendon 3"),
        ("[1].motors[2].tendon", 10, f"{BOARD}[1].motors[2].tendon", "1 to 9"),
        ("[1].motors[2]", GONE, f"{BOARD}[0].motors or {BOARD}[1].motors", "a motor for tendon 9 too"),
        ("[1].motors[1].column", 1, f"{BOARD}[1].motors[1].column", "no transmission"),
        ("[1].motors[1].id", 1, f"{BOARD}[1].motors[1].id", "motors[0] is id 1"),
        ("[1].motors", GONE, f"{BOARD}[1].motors", "where this is the only section"),
        ("[1].kind", "fetech", f"{BOARD}[1].kind", "feetech"),
        ("[1].port", "/dev/continuum_robot_servos", f"{BOARD}[1].port", "tendon_actuators[0] has it"),
        ("[1].receive_timeout_ms", 100, f"{BOARD}[1].receive_timeout_ms", "the driver releases first"),
        ("[0].receive_timeout_ms", 100, f"{BOARD}[0].receive_timeout_ms", "the driver releases first"),
        ("[1].motors", [], f"{BOARD}[1].motors", "at least one motor"),
        ("", [], BOARD, "at least one section"),
    ],
)
def test_mistakes_in_a_list_of_sections_name_the_entry(place, value, key, said):
    values = two_kinds()
    changed = place_of(values, f"{BOARD}{place}")
    assert changed is not None
    if value is GONE:
        del changed[0][changed[1]]
    else:
        changed[0][changed[1]] = value
    with pytest.raises(RobotFileError) as caught:
        made(values)
    assert caught.value.key == key
    assert said in str(caught.value)


def test_boards_on_the_channel_of_another_section_are_refused():
    values = robot_values()
    section = values["hardware"]["tendon_actuators"]
    rest = {**section, "channels": ["can2", "can1"], "motors": [section["motors"].pop()]}
    values["hardware"]["tendon_actuators"] = [section, rest]
    with pytest.raises(RobotFileError, match=r"channels: 'can2' .*only one driver can open it"):
        made(values)
