# SPDX-License-Identifier: Apache-2.0
"""Emulated moteus controllers behind an fdcanusb, to the byte. Source: docs/reference.md of mjbots/moteus."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from typing import ClassVar

from continuum_robot.drivers.moteus import frames
from continuum_robot.drivers.moteus.settings import Moteus
from continuum_robot.drivers.servo_emulation import (
    ENCODER,
    INPUT_VOLTAGE,
    OVERHEATING,
    OVERLOAD,
    EmulatedServo,
    EmulatedServos,
    MotorPort,
)
from continuum_robot.errors import ParameterError
from continuum_robot.robot.description import Robot

_SIZES = {0: ("<b", 1), 1: ("<h", 2), 2: ("<i", 4), 3: ("<f", 4)}
_NOP = 0x50
_DEFAULT_WATCHDOG_S = 0.1


class EmulatedMoteus(EmulatedServos):
    """Controllers that are configured for their motors."""

    title = "moteus controllers"
    own_faults: ClassVar = {OVERLOAD: 33, ENCODER: 35, OVERHEATING: 38, INPUT_VOLTAGE: 40}

    def __init__(
        self, servos: Mapping[int, MotorPort], *, nm_per_a: Mapping[int, float], largest_a: Mapping[int, float]
    ) -> None:
        super().__init__(servos, 0, 921_600)
        self._nm_per_a, self._largest_a = nm_per_a, largest_a
        self._values: dict[int, dict[int, float]] = {number: {} for number in self.servos}

    def registers(self, number: int) -> dict[int, float]:
        """Of a controller, those that were written or measured."""
        return self._values[number]

    def take_packet(self, received: bytearray) -> tuple[int, int, bytes] | None:
        """A line of the host."""
        while (end := received.find(b"\n")) >= 0:
            words = bytes(received[:end]).split()
            del received[: end + 1]
            if len(words) > 3 and words[:2] == [b"can", b"send"]:
                self.send(b"OK\n")
                try:
                    identifier, data = int(words[2], 16), bytes.fromhex(words[3].decode())
                except ValueError:
                    continue
                return identifier & 0x7F, identifier >> 8, data
        return None

    def obey(self, number: int, instruction: int, parameters: bytes) -> None:
        """Write what is written, answer what is read."""
        servo = self.present(number)
        if servo is None:
            return
        values, reply, place = self._values[servo.number], b"", 0
        try:
            while place < len(parameters):
                kind, place = parameters[place], place + 1
                if kind == _NOP:
                    continue
                if kind >= 0x20:
                    break
                (form, size), count = _SIZES[kind >> 2 & 3], kind & 3
                if not count:
                    count, place = parameters[place], place + 1
                first, place = parameters[place], place + 1
                if kind & 0x10:
                    reply += bytes([kind + 0x10, first])
                    reply += b"".join(struct.pack(form, self._read(values, first + i, form)) for i in range(count))
                else:
                    for i in range(count):
                        self._write(servo, values, first + i, struct.unpack_from(form, parameters, place)[0])
                        place += size
        except (IndexError, struct.error):
            return
        if instruction & frames.REPLY and len(reply) <= frames.LONGEST:
            self.answer(number, frames.padded(reply))

    @staticmethod
    def _read(values: dict[int, float], register: int, form: str) -> float:
        value = values.get(register, 0.0)
        return value if form == "<f" else int(value)

    def _write(self, servo: EmulatedServo, values: dict[int, float], register: int, value: float) -> None:
        if register == frames.MODE and value == frames.POSITION_MODE and values.get(frames.MODE) == frames.FAULTED:
            return
        if register == frames.MODE:
            if value == frames.STOPPED:
                values[frames.FAULT] = 0
            servo.heard_s = self.now_s
        values[register] = value

    def framed(self, number: int, servo: EmulatedServo, error: int, data: bytes) -> bytes:
        """A line of the adapter."""
        del servo, error
        return f"rcv {number << 8:04x} {data.hex()} E B F\n".encode()

    def is_on(self, servo: EmulatedServo) -> bool:
        """Whether it is in position mode."""
        return self._values[servo.number].get(frames.MODE, 0) == frames.POSITION_MODE

    def boot(self, servo: EmulatedServo) -> None:
        """It counts within one turn."""
        self._values[servo.number].clear()
        servo.zero_rev += math.floor(servo.motor.position_rev - servo.zero_rev)

    def fail(self, servo: EmulatedServo, fault: str) -> None:
        """Fault mode; one that has no overload of its own finds its driver at fault."""
        self._values[servo.number] |= {frames.MODE: frames.FAULTED, frames.FAULT: self.own_faults[fault]}

    def measure(self, servo: EmulatedServo) -> None:
        """Place, speed, torque, temperature."""
        motor = servo.motor
        place = motor.position_rev - servo.zero_rev
        measured = (place, motor.velocity_rev_per_s, motor.current_a * self._nm_per_a[servo.number])
        self._values[servo.number] |= {frames.POSITION + i: value for i, value in enumerate(measured)}
        self._values[servo.number][frames.TEMPERATURE] = 85 if OVERHEATING in servo.faults else 31

    def move(self, servo: EmulatedServo, duration_s: float) -> None:
        """By torque where the gains are 0, else to the place; a watchdog that strikes lets go."""
        values, nm_per_a = self._values[servo.number], self._nm_per_a[servo.number]
        at, largest_nm = frames.COMMAND, self._largest_a[servo.number] * nm_per_a
        watchdog_s = values.get(frames.WATCHDOG, _DEFAULT_WATCHDOG_S)
        if self.is_on(servo) and self.now_s - servo.heard_s > watchdog_s:
            values[frames.MODE] = frames.TIMED_OUT
        if not self.is_on(servo):
            servo.let_go()
        elif values.get(at + 3, 1.0) == 0.0:
            servo.let_go(values.get(at + 2, 0.0) / nm_per_a)
        else:
            if math.isnan(values[at]):
                self.measure(servo)
                values[at] = values[frames.POSITION]
            speed, largest = values.get(at + 8, math.nan), values.get(at + 5, largest_nm)
            speed = 0.0 if math.isnan(speed) else speed
            servo.follow(values[at] + servo.zero_rev, speed, min(1.0, largest / largest_nm), duration_s)


def emulator(robot: Robot, settings: Moteus, motors: Mapping[int, MotorPort]) -> EmulatedMoteus:
    """Emulated controllers."""
    actuators = robot.actuators
    if actuators is None:
        raise ParameterError("robot.actuators", None, f"actuators in the file of robot {robot.name!r}")
    own = {entry.id: (entry, actuators.of(entry.number)) for entry in settings.motors}
    constants = {
        servo: entry.torque_constant_nm_per_a or one.torque_constant_nm_per_a for servo, (entry, one) in own.items()
    }
    largest_a = {servo: one.maximum_current_a for servo, (_, one) in own.items()}
    return EmulatedMoteus(motors, nm_per_a=constants, largest_a=largest_a)
