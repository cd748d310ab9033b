# SPDX-License-Identifier: Apache-2.0
"""Frames of the ODRI dual-motor CAN firmware: bytes to values and back, both directions, without any bus.

All fields are big-endian. Currents, positions, velocities and ADC values are Q24: a signed 32-bit integer over 2^24.
Source: udriver_firmware c98d229, ``canapi.h`` and doc/can; the frames stand in hardware/odri.dbc too.
"""

from __future__ import annotations

import enum
import math
import struct
from typing import Any, NamedTuple

from continuum_robot.drivers.odri_can import frames
from continuum_robot.drivers.odri_can.frames import HIGHEST_POSITION_REV, Q24_STEP, frame_problem, q24_counts
from continuum_robot.errors import FrameError, ParameterError
from continuum_robot.stepped.system_calls import signed_word

PROTOCOL = "ODRI CAN"

_PAIR = struct.Struct(">ii")
_WORDS = struct.Struct(">II")
_INDEX = struct.Struct(">iB")


class CommandCode(enum.IntEnum):
    """What a command frame sets."""

    ENABLE_SYSTEM = 1
    ENABLE_MOTOR_1 = 2
    ENABLE_MOTOR_2 = 3
    ENABLE_VIRTUAL_SPRING_1 = 4
    ENABLE_VIRTUAL_SPRING_2 = 5
    SEND_CURRENT = 12
    SEND_POSITION = 13
    SEND_VELOCITY = 14
    SEND_ADC = 15
    SEND_ENCODER_INDEX = 16
    SEND_ALL = 20
    RECEIVE_TIMEOUT_MS = 30
    ENABLE_ROLLOVER_ERROR = 31


class ErrorCode(enum.IntEnum):
    """Why a board switched its motors off. The firmware sets 3 and 7 nowhere, and has no 6."""

    NONE = 0
    ENCODER = 1
    RECEIVE_TIMEOUT = 2
    MOTOR_TEMPERATURE = 3
    POSITION_CONVERTER = 4
    POSITION_ROLLOVER = 5
    RESERVED = 6
    OTHER = 7


class Command(NamedTuple):
    """Host to board: ``code`` is set to ``value``, 0 or 1, or milliseconds (0: off) for the receive timeout."""

    code: CommandCode
    value: int


class CurrentReference(NamedTuple):
    """Host to board: desired currents of both motors, A. The board has no limit of its own.

    Attributes
    ----------
    motor_1_a, motor_2_a : A
    """

    motor_1_a: float
    motor_2_a: float


class Status(NamedTuple):
    """Board to host at 1 Hz. A motor is ready when its rotor was aligned, and stays so until power-off.

    Attributes
    ----------
    system_enabled : the board takes commands
    motor_1_enabled, motor_2_enabled : that motor has current
    motor_1_ready, motor_2_ready : that motor's rotor was aligned
    error : what is wrong
    """

    system_enabled: bool
    motor_1_enabled: bool
    motor_1_ready: bool
    motor_2_enabled: bool
    motor_2_ready: bool
    error: ErrorCode

    def motor_enabled(self, motor: int) -> bool:
        """Whether motor 1 or 2 is enabled."""
        return self.motor_1_enabled if motor == 1 else self.motor_2_enabled

    def motor_ready(self, motor: int) -> bool:
        """Whether motor 1 or 2 is ready."""
        return self.motor_1_ready if motor == 1 else self.motor_2_ready


class Current(NamedTuple):
    """Board to host at 1 kHz: measured currents, A.

    Attributes
    ----------
    motor_1_a, motor_2_a : A
    """

    motor_1_a: float
    motor_2_a: float


class Position(NamedTuple):
    """Board to host at 1 kHz: motor revolutions since power-on, in [-100, 100].

    Attributes
    ----------
    motor_1_rev, motor_2_rev : rev
    """

    motor_1_rev: float
    motor_2_rev: float


class Velocity(NamedTuple):
    """Board to host at 1 kHz: speeds, thousand revolutions a minute.

    Attributes
    ----------
    motor_1_krpm, motor_2_krpm : 1000 rev/min
    """

    motor_1_krpm: float
    motor_2_krpm: float


class Adc(NamedTuple):
    """Board to host at 1 kHz: analog inputs A6 and B6 as fractions of their full scale.

    Attributes
    ----------
    a6, b6 : fractions of full scale
    """

    a6: float
    b6: float


class EncoderIndex(NamedTuple):
    """Board to host once in a motor revolution: position (rev) at the index of motor 1 or 2 (0 or 1 on the wire).

    Attributes
    ----------
    position_rev : rev
    """

    position_rev: float
    motor: int


Frame = Command | CurrentReference | Status | Current | Position | Velocity | Adc | EncoderIndex


FRAMES: dict[type, int] = {
    Command: frames.ID_COMMAND,
    CurrentReference: frames.ID_CURRENT_REFERENCE,
    Status: frames.ID_STATUS,
    Current: frames.ID_CURRENT,
    Position: frames.ID_POSITION,
    Velocity: frames.ID_VELOCITY,
    Adc: frames.ID_ADC,
    EncoderIndex: frames.ID_ENCODER_INDEX,
}
"""Identifier of each kind of frame; what each may hold is in :func:`.frame_problem`."""
KNOWN_IDS = frozenset(FRAMES.values())
(COMMAND_ID, CURRENT_REFERENCE_ID, STATUS_ID, CURRENT_ID, POSITION_ID, VELOCITY_ID, ADC_ID, ENCODER_INDEX_ID) = (
    FRAMES.values()
)


def _to_q24(name: str, value: float) -> int:
    counts = q24_counts(value)
    if name.endswith("_rev") and not abs(value) <= HIGHEST_POSITION_REV:
        raise ParameterError(name, value, f"a number in [-{HIGHEST_POSITION_REV:g}, {HIGHEST_POSITION_REV:g}] rev")
    if counts == frames.NO_Q24:
        raise ParameterError(name, value, "a number in [-128, 128)" if math.isfinite(value) else "a finite number")
    return counts


def encode(frame: Frame) -> tuple[int, bytes]:
    """Identifier and bytes of a frame.

    Raises
    ------
    ParameterError : a value that the frame cannot hold
    """
    if isinstance(frame, Command):
        highest = 0xFFFFFFFF if frame.code == CommandCode.RECEIVE_TIMEOUT_MS else 1
        if not 0 <= frame.value <= highest:
            raise ParameterError(frame.code.name, frame.value, f"a whole number from 0 to {highest}")
        data = _WORDS.pack(frame.value, frame.code)
    elif isinstance(frame, Status):
        bits = sum(bool(bit) << place for place, bit in enumerate(frame[:5]))
        data = bytes([bits | int(ErrorCode(frame.error)) << 5])
    elif isinstance(frame, EncoderIndex):
        if frame.motor not in (1, 2):
            raise ParameterError("motor", frame.motor, "1 or 2")
        data = _INDEX.pack(_to_q24("position_rev", frame.position_rev), frame.motor - 1)
    else:
        data = _PAIR.pack(*(_to_q24(name, value) for name, value in frame._asdict().items()))
    return FRAMES[type(frame)], data


def decode(identifier: int, data: bytes | bytearray) -> Frame:
    """The frame of an identifier and its bytes.

    Parameters
    ----------
    identifier : of the CAN frame, 11 bits
    data : its bytes

    Raises
    ------
    FrameError : an identifier, a length or a value that the firmware does not know
    """
    length = len(data)
    first = signed_word(data, 0) if length >= 4 else 0
    second = signed_word(data, 4) if length >= 8 else data[4] if length == _INDEX.size else 0
    problem = frame_problem(identifier, length, first, second)
    if problem != frames.FRAME_SOUND:
        raise _frame_error(identifier, data, _problem_of(problem, identifier, length, first, second))
    if identifier == STATUS_ID:
        return STATUSES[data[0]]
    if identifier == COMMAND_ID:
        return Command(_COMMANDS[second], first & 0xFFFFFFFF)
    if identifier == ENCODER_INDEX_ID:
        return EncoderIndex(first * Q24_STEP, second + 1)
    frame: Frame = _KIND_OF[identifier](first * Q24_STEP, second * Q24_STEP)
    return frame


def _problem_of(problem: int, identifier: int, length: int, first: int, second: int) -> str:
    if problem == frames.FRAME_UNKNOWN:
        return "an identifier that is not of this protocol"
    if problem == frames.FRAME_LENGTH:
        return f"a length of {length} bytes, which this frame never has"
    if identifier == COMMAND_ID:
        known = _COMMANDS.get(second)
        if known is None:
            return f"unknown command code {second & 0xFFFFFFFF}"
        return f"{known.name} = {first & 0xFFFFFFFF}, which is neither 0 nor 1"
    if identifier == ENCODER_INDEX_ID and second > 1:
        return f"motor {second}, which is neither 0 nor 1"
    return f"a position beyond {HIGHEST_POSITION_REV:g} revolutions"


def _frame_error(identifier: int, data: bytes | bytearray, problem: str) -> FrameError:
    return FrameError(PROTOCOL, f"frame 0x{identifier:03X} [{bytes(data[:8]).hex(' ')}]: {problem}")


def _status_of(byte: int) -> Status:
    system, on_1, ready_1, on_2, ready_2 = (bool(byte >> place & 1) for place in range(5))
    return Status(system, on_1, ready_1, on_2, ready_2, ErrorCode(byte >> 5))


_COMMANDS = {int(code): code for code in CommandCode}
STATUSES = tuple(_status_of(byte) for byte in range(256))
"""Of each byte."""
_KIND_OF: dict[int, Any] = {identifier: kind for kind, identifier in FRAMES.items()}
