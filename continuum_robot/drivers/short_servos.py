# SPDX-License-Identifier: Apache-2.0
"""Servos that hold positions and are asked in short packets: what Dynamixel protocol 1 and Feetech have in common.

They know where they stand within their turn, have no watchdog, and hold their last goal when nobody talks to them. The
middle of their turn counts as 0: there a spool is put on.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from continuum_robot.drivers.polled import Sample
from continuum_robot.drivers.servo_bus import BROADCAST, HARDWARE_ERROR, TORQUE_OFF, BusServos, ShortFraming
from continuum_robot.errors import DeviceError, ParameterError
from continuum_robot.robot.description import Robot

CODES = {"ping": 1, "read": 2, "write": 3, "sync_read": 0x82, "sync_write": 0x83}
"""Instructions; those of Dynamixel protocol 2 are the same."""
PING, READ, WRITE, SYNC_READ, SYNC_WRITE = CODES.values()
_POSITION_SIGN = 15


class Table(NamedTuple):
    """Addresses of the registers that both have; those of more than a byte are of two.

    ``speed_sign`` and ``load_sign`` are the bits of a speed and a load that make them negative.
    """

    model: int
    return_delay: int
    low: int
    high: int
    torque: int
    goal: int
    speed: int
    torque_limit: int
    position: int
    load: int
    temperature: int
    speed_sign: int
    load_sign: int


def signed(value: int, bit: int) -> int:
    """A number whose sign is a bit."""
    size = value & ((1 << bit) - 1)
    return -size if value >> bit & 1 else size


def magnitude(value: float, bit: int) -> int:
    """The nearest number whose sign is a bit: the other direction, for simulated servos."""
    size = min((1 << bit) - 1, round(abs(value)))
    return size | (1 << bit if value < 0 else 0)


class Measured(NamedTuple):
    """What a servo says of itself: place and speed (counts), load (fraction), temperature (degC), torque, errors."""

    position: int
    speed: int
    load_fraction: float
    temperature_c: float
    on: bool
    errors: int


class ShortServos(BusServos):
    """Tendon actuators on such servos; arguments as of :class:`BusServos`. A kind overrides what raises."""

    table: Table
    errors: Mapping[int, str]
    """Names of the bits of an error."""
    overload_bit: int
    full_torque: int
    """Counts of the register torque limit for all."""
    largest_speed: int
    """Of the register speed, whose 0 is no limit."""

    def __init__(self, robot: Robot, settings: Any, device: str, **options: Any) -> None:
        if not robot.takes_displacements:
            raise ParameterError("actuators.command", "tension", "displacement: these servos hold positions only")
        super().__init__(robot, settings, ShortFraming(), device, **options)
        self.range_counts = [(0, 0)] * self.tendon_count
        self._restarts = [0] * self.tendon_count
        self._torque_limit = [0] * self.tendon_count
        self.measures_current = np.zeros(self.tendon_count, dtype=bool)

    # --- what a kind adds

    @abstractmethod
    def look_at(self, index: int) -> None:
        """Refuse a servo that does not fit, and set its lasting registers where they differ."""

    @abstractmethod
    def measured(self, indices: Sequence[int]) -> Mapping[int, Measured]:
        """What servos say of themselves, by the index of the tendon."""

    @abstractmethod
    def counts_per_turn(self, index: int) -> float:
        """Of its position."""

    @abstractmethod
    def speed_unit_rev_per_s(self, index: int) -> float:
        """Speed of a count, rev/s."""

    def decode(self, data: bytes, errors: int) -> Measured:
        """Of the bytes of its registers from the torque on."""
        at = self.table
        position, speed, load = (
            int.from_bytes(data[address - at.torque :][:2], "little")
            for address in (at.position, at.position + 2, at.load)
        )
        return Measured(
            signed(position, _POSITION_SIGN),
            signed(speed, at.speed_sign),
            signed(load, at.load_sign) / self.full_torque,
            float(data[at.temperature - at.torque]),
            bool(data[0]),
            errors,
        )

    def prepare(self, index: int) -> None:
        """Set more volatile registers before the torque is switched on."""

    # --- the bus

    def ping(self, servo: int) -> bool:
        """Whether a servo answers."""
        return servo in self.bus.ask(servo, PING, b"", 0, [servo])

    def set_up(self) -> bool:
        """Look at every servo; torque off. Within their turn they know where they are."""
        self.switch_off()
        for index in range(self.tendon_count):
            self.look_at(index)
            self.keep(index, self.table.return_delay, 0, "return delay")
            self.range_counts[index] = (self.get(index, self.table.low), self.get(index, self.table.high))
            self._restarts[index] = 0
        return True

    def switch_on(self, index: int) -> None:
        """Torque on, with the present place as the goal, and speed and torque as the robot file limits them."""
        found = self.measured([index]).get(index) or self.measured([index]).get(index)
        if found is None:
            raise self.bus.silent([self.servos[index]])
        if names := self.names(found.errors):
            raise DeviceError(self.device_of(index), f"reports {', '.join(names)}", "Remove the cause, then clear it.")
        speed = self.motors.speed_rev_per_s[index] / self.speed_unit_rev_per_s(index)
        limit = min(self.largest_speed, math.ceil(speed)) if math.isfinite(speed) else 0
        self.put(index, self.table.speed, 2, limit)
        self._torque_limit[index] = math.ceil(self.full_torque * self.motors.torque_fraction[index])
        self.put(index, self.table.torque_limit, 2, self._torque_limit[index])
        self.prepare(index)
        self.put(index, self.table.goal, 2, found.position)
        self.put(index, self.table.torque, 1, 1)

    def switch_off(self) -> None:
        """In packets that nobody answers: twice, since one may be lost."""
        for _ in range(2):
            self.sync_write(self.table.torque, dict.fromkeys(self.servos, b"\x00"))

    def send_goals(self, goals: Sequence[float]) -> None:
        """Places to all in a packet."""
        data = {}
        for index, goal in enumerate(goals):
            low, high = self.range_counts[index]
            counts = round(self.within(index, goal * self.counts_per_turn(index) + (low + high) / 2, low, high))
            data[self.servos[index]] = counts.to_bytes(2, "little")
        self.sync_write(self.table.goal, data)

    def ask_states(self, indices: Sequence[int]) -> Mapping[int, Sample]:
        """Place, speed, load and temperature; errors and torque come with them."""
        found = {}
        for index, one in self.measured(indices).items():
            turns = (one.position - sum(self.range_counts[index]) / 2) / self.counts_per_turn(index)
            load_a = one.load_fraction * self.motors.strongest_a[index]
            speed = one.speed * self.speed_unit_rev_per_s(index)
            found[index] = Sample(turns, speed, load_a, one.temperature_c)
            self._judge(index, one)
        return found

    def _judge(self, index: int, one: Measured) -> None:
        overloaded = one.errors == 1 << self.overload_bit
        if overloaded and self.may_restart(self._restarts[index]):
            self._restarts[index] += 1
            self.written.append(f"servo {self.servos[index]}: switched on again after overload")
            self.bring_back(index, one.position)
            return
        for name in self.names(one.errors):
            self.latch(index, f"{HARDWARE_ERROR} {name}")
        if self.enabled and not one.on:
            self.latch(index, TORQUE_OFF)

    def bring_back(self, index: int, position: int | None = None) -> None:
        """Clear an overload: torque off, its limit as before, and on at the present place where that is given."""
        self.put(index, self.table.torque, 1, 0)
        self.put(index, self.table.torque_limit, 2, self._torque_limit[index] or self.full_torque)
        if position is not None:
            self.put(index, self.table.goal, 2, position)
            self.put(index, self.table.torque, 1, 1)

    def restart(self) -> None:
        """Clear the errors of servos that reported one; all are off then."""
        broken = self.have(HARDWARE_ERROR)
        if broken:
            self.enabled = False
            self.switch_off()
            for index in broken:
                self.bring_back(index)
                self._restarts[index] = 0

    # --- packets

    def names(self, errors: int) -> list[str]:
        """Names of the bits of an error that concern the servo, not the packet."""
        return [name for bit, name in self.errors.items() if errors >> bit & 1]

    def get(self, index: int, address: int, size: int = 2) -> int:
        """An unsigned register. Raises :class:`DeviceError`."""
        answer = self.bus.ask_one(self.servos[index], READ, bytes([address, size]), size)
        return int.from_bytes(answer.data, "little")

    def put(self, index: int, address: int, size: int, value: int) -> None:
        """Set a register. Raises :class:`DeviceError` where the servo is silent."""
        self.bus.ask_one(self.servos[index], WRITE, bytes([address]) + value.to_bytes(size, "little"), 0)

    def keep(self, index: int, address: int, value: int, name: str) -> None:
        """Set a lasting register of one byte where it differs: its memory wears out."""
        before = self.get(index, address, 1)
        if before != value:
            self.put_lasting(index, address, value)
            self.written.append(f"servo {self.servos[index]}: {name} {before} -> {value}")

    def put_lasting(self, index: int, address: int, value: int) -> None:
        """Set a lasting register of one byte."""
        self.put(index, address, 1, value)

    def sync_write(self, address: int, values: Mapping[int, bytes]) -> None:
        """Set a register of many servos, which nobody answers; ``values``: bytes of each, all of one length."""
        size = len(next(iter(values.values())))
        data = b"".join(bytes([servo]) + value for servo, value in values.items())
        self.bus.send(BROADCAST, SYNC_WRITE, bytes([address, size]) + data)
