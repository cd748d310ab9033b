# SPDX-License-Identifier: Apache-2.0
"""What the control cycle calls of the actuators: stepped code, so that a device may run compiled too."""

from __future__ import annotations

import cython

from continuum_robot.drivers.reading_buffer import ReadingBuffer
from continuum_robot.stepped.buffers import stepped


@cython.cclass
class CycleDevice:
    """Reads and writes in each cycle, without a wait. Devices subclass it, see :class:`.protocols.RunsInCycle`."""

    @stepped
    def read_into(self, reading: ReadingBuffer, now_s: cython.double) -> cython.bint:  # noqa: ARG002
        """Fill ``reading`` with the newest values at ``now_s`` (s); False, and it stays, where it cannot be read."""
        return False

    @stepped
    def write_commands(self, command: cython.double[::1], now_s: cython.double) -> cython.bint:  # noqa: ARG002
        """Send a ``command`` to every tendon at ``now_s`` (s); False where nothing was sent."""
        return False

    @stepped
    def switch_off(self) -> cython.bint:
        """Switch the torque off at once; False where that failed."""
        return False
