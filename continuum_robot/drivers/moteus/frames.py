# SPDX-License-Identifier: Apache-2.0
"""Frames of moteus controllers: registers in CAN-FD frames, and these as lines of text of an fdcanusb.

Source: docs/reference.md of mjbots/moteus. With a CAN-FD interface instead the same lines go over :class:`FdLine`.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from continuum_robot.drivers.can_bus import BITRATE_BPS, Frame, line_at
from continuum_robot.drivers.servo_bus import SETTING, Answer

REPLY = 0x80
"""Instruction of a frame that is answered; 0: one that is not."""
MODE, POSITION, TEMPERATURE, FAULT, COMMAND, WATCHDOG = 0x00, 0x01, 0x0E, 0x0F, 0x20, 0x27
STOPPED, FAULTED, POSITION_MODE, TIMED_OUT = 0, 1, 10, 11
STOP = bytes([0x01, MODE, STOPPED])
QUERY = bytes([0x11, MODE, 0x1F, POSITION, 0x12, TEMPERATURE])
STATE = struct.Struct("<xxbxxfffxxbb")
STATE_SIZE = 24
WATCHDOG_QUERY, WATCHDOG_SIZE = bytes([0x1D, WATCHDOG]), 6
_COMMAND = struct.Struct("<10f")
_SIZES = (*range(9), 12, 16, 20, 24, 32, 48, 64)
_PADDING = 0x50
LONGEST = _SIZES[-1]


def command(values: Sequence[float]) -> bytes:
    """Position mode with its ten registers from 0x20 on."""
    return bytes([0x01, MODE, POSITION_MODE, 0x0C, len(values), COMMAND]) + _COMMAND.pack(*values)


def padded(data: bytes) -> bytes:
    """With what makes it as long as a frame of CAN-FD can be."""
    return data + bytes([_PADDING]) * (next(size for size in _SIZES if size >= len(data)) - len(data))


class FdcanusbFraming:
    """Lines ``can send ID DATA bF`` and ``rcv ID DATA ...``; the rest is not looked at."""

    overhead = 64

    @staticmethod
    def packet(servo: int, instruction: int, parameters: bytes) -> bytes:
        """A frame to a controller."""
        return f"can send {instruction << 8 | servo:04x} {padded(parameters).hex()} bF\n".encode()

    def take(self, received: bytearray) -> Answer | None:
        """The first whole frame of a controller."""
        while (end := received.find(b"\n")) >= 0:
            words = bytes(received[:end]).split()
            del received[: end + 1]
            if len(words) > 2 and words[0] == b"rcv":
                try:
                    return Answer(int(words[1], 16) >> 8 & 0x7F, 0, bytes.fromhex(words[2].decode()))
                except ValueError:
                    continue
        return None


class FdLine:
    """A CAN-FD channel that takes and gives the lines of an fdcanusb."""

    def __init__(self, port: str) -> None:
        self._line = line_at(port, BITRATE_BPS, SETTING, fd=True)
        self._early: list[Frame] = []

    def open(self) -> None:
        self._line.open()

    def write(self, data: bytes) -> None:
        for line in data.decode().splitlines():
            _, _, identifier, payload, _ = line.split()
            self._line.send(Frame(int(identifier, 16), bytes.fromhex(payload)))

    def read(self) -> bytes:
        found, self._early = self._early, []
        while (frame := self._line.receive(0.0)) is not None:
            found.append(frame)
        return b"".join(f"rcv {one.identifier:x} {one.data.hex()} F\n".encode() for one in found)

    def wait(self, timeout_s: float) -> None:
        """Sleep until something comes, or for a time (s). Raises :class:`DeviceError`."""
        if (frame := self._line.receive(max(0.0, timeout_s))) is not None:
            self._early.append(frame)

    def close(self) -> None:
        self._line.close()
