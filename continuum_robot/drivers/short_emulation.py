# SPDX-License-Identifier: Apache-2.0
"""What emulators of servos with short packets share."""

from __future__ import annotations

from collections.abc import Mapping

from continuum_robot.drivers.servo_bus import BROADCAST, ShortFraming
from continuum_robot.drivers.servo_emulation import EmulatedServo, EmulatedServos, MotorPort
from continuum_robot.drivers.short_servos import PING, READ, SYNC_READ, SYNC_WRITE, WRITE, Table


class EmulatedShortServos(EmulatedServos):
    """Servos in position mode.

    Parameters
    ----------
    servos : number of each servo and its motor
    table : addresses of their registers
    table_size : bytes
    baud_bps : bit/s
    counts_per_turn, speed_unit_rev_per_s : of position and speed
    full_torque : counts of the torque limit for all
    """

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
        if instruction == SYNC_WRITE and len(parameters) > 2:
            address, size = parameters[:2]
            for place in range(2, len(parameters) - size, size + 1):
                self._write(parameters[place], address, parameters[place + 1 : place + 1 + size])
        elif instruction == SYNC_READ and len(parameters) > 2:
            address, size = parameters[:2]
            self.answer_in_turn(list(parameters[2:]), lambda servo: bytes(servo.table[address : address + size]))
        else:
            for servo in list(self.servos) if number == BROADCAST else [number]:
                self._obey_one(servo, instruction, parameters)

    def _obey_one(self, number: int, instruction: int, parameters: bytes) -> None:
        servo = self.present(number)
        if servo is None:
            return
        if instruction == PING:
            self.answer(number, b"")
        elif instruction == READ and len(parameters) == 2:
            address, size = parameters
            self.answer(number, bytes(servo.table[address : address + size]))
        elif instruction == WRITE and len(parameters) > 1:
            self._write(number, parameters[0], parameters[1:])
            self.answer(number, b"")

    def _write(self, number: int, address: int, data: bytes) -> None:
        servo = self.present(number)
        if servo is not None:
            end = min(len(servo.table), address + len(data))
            servo.table[address:end] = data[: end - address]
            self.written(servo, address)

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
