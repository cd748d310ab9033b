# SPDX-License-Identifier: Apache-2.0
"""python-can's slcan bus, reading in blocks: byte by byte, three boards at 1 kHz take more than a processor core."""

from __future__ import annotations

import time
from collections import deque

from can.exceptions import error_check
from can.interfaces.slcan import slcanBus

LONGEST_LINE = 64


class BlockSlcanBus(slcanBus):
    """As python-can's, but for how it reads; what cannot be read costs one line, and raises :class:`ValueError`.

    Attributes
    ----------
    pending : lines that were read from the port and not received yet
    """

    def __init__(self, *arguments: object, **options: object) -> None:
        self.pending: deque[str] = deque()
        super().__init__(*arguments, **options)

    def flush(self) -> None:
        """Forget what was read and what waits in the port."""
        self.pending.clear()
        super().flush()

    def _read(self, timeout: float | None) -> str | None:
        end_s = None if timeout is None else time.monotonic() + timeout
        while not self.pending:
            with error_check("Could not read from serial device"):
                self._buffer += self.serialPortOrig.read(max(1, self.serialPortOrig.in_waiting))
            self._split()
            if not self.pending and end_s is not None and time.monotonic() >= end_s:
                return None
        return self.pending.popleft()

    def _split(self) -> None:
        begin = 0
        for place, byte in enumerate(self._buffer):
            if byte in (ord(self._OK), ord(self._ERROR)):
                self.pending.append(self._buffer[begin : place + 1].decode("ascii", "replace"))
                begin = place + 1
        del self._buffer[:begin]
        # Noise without an end of line must not grow for ever.
        del self._buffer[:-LONGEST_LINE]
