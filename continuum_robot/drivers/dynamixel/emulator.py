# SPDX-License-Identifier: Apache-2.0
"""Emulated Dynamixel servos on one serial bus, to the byte, with protocol 2 and 1. Source: emanual.robotis.com."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from typing import ClassVar

from continuum_robot.drivers.dynamixel import models, protocol_1, protocol_2
from continuum_robot.drivers.dynamixel.models import CURRENT, CURRENT_BASED_POSITION, MODES, POSITION, VELOCITY, Model
from continuum_robot.drivers.dynamixel.protocol_1 import FULL_TORQUE, TABLE
from continuum_robot.drivers.dynamixel.protocol_2 import FAST_SYNC_READ, HEADER, REBOOT, STATUS, Protocol2, crc_16
from continuum_robot.drivers.dynamixel.settings import Dynamixel
from continuum_robot.drivers.servo_bus import BROADCAST
from continuum_robot.drivers.servo_emulation import (
    DRIVE_REVERSED,
    ELECTRICAL_SHOCK,
    ENCODER,
    INPUT_VOLTAGE,
    NARROW_LIMITS,
    NEW_RETURN_DELAY,
    OVERHEATING,
    OVERLOAD,
    WRONG_MODEL,
    EmulatedServo,
    EmulatedServos,
    EmulatedShortServos,
    MotorPort,
)
from continuum_robot.drivers.short_servos import CODES
from continuum_robot.robot.description import Robot

_FIRMWARE = 6
_INSTRUCTION_ERROR, _RANGE_ERROR, _ACCESS_ERROR, _ALERT = 0x02, 0x04, 0x07, 0x80
_SIZE = 147
_DEFAULT_GAIN = 1920
_FULL_PWM = 885
_NARROW_PWM = 100
_XL320 = 350
_LARGEST_REV_PER_S = 1.0
_VOLATILE = protocol_2.TORQUE_ENABLE
_GOALS = (protocol_2.GOAL_PWM, protocol_2.GOAL_CURRENT, protocol_2.GOAL_VELOCITY, protocol_2.GOAL_POSITION)


class EmulatedDynamixels(EmulatedServos):
    """Servos with protocol 2 as they come out of the box."""

    title = "Dynamixel servos"
    own_faults: ClassVar = {
        INPUT_VOLTAGE: 0,
        OVERHEATING: 2,
        ENCODER: 3,
        ELECTRICAL_SHOCK: 4,
        OVERLOAD: protocol_2.OVERLOAD,
    }
    left_behind: ClassVar = {
        WRONG_MODEL: (protocol_2.MODEL_NUMBER, _XL320.to_bytes(2, "little")),
        DRIVE_REVERSED: (protocol_2.DRIVE_MODE, bytes([protocol_2.REVERSED])),
        NARROW_LIMITS: (protocol_2.PWM_LIMIT, _NARROW_PWM.to_bytes(2, "little")),
    }
    has_watchdog = True

    def __init__(
        self,
        servos: Mapping[int, MotorPort],
        model: Model | None = None,
        *,
        current_limit_a: float = 3.2,
        baud_bps: int = 1_000_000,
        fast: bool = True,
    ) -> None:
        self.model = model or models.model_named("XM430-W350")
        super().__init__(servos, self.model.ram + _SIZE, baud_bps)
        self._fast, self._framing = fast, Protocol2()
        limit = round(current_limit_a / self.model.current_unit_a) if self.model.current_unit_a else 0
        for number, servo in self.servos.items():
            servo.set(protocol_2.MODEL_NUMBER, 2, models.NUMBERS[self.model.name])
            servo.set(_FIRMWARE, 1, 52)
            servo.set(protocol_2.ID, 1, number)
            servo.set(protocol_2.BAUD_RATE, 1, protocol_2.BAUD_CODES.get(baud_bps, 0))
            servo.set(protocol_2.RETURN_DELAY, 1, NEW_RETURN_DELAY)
            servo.set(protocol_2.OPERATING_MODE, 1, MODES[POSITION])
            servo.set(protocol_2.PWM_LIMIT, 2, _FULL_PWM)
            servo.set(protocol_2.CURRENT_LIMIT, 2, limit)
            servo.set(protocol_2.VELOCITY_LIMIT, 4, round(_LARGEST_REV_PER_S / self.model.velocity_unit_rev_per_s))
            servo.set(protocol_2.MAXIMUM_POSITION, 4, round(self.model.counts_per_turn) - 1)
            self._wake(servo)

    def range_turns(self, servo: EmulatedServo) -> tuple[float, float]:
        """Between its position limits."""
        low, high = (servo.get(at, 4) for at in (protocol_2.MINIMUM_POSITION, protocol_2.MAXIMUM_POSITION))
        return low / self.model.counts_per_turn, high / self.model.counts_per_turn

    def _at(self, register: int) -> int:
        return register + self.model.ram

    def register(self, number: int, address: int, size: int) -> int:
        """A register of a servo; volatile ones by their address in the X series."""
        return self.servos[number].get(self._at(address) if address >= _VOLATILE else address, size)

    def take_packet(self, received: bytearray) -> tuple[int, int, bytes] | None:
        """The first whole packet."""
        return self._framing.take_packet(received)

    def obey(self, number: int, instruction: int, parameters: bytes) -> None:
        """Do what a packet says."""
        numbers = list(self.servos) if number == BROADCAST else [number]
        if instruction == FAST_SYNC_READ:
            if self._fast and len(parameters) > 4:
                self._answer_together(parameters[4:], *struct.unpack_from("<HH", parameters))
        elif instruction == REBOOT:
            for one in filter(self.present, numbers):
                self.answer(one, b"")
                self.reboot(self.servos[one])
        elif not self.obey_packet(numbers, instruction, parameters, "H", CODES):
            for one in numbers:
                self.answer(one, b"", _INSTRUCTION_ERROR)

    def identity(self, servo: EmulatedServo) -> bytes:
        """Model and firmware."""
        return bytes(servo.table[0:2]) + bytes([servo.table[_FIRMWARE]])

    def answers_writes(self, servo: EmulatedServo) -> bool:
        """By its status return level."""
        return servo.get(self._at(protocol_2.STATUS_RETURN), 1) == protocol_2.ANSWERS_ALL

    def _answer_together(self, numbers: bytes, address: int, size: int) -> None:
        """One packet: each adds its error, number, registers and the checksum of all so far, the first the header."""
        servos = [servo for number in numbers if (servo := self.answering(number)) is not None]
        if len(servos) < len(numbers):
            return
        packet = HEADER + struct.pack("<BHB", BROADCAST, len(numbers) * (size + 4) + 1, STATUS)
        remainder = crc_16(packet)
        for number, servo in zip(numbers, servos, strict=True):
            part = bytes([0, number]) + servo.table[address : address + size]
            remainder = crc_16(part, remainder)
            ending = remainder.to_bytes(2, "little")
            remainder = crc_16(ending, remainder)
            packet += part + ending
        self.send(packet, servos)

    def write(self, number: int, address: int, data: bytes) -> int:
        servo = self.present(number)
        if servo is None:
            return 0
        if address < _VOLATILE and self.is_on(servo):
            return _ACCESS_ERROR
        struck = servo.get(self._at(protocol_2.BUS_WATCHDOG), 1) == protocol_2.WATCHDOG_STRUCK
        if struck and address in map(self._at, _GOALS):
            return _RANGE_ERROR
        value = int.from_bytes(data, "little", signed=True)
        if address == self._at(protocol_2.GOAL_CURRENT) and abs(value) > servo.get(protocol_2.CURRENT_LIMIT, 2):
            return _RANGE_ERROR
        if address == self._at(protocol_2.GOAL_VELOCITY) and abs(value) > servo.get(protocol_2.VELOCITY_LIMIT, 4):
            return _RANGE_ERROR
        if address == self._at(protocol_2.GOAL_POSITION) and servo.get(protocol_2.OPERATING_MODE, 1) == MODES[POSITION]:
            if not 0 <= value <= servo.get(protocol_2.MAXIMUM_POSITION, 4):
                return _RANGE_ERROR
        if address == protocol_2.OPERATING_MODE and data[0] not in [MODES[mode] for mode in self.model.modes]:
            return _RANGE_ERROR
        if (
            address == self._at(protocol_2.TORQUE_ENABLE)
            and data[0]
            and servo.get(self._at(protocol_2.HARDWARE_ERROR), 1)
        ):
            return _ACCESS_ERROR
        servo.table[address : address + len(data)] = data[: max(0, len(servo.table) - address)]
        return 0

    def framed(self, number: int, servo: EmulatedServo, error: int, data: bytes) -> bytes:
        """A status packet."""
        alert = _ALERT if servo.get(self._at(protocol_2.HARDWARE_ERROR), 1) else 0
        return self._framing.packet(number, STATUS, bytes([error | alert]) + data)

    # --- the servo

    def is_on(self, servo: EmulatedServo) -> bool:
        """Whether its torque is on."""
        return bool(servo.get(self._at(protocol_2.TORQUE_ENABLE), 1))

    def boot(self, servo: EmulatedServo) -> None:
        """After power-on the position is within one turn."""
        begin = self._at(_VOLATILE)
        servo.table[begin:] = bytes(len(servo.table) - begin)
        self._wake(servo)
        servo.zero_rev += math.floor(servo.motor.position_rev - servo.zero_rev)

    def _wake(self, servo: EmulatedServo) -> None:
        """Volatile registers that are not 0 after power-on."""
        servo.set(self._at(protocol_2.STATUS_RETURN), 1, protocol_2.ANSWERS_ALL)
        servo.set(self._at(protocol_2.VELOCITY_I_GAIN), 2, _DEFAULT_GAIN)
        servo.set(self._at(protocol_2.GOAL_PWM), 2, _FULL_PWM)

    def fail(self, servo: EmulatedServo, fault: str) -> None:
        """Torque off, and the bit of the hardware error."""
        servo.table[self._at(protocol_2.HARDWARE_ERROR)] |= 1 << self.own_faults[fault]
        servo.table[self._at(protocol_2.TORQUE_ENABLE)] = 0

    @staticmethod
    def _direction(servo: EmulatedServo) -> int:
        return -1 if servo.get(protocol_2.DRIVE_MODE, 1) & protocol_2.REVERSED else 1

    def measure(self, servo: EmulatedServo) -> None:
        """Current or load, speed, place, voltage, temperature."""
        motor, unit_a, direction = servo.motor, self.model.current_unit_a, self._direction(servo)
        state = protocol_2.ServoState(
            direction * round(motor.current_a / unit_a if unit_a else motor.load_fraction / protocol_2.LOAD_UNIT),
            direction * motor.velocity_rev_per_s,
            direction * (motor.position_rev - servo.zero_rev),
            12.0,
            85.0 if OVERHEATING in servo.faults else 31.0,
        )
        begin = self._at(protocol_2.PRESENT_CURRENT)
        servo.table[begin : begin + protocol_2.STATE_SIZE] = protocol_2.encode_state(state, self.model)

    def move(self, servo: EmulatedServo, duration_s: float) -> None:
        """By the operating mode; a watchdog that strikes stops it: no current, no speed, its present place."""
        watchdog, mode = servo.get(self._at(protocol_2.BUS_WATCHDOG), 1), servo.get(protocol_2.OPERATING_MODE, 1)
        waited_ms = 1000 * (self.now_s - servo.heard_s)
        if self.is_on(servo) and 0 < watchdog < protocol_2.WATCHDOG_STRUCK:
            if waited_ms > watchdog * protocol_2.WATCHDOG_UNIT_MS:
                self.strike(servo)
        if not self.is_on(servo):
            servo.let_go()
        elif mode == MODES[CURRENT]:
            goal = servo.get(self._at(protocol_2.GOAL_CURRENT), 2, signed=True) * self.model.current_unit_a
            servo.let_go(self._direction(servo) * goal)
        else:
            self._hold(servo, mode, duration_s)

    def strike(self, servo: EmulatedServo) -> None:
        """No current, no speed, or its present place; it takes no goals until the watchdog is set to 0."""
        mode = servo.get(protocol_2.OPERATING_MODE, 1)
        servo.set(self._at(protocol_2.BUS_WATCHDOG), 1, protocol_2.WATCHDOG_STRUCK)
        if mode == MODES[CURRENT]:
            servo.set(self._at(protocol_2.GOAL_CURRENT), 2, 0)
        elif mode == MODES[VELOCITY]:
            servo.set(self._at(protocol_2.GOAL_VELOCITY), 4, 0)
        else:
            self.measure(servo)
            present = servo.get(self._at(protocol_2.PRESENT_POSITION), 4, signed=True)
            servo.set(self._at(protocol_2.GOAL_POSITION), 4, present)

    def _hold(self, servo: EmulatedServo, mode: int, duration_s: float) -> None:
        direction = self._direction(servo)
        goal = servo.get(self._at(protocol_2.GOAL_POSITION), 4, signed=True) / self.model.counts_per_turn
        unit = self.model.velocity_unit_rev_per_s
        speed = servo.get(self._at(protocol_2.PROFILE_VELOCITY), 4) * unit
        fraction = servo.get(self._at(protocol_2.GOAL_PWM), 2) / _FULL_PWM
        if mode == MODES[CURRENT_BASED_POSITION]:
            largest = servo.get(protocol_2.CURRENT_LIMIT, 2)
            fraction = servo.get(self._at(protocol_2.GOAL_CURRENT), 2, signed=True) / largest if largest else 0.0
        if mode == MODES[VELOCITY]:
            turns_per_s = direction * servo.get(self._at(protocol_2.GOAL_VELOCITY), 4, signed=True) * unit
            begin = servo.motor.position_rev if math.isnan(servo.reference_rev) else servo.reference_rev
            servo.follow(begin + turns_per_s * duration_s, 0.0, min(1.0, fraction), duration_s)
            servo.moves = True
            return
        servo.follow(direction * goal + servo.zero_rev, speed, min(1.0, fraction), duration_s)


class EmulatedProtocol1(EmulatedShortServos):
    """Servos with protocol 1 as they come out of the box."""

    title = "Dynamixel servos"
    own_faults: ClassVar = {INPUT_VOLTAGE: 0, OVERHEATING: 2, OVERLOAD: protocol_1.OVERLOAD}
    left_behind: ClassVar = {
        WRONG_MODEL: (TABLE.model, _XL320.to_bytes(2, "little")),
        NARROW_LIMITS: (TABLE.low, struct.pack("<2H", 500, 520)),
    }

    at, full_torque, size = TABLE, FULL_TORQUE, 74
    identity_at, maximum_torque_at, error_at = 3, 14, 73
    """The error is where no register of these servos is."""

    def __init__(
        self, servos: Mapping[int, MotorPort], model: Model | None = None, *, baud_bps: int = 1_000_000
    ) -> None:
        model = model or models.model_named("AX-12A")
        super().__init__(
            servos,
            baud_bps,
            model=models.NUMBERS[model.name],
            baud_code=min(255, max(0, round(2_000_000 / baud_bps) - 1)),
            highest=round(model.counts_per_turn * model.turn_rev) - (model.turn_rev == 1.0),
            counts_per_turn=model.counts_per_turn,
            speed_unit_rev_per_s=model.velocity_unit_rev_per_s,
        )

    def fail(self, servo: EmulatedServo, fault: str) -> None:
        """An alarm takes the torque limit away too."""
        super().fail(servo, fault)
        servo.set(TABLE.torque_limit, 2, 0)

    def written(self, servo: EmulatedServo, address: int) -> None:
        """A torque limit brings a servo back, unless it is still too hot."""
        if address == TABLE.torque_limit:
            servo.table[self.error_at] = 0


def emulator(robot: Robot, settings: Dynamixel, motors: Mapping[int, MotorPort]) -> EmulatedServos:
    """Emulated servos of the model that the file names, or of the one that is taken where it names none."""
    model = models.assumed_model(settings.model, settings.protocol, robot.takes_displacements)
    if settings.protocol == models.PROTOCOL_1:
        return EmulatedProtocol1(motors, model, baud_bps=settings.baud_bps).centre()
    strongest_a = robot.actuators.largest("maximum_current_a", robot.motor_count) if robot.actuators else 1.0
    largest_a = settings.maximum_current_a or strongest_a
    made = EmulatedDynamixels(motors, model, current_limit_a=largest_a, baud_bps=settings.baud_bps)
    return made.centre() if settings.mode == models.POSITION else made
