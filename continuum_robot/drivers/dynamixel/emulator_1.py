# SPDX-License-Identifier: Apache-2.0
"""Emulated Dynamixel servos with protocol 1, to the byte. Source: emanual.robotis.com."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import ClassVar

from continuum_robot.drivers import servo_emulation
from continuum_robot.drivers.dynamixel import models
from continuum_robot.drivers.dynamixel.models import Model
from continuum_robot.drivers.dynamixel.protocol_1 import DIRECTION, FULL_TORQUE, OVERLOAD, TABLE, TEMPERATURE
from continuum_robot.drivers.servo_emulation import (
    INPUT_VOLTAGE,
    NARROW_LIMITS,
    OVERHEATING,
    WRONG_MODEL,
    EmulatedServo,
    EmulatedShortServos,
    MotorPort,
)

_SIZE, _ID, _BAUD = 74, 3, 4
_MAXIMUM_TORQUE, _VOLATILE = 14, 24
_NEW_RETURN_DELAY = 250
_XL320 = 350
_ERROR = 73
"""Where the emulator keeps the error: no register of these servos."""


def _magnitude(value: float) -> int:
    size = min(DIRECTION - 1, round(abs(value)))
    return size | (DIRECTION if value < 0 else 0)


class EmulatedProtocol1(EmulatedShortServos):
    """Servos with protocol 1 as they come out of the box."""

    title = "Dynamixel servos"
    own_faults: ClassVar = {INPUT_VOLTAGE: 0, OVERHEATING: 2, servo_emulation.OVERLOAD: OVERLOAD}
    left_behind: ClassVar = {
        WRONG_MODEL: (TABLE.model, _XL320.to_bytes(2, "little")),
        NARROW_LIMITS: (TABLE.low, struct.pack("<2H", 500, 520)),
    }

    def __init__(
        self, servos: Mapping[int, MotorPort], model: Model | None = None, *, baud_bps: int = 1_000_000
    ) -> None:
        model = model or models.model_named("AX-12A")
        super().__init__(
            servos,
            TABLE,
            _SIZE,
            baud_bps,
            counts_per_turn=model.counts_per_turn,
            speed_unit_rev_per_s=model.velocity_unit_rev_per_s,
            full_torque=FULL_TORQUE,
        )
        for number, servo in self.servos.items():
            servo.set(TABLE.model, 2, models.NUMBERS[model.name])
            servo.set(_ID, 1, number)
            servo.set(_BAUD, 1, min(255, max(0, round(2_000_000 / baud_bps) - 1)))
            servo.set(TABLE.return_delay, 1, _NEW_RETURN_DELAY)
            servo.set(TABLE.high, 2, round(model.counts_per_turn * model.turn_rev) - (model.turn_rev == 1.0))
            servo.set(_MAXIMUM_TORQUE, 2, FULL_TORQUE)
            servo.set(TABLE.torque_limit, 2, FULL_TORQUE)

    def boot(self, servo: EmulatedServo) -> None:
        """Volatile registers are as new; it stands where it stands."""
        servo.table[_VOLATILE:] = bytes(len(servo.table) - _VOLATILE)
        servo.set(TABLE.torque_limit, 2, servo.get(_MAXIMUM_TORQUE, 2))

    def fail(self, servo: EmulatedServo, fault: str) -> None:
        """An alarm switches off, and takes the torque limit away."""
        servo.table[_ERROR] |= 1 << self.own_faults[fault]
        servo.table[TABLE.torque] = 0
        servo.set(TABLE.torque_limit, 2, 0)

    def written(self, servo: EmulatedServo, address: int) -> None:
        """A torque limit brings a servo back, unless it is still too hot."""
        if address == TABLE.torque_limit:
            servo.table[_ERROR] = 0

    def error_of(self, servo: EmulatedServo) -> int:
        """The alarm."""
        return servo.table[_ERROR]

    def measure(self, servo: EmulatedServo) -> None:
        """Place, speed, load, voltage, temperature."""
        servo.set(TABLE.position, 2, self.counts(servo))
        servo.set(TABLE.position + 2, 2, _magnitude(servo.motor.velocity_rev_per_s / self.speed_unit_rev_per_s))
        servo.set(TABLE.load, 2, _magnitude(servo.motor.load_fraction * FULL_TORQUE))
        servo.table[TEMPERATURE - 1] = 120
        servo.table[TEMPERATURE] = 85 if OVERHEATING in servo.faults else 31
