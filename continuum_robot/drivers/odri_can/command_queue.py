# SPDX-License-Identifier: Apache-2.0
"""Commands that wait for a motor board, which takes one in two milliseconds."""

from __future__ import annotations

import cython

from continuum_robot.drivers.odri_can.frame_port import FramePort
from continuum_robot.drivers.odri_can.frames import CODE_SEND_CURRENT, CODE_SEND_ENCODER_INDEX, ID_COMMAND
from continuum_robot.stepped.buffers import integers, stepped

COMMAND_SPACING_S = cython.declare(cython.double, 0.002)
"""Commands share one mailbox of the board, which looks at it every millisecond."""
COMMANDS_WAITING = cython.declare(cython.int, 16)
"""Room for commands, a power of two; nine wait at most, and a receive timeout."""
LAST_STREAM_WANTED = cython.declare(cython.int, 14)
"""Current, position, velocity. Nothing here needs the analog inputs, and the bus is half full without them."""


@cython.cclass
class CommandQueue:
    """Commands in the order in which they are sent.

    Parameters
    ----------
    port : of the board's channel

    Attributes
    ----------
    waiting : how many
    """

    waiting: cython.int
    _port: FramePort
    _codes: cython.int[::1]
    _values: cython.int[::1]
    _head: cython.int
    _next_s: cython.double

    def __init__(self, port: FramePort) -> None:
        self._port = port
        self._codes, self._values = integers(COMMANDS_WAITING), integers(COMMANDS_WAITING)
        self._head = self.waiting = 0
        self._next_s = 0.0

    @stepped
    def append(self, code: cython.int, value: cython.int) -> cython.void:
        """Let a command wait: ``code`` and ``value`` as :mod:`.codec` has them."""
        at: cython.int = (self._head + self.waiting) & (COMMANDS_WAITING - 1)
        self._codes[at] = code
        self._values[at] = value
        if self.waiting < COMMANDS_WAITING:
            self.waiting += 1

    @stepped
    def append_streams(self) -> cython.void:
        """Currents, positions and velocities a thousand times a second, nothing else."""
        code: cython.int
        for code in range(CODE_SEND_CURRENT, CODE_SEND_ENCODER_INDEX + 1):
            self.append(code, 1 if code <= LAST_STREAM_WANTED else 0)

    @stepped
    def pump(self, now_s: cython.double) -> cython.bint:
        """Send the next command if it is time; whether it was the last that waits."""
        if not self.waiting or now_s < self._next_s:
            return False
        self._port.send(ID_COMMAND, self._values[self._head], self._codes[self._head])
        self._head = (self._head + 1) & (COMMANDS_WAITING - 1)
        self.waiting -= 1
        self._next_s = now_s + COMMAND_SPACING_S
        return self.waiting == 0
