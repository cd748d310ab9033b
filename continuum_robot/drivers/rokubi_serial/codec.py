# SPDX-License-Identifier: Apache-2.0
"""Frames and commands of Bota Rokubi force-torque sensors (serial and USB variants): bytes to numbers and back.

A frame has 37 bytes, little-endian: 0xAA; u16 status; 6 x f32 force (N) and moment (N.m); u32 time in us, which wraps;
f32 temperature in degree Celsius; u16 CRC-16/X-25 (polynomial 0x1021 reflected, start and final xor 0xFFFF) over what
stands between. 0xAA occurs in numbers too: only the CRC shows where a frame begins.
Commands are ASCII without an end; the sensor acknowledges with ``r,0,<command>,<code>``, code 0 for done.
"""

from __future__ import annotations

import binascii
import enum
import re
import struct
from typing import NamedTuple

from continuum_robot.drivers.framed_serial import Stream
from continuum_robot.drivers.rokubi_serial.settings import BAUD_RATES_BPS, FRAME_BYTES
from continuum_robot.errors import FrameError, ParameterError

PROTOCOL = "Rokubi"
HEADER = 0xAA

DEFAULT_BAUD_BPS = 230400

_FRAME = struct.Struct("<BH6fIfH")
_LONGEST_TEXT = 4096
_REVERSED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))
_ACKNOWLEDGED = re.compile(rb"r,0,(.),(\d+)")


class Status(enum.IntFlag):
    """Bits of the status word."""

    TOO_SLOW = 1 << 0
    OVERRANGE = 1 << 1
    INVALID = 1 << 2
    RAW = 1 << 3


FAULTS = {
    Status.TOO_SLOW: "sensor cannot keep its rate: raise sinc",
    Status.OVERRANGE: "load beyond the sensor's range",
    Status.INVALID: "invalid measurement: a gauge is saturated, shorted or open",
    Status.RAW: "sensor sends raw gauge values: it has no calibration in use",
}


class ForceFrame(NamedTuple):
    """One measurement."""

    status: int
    wrench: tuple[float, float, float, float, float, float]
    time_us: int
    temperature_c: float


def fault_names(status: int) -> tuple[str, ...]:
    """What the bits of a status word say, in words."""
    return tuple(text for bit, text in FAULTS.items() if status & bit) if status else ()


def crc(data: bytes) -> int:
    """CRC-16/X-25: that of the standard library, with the bits of every byte and of the result in reverse."""
    value = binascii.crc_hqx(data.translate(_REVERSED), 0xFFFF)
    return (_REVERSED[value & 0xFF] << 8 | _REVERSED[value >> 8]) ^ 0xFFFF


def encode(frame: ForceFrame) -> bytes:
    """A frame as the sensor sends it."""
    try:
        data = _FRAME.pack(HEADER, frame.status, *frame.wrench, frame.time_us, frame.temperature_c, 0)[:-2]
    except (struct.error, OverflowError) as error:
        raise ParameterError("frame", frame, f"numbers that fit their fields ({error})") from None
    return data + struct.pack("<H", crc(data[1:]))


def decode(data: bytes) -> ForceFrame:
    """The frame of 37 bytes."""
    if len(data) != FRAME_BYTES or data[0] != HEADER:
        raise FrameError(PROTOCOL, f"{len(data)} bytes, expected {FRAME_BYTES} with 0x{HEADER:02X} in front")
    _, status, f0, f1, f2, m0, m1, m2, time_us, temperature_c, received = _FRAME.unpack(data)
    if crc(data[1:-2]) != received:
        raise FrameError(PROTOCOL, "wrong CRC")
    return ForceFrame(status, (f0, f1, f2, m0, m1, m2), time_us, temperature_c)


class FrameStream(Stream[ForceFrame]):
    """Frames behind their header. Where one is damaged it looks on at the next byte."""

    skipped_bytes = 0

    def restart(self) -> None:
        """Forget an unfinished frame."""
        super().restart()
        self._is_skipping = False

    def cut(self, data: bytes) -> tuple[list[ForceFrame], bytes]:
        """Frames in ``data``, and the beginning of the next."""
        frames: list[ForceFrame] = []
        place, end = 0, len(data) - FRAME_BYTES
        while place <= end:
            try:
                frame = decode(data[place : place + FRAME_BYTES])
            except FrameError:
                header = data.find(HEADER, place + 1)
                following = header if header >= 0 else len(data)
                self._skip(following - place)
                place = following
                continue
            frames.append(frame)
            self._is_first = self._is_skipping = False
            place += FRAME_BYTES
        return frames, data[place:]

    def _skip(self, count: int) -> None:
        self.skipped_bytes += count
        if not self._is_skipping and not self._is_first:
            self.rejected += 1
        self._is_skipping = True


def configure() -> bytes:
    """Leave the measurement and take settings."""
    return b"C"


def run() -> bytes:
    """Take up the measurement."""
    return b"R"


def hard_reset() -> bytes:
    """Start the sensor again; it comes up at its default baud rate."""
    return b"#"


def set_filter(sinc: int, *, chop: bool = False, fast: bool = False, fir: bool = False) -> bytes:
    """Filters: the sensor sends 51200/``sinc`` frames a second."""
    if not 64 <= sinc <= 512:
        raise ParameterError("sinc", sinc, "64 to 512")
    return f"f,{sinc},{int(chop)},{int(fast)},{int(not fir)}".encode()


def set_communication(baud_bps: int, *, temperature_compensation: bool = False, calibration: bool = True) -> bytes:
    """Binary frames at a baud rate."""
    if baud_bps not in BAUD_RATES_BPS:
        raise ParameterError("baud_bps", baud_bps, "one of " + ", ".join(map(str, BAUD_RATES_BPS)))
    code = BAUD_RATES_BPS.index(baud_bps)
    return f"c,{int(temperature_compensation)},{int(calibration)},0,{code}".encode()


class Acknowledgements:
    """Finds acknowledgements among text and frames."""

    def __init__(self) -> None:
        self._text = b""

    def feed(self, data: bytes) -> None:
        """Take what came."""
        self._text = (self._text + data)[-_LONGEST_TEXT:]

    def clear(self) -> None:
        """Forget what came."""
        self._text = b""

    def code(self, command: bytes) -> int | None:
        """The code with which a command was acknowledged; None while it was not."""
        for letter, code in _ACKNOWLEDGED.findall(self._text):
            if letter == command[:1]:
                return int(code)
        return None
