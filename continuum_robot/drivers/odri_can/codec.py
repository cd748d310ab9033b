# SPDX-License-Identifier: Apache-2.0
"""Frames of the ODRI boards as bytes and back, both directions, without any bus."""

from __future__ import annotations

import math

from continuum_robot.drivers.odri_can.frames import NO_Q24, is_possible, q24_counts
from continuum_robot.drivers.odri_can.protocol import (
    COMMAND_ID,
    HIGHEST_POSITION_REV,
    KINDS,
    LAYOUTS,
    LENGTHS,
    PROTOCOL,
    Q24,
    Command,
    CommandCode,
    EncoderIndex,
    Frame,
    Status,
)
from continuum_robot.errors import FrameError, ParameterError
from continuum_robot.stepped.system_calls import signed_word


def _to_q24(name: str, value: float, highest: float) -> int:
    counts = q24_counts(value)
    if not (abs(value) <= highest or math.isinf(highest)):
        raise ParameterError(name, value, f"a number in [-{highest:g}, {highest:g}] rev")
    if counts == NO_Q24:
        raise ParameterError(name, value, "a number in [-128, 128)" if math.isfinite(value) else "a finite number")
    return counts


def encode(frame: Frame) -> tuple[int, bytes]:
    """Identifier and bytes of a frame."""
    layout = LAYOUTS[type(frame)]
    if isinstance(frame, Command):
        highest = 0xFFFFFFFF if frame.code == CommandCode.RECEIVE_TIMEOUT_MS else 1
        if not 0 <= frame.value <= highest:
            raise ParameterError(frame.code.name, frame.value, f"a whole number from 0 to {highest}")
        values = [frame.value, int(frame.code)]
    elif isinstance(frame, Status):
        values = [frame.byte]
    elif isinstance(frame, EncoderIndex):
        if frame.motor not in (1, 2):
            raise ParameterError("motor", frame.motor, "1 or 2")
        values = [_to_q24("position_rev", frame.position_rev, layout.highest), frame.motor - 1]
    else:
        values = [_to_q24(name, value, layout.highest) for name, value in frame._asdict().items()]
    return layout.identifier, layout.fields.pack(*values)


def decode(identifier: int, data: bytes | bytearray) -> Frame:
    """The frame of an identifier and its bytes."""
    kind, length = KINDS.get(identifier), len(data)
    if kind is None:
        raise _refused(identifier, data, "an identifier that is not of this protocol")
    if length != LENGTHS[identifier]:
        raise _refused(identifier, data, f"a length of {length} bytes, which this frame never has")
    if kind is Status:
        return _STATUSES[data[0]]
    first, second = signed_word(data, 0), signed_word(data, 4) if length == 8 else data[4]
    if not is_possible(identifier, first, second):
        raise _refused(identifier, data, _impossible(identifier, first, second))
    if kind is Command:
        return Command(_CODES[second], first & 0xFFFFFFFF)
    if kind is EncoderIndex:
        return EncoderIndex(first * Q24, second + 1)
    frame: Frame = kind(first * Q24, second * Q24)
    return frame


def _impossible(identifier: int, first: int, second: int) -> str:
    if identifier == COMMAND_ID:
        known = _CODES.get(second)
        if known is None:
            return f"unknown command code {second & 0xFFFFFFFF}"
        return f"{known.name} = {first & 0xFFFFFFFF}, which is neither 0 nor 1"
    if KINDS[identifier] is EncoderIndex and second > 1:
        return f"motor {second}, which is neither 0 nor 1"
    return f"a position beyond {HIGHEST_POSITION_REV:g} revolutions"


def _refused(identifier: int, data: bytes | bytearray, problem: str) -> FrameError:
    return FrameError(PROTOCOL, f"frame 0x{identifier:03X} [{bytes(data[:8]).hex(' ')}]: {problem}")


_CODES = {int(code): code for code in CommandCode}
_STATUSES = tuple(map(Status.of, range(256)))
