# SPDX-License-Identifier: Apache-2.0
"""Emulated CiA 402 drives behind an slcan adapter, to the byte. Source: CiA 301 and CiA 402."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from continuum_robot.drivers.can_bus import Frame, slcan_line, take_slcan
from continuum_robot.drivers.cia402 import codec
from continuum_robot.drivers.cia402.codec import Pdo, wrapped
from continuum_robot.drivers.cia402.settings import Cia402, Cia402Motor
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

_ADAPTER_BPS = 115_200
_READ_ONLY = {codec.DEVICE_TYPE, codec.ERROR_CODE, codec.STATUSWORD, codec.MODE_DISPLAY, codec.POSITION}
_READ_ONLY |= {codec.VELOCITY, codec.TORQUE, codec.RATED_TORQUE, codec.SUPPORTED_MODES}
_NO_OBJECT, _IS_READ_ONLY, _LENGTH, _NOT_NOW = 0x0602_0000, 0x0601_0002, 0x0607_0010, 0x0800_0022
_PDOS = (codec.goals_received(codec.TARGET_POSITION), codec.STATES_SENT, codec.SPEEDS_SENT)
_DRIVE_TOO_HOT, _OVER_CURRENT, _HEARTBEAT_LOST = 0x4310, 0x2310, 0x8130
_REMOTE, _STOPPED = 0x0200, 0x04
_VOLTAGE, _NO_QUICK_STOP, _ON, _ENABLE = 0x02, 0x04, 0x01, 0x08


@dataclass
class _Drive:
    """What a drive keeps until it loses its power."""

    objects: dict[int, int]
    nmt: int = codec.PRE_OPERATIONAL
    state: str = codec.SWITCH_ON_DISABLED
    word: int = 0
    received: bytes = b""
    host_s: float = math.nan
    beaten_s: float = 0.0
    early: list[Frame] = field(default_factory=list)


class EmulatedCia402(EmulatedServos):
    """Drives that are commissioned for their motors."""

    title = "CiA 402 drives"
    own_faults: ClassVar = {
        OVERLOAD: _OVER_CURRENT,
        INPUT_VOLTAGE: 0x3220,
        OVERHEATING: _DRIVE_TOO_HOT,
        ENCODER: 0x7300,
    }
    talks = True

    def __init__(
        self,
        servos: Mapping[int, MotorPort],
        entries: Mapping[int, Cia402Motor],
        *,
        nm_per_a: Mapping[int, float],
        largest_a: Mapping[int, float],
        velocity_unit_rev_per_s: float,
    ) -> None:
        super().__init__(servos, 0, _ADAPTER_BPS)
        self._entries, self._unit = entries, velocity_unit_rev_per_s
        self._nm_per_a = {node: entry.torque_constant_nm_per_a or nm_per_a[node] for node, entry in entries.items()}
        self._largest_a = largest_a
        self._rated_nm = {
            node: entry.rated_torque_nm or round(1000 * largest_a[node] * self._nm_per_a[node]) / 1000
            for node, entry in entries.items()
        }
        self._drives = {node: _Drive(self._fresh(node)) for node in self.servos}

    def objects(self, node: int) -> dict[int, int]:
        """Of a drive, by ``index << 8 | subindex``."""
        return self._drives[node].objects

    def state(self, node: int) -> str:
        """Of a drive, as :data:`codec.STATES` has it."""
        return self._drives[node].state

    def _fresh(self, node: int) -> dict[int, int]:
        values = dict.fromkeys(codec.OBJECTS, 0)
        for pdo in _PDOS:
            values |= dict(codec.pdo_set_up(Pdo(pdo.communication, pdo.mapping, pdo.function, (codec.STATUSWORD,)), 0))
            values |= {pdo.mapping << 8 | sub: values.get(pdo.mapping << 8 | sub, 0) for sub in range(9)}
            values[pdo.communication << 8 | 1] = pdo.function + node
        modes = 1 << codec.CSP - 1 | 1 << codec.CST - 1
        return values | {
            codec.DEVICE_TYPE: 0x0002_0000 | codec.PROFILE_402,
            codec.SUPPORTED_MODES: modes,
            codec.RATED_TORQUE: round(1000 * self._rated_nm[node]),
            codec.LARGEST_TORQUE: 1000,
            codec.FOLLOWING_WINDOW: self._entries[node].counts_per_turn,
            codec.QUICK_STOP_OPTION: codec.STOP_AND_SWITCH_OFF,
            codec.ABORT_CONNECTION: 1,
        }

    # --- frames

    def take(self, received: bytes) -> bytes:
        """Frames of the host; what the drives sent by themselves goes before the answers."""
        if not received:
            return b""
        early = b""
        for node, drive in self._drives.items():
            if self.present(node) is not None:
                early += b"".join(slcan_line(frame) for frame in drive.early)
                drive.early.clear()
        return early + super().take(received)

    def take_packet(self, received: bytearray) -> tuple[int, int, bytes] | None:
        """A frame of the host: node id, function code, data."""
        frame = take_slcan(received)
        return None if frame is None else (frame.identifier & 0x7F, frame.identifier & 0x780, frame.data)

    def framed(self, number: int, servo: EmulatedServo, error: int, data: bytes) -> bytes:
        """A frame; ``error`` is its function code."""
        del servo
        return slcan_line(Frame(error + number, data))

    def obey(self, number: int, instruction: int, parameters: bytes) -> None:
        """NMT, SYNC, SDO, process data, and the host's heartbeat."""
        listens = self.present(number) is not None and self._drives[number].nmt != _STOPPED
        if instruction == codec.SDO_REQUEST and listens and len(parameters) == 8:
            self.answer(number, self._sdo(number, parameters), codec.SDO_ANSWER)
        for node, drive in self._drives.items():
            if self.present(node) is None:
                continue
            if (instruction, number) == (codec.NMT, 0) and len(parameters) == 2 and parameters[1] in (0, node):
                self._manage(node, drive, parameters[0])
            elif instruction == codec.HEARTBEAT and drive.objects[codec.CONSUMER_HEARTBEAT] >> 16 == number:
                drive.host_s = self.now_s
            elif drive.nmt != codec.OPERATIONAL:
                continue
            elif (instruction, number) == (codec.RPDO1, node):
                drive.received = parameters
            elif (instruction, number) == (codec.SYNC, 0):
                self._apply(node, drive)
                self._send(node, drive)

    def _manage(self, node: int, drive: _Drive, command: int) -> None:
        states = {codec.START: codec.OPERATIONAL, 0x02: _STOPPED, codec.PRE_OPERATE: codec.PRE_OPERATIONAL}
        if command in (0x81, 0x82):
            self.reboot(self.servos[node])
        else:
            drive.nmt = states.get(command, drive.nmt)

    def _sdo(self, node: int, data: bytes) -> bytes:
        command, index, sub = struct.unpack_from("<BHB", data)
        key = index << 8 | sub
        drive, form, abort = self._drives[node], codec.form_of(key), 0
        size = struct.calcsize(form) if form else 0
        if key not in drive.objects or not form:
            abort = _NO_OBJECT
        elif command == 0x40:
            value = struct.pack(form, drive.objects[key]).ljust(4, b"\0")
            return struct.pack("<BHB", 0x43 | (4 - size) << 2, index, sub) + value
        elif key in _READ_ONLY:
            abort = _IS_READ_ONLY
        elif command != 0x23 | (4 - size) << 2:
            abort = _LENGTH
        elif not self._write(node, drive, key, struct.unpack_from(form, data, 4)[0]):
            abort = _NOT_NOW
        if abort:
            return struct.pack("<BHBI", 0x80, index, sub, abort)
        return struct.pack("<BHB4x", 0x60, index, sub)

    def _write(self, node: int, drive: _Drive, key: int, value: int) -> bool:
        """Whether an object took a value: process data are mapped while they are off."""
        index, sub = key >> 8, key & 0xFF
        if codec.is_mapping(index):
            off = drive.objects[index - 0x200 << 8 | 1] >> 31
            if not off or (sub and drive.objects[index << 8]):
                return False
        drive.objects[key] = value
        if key == codec.CONTROLWORD:
            self._control(node, drive, value)
        elif key == codec.CONSUMER_HEARTBEAT:
            drive.host_s = math.nan
        elif key == codec.MODE and value in (codec.CSP, codec.CST):
            drive.objects[codec.MODE_DISPLAY] = value
        return True

    @staticmethod
    def _mapped(drive: _Drive, pdo: Pdo) -> list[int]:
        entries = [drive.objects[pdo.mapping << 8 | sub] for sub in range(1, drive.objects[pdo.mapping << 8] + 1)]
        return [entry >> 8 for entry in entries]

    def _apply(self, node: int, drive: _Drive) -> None:
        data, drive.received = drive.received, b""
        keys = self._mapped(drive, _PDOS[0])
        form = "<" + "".join(codec.form_of(key)[1:] for key in keys)
        if data and len(data) == struct.calcsize(form):
            words = dict(zip(keys, struct.unpack(form, data), strict=True))
            word = words.pop(codec.CONTROLWORD, drive.objects[codec.CONTROLWORD])
            drive.objects |= words
            self._write(node, drive, codec.CONTROLWORD, word)

    def _send(self, node: int, drive: _Drive) -> None:
        for pdo in (codec.STATES_SENT, codec.SPEEDS_SENT):
            keys = self._mapped(drive, pdo)
            values = [struct.pack(codec.form_of(key), drive.objects[key]) for key in keys]
            self.answer(node, b"".join(values), pdo.function)

    # --- the state machine

    def _control(self, node: int, drive: _Drive, word: int) -> None:
        before, state, drive.word = drive.word, drive.state, word
        if state == codec.FAULT:
            if word & codec.RESET_FAULT & ~before and OVERHEATING not in self.servos[node].faults:
                drive.state, drive.objects[codec.ERROR_CODE] = codec.SWITCH_ON_DISABLED, 0
        elif not word & _VOLTAGE:
            drive.state = codec.SWITCH_ON_DISABLED
        elif not word & _NO_QUICK_STOP:
            self._stop(drive)
        elif not word & _ON:
            drive.state = state if state == codec.QUICK_STOP_ACTIVE else codec.READY
        elif state == codec.READY:
            drive.state = codec.SWITCHED_ON
        elif word & _ENABLE and state in (codec.SWITCHED_ON, codec.QUICK_STOP_ACTIVE):
            drive.state = codec.ENABLED
        elif not word & _ENABLE and state == codec.ENABLED:
            drive.state = codec.SWITCHED_ON
        self._show(drive)

    @staticmethod
    def _stop(drive: _Drive) -> None:
        """Quick stop; its ramp is so short that the drive stands at once."""
        hold = (
            drive.state in (codec.ENABLED, codec.QUICK_STOP_ACTIVE)
            and drive.objects[codec.QUICK_STOP_OPTION] == codec.STOP_AND_HOLD
        )
        drive.state = codec.QUICK_STOP_ACTIVE if hold else codec.SWITCH_ON_DISABLED
        drive.objects[codec.TARGET_POSITION] = drive.objects[codec.POSITION]

    @staticmethod
    def _show(drive: _Drive) -> None:
        values, word = drive.objects, codec.STATES[drive.state][1] | _REMOTE
        behind = abs(wrapped(values[codec.TARGET_POSITION] - values[codec.POSITION]))
        if drive.state == codec.ENABLED and values[codec.MODE_DISPLAY] == codec.CSP:
            word |= codec.FOLLOWING_ERROR if behind > values[codec.FOLLOWING_WINDOW] else 0
        values[codec.STATUSWORD] = word

    def is_on(self, servo: EmulatedServo) -> bool:
        """Whether it gives torque."""
        return self._drive(servo).state in (codec.ENABLED, codec.QUICK_STOP_ACTIVE)

    def boot(self, servo: EmulatedServo) -> None:
        """Nothing is kept, and the position counts from here."""
        node = servo.number
        self._drives[node] = drive = _Drive(self._fresh(node))
        drive.early.append(Frame(codec.HEARTBEAT + node, bytes([codec.BOOT_UP])))
        servo.zero_rev = servo.motor.position_rev

    def fail(self, servo: EmulatedServo, fault: str) -> None:
        """The state fault, with an emergency."""
        code = self.own_faults[fault]
        drive = self._drive(servo)
        if drive.state != codec.FAULT:
            drive.state, drive.objects[codec.ERROR_CODE] = codec.FAULT, code
            self._emergency(servo, code)

    # --- time

    def hear(self, now_s: float) -> None:
        super().hear(now_s)
        for drive in self._drives.values():
            drive.host_s = math.nan if math.isnan(drive.host_s) else now_s

    def measure(self, servo: EmulatedServo) -> None:
        """Place, speed, torque; heartbeat."""
        node, drive, motor = servo.number, self._drive(servo), servo.motor
        counts = round((motor.position_rev - servo.zero_rev) * self._entries[node].counts_per_turn)
        torque = 1000 * motor.current_a * self._nm_per_a[node] / self._rated_nm[node]
        drive.objects |= {
            codec.POSITION: wrapped(counts),
            codec.VELOCITY: round(motor.velocity_rev_per_s / self._unit),
            codec.TORQUE: max(-0x8000, min(0x7FFF, round(torque))),
        }
        self._show(drive)
        beat_s = drive.objects[codec.PRODUCER_HEARTBEAT] / 1000
        if beat_s and self.now_s - drive.beaten_s >= beat_s and self.now_s >= servo.silent_until_s:
            drive.beaten_s = self.now_s
            drive.early = [*drive.early[-3:], Frame(codec.HEARTBEAT + node, bytes([drive.nmt]))]

    def move(self, servo: EmulatedServo, duration_s: float) -> None:
        """By torque, or to the target, the nearest place with its 32 bits; stop where the host is gone."""
        node, drive = servo.number, self._drive(servo)
        values = drive.objects
        watched_ms = values[codec.CONSUMER_HEARTBEAT] & 0xFFFF
        if watched_ms and self.now_s - drive.host_s > watched_ms / 1000:
            drive.host_s, drive.nmt = math.nan, codec.PRE_OPERATIONAL
            self._emergency(servo, _HEARTBEAT_LOST)
            if values[codec.ABORT_CONNECTION] == codec.STOP_QUICKLY and self.is_on(servo):
                self._stop(drive)
        if not self.is_on(servo):
            servo.let_go()
            return
        largest_nm = values[codec.LARGEST_TORQUE] / 1000 * self._rated_nm[node]
        if values[codec.MODE_DISPLAY] == codec.CST and drive.state == codec.ENABLED:
            wanted = values[codec.TARGET_TORQUE] / 1000 * self._rated_nm[node]
            servo.let_go(max(-largest_nm, min(largest_nm, wanted)) / self._nm_per_a[node])
        else:
            per_turn = self._entries[node].counts_per_turn
            counts = round((servo.motor.position_rev - servo.zero_rev) * per_turn)
            goal = servo.zero_rev + (counts + wrapped(values[codec.TARGET_POSITION] - counts)) / per_turn
            servo.follow(goal, 0.0, min(1.0, largest_nm / (self._largest_a[node] * self._nm_per_a[node])), duration_s)

    def _emergency(self, servo: EmulatedServo, code: int) -> None:
        node = servo.number
        self._drive(servo).early.append(Frame(codec.EMERGENCY + node, struct.pack("<HB5x", code, 0x01)))

    def _drive(self, servo: EmulatedServo) -> _Drive:
        return self._drives[servo.number]


def emulator(robot: Robot, settings: Cia402, motors: Mapping[int, MotorPort]) -> EmulatedCia402:
    """Emulated drives."""
    actuators = robot.actuators
    if actuators is None:
        raise ParameterError("robot.actuators", None, f"actuators in the file of robot {robot.name!r}")
    own = {entry.id: actuators.of(entry.number) for entry in settings.motors}
    return EmulatedCia402(
        motors,
        {entry.id: entry for entry in settings.motors},
        nm_per_a={node: one.torque_constant_nm_per_a for node, one in own.items()},
        largest_a={node: one.maximum_current_a for node, one in own.items()},
        velocity_unit_rev_per_s=settings.velocity_unit_rev_per_s,
    )
