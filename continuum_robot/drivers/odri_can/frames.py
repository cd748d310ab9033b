# SPDX-License-Identifier: Apache-2.0
"""Numbers and rules of the ODRI frames, for the control cycle and for codec.py: the only place where they stand.

Q24 is a signed 32-bit integer over 2^24, big-endian. Source: see :mod:`continuum_robot.drivers.odri_can.codec`.
"""

from __future__ import annotations

import cython

from continuum_robot.stepped.buffers import stepped

ID_COMMAND = cython.declare(cython.int, 0x000)
ID_CURRENT_REFERENCE = cython.declare(cython.int, 0x005)
ID_STATUS = cython.declare(cython.int, 0x010)
ID_CURRENT = cython.declare(cython.int, 0x020)
ID_POSITION = cython.declare(cython.int, 0x030)
ID_VELOCITY = cython.declare(cython.int, 0x040)
# These three as the head of a frame, see CanFrame.
HEAD_CURRENT = cython.declare(cython.longlong, 0x20000000)
HEAD_POSITION = cython.declare(cython.longlong, 0x30000000)
HEAD_VELOCITY = cython.declare(cython.longlong, 0x40000000)
ID_ADC = cython.declare(cython.int, 0x050)
ID_ENCODER_INDEX = cython.declare(cython.int, 0x060)

CODE_ENABLE_SYSTEM = cython.declare(cython.int, 1)
CODE_ENABLE_MOTOR_1 = cython.declare(cython.int, 2)
CODE_SEND_CURRENT = cython.declare(cython.int, 12)
CODE_SEND_ENCODER_INDEX = cython.declare(cython.int, 16)
CODE_RECEIVE_TIMEOUT_MS = cython.declare(cython.int, 30)

ROLLOVER_REV = cython.declare(cython.double, 200.0)
"""A position is a sawtooth of this period: it goes from -100 to +100 motor revolutions."""
HIGHEST_POSITION_REV = cython.declare(cython.double, 100.0)
HIGHEST_POSITION_Q24 = cython.declare(cython.int, 1677721600)
Q24_ONE = cython.declare(cython.double, 16777216.0)
Q24_STEP = cython.declare(cython.double, 1.0 / 16777216.0)
NO_Q24 = cython.declare(cython.longlong, 1 << 40)
"""What no Q24 is."""

FRAME_SOUND = cython.declare(cython.int, 0)
FRAME_UNKNOWN = cython.declare(cython.int, 1)
FRAME_LENGTH = cython.declare(cython.int, 2)
FRAME_VALUE = cython.declare(cython.int, 3)


@stepped
def q24_counts(value: cython.double) -> cython.longlong:
    """The nearest Q24 of ``value`` (a number), the even one of two; ``NO_Q24`` where it is not in [-128, 128)."""
    scaled: cython.double = value * Q24_ONE
    if not (-2147483648.5 <= scaled < 2147483647.5):
        return NO_Q24
    counts: cython.longlong = int(scaled)
    rest: cython.double = scaled - counts
    if rest > 0.5 or (rest == 0.5 and counts & 1):
        return counts + 1
    if rest < -0.5 or (rest == -0.5 and counts & 1):
        return counts - 1
    return counts


@stepped
def is_command_code(code: cython.int) -> cython.bint:
    """Whether the firmware knows the command ``code``."""
    return 1 <= code <= 5 or 12 <= code <= 16 or code in (20, 30, 31)


@stepped
def are_positions(first: cython.int, second: cython.int) -> cython.bint:
    """Whether the words ``first`` and ``second`` can be positions."""
    return -HIGHEST_POSITION_Q24 <= first <= HIGHEST_POSITION_Q24 >= second >= -HIGHEST_POSITION_Q24


@stepped
def frame_problem(identifier: cython.int, length: cython.int, first: cython.int, second: cython.int) -> cython.int:
    """What is wrong with a frame: ``FRAME_SOUND``, or an unknown identifier, a wrong length, or an impossible value.

    ``first`` and ``second`` are its signed words, as far as it is so long; the second of an encoder index is its byte.
    """
    if identifier == ID_POSITION:
        if length != 8:
            return FRAME_LENGTH
        return FRAME_SOUND if are_positions(first, second) else FRAME_VALUE
    if identifier in (ID_CURRENT, ID_VELOCITY, ID_CURRENT_REFERENCE, ID_ADC):
        return FRAME_SOUND if length == 8 else FRAME_LENGTH
    if identifier == ID_STATUS:
        return FRAME_SOUND if length == 1 else FRAME_LENGTH
    if identifier == ID_COMMAND:
        if length != 8:
            return FRAME_LENGTH
        if not is_command_code(second) or (first not in (0, 1) and second != CODE_RECEIVE_TIMEOUT_MS):
            return FRAME_VALUE
        return FRAME_SOUND
    if identifier == ID_ENCODER_INDEX:
        if length != 5:
            return FRAME_LENGTH
        if second > 1 or not -HIGHEST_POSITION_Q24 <= first <= HIGHEST_POSITION_Q24:
            return FRAME_VALUE
        return FRAME_SOUND
    return FRAME_UNKNOWN
