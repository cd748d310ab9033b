# SPDX-License-Identifier: Apache-2.0
"""Motors for a simulated robot whose file names none: what simulator and driver both take for its wiring."""

from __future__ import annotations

import math
from typing import Any

from continuum_robot.drivers.dynamixel.settings import DYNAMIXEL, Dynamixel
from continuum_robot.drivers.rokubi_serial.settings import ROKUBI_SERIAL, RokubiSerial
from continuum_robot.drivers.servo_settings import ServoMotor
from continuum_robot.drivers.string_encoder_serial.settings import (
    STRING_ENCODER_SERIAL,
    EncoderString,
    StringEncoderSerial,
)
from continuum_robot.errors import ParameterError
from continuum_robot.robot.actuation import Actuators
from continuum_robot.robot.description import Robot
from continuum_robot.robot.doors import TENDON_ACTUATORS, shipped
from continuum_robot.robot.hardware import Hardware, MotorsSection

_COUNTERS_A_BOARD = 4
_PULLEY_RADIUS_M = 0.015


def wired(robot: Robot) -> Robot:
    """The robot with a hardware section that can be simulated: its own, or one made up where it has none.

    Motors take their properties from ``actuators``; a string-encoder board reads four strings, further ones are left
    out.
    """
    if robot.hardware is not None:
        return robot
    actuators = robot.actuators
    if actuators is None:
        raise ParameterError("robot.actuators", None, f"actuators in the file of robot {robot.name!r}")
    return robot.changed(
        hardware=Hardware(
            serial_number="simulated",
            tendon_actuators=_servos(robot) if robot.takes_displacements else _boards(robot, actuators),
            string_encoders=_counters(robot),
        ),
    )


def with_force_sensor(robot: Robot) -> Any:
    """The section of a force sensor that can be simulated to the byte: the robot's own, or one in its frame."""
    own = None if robot.hardware is None else robot.hardware.force_sensor
    if own is not None and own.kind == ROKUBI_SERIAL:
        return own
    return RokubiSerial(kind=ROKUBI_SERIAL, port="simulated", frame_id=getattr(own, "frame_id", "force_sensor"))


def _timeout_ms(robot: Robot) -> int:
    return 150 if robot.limits is None else math.ceil(1500 * robot.limits.command_timeout_s)


def _entries(robot: Robot, usual: Any) -> list[dict[str, Any]]:
    """The motors of all tendons, or of all columns of a transmission."""
    key = "tendon" if robot.transmission is None else "column"
    return [{key if name == "tendon" else name: value for name, value in one.items()} for one in usual]


def _servos(robot: Robot) -> Dynamixel:
    motors = tuple(ServoMotor(**entry) for entry in _entries(robot, Dynamixel.usual_motors({}, robot.motor_count)))
    timeout_ms = min(2540, max(20, _timeout_ms(robot)))
    return Dynamixel(kind=DYNAMIXEL, port="simulated", baud_bps=4_000_000, receive_timeout_ms=timeout_ms, motors=motors)


def _boards(robot: Robot, actuators: Actuators) -> MotorsSection:
    """Of the first kind that can be assumed."""
    kind: Any = next(kind for kind in shipped(TENDON_ACTUATORS).values() if hasattr(kind, "assumed"))
    name = "tendon" if robot.transmission is None else "column"
    largest_a = actuators.largest("maximum_current_a", robot.motor_count)
    boards: MotorsSection = kind.assumed(robot.motor_count, name, largest_a, _timeout_ms(robot))
    return boards


def _counters(robot: Robot) -> StringEncoderSerial | None:
    if not 0 < len(robot.strings) <= _COUNTERS_A_BOARD:
        return None
    return StringEncoderSerial(
        kind=STRING_ENCODER_SERIAL,
        port="simulated",
        strings=tuple(
            EncoderString(string=string.name, channel=index, pulley_radius_m=_PULLEY_RADIUS_M)
            for index, string in enumerate(robot.strings)
        ),
    )
