# SPDX-License-Identifier: Apache-2.0
"""Emulated Feetech STS servos on one serial bus, to the byte. Source: the maker's memory table."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import ClassVar

from continuum_robot.drivers import servo_emulation
from continuum_robot.drivers.feetech.device import (
    COUNTS_PER_TURN,
    ENDIAN,
    FULL_TORQUE,
    LOCK,
    OVERLOAD,
    STATUS,
    TABLE,
)
from continuum_robot.drivers.feetech.settings import BAUD_CODES, SPEED_UNIT_REV_PER_S, Feetech
from continuum_robot.drivers.servo_emulation import (
    ELECTRICAL_SHOCK,
    ENCODER,
    INPUT_VOLTAGE,
    NARROW_LIMITS,
    OVERHEATING,
    WRONG_MODEL,
    EmulatedServo,
    EmulatedShortServos,
    MotorPort,
)
from continuum_robot.robot.description import Robot

STS3215 = 777


class EmulatedFeetech(EmulatedShortServos):
    """Servos as they come out of the box."""

    title = "Feetech servos"
    own_faults: ClassVar = {
        INPUT_VOLTAGE: 0,
        ENCODER: 1,
        OVERHEATING: 2,
        ELECTRICAL_SHOCK: 3,
        servo_emulation.OVERLOAD: OVERLOAD,
    }
    left_behind: ClassVar = {
        WRONG_MODEL: (ENDIAN, b"\x01"),
        NARROW_LIMITS: (TABLE.low, struct.pack("<2H", 2000, 2100)),
    }

    at, full_torque, size = TABLE, FULL_TORQUE, 71
    identity_at, maximum_torque_at, error_at = 5, 16, STATUS

    def __init__(self, servos: Mapping[int, MotorPort], *, baud_bps: int = 1_000_000) -> None:
        super().__init__(
            servos,
            baud_bps,
            model=STS3215,
            baud_code=BAUD_CODES[baud_bps],
            highest=COUNTS_PER_TURN - 1,
            counts_per_turn=COUNTS_PER_TURN,
            speed_unit_rev_per_s=SPEED_UNIT_REV_PER_S,
        )

    def boot(self, servo: EmulatedServo) -> None:
        """Its lasting registers are locked."""
        super().boot(servo)
        servo.table[LOCK] = 1

    def written(self, servo: EmulatedServo, address: int) -> None:
        """Torque off clears an overload; heat passes by itself."""
        if address == TABLE.torque and not servo.table[TABLE.torque]:
            servo.table[STATUS] = 0


def emulator(_robot: Robot, settings: Feetech, motors: Mapping[int, MotorPort]) -> EmulatedFeetech:
    """Emulated servos."""
    made = EmulatedFeetech(motors, baud_bps=settings.baud_bps)
    made.centre()
    return made
