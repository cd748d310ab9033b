# SPDX-License-Identifier: Apache-2.0
"""Datagrams between the driver and the simulator of actuators without motor boards: pure bytes, all little-endian.

Reading: ``CRr1``, number N of tendons (uint16), reserved (uint16), bits of the tendons whose device reports a fault
(uint64), stamp (float64, s), then N float64 each of displacement (m), velocity (m/s), tension (N), current (A),
temperature (degree Celsius) and age (s); NaN where unknown.

Command: ``CRc1``, number N of tendons (uint16), kind (uint16), receive timeout (float64, s), N values (float64, N or
m). What a kind has no use for is 0.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from continuum_robot.drivers.protocols import TendonReading
from continuum_robot.errors import FrameError, ParameterError

Vector = NDArray[np.float64]

READING_MAGIC, COMMAND_MAGIC = b"CRr1", b"CRc1"
MOST_TENDONS = 64
READING_ROWS = 6
LARGEST_DATAGRAM = 24 + 8 * READING_ROWS * MOST_TENDONS

_PROTOCOL = "simulated link"
_READING = struct.Struct("<4sHHQd")
_COMMAND = struct.Struct("<4sHHd")


class CommandKind(IntEnum):
    """What a command asks for."""

    TENSIONS = 1
    ENABLE = 2
    DISABLE = 3
    CLEAR_FAULTS = 4
    RECEIVE_TIMEOUT = 5
    DISPLACEMENTS = 6


@dataclass(frozen=True, slots=True)
class Command:
    """A command of the driver."""

    kind: CommandKind
    values: tuple[float, ...]
    receive_timeout_s: float = 0.0


def encode_reading(reading: TendonReading) -> bytes:
    """The datagram of a reading, whose ``device_faults`` are those of :func:`device_fault`."""
    count = _checked_count(len(reading.displacement_m))
    rows = (
        reading.displacement_m,
        reading.velocity_m_per_s,
        reading.tension_n,
        reading.current_a,
        reading.temperature_c,
        reading.age_s,
    )
    if any(row.shape != (count,) for row in rows):
        raise ParameterError("reading", [row.shape for row in rows], f"{READING_ROWS} arrays of shape ({count},)")
    bits = 0
    for fault in reading.device_faults:
        bits |= _bit_of(fault, count)
    return _READING.pack(READING_MAGIC, count, 0, bits, reading.stamp_s) + np.array(rows, dtype="<f8").tobytes()


def decode_reading(data: bytes) -> TendonReading:
    """The reading of a datagram."""
    if len(data) < _READING.size:
        raise FrameError(_PROTOCOL, f"a reading of {len(data)} bytes")
    magic, count, _, bits, stamp_s = _READING.unpack_from(data)
    if magic != READING_MAGIC or not 1 <= count <= MOST_TENDONS:
        raise FrameError(_PROTOCOL, f"a reading that begins with {data[:8].hex()}")
    if len(data) != _READING.size + 8 * READING_ROWS * count or bits >> count or not math.isfinite(stamp_s):
        raise FrameError(_PROTOCOL, f"a reading of {count} tendons with {len(data)} bytes, faults {bits:#x}")
    rows = np.frombuffer(data, dtype="<f8", offset=_READING.size).astype(float).reshape(READING_ROWS, count)
    faults = tuple(device_fault(j) for j in range(count) if bits >> j & 1) if bits else ()
    return TendonReading(stamp_s, rows[0], rows[1], rows[2], rows[3], rows[4], rows[5], faults)


def encode_command(command: Command) -> bytes:
    """The datagram of a command."""
    count = _checked_count(len(command.values))
    if not all(map(math.isfinite, command.values)):
        raise ParameterError("values", command.values, f"{count} finite values in N or m")
    setting = command.kind == CommandKind.RECEIVE_TIMEOUT
    if not (0 < command.receive_timeout_s < math.inf if setting else command.receive_timeout_s == 0):
        raise ParameterError("receive_timeout_s", command.receive_timeout_s, "a positive time in s, or 0 where unused")
    head = _COMMAND.pack(COMMAND_MAGIC, count, command.kind, command.receive_timeout_s)
    return head + struct.pack(f"<{count}d", *command.values)


def decode_command(data: bytes) -> Command:
    """The command of a datagram."""
    if len(data) < _COMMAND.size:
        raise FrameError(_PROTOCOL, f"a command of {len(data)} bytes")
    magic, count, kind, timeout_s = _COMMAND.unpack_from(data)
    if magic != COMMAND_MAGIC or not 1 <= count <= MOST_TENDONS or len(data) != _COMMAND.size + 8 * count:
        raise FrameError(_PROTOCOL, f"a command of {len(data)} bytes that begins with {data[:8].hex()}")
    values = struct.unpack_from(f"<{count}d", data, _COMMAND.size)
    if kind not in CommandKind._value2member_map_ or not all(map(math.isfinite, values)):
        raise FrameError(_PROTOCOL, f"a command of kind {kind} with {values}")
    setting = kind == CommandKind.RECEIVE_TIMEOUT
    if not (0 < timeout_s < math.inf if setting else timeout_s == 0):
        raise FrameError(_PROTOCOL, f"a command of kind {kind} with a receive timeout of {timeout_s} s")
    return Command(CommandKind(kind), values, timeout_s)


def device_fault(tendon: int) -> str:
    """What a reading calls the fault of a tendon's device."""
    return f"tendon {tendon}: motor board fault"


def _bit_of(fault: str, count: int) -> int:
    for tendon in range(count):
        if fault == device_fault(tendon):
            return 1 << tendon
    raise ParameterError("device_faults", fault, f"{device_fault(0)!r} to {device_fault(count - 1)!r}")


def _checked_count(count: int) -> int:
    if not 1 <= count <= MOST_TENDONS:
        raise ParameterError("tendon count", count, f"1 to {MOST_TENDONS}")
    return count
