# SPDX-License-Identifier: Apache-2.0
"""What emulators of servos with short packets share."""

from __future__ import annotations

from collections.abc import Mapping

from continuum_robot.drivers.servo_bus import BROADCAST, ShortFraming
from continuum_robot.drivers.servo_emulation import EmulatedServo, EmulatedServos, MotorPort
from continuum_robot.drivers.short_servos import CODES, Table


class EmulatedShortServos(EmulatedServos):
    """Servos in position mode."""

    def __init__(
        self,
        servos: Mapping[int, MotorPort],
        table: Table,
        table_size: int,
        baud_bps: int,
        *,
        counts_per_turn: float,
        speed_unit_rev_per_s: float,
        full_torque: int,
    ) -> None:
        super().__init__(servos, table_size, baud_bps)
        self.at, self._framing = table, ShortFraming()
        self.counts_per_turn, self.speed_unit_rev_per_s = counts_per_turn, speed_unit_rev_per_s
        self._full_torque = full_torque

    def take_packet(self, received: bytearray) -> tuple[int, int, bytes] | None:
        """The first whole packet."""
        return self._framing.take(received)

    def obey(self, number: int, instruction: int, parameters: bytes) -> None:
        """Do what a packet says."""
        self.obey_packet(list(self.servos) if number == BROADCAST else [number], instruction, parameters, "B", CODES)

    def write(self, number: int, address: int, data: bytes) -> int:
        """Set registers of a servo, all of which take anything."""
        if (servo := self.present(number)) is not None:
            end = min(len(servo.table), address + len(data))
            servo.table[address:end] = data[: end - address]
            self.written(servo, address)
        return 0

    def written(self, servo: EmulatedServo, address: int) -> None:
        """Follow what was written at an address."""

    def framed(self, number: int, servo: EmulatedServo, error: int, data: bytes) -> bytes:
        """A status packet."""
        return self._framing.packet(number, error | self.error_of(servo), data)

    def error_of(self, servo: EmulatedServo) -> int:
        """Bits of its error, in every answer."""
        raise NotImplementedError

    def is_on(self, servo: EmulatedServo) -> bool:
        """Whether its torque is on."""
        return bool(servo.table[self.at.torque])

    def counts(self, servo: EmulatedServo) -> int:
        """Where it is, within its turn."""
        low, high = servo.get(self.at.low, 2), servo.get(self.at.high, 2)
        counts = round((servo.motor.position_rev - servo.zero_rev) * self.counts_per_turn)
        return min(max(counts, low), high)

    def range_turns(self, servo: EmulatedServo) -> tuple[float, float]:
        """Between its position limits."""
        low, high = servo.get(self.at.low, 2), servo.get(self.at.high, 2)
        return low / self.counts_per_turn, high / self.counts_per_turn

    def move(self, servo: EmulatedServo, duration_s: float) -> None:
        """Towards the goal while the torque is on; it holds it whoever is silent."""
        if not self.is_on(servo):
            servo.let_go()
            return
        goal = servo.get(self.at.goal, 2) / self.counts_per_turn + servo.zero_rev
        speed = servo.get(self.at.speed, 2) * self.speed_unit_rev_per_s
        servo.follow(goal, speed, min(1.0, servo.get(self.at.torque_limit, 2) / self._full_torque), duration_s)
