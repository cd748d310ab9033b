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
    LOAD_SIGN,
    LOCK,
    OVERLOAD,
    SIGN,
    STATUS,
    TABLE,
    TEMPERATURE,
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
_SIZE, _ID, _BAUD, _MAXIMUM_TORQUE, _VOLATILE = 71, 5, 6, 16, 40
_NEW_RETURN_DELAY = 250


def _magnitude(value: float, bit: int) -> int:
    size = min((1 << bit) - 1, round(abs(value)))
    return size | (1 << bit if value < 0 else 0)


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

    def __init__(self, servos: Mapping[int, MotorPort], *, baud_bps: int = 1_000_000) -> None:
        super().__init__(
            servos,
            TABLE,
            _SIZE,
            baud_bps,
            counts_per_turn=COUNTS_PER_TURN,
            speed_unit_rev_per_s=SPEED_UNIT_REV_PER_S,
            full_torque=FULL_TORQUE,
        )
        for number, servo in self.servos.items():
            servo.set(TABLE.model, 2, STS3215)
            servo.set(_ID, 1, number)
            servo.set(_BAUD, 1, BAUD_CODES[baud_bps])
            servo.set(TABLE.return_delay, 1, _NEW_RETURN_DELAY)
            servo.set(TABLE.high, 2, COUNTS_PER_TURN - 1)
            servo.set(_MAXIMUM_TORQUE, 2, FULL_TORQUE)
            self.boot(servo)

    def boot(self, servo: EmulatedServo) -> None:
        """Volatile registers are as new; it stands where it stands."""
        servo.table[_VOLATILE:] = bytes(len(servo.table) - _VOLATILE)
        servo.set(TABLE.torque_limit, 2, servo.get(_MAXIMUM_TORQUE, 2))
        servo.table[LOCK] = 1

    def fail(self, servo: EmulatedServo, fault: str) -> None:
        """The status names it, and the torque is off."""
        servo.table[STATUS] |= 1 << self.own_faults[fault]
        servo.table[TABLE.torque] = 0

    def written(self, servo: EmulatedServo, address: int) -> None:
        """Torque off clears an overload; heat passes by itself."""
        if address == TABLE.torque and not servo.table[TABLE.torque]:
            servo.table[STATUS] = 0

    def error_of(self, servo: EmulatedServo) -> int:
        """Its status is in every answer too."""
        return servo.table[STATUS]

    def measure(self, servo: EmulatedServo) -> None:
        """Place, speed, load, voltage, temperature."""
        servo.set(TABLE.position, 2, self.counts(servo))
        speed = servo.motor.velocity_rev_per_s / SPEED_UNIT_REV_PER_S
        servo.set(TABLE.position + 2, 2, _magnitude(speed, SIGN))
        servo.set(TABLE.load, 2, _magnitude(servo.motor.load_fraction * FULL_TORQUE, LOAD_SIGN))
        servo.table[TEMPERATURE - 1] = 120
        servo.table[TEMPERATURE] = 85 if OVERHEATING in servo.faults else 31


def emulator(_robot: Robot, settings: Feetech, motors: Mapping[int, MotorPort]) -> EmulatedFeetech:
    """Emulated servos."""
    made = EmulatedFeetech(motors, baud_bps=settings.baud_bps)
    made.centre()
    return made
