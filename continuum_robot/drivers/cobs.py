# SPDX-License-Identifier: Apache-2.0
"""Consistent overhead byte stuffing of short frames (Cheshire and Baker 1999): no zero but the one at the end."""

from __future__ import annotations

from continuum_robot.errors import FrameError, ParameterError

DELIMITER = b"\x00"
LONGEST = 254

_CODES = tuple(bytes([code]) for code in range(1, LONGEST + 2))


def encode(data: bytes) -> bytes:
    """The frame of 1 to 254 bytes without zeros in it, and the delimiter behind it."""
    if not 0 < len(data) <= LONGEST:
        raise ParameterError("data", data, f"1 to {LONGEST} bytes")
    blocks = data.split(DELIMITER)
    return b"".join([_CODES[len(block)] + block for block in blocks]) + DELIMITER


def decode(frame: bytes) -> bytes:
    """The data of a frame; the delimiter is not part of ``frame``."""
    size = len(frame)
    if not 1 < size <= LONGEST + 1 or 0 in frame:
        raise FrameError("COBS", f"{size} bytes, expected 2 to {LONGEST + 1} without a zero")
    data = bytearray(frame)
    place = data[0]
    while place < size:
        code = data[place]
        data[place] = 0
        place += code
    if place != size:
        raise FrameError("COBS", f"the last block ends {place - size} bytes behind the frame")
    return bytes(data[1:])
