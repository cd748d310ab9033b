# SPDX-License-Identifier: Apache-2.0
"""Simulated Dynamixel X servos on one serial bus: protocol 2 to the byte, on a pseudo-terminal.

Written from the protocol's description (emanual.robotis.com) without the makers' library, which it is to answer.
"""

from __future__ import annotations

import contextlib
import math
import select
import struct
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from continuum_robot.drivers.dynamixel import registers
from continuum_robot.errors import ParameterError
from continuum_robot.simulation.wire.odri_board import MotorPort
from continuum_robot.simulation.wire.pty import Pty

HEADER = b"\xff\xff\xfd\x00"
BROADCAST = 254
TABLE_SIZE = 147
BOOT_S = 0.3
MODEL_XM430_W350 = 1020
_PING, _READ, _WRITE, _REBOOT, _STATUS, _SYNC_READ, _SYNC_WRITE = 0x01, 0x02, 0x03, 0x08, 0x55, 0x82, 0x83
_INSTRUCTION_ERROR, _RANGE_ERROR, _ACCESS_ERROR, _ALERT = 0x02, 0x04, 0x07, 0x80
_LOOK_S = 0.05
_SHORTEST = 10
_LONGEST = 1024
_WATCHDOG_STRUCK = 0xFF

SILENT = "silent"
LOST_FRAMES = "lost_frames"
CORRUPTED_FRAMES = "corrupted_frames"
NOISE = "noise"
REBOOT = "reboot"
OVERHEATING = "overheating"
STUCK_MOTOR = "stuck_motor"
POSITION_JUMP = "position_jump"

FAULTS: dict[str, str] = {
    SILENT: "the servo answers nothing",
    LOST_FRAMES: "each nth answer gets lost",
    CORRUPTED_FRAMES: "each nth answer has a flipped bit",
    NOISE: "bytes that are no packet come before each nth answer",
    REBOOT: "the servo restarts, once",
    OVERHEATING: "the servo is too hot and switched off, until it restarts",
    STUCK_MOTOR: "the horn is blocked",
    POSITION_JUMP: "the position jumps by this many turns, once",
}
"""Name and meaning of every fault that can be injected, with the meaning of the magnitude."""


def crc_16(data: bytes) -> int:
    """Checksum of protocol 2: polynomial 0x8005, begin 0, not reflected.

    Parameters
    ----------
    data : the bytes before the checksum
    """
    value = 0
    for byte in data:
        value ^= byte << 8
        for _ in range(8):
            value = (value << 1 ^ 0x8005 if value & 0x8000 else value << 1) & 0xFFFF
    return value


def packet(servo: int, instruction: int, parameters: bytes) -> bytes:
    """A packet with its checksum; a header within the parameters is stuffed.

    Parameters
    ----------
    servo : number on the bus
    instruction : of protocol 2
    parameters : its bytes
    """
    stuffed = (bytes([instruction]) + parameters).replace(b"\xff\xff\xfd", b"\xff\xff\xfd\xfd")
    head = HEADER + bytes([servo]) + struct.pack("<H", len(stuffed) + 2) + stuffed
    return head + struct.pack("<H", crc_16(head))


@dataclass(slots=True)
class _Servo:
    motor: MotorPort
    table: bytearray
    zero_rev: float = 0.0
    silent_until_s: float = -math.inf
    heard_s: float = 0.0
    faults: dict[str, float] = field(default_factory=dict)

    def get(self, address: int, size: int) -> int:
        return int.from_bytes(self.table[address : address + size], "little")

    def set(self, address: int, size: int, value: int) -> None:
        self.table[address : address + size] = value.to_bytes(size, "little")


class SimulatedDynamixelBus:
    """Servos on a bus.

    Parameters
    ----------
    servos : number of each servo and its motor
    current_unit_a : current of a count, A
    current_limit_a : the servos' own
    link : a symbolic link that names the port; None: one of its own

    Attributes
    ----------
    pty : the line, which can hang up and be plugged in
    bad_packets : packets with a wrong checksum
    """

    def __init__(
        self,
        servos: Mapping[int, MotorPort],
        *,
        current_unit_a: float = 0.00269,
        current_limit_a: float = 3.2,
        link: Path | None = None,
    ) -> None:
        self.pty = Pty(link)
        self.bad_packets = 0
        self._unit_a, self._limit_counts = current_unit_a, round(current_limit_a / current_unit_a)
        self._servos = {number: _Servo(motor, bytearray(TABLE_SIZE)) for number, motor in servos.items()}
        self._buffer = bytearray()
        self._answered: bytearray | None = None
        self._answers = 0
        self._now_s = 0.0
        self._lock = threading.RLock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        for number, servo in self._servos.items():
            servo.set(7, 1, number)
            servo.set(0, 2, MODEL_XM430_W350)
            servo.set(registers.OPERATING_MODE, 1, 3)  # position control, as it comes out of the box
            servo.set(registers.CURRENT_LIMIT, 2, self._limit_counts)

    @property
    def port(self) -> str:
        """What the host opens."""
        return str(self.pty.path)

    @property
    def torque_enabled(self) -> list[bool]:
        """Of every servo, in the order of their numbers."""
        return [bool(self._servos[number].table[registers.TORQUE_ENABLE]) for number in sorted(self._servos)]

    def register(self, number: int, address: int, size: int) -> int:
        """A register of a servo, for tests.

        Parameters
        ----------
        number : of the servo
        address : of the register
        size : bytes
        """
        return self._servos[number].get(address, size)

    def inject(self, fault: str, number: int, magnitude: float = 1.0) -> None:
        """Inject a fault of :data:`FAULTS` into a servo until ended; "" ends all of it.

        Parameters
        ----------
        number : of the servo
        magnitude : in the unit of the fault

        Raises
        ------
        ParameterError : unknown name or servo
        """
        if number not in self._servos:
            raise ParameterError("number", number, f"one of the servos {', '.join(map(str, self._servos))}")
        if fault and fault not in FAULTS:
            raise ParameterError("fault", fault, "one of " + ", ".join(FAULTS) + ", or empty to end all")
        with self._lock:
            if fault:
                self._servos[number].faults[fault] = magnitude
            else:
                self._servos[number].faults.clear()

    def step(self, now_s: float) -> None:
        """Take packets, answer, drive the motors; ``now_s`` monotonic, s."""
        with self._lock:
            self._now_s = now_s
            for servo in self._servos.values():
                self._move(servo, now_s)
            self._take_packets()
            for servo in self._servos.values():
                self._drive(servo, now_s)

    def serve(self) -> None:
        """Answer packets as they come, between the steps too, at the time of the latest one."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="simulated servos", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """End. Safe to call at any time."""
        thread, self._thread = self._thread, None
        self._stop.set()
        if thread is not None:
            thread.join()
        self.pty.close()

    def _serve(self) -> None:
        while not self._stop.is_set():
            line = self.pty.fileno()
            if line < 0:
                self._stop.wait(_LOOK_S)
                continue
            with contextlib.suppress(OSError, ValueError):  # hung up meanwhile
                if select.select([line], [], [], _LOOK_S)[0]:
                    with self._lock:
                        self._take_packets()

    def ask(self, data: bytes) -> bytes:
        """What the servos answer to bytes of a host in this process, at the time of the latest step.

        Parameters
        ----------
        data : of a packet, or of several
        """
        with self._lock:
            self._answered = bytearray()
            try:
                self._take(data)
                return bytes(self._answered)
            finally:
                self._answered = None

    def _take_packets(self) -> None:
        self._take(self.pty.receive())

    def _take(self, data: bytes) -> None:
        self._buffer += data
        while (found := self._next_packet()) is not None:
            number, instruction, parameters = found
            for servo in self._servos.values():
                servo.heard_s = self._now_s
            self._obey(number, instruction, parameters, self._now_s)

    # --- packets

    def _next_packet(self) -> tuple[int, int, bytes] | None:
        buffer = self._buffer
        while True:
            begin = buffer.find(HEADER)
            if begin < 0:
                del buffer[: max(0, len(buffer) - len(HEADER) + 1)]
                return None
            del buffer[:begin]
            if len(buffer) < _SHORTEST:
                return None
            size = int.from_bytes(buffer[5:7], "little") + 7
            if not _SHORTEST <= size <= _LONGEST:
                del buffer[0]
                continue
            if len(buffer) < size:
                return None
            data = bytes(buffer[:size])
            if crc_16(data[:-2]) != int.from_bytes(data[-2:], "little"):
                self.bad_packets += 1
                del buffer[0]
                continue
            del buffer[:size]
            body = data[7:-2].replace(b"\xff\xff\xfd\xfd", b"\xff\xff\xfd")
            return data[4], body[0], body[1:]

    def _obey(self, number: int, instruction: int, parameters: bytes, now_s: float) -> None:
        if instruction == _SYNC_WRITE:
            address, size = struct.unpack_from("<HH", parameters)
            for place in range(4, len(parameters) - size, size + 1):
                self._write(parameters[place], address, parameters[place + 1 : place + 1 + size], now_s)
            return
        if instruction == _SYNC_READ:
            address, size = struct.unpack_from("<HH", parameters)
            for servo in parameters[4:]:
                self._answer(servo, bytes(self._read(servo, address, size)), now_s)
            return
        for servo in list(self._servos) if number == BROADCAST else [number]:
            self._obey_one(servo, instruction, parameters, now_s)

    def _obey_one(self, number: int, instruction: int, parameters: bytes, now_s: float) -> None:
        servo = self._servos.get(number)
        if servo is None:
            return
        if instruction == _PING:
            self._answer(number, bytes(servo.table[0:2]) + bytes([servo.table[6]]), now_s)
        elif instruction == _READ:
            address, size = struct.unpack("<HH", parameters)
            self._answer(number, self._read(number, address, size), now_s)
        elif instruction == _WRITE:
            error = self._write(number, int.from_bytes(parameters[:2], "little"), parameters[2:], now_s)
            self._answer(number, b"", now_s, error)
        elif instruction == _REBOOT:
            self._answer(number, b"", now_s)
            self._boot(servo, now_s)
        else:
            self._answer(number, b"", now_s, _INSTRUCTION_ERROR)

    def _read(self, number: int, address: int, size: int) -> bytes:
        servo = self._servos.get(number)
        return b"" if servo is None else bytes(servo.table[address : address + size])

    def _write(self, number: int, address: int, data: bytes, now_s: float) -> int:
        servo = self._servos.get(number)
        if servo is None or now_s < servo.silent_until_s or SILENT in servo.faults:
            return 0
        on = bool(servo.table[registers.TORQUE_ENABLE])
        if address < registers.TORQUE_ENABLE and on:
            return _ACCESS_ERROR
        struck = servo.table[registers.BUS_WATCHDOG] == _WATCHDOG_STRUCK
        if address == registers.GOAL_CURRENT:
            if struck:
                return _RANGE_ERROR
            if abs(int.from_bytes(data, "little", signed=True)) > servo.get(registers.CURRENT_LIMIT, 2):
                return _RANGE_ERROR
        if address == registers.TORQUE_ENABLE and data[0] and servo.table[registers.HARDWARE_ERROR]:
            return _ACCESS_ERROR
        servo.table[address : address + len(data)] = data
        return 0

    def _answer(self, number: int, data: bytes, now_s: float, error: int = 0) -> None:
        servo = self._servos.get(number)
        if servo is None or now_s < servo.silent_until_s or SILENT in servo.faults:
            return
        self._answers += 1
        if self._struck_by(servo, LOST_FRAMES):
            return
        alert = _ALERT if servo.table[registers.HARDWARE_ERROR] else 0
        answer = bytearray(packet(number, _STATUS, bytes([error | alert]) + data))
        if self._struck_by(servo, CORRUPTED_FRAMES):
            answer[len(answer) // 2] ^= 0x10
        if self._struck_by(servo, NOISE):
            answer[:0] = b"\xff\xff\x00\xfd\xff"
        if self._answered is None:
            self.pty.send(bytes(answer))
        else:
            self._answered += answer

    def _struck_by(self, servo: _Servo, fault: str) -> bool:
        return fault in servo.faults and self._answers % max(1, int(servo.faults[fault])) == 0

    # --- the servo

    def _boot(self, servo: _Servo, now_s: float) -> None:
        """After power-on the position is within one turn, and nothing volatile is kept."""
        kept = bytes(servo.table[: registers.TORQUE_ENABLE])
        servo.table[:] = kept + bytes(TABLE_SIZE - len(kept))
        servo.zero_rev = math.floor(servo.motor.position_rev)
        servo.silent_until_s = now_s + BOOT_S

    def _move(self, servo: _Servo, now_s: float) -> None:
        """Measured values into the registers."""
        if servo.faults.pop(REBOOT, None) is not None:
            self._boot(servo, now_s)
        jump = servo.faults.pop(POSITION_JUMP, None)
        if jump is not None:
            servo.zero_rev -= jump
        if OVERHEATING in servo.faults:
            servo.table[registers.HARDWARE_ERROR] |= 1 << 2
            servo.table[registers.TORQUE_ENABLE] = 0
        motor = servo.motor
        state = registers.ServoState(
            round(motor.current_a / self._unit_a),
            motor.velocity_rev_per_s,
            motor.position_rev - servo.zero_rev,
            12.0,
            85.0 if OVERHEATING in servo.faults else 31.0,
        )
        begin = registers.PRESENT_CURRENT
        servo.table[begin : begin + registers.STATE_SIZE] = registers.encode_state(state)

    def _drive(self, servo: _Servo, now_s: float) -> None:
        table = servo.table
        watchdog = table[registers.BUS_WATCHDOG]
        on = bool(table[registers.TORQUE_ENABLE])
        waited_ms = 1000 * (now_s - servo.heard_s)
        if on and 0 < watchdog < _WATCHDOG_STRUCK and waited_ms > watchdog * registers.WATCHDOG_UNIT_MS:
            table[registers.BUS_WATCHDOG] = _WATCHDOG_STRUCK
            servo.set(registers.GOAL_CURRENT, 2, 0)
        counts = struct.unpack_from("<h", table, registers.GOAL_CURRENT)[0]
        obeys = on and table[registers.OPERATING_MODE] == registers.CURRENT_CONTROL
        servo.motor.drive(counts * self._unit_a if obeys else 0.0, STUCK_MOTOR in servo.faults)
