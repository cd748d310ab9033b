# SPDX-License-Identifier: Apache-2.0
"""The protocol of the ODRI dual-motor CAN firmware: its frames, commands and errors. Everything else is made from this.

All fields are big-endian. Currents, positions, velocities and ADC values are Q24: a signed 32-bit integer over 2^24.
Source: udriver_firmware c98d229, ``canapi.h`` and doc/can; hardware/odri.dbc states the same for other tools.
"""

from __future__ import annotations

import enum
import struct
from typing import Any, NamedTuple

PROTOCOL = "ODRI CAN"
Q24 = 2.0**-24
HIGHEST_POSITION_REV = 100.0
"""A position is a sawtooth: from 100 it goes on at -100 motor revolutions."""
TICK_S, STATUS_PERIOD_S = 0.001, 1.0
"""Period of currents, positions, velocities and ADC values, and of the status."""


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


FAULT_NAMES = (
    "estop",
    "encoder_error",
    "receive_timeout",
    "motor_temperature",
    "position_converter_error",
    "position_rollover_error",
    "other_board_error",
    "motor_off",
    "rebooted",
    "position_jump",
    "silent_board",
    "silent_status",
    "current_mismatch",
    "two_boards",
    "other_host",
    "bus_off",
    "queue_full",
    "bus_error",
)
"""Of a board, by their codes: 1 to 6 are the errors of the status, which has no 6 and calls that 7."""


def fault_of(error: int) -> str:
    """The fault of an error of the status; without one, a board that is off had its stop input closed."""
    return FAULT_NAMES[min(error, FAULT_NAMES.index("other_board_error"))]


class Command(NamedTuple):
    """Host to board: ``code`` is set to ``value``, 0 or 1, or milliseconds (0: off) for the receive timeout."""

    code: CommandCode
    value: int


class CurrentReference(NamedTuple):
    """Host to board: desired currents of both motors, A. The board has no limit of its own."""

    motor_1_a: float
    motor_2_a: float


class Status(NamedTuple):
    """Board to host at 1 Hz. A motor is ready when its rotor was aligned, and stays so until power-off."""

    system_enabled: bool
    motor_1_enabled: bool
    motor_1_ready: bool
    motor_2_enabled: bool
    motor_2_ready: bool
    error: ErrorCode

    @classmethod
    def of(cls, byte: int) -> Status:
        """The status of its byte."""
        return cls._make([*(bool(byte >> place & 1) for place in range(5)), ErrorCode(byte >> 5)])

    @property
    def byte(self) -> int:
        """Its byte."""
        return sum(bool(bit) << place for place, bit in enumerate(self[:5])) | int(ErrorCode(self.error)) << 5


class Current(NamedTuple):
    """Board to host at 1 kHz: measured currents, A."""

    motor_1_a: float
    motor_2_a: float


class Position(NamedTuple):
    """Board to host at 1 kHz: motor revolutions since power-on, in [-100, 100]."""

    motor_1_rev: float
    motor_2_rev: float


class Velocity(NamedTuple):
    """Board to host at 1 kHz: speeds, thousand revolutions a minute."""

    motor_1_krpm: float
    motor_2_krpm: float


class Adc(NamedTuple):
    """Board to host at 1 kHz: analog inputs A6 and B6 as fractions of their full scale."""

    a6: float
    b6: float


class EncoderIndex(NamedTuple):
    """Board to host once in a motor revolution: position (rev) at the index of motor 1 or 2 (0 or 1 on the wire)."""

    position_rev: float
    motor: int


Frame = Command | CurrentReference | Status | Current | Position | Velocity | Adc | EncoderIndex


class Layout(NamedTuple):
    """Where a frame is, and what it holds."""

    identifier: int
    fields: struct.Struct
    highest: float = float("inf")


_PAIR = struct.Struct(">ii")
LAYOUTS: dict[type, Layout] = {
    Command: Layout(0x000, struct.Struct(">II")),
    CurrentReference: Layout(0x005, _PAIR),
    Status: Layout(0x010, struct.Struct(">B")),
    Current: Layout(0x020, _PAIR),
    Position: Layout(0x030, _PAIR, HIGHEST_POSITION_REV),
    Velocity: Layout(0x040, _PAIR),
    Adc: Layout(0x050, _PAIR),
    EncoderIndex: Layout(0x060, struct.Struct(">iB"), HIGHEST_POSITION_REV),
}
KINDS: dict[int, Any] = {layout.identifier: kind for kind, layout in LAYOUTS.items()}
"""Of each identifier."""
(COMMAND_ID, CURRENT_REFERENCE_ID, STATUS_ID, CURRENT_ID, POSITION_ID, VELOCITY_ID, ADC_ID, ENCODER_INDEX_ID) = KINDS
LENGTHS = [LAYOUTS[KINDS[number]].fields.size if number in KINDS else 0 for number in range(max(KINDS) + 1)]
"""Bytes of the frame of each identifier; 0: there is none."""
