# SPDX-License-Identifier: Apache-2.0
"""Tendon actuators on Feetech STS and SMS servos. Source: the maker's memory table of the SMS/STS series.

Numbers of two bytes come low byte first (those of the SCS series high byte first: they are refused), and negative ones
have a bit for their sign.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from continuum_robot.drivers.feetech.settings import SPEED_UNIT_REV_PER_S, Feetech
from continuum_robot.drivers.servo_bus import BROADCAST
from continuum_robot.drivers.short_servos import READ, SYNC_READ, Measured, ShortServos, Table
from continuum_robot.errors import DeviceError
from continuum_robot.robot.description import Robot

TABLE = Table(
    model=3,
    return_delay=7,
    low=9,
    high=11,
    torque=40,
    goal=42,
    speed=46,
    torque_limit=48,
    position=56,
    load=60,
    temperature=63,
    speed_sign=15,
    load_sign=10,
)
ENDIAN, MODE, LOCK, ACCELERATION = 2, 33, 55, 41
POSITION_MODE = 0
STATUS, CURRENT = 65, 69
STATE_SIZE = CURRENT + 2 - TABLE.torque
FULL_TORQUE = 1000
COUNTS_PER_TURN = 4096
OVERLOAD = 5
ERRORS = {0: "input_voltage", 1: "angle_sensor", 2: "overheating", 3: "overcurrent", OVERLOAD: "overload"}


class FeetechActuators(ShortServos):
    """Tendon actuators on such servos; arguments as of :class:`BusServos`."""

    table, errors, overload_bit = TABLE, ERRORS, OVERLOAD
    full_torque, largest_speed = FULL_TORQUE, (1 << TABLE.speed_sign) - 1

    def __init__(self, robot: Robot, settings: Feetech, **options: Any) -> None:
        super().__init__(robot, settings, "Feetech servos", **options)

    def identify(self, number: int) -> str:
        """Its model."""
        found = self.bus.ask(number, READ, bytes([TABLE.model, 2]), 2, [number])
        return f"model {int.from_bytes(found[number].data, 'little')}" if number in found else ""

    def look_at(self, index: int) -> None:
        """Refuse servos with the other byte order; set position mode."""
        if self.get(index, ENDIAN, 1) != 0:
            raise DeviceError(
                self.device_of(index),
                "sends the high byte first, as the SCS series does",
                "Use servos of the STS or SMS series.",
            )
        self.keep(index, MODE, POSITION_MODE, "mode")
        if self.get(index, TABLE.low) >= self.get(index, TABLE.high):
            raise DeviceError(
                self.device_of(index),
                "turns over many turns: its angle limits are 0",
                "Set them, e.g. to 0 and 4095, with the maker's program.",
            )

    def put_lasting(self, index: int, address: int, value: int) -> None:
        """Lasting registers are locked."""
        self.put(index, LOCK, 1, 0)
        self.put(index, address, 1, value)
        self.put(index, LOCK, 1, 1)

    def prepare(self, index: int) -> None:
        """No ramp of its own: the cycle bounds the acceleration."""
        self.put(index, ACCELERATION, 1, 0)

    def measured(self, indices: Sequence[int]) -> Mapping[int, Measured]:
        """All in a packet, from the torque to the current."""

        def ask(servos: Sequence[int]) -> Mapping[int, bytes]:
            parameters = bytes([TABLE.torque, STATE_SIZE, *servos])
            answers = self.bus.ask(BROADCAST, SYNC_READ, parameters, STATE_SIZE, servos)
            return {servo: answer.data for servo, answer in answers.items()}

        found = self.answers([self.servos[index] for index in indices], ask)
        there = {index: found[self.servos[index]] for index in indices if self.servos[index] in found}
        return {index: self.decode(data, data[STATUS - TABLE.torque]) for index, data in there.items()}

    def counts_per_turn(self, index: int) -> float:
        """12 bits."""
        del index
        return COUNTS_PER_TURN

    def speed_unit_rev_per_s(self, index: int) -> float:
        """A count a second."""
        del index
        return SPEED_UNIT_REV_PER_S


make = FeetechActuators
