# SPDX-License-Identifier: Apache-2.0
"""Frames of the string-encoder board: bytes to numbers and back. The layout's other end is in hardware/string_encoder.

All numbers are little-endian. A payload ends with CRC-16/CCITT-FALSE (polynomial 0x1021, start 0xFFFF, not reflected)
over what stands before it. On a serial line payloads are COBS-coded and end with a zero byte; over UDP a payload is a
datagram.

======== ============================================================================================
0x11     counts: u16 sequence, u32 time in us, i32 count[4], u16 status; 1000 a second
0x21     about the board: u16 sequence, u32 time in us, u32 firmware, u32 uptime in s, u32 frames
         dropped since boot, u8 gain[4] (255: unknown), u32 serial number; once a second
0x81     command to the board: u8 command (1: count from zero), u8 number
======== ============================================================================================

The first byte's high half is the type, its low half the version of this layout. Times and sequence numbers wrap.
"""

from __future__ import annotations

import binascii
import enum
import struct
from typing import NamedTuple

from continuum_robot.drivers.framed_serial import Stream
from continuum_robot.errors import FrameError, ParameterError

DELIMITER = b"\x00"
LONGEST_STUFFED = 254

_CODES = tuple(bytes([code]) for code in range(1, LONGEST_STUFFED + 2))


def stuffed(data: bytes) -> bytes:
    """The frame of 1 to 254 bytes without zeros in it, and the delimiter behind it: COBS, Cheshire and Baker 1999."""
    if not 0 < len(data) <= LONGEST_STUFFED:
        raise ParameterError("data", data, f"1 to {LONGEST_STUFFED} bytes")
    blocks = data.split(DELIMITER)
    return b"".join([_CODES[len(block)] + block for block in blocks]) + DELIMITER


def unstuffed(frame: bytes) -> bytes:
    """The data of a frame; the delimiter is not part of ``frame``."""
    size = len(frame)
    if not 1 < size <= LONGEST_STUFFED + 1 or 0 in frame:
        raise FrameError("COBS", f"{size} bytes, expected 2 to {LONGEST_STUFFED + 1} without a zero")
    data = bytearray(frame)
    place = data[0]
    while place < size:
        code = data[place]
        data[place] = 0
        place += code
    if place != size:
        raise FrameError("COBS", f"the last block ends {place - size} bytes behind the frame")
    return bytes(data[1:])


PROTOCOL = "string-encoder board"
VERSION = 1
CHANNELS = 4
COUNTS_TYPE = 0x10 | VERSION
BOARD_TYPE = 0x20 | VERSION
COMMAND_TYPE = 0x80 | VERSION

_COUNTS = struct.Struct("<BHI4iHH")
_BOARD = struct.Struct("<BHIIII4BIH")
_COMMAND = struct.Struct("<BBBH")
_CRC = struct.Struct("<H")
COUNTS_BYTES = _COUNTS.size
BOARD_BYTES = _BOARD.size
COMMAND_BYTES = _COMMAND.size

_CRC_START = 0xFFFF
_LONGEST_BUFFER = 4096
# Of coded frames, the delimiter not counted: what a lost delimiter may have glued to something else.
_CODED_BYTES = (COUNTS_BYTES + 1, BOARD_BYTES + 1)


class Status(enum.IntFlag):
    """Bits of the status word; bits 11 to 14 count the zeros that were set, see :func:`zero_number`."""

    MAGNET_FAULT_0 = 1 << 0
    MAGNET_FAULT_1 = 1 << 1
    MAGNET_FAULT_2 = 1 << 2
    MAGNET_FAULT_3 = 1 << 3
    JUMP_0 = 1 << 4
    JUMP_1 = 1 << 5
    JUMP_2 = 1 << 6
    JUMP_3 = 1 << 7
    MISSED_TICK = 1 << 8
    FRAMES_DROPPED = 1 << 9
    ZEROED = 1 << 10
    JUST_BOOTED = 1 << 15


class Command(enum.IntEnum):
    """What the host may ask of the board."""

    ZERO = 1


class CountsFrame(NamedTuple):
    """Counts of the four channels at one instant of the board's clock."""

    sequence: int
    time_us: int
    counts: tuple[int, int, int, int]
    status: int


class BoardFrame(NamedTuple):
    """What the board reports about itself, once a second."""

    sequence: int
    time_us: int
    firmware: int
    uptime_s: int
    dropped: int
    gains: tuple[int, int, int, int]
    serial_number: int


class CommandFrame(NamedTuple):
    """A command to the board; the board carries out a command whose number differs from the last one's."""

    command: int
    number: int


Frame = CountsFrame | BoardFrame | CommandFrame


def zero_number(status: int) -> int:
    """How many zeros were set since boot, modulo 16."""
    return (status >> 11) & 0xF


def status_word(flags: Status | int, zeros: int = 0) -> int:
    """A status word of flags and the number of zeros that were set."""
    return (int(flags) & 0x87FF) | ((zeros & 0xF) << 11)


def encode_payload(frame: Frame) -> bytes:
    """The payload of a frame with its CRC; a datagram."""
    try:
        if isinstance(frame, CountsFrame):
            body = _COUNTS.pack(COUNTS_TYPE, frame.sequence, frame.time_us, *frame.counts, frame.status, 0)
        elif isinstance(frame, BoardFrame):
            body = _BOARD.pack(BOARD_TYPE, *frame[:5], *frame.gains, frame.serial_number, 0)
        else:
            body = _COMMAND.pack(COMMAND_TYPE, frame.command, frame.number, 0)
    except struct.error as error:
        raise ParameterError("frame", frame, f"numbers that fit their fields ({error})") from None
    body = body[:-2]
    return body + _CRC.pack(binascii.crc_hqx(body, _CRC_START))


def encode(frame: Frame) -> bytes:
    """A frame as it goes over a serial line, delimiter included."""
    return stuffed(encode_payload(frame))


def decode_payload(payload: bytes) -> Frame:
    """The frame of a payload."""
    size = len(payload)
    if size < 3 or _CRC.unpack_from(payload, size - 2)[0] != binascii.crc_hqx(payload[:-2], _CRC_START):
        raise FrameError(PROTOCOL, f"{size} bytes with a wrong CRC")
    kind = payload[0]
    if kind == COUNTS_TYPE and size == COUNTS_BYTES:
        _, sequence, time_us, c0, c1, c2, c3, status, _ = _COUNTS.unpack(payload)
        return CountsFrame(sequence, time_us, (c0, c1, c2, c3), status)
    if kind == BOARD_TYPE and size == BOARD_BYTES:
        _, sequence, time_us, firmware, uptime_s, dropped, g0, g1, g2, g3, serial_number, _ = _BOARD.unpack(payload)
        return BoardFrame(sequence, time_us, firmware, uptime_s, dropped, (g0, g1, g2, g3), serial_number)
    if kind == COMMAND_TYPE and size == COMMAND_BYTES:
        return CommandFrame(payload[1], payload[2])
    if kind & 0xF != VERSION:
        raise OtherVersionError(kind & 0xF)
    raise FrameError(PROTOCOL, f"{size} bytes of unknown type 0x{kind:02X}")


class OtherVersionError(FrameError):
    """A frame whose CRC is right and whose layout is of another ``version``."""

    def __init__(self, version: int) -> None:
        self.version = version
        super().__init__(PROTOCOL, f"frames of version {version}, this driver reads version {VERSION}")


def decode(frame: bytes) -> Frame:
    """The frame of coded bytes; the delimiter is not among them."""
    return decode_payload(unstuffed(frame))


class FrameStream(Stream[Frame]):
    """Frames between delimiters."""

    other_version: int | None = None

    def cut(self, data: bytes) -> tuple[list[Frame], bytes]:
        """Frames in ``data``, whole ones in damaged pieces included, and the beginning of the next."""
        *pieces, rest = data.split(DELIMITER)
        if len(rest) > _LONGEST_BUFFER:
            # Noise without a delimiter; of it the newest bytes may be the beginning of a frame.
            self.rejected += 1
            rest = rest[-max(_CODED_BYTES) :]
        frames: list[Frame] = []
        for piece in pieces:
            if not piece:
                continue
            try:
                frames.append(decode(piece))
            except FrameError as error:
                self._note(error)
                frames += self._salvaged(piece)
                self.rejected += not self._is_first
            self._is_first = False
        return frames, rest

    def _note(self, error: FrameError) -> None:
        if isinstance(error, OtherVersionError):
            self.other_version = error.version

    def _salvaged(self, piece: bytes) -> list[Frame]:
        """Whole frames at the beginning and at the end of a piece: what a lost delimiter glued together."""
        found: list[Frame] = []
        begin = 0
        for size in _CODED_BYTES:
            if len(piece) > size and not found:
                found += _attempt(piece[:size])
                begin = size if found else 0
        for size in _CODED_BYTES:
            if len(piece) - begin >= size and (begin or len(piece) > size):
                last = _attempt(piece[-size:])
                if last:
                    return found + last
        return found


def _attempt(piece: bytes) -> list[Frame]:
    try:
        return [decode(piece)]
    except FrameError:
        return []
