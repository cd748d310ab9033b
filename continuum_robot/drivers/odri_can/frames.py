# SPDX-License-Identifier: Apache-2.0
"""Rules of the ODRI frames that the control cycle and codec.py share: which values a frame can hold."""

from __future__ import annotations

import cython

from continuum_robot.drivers.odri_can import protocol
from continuum_robot.stepped.buffers import stepped

ID_COMMAND = cython.declare(cython.int, protocol.COMMAND_ID)
ID_CURRENT_REFERENCE = cython.declare(cython.int, protocol.CURRENT_REFERENCE_ID)
ID_STATUS = cython.declare(cython.int, protocol.STATUS_ID)
ID_POSITION = cython.declare(cython.int, protocol.POSITION_ID)
ID_ENCODER_INDEX = cython.declare(cython.int, protocol.ENCODER_INDEX_ID)
CODE_RECEIVE_TIMEOUT_MS = cython.declare(cython.int, int(protocol.CommandCode.RECEIVE_TIMEOUT_MS))
COMMAND_CODES = cython.declare(cython.longlong, sum(1 << code for code in protocol.CommandCode))
"""A bit each."""

Q24_ONE = cython.declare(cython.double, 1.0 / protocol.Q24)
HIGHEST_POSITION_Q24 = cython.declare(cython.int, int(protocol.HIGHEST_POSITION_REV / protocol.Q24))
NO_Q24 = cython.declare(cython.longlong, 1 << 40)
"""What no Q24 is."""


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
def are_positions(first: cython.int, second: cython.int) -> cython.bint:
    """Whether the Q24 ``first`` and ``second`` can be positions."""
    return -HIGHEST_POSITION_Q24 <= first <= HIGHEST_POSITION_Q24 >= second >= -HIGHEST_POSITION_Q24


@stepped
def is_possible(identifier: cython.int, first: cython.int, second: cython.int) -> cython.bint:
    """Whether a frame of the right length can hold its signed words ``first`` and ``second``.

    The second word of an encoder index is its byte.
    """
    if identifier == ID_POSITION:
        return are_positions(first, second)
    if identifier == ID_ENCODER_INDEX:
        return second <= 1 and are_positions(first, second)
    if identifier == ID_COMMAND:
        known: cython.bint = 0 <= second < 32 and COMMAND_CODES >> second & 1
        return known and (first in (0, 1) or second == CODE_RECEIVE_TIMEOUT_MS)
    return True
