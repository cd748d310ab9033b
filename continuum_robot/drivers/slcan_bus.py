# SPDX-License-Identifier: Apache-2.0
"""CAN adapters on a serial line."""

from __future__ import annotations

import contextlib

from can.interfaces.slcan import slcanBus

from continuum_robot.drivers.can_bus import BUS_ERRORS

COMMAND_TIMEOUT_S = 0.05
_LONGEST_LINE = 64
_HEXADECIMAL = frozenset(b"0123456789ABCDEFabcdef")


class SlcanBus(slcanBus):
    """python-can's serial adapters, with a guard on the line.

    Its own receiver reads byte by byte and stumbles over a byte that is no text for ever; its writer waits until the
    line is empty, and without end for a line on which nobody reads.
    """

    def set_bitrate(self, bitrate: int, data_bitrate: int | None = None) -> None:
        """As python-can's, which calls it before anything else is sent; the port is this program's alone from here."""
        self.serialPortOrig.exclusive = True
        self.serialPortOrig.write_timeout = COMMAND_TIMEOUT_S
        super().set_bitrate(bitrate, data_bitrate)

    def _write(self, string: str) -> None:
        self.serialPortOrig.write(string.encode() + self.LINE_TERMINATOR)

    def _read(self, timeout: float | None) -> str | None:  # noqa: ARG002 - what is there, without a wait
        if b"\r" not in self._buffer:
            self._buffer += self.serialPortOrig.read(max(1, self.serialPortOrig.in_waiting)).replace(b"\a", b"\r")
        while b"\r" in self._buffer:
            line, _, self._buffer = self._buffer.partition(b"\r")
            if not line.strip(b"zZ") or line[:1] in (b"V", b"N", b"F"):  # the adapter's own answers
                continue
            if line[:1] not in (b"t", b"T", b"r", b"R") or not _HEXADECIMAL.issuperset(line[1:]):
                raise ValueError(f"a torn line of an slcan adapter: {bytes(line)!r}")
            return line.decode() + "\r"
        self._buffer = self._buffer[-_LONGEST_LINE:]
        return None

    def shutdown(self) -> None:
        """Close the adapter's channel, and the port in any case."""
        with contextlib.suppress(*BUS_ERRORS):  # one that was pulled out takes no last word
            super().shutdown()
        self.serialPortOrig.close()
