# SPDX-License-Identifier: Apache-2.0
"""python-can's slcan bus with another receiver: in chunks, and a bad line costs that line alone.

The one of python-can 4.6 reads byte by byte, which takes a third of a core for three boards; it stumbles over a byte
that is no text for ever, unless all that was received is thrown away; and its send waits until the line is empty.
"""

from __future__ import annotations

import fcntl
import os
import select
import time
from collections import deque
from typing import Any

import can
from can.interfaces.slcan import slcanBus

COMMAND_TIMEOUT_S = 0.05
_LARGEST_READ = 65536
_LONGEST_LINE = 64
_STANDARD_DIGITS = 3
_EXTENDED_DIGITS = 8
_LAST_STANDARD, _LAST_EXTENDED = 0x7FF, 0x1FFFFFFF
_LONGEST_DATA = 8
_HEXADECIMAL = frozenset(b"0123456789ABCDEFabcdef")


class SlcanBus(slcanBus):
    """A serial CAN adapter, for this program alone.

    Parameters
    ----------
    channel : the serial port, perhaps with ``@BAUD``
    bitrate_bps : bit/s

    Raises
    ------
    can.CanInitializationError, OSError, ValueError : the port cannot be opened, or is open elsewhere
    """

    def __init__(self, channel: str, bitrate_bps: int) -> None:
        self._lines: deque[bytes] = deque()
        self._partial = b""
        _require_free(channel.partition("@")[0])
        # The board answers or not; waiting two seconds for an Arduino to boot is not ours.
        super().__init__(channel, bitrate=bitrate_bps, sleep_after_open=0.0)
        self.serialPortOrig.exclusive = True  # a second reader would steal bytes

    def _recv_internal(self, timeout: float | None) -> tuple[can.Message | None, bool]:
        if not self._lines:
            self._fill(timeout)
        while self._lines:
            message = frame_of(self._lines.popleft())
            if message is not None:
                return message, False
        return None, False

    def _fill(self, timeout: float | None) -> None:
        descriptor = self.serialPortOrig.fileno()
        if not select.select([descriptor], [], [], timeout)[0]:
            return
        data = os.read(descriptor, _LARGEST_READ)
        if not data:
            raise can.CanOperationError("the serial line was hung up")
        *lines, partial = (self._partial + data).replace(b"\a", b"\r").split(b"\r")
        self._partial = partial[-_LONGEST_LINE:]
        self._lines.extend(line for line in lines if line)

    def send(self, msg: can.Message, timeout: float | None = None) -> None:
        """Send a data frame with an 11-bit identifier; waits for the port's buffer, not for the line.

        Parameters
        ----------
        msg : the frame

        Raises
        ------
        can.CanOperationError : the buffer stays full for longer than the timeout
        OSError : the port is gone
        """
        self._put(f"t{msg.arbitration_id:03X}{msg.dlc:d}{msg.data.hex().upper()}\r".encode(), timeout)

    def _write(self, string: str) -> None:
        """The adapter's own commands; python-can's waits without end for a line on which nobody reads."""
        self._put(string.encode() + b"\r", COMMAND_TIMEOUT_S)

    def _put(self, rest: bytes, timeout_s: float | None) -> None:
        descriptor = self.serialPortOrig.fileno()
        end_s = None if timeout_s is None else time.monotonic() + timeout_s
        while rest:
            left_s = None if end_s is None else max(0.0, end_s - time.monotonic())
            if not select.select([], [descriptor], [], left_s)[1]:
                raise can.CanOperationError("the serial line takes nothing")
            rest = rest[os.write(descriptor, rest) :]

    def flush(self) -> None:
        """Nothing is kept that could not be read: a bad line is gone once its error is raised."""


def _require_free(port: str) -> None:
    """Raise OSError where the port is not there or another program has it, before anything is sent on it."""
    descriptor = os.open(port, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.close(descriptor)


def frame_of(line: bytes) -> can.Message | None:
    """A frame of a line; None for the adapter's own answers.

    Parameters
    ----------
    line : without its end

    Raises
    ------
    ValueError : a line that is none
    """
    kind = line[:1]
    if kind not in (b"t", b"T", b"r", b"R"):
        if line.strip(b"zZ") and not line[:1].isalpha():
            raise ValueError(f"no line of an slcan adapter: {line!r}")
        return None
    options: dict[str, Any] = {"is_extended_id": kind.isupper(), "is_remote_frame": kind in b"rR"}
    digits = _EXTENDED_DIGITS if kind.isupper() else _STANDARD_DIGITS
    head, rest = line[1 : 2 + digits], line[2 + digits :]
    # int() and fromhex() take signs, spaces and underscores too.
    if len(head) <= digits or not _HEXADECIMAL.issuperset(head + rest) or len(rest) % 2:
        raise ValueError(f"a torn line of an slcan adapter: {line!r}")
    identifier, length, data = int(head[:digits], 16), int(head[digits:], 16), bytes.fromhex(rest.decode())
    too_high = identifier > (_LAST_EXTENDED if kind.isupper() else _LAST_STANDARD)
    if too_high or length > _LONGEST_DATA or len(data) != (0 if options["is_remote_frame"] else length):
        raise ValueError(f"no CAN frame in a line of an slcan adapter: {line!r}")
    return can.Message(arbitration_id=identifier, dlc=length, data=data or None, timestamp=time.time(), **options)
