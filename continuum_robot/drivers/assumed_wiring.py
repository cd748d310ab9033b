# SPDX-License-Identifier: Apache-2.0
"""Motor boards for a simulated robot whose file names none: what simulator and driver both take for its wiring."""

from __future__ import annotations

import math

from continuum_robot.errors import ParameterError
from continuum_robot.robot.description import Robot
from continuum_robot.robot.hardware import (
    ODRI_CAN,
    STRING_ENCODER_SERIAL,
    EncoderString,
    Hardware,
    OdriCan,
    OdriMotor,
    StringEncoderSerial,
)

FULL_SCALE_A = 24.0
"""Largest current that a board measures, A."""

_MOTORS_A_BOARD = 2
_COUNTERS_A_BOARD = 4
_PULLEY_RADIUS_M = 0.015


def wired(robot: Robot) -> Robot:
    """The robot with a hardware section that can be simulated: its own, or one made up where it has none.

    Motors take their properties from ``actuators``; a string-encoder board reads four strings, further ones are left
    out.

    Raises
    ------
    ParameterError : a robot without actuators
    """
    if robot.hardware is not None:
        return robot
    actuators = robot.actuators
    if actuators is None:
        raise ParameterError("robot.actuators", None, f"actuators in the file of robot {robot.name!r}")
    boards = -(-robot.tendon_count // _MOTORS_A_BOARD)
    channels = tuple(f"can{index}" for index in range(boards))
    motors = tuple(
        OdriMotor(
            channel=channels[index // _MOTORS_A_BOARD],
            motor=index % _MOTORS_A_BOARD + 1,
            tendon=index + 1,
            gear_ratio=actuators.gear_ratio,
        )
        for index in range(robot.tendon_count)
    )
    timeout_ms = 150 if robot.limits is None else math.ceil(1500 * robot.limits.command_timeout_s)
    tendon_actuators = OdriCan(
        kind=ODRI_CAN,
        channels=channels,
        maximum_current_a=min(actuators.maximum_current_a, 0.99 * FULL_SCALE_A),
        current_mismatch_a=0.05 * min(actuators.maximum_current_a, FULL_SCALE_A),
        receive_timeout_ms=min(1000, max(5, timeout_ms)),
        motors=motors,
    )
    encoders = None
    if 0 < len(robot.strings) <= _COUNTERS_A_BOARD:
        encoders = StringEncoderSerial(
            kind=STRING_ENCODER_SERIAL,
            port="simulated",
            strings=tuple(
                EncoderString(string=string.name, channel=index, pulley_radius_m=_PULLEY_RADIUS_M)
                for index, string in enumerate(robot.strings)
            ),
        )
    return robot.changed(
        hardware=Hardware(
            serial_number="simulated",
            tendon_actuators=tendon_actuators,
            string_encoders=encoders,
        ),
    )
