# SPDX-License-Identifier: Apache-2.0
"""Dynamixel servos with protocol 1: AX, RX and MX, in joint mode. Source: their pages on emanual.robotis.com.

Protocol 1 has no sync read, and a bulk read on MX only: they are asked one by one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from continuum_robot.drivers.dynamixel import models
from continuum_robot.drivers.dynamixel.settings import Dynamixel
from continuum_robot.drivers.short_servos import READ, Measured, ShortServos, Table
from continuum_robot.errors import DeviceError
from continuum_robot.robot.description import Robot

TABLE = Table(
    model=0,
    return_delay=5,
    low=6,
    high=8,
    torque=24,
    goal=30,
    speed=32,
    torque_limit=34,
    position=36,
    load=40,
    temperature=43,
    speed_sign=10,
    load_sign=10,
)
"""Speeds and loads are negative clockwise; positions count counter-clockwise."""
# From 24 to 43: torque, ..., position, speed, load, voltage, temperature. The error is in the answer itself.
STATE_SIZE = TABLE.temperature - TABLE.torque + 1
FULL_TORQUE = 1023
OVERLOAD = 5
ERRORS = {0: "input_voltage", 2: "overheating", OVERLOAD: "overload"}


class Protocol1Actuators(ShortServos):
    """Tendon actuators on servos with protocol 1; arguments as of :class:`BusServos`."""

    table, errors, overload_bit = TABLE, ERRORS, OVERLOAD
    full_torque = largest_speed = FULL_TORQUE

    def __init__(self, robot: Robot, settings: Dynamixel, **options: Any) -> None:
        super().__init__(robot, settings, "Dynamixel servos", **options)
        self._models: dict[int, models.Model] = {}

    def identify(self, number: int) -> str:
        """Model and firmware."""
        found = self.bus.ask(number, READ, bytes([TABLE.model, 3]), 3, [number])
        return models.identity(found[number].data) if number in found else ""

    def look_at(self, index: int) -> None:
        """Refuse an unknown or another model, and wheel mode."""
        number, device = self.get(index, TABLE.model), self.device_of(index)
        self._models[index] = models.known_model(number, models.PROTOCOL_1, self.settings.model, device)
        if self.get(index, TABLE.low) >= self.get(index, TABLE.high):
            raise DeviceError(
                device,
                "turns without an end or over many turns: its angle limits are those of wheel or multi-turn mode",
                "Set them to joint mode with the maker's wizard.",
            )

    def measured(self, indices: Sequence[int]) -> Mapping[int, Measured]:
        """One by one."""
        found = {}
        for index in indices:
            servo = self.servos[index]
            answers = self.bus.ask(servo, READ, bytes([TABLE.torque, STATE_SIZE]), STATE_SIZE, [servo])
            if servo in answers:
                found[index] = self.decode(answers[servo].data, answers[servo].error)
        return found

    def counts_per_turn(self, index: int) -> float:
        """By the model."""
        return self._models[index].counts_per_turn

    def speed_unit_rev_per_s(self, index: int) -> float:
        """By the model."""
        return self._models[index].velocity_unit_rev_per_s
