# SPDX-License-Identifier: Apache-2.0
"""The device's end of a CAN channel: a socket, or an slcan adapter on a pseudo-terminal."""

from __future__ import annotations

import socket
from pathlib import Path

import numpy as np

from continuum_robot.drivers.can_bus import LONGEST_DATA, Frame, frame_bytes, frame_of_slcan, frame_parts, slcan_line
from continuum_robot.drivers.local_port import Pty
from continuum_robot.stepped.system_calls import CAN_FRAME_BYTES

BUS_OFF_CLASS = 0x40
EXTENDED, REMOTE, ERROR = 0x80000000, 0x40000000, 0x20000000
"""Flags of can_id, linux/can.h."""
HIGHEST_IDENTIFIER = 0x7FF
_FRAMES_AT_ONCE = 4096
_LONGEST_LINE = 64
_ANSWERS = {ord("V"): b"V1013\r", ord("N"): b"N0001\r", ord("F"): b"F00\r"}
_PLAIN_COMMANDS = frozenset(b"COLSsYZ")


def disturbance(rng: np.random.Generator) -> tuple[int, int, bytes]:
    """Flags, identifier and data of a frame that is of no board."""
    kind = int(rng.integers(4))
    identifier = int(rng.integers(0x7FF))
    if kind == 0:
        return REMOTE, identifier, bytes(8)
    if kind == 1:
        return ERROR, 0x04, bytes(8)
    data = rng.bytes(int(rng.integers(9)))
    if kind == 2:
        return EXTENDED, identifier << 18 | 1, data
    return 0, 0x100 + identifier % 0x600, data


class FrameSocketWire:
    """A wire on a datagram socket that carries ``struct can_frame``, which it owns."""

    def __init__(self, end: socket.socket | None = None) -> None:
        self._socket = end
        self.lost_frames = 0

    def receive(self) -> list[tuple[int, bytes]]:
        """Data frames that arrived; never waits."""
        found: list[tuple[int, bytes]] = []
        while self._socket is not None and len(found) < _FRAMES_AT_ONCE:
            try:
                frame = self._socket.recv(CAN_FRAME_BYTES)
            except OSError:
                break
            if not frame:  # hung up
                break
            if len(frame) == CAN_FRAME_BYTES and frame[4] <= LONGEST_DATA:
                can_id, data = frame_parts(frame)
                if can_id <= HIGHEST_IDENTIFIER:
                    found.append((can_id, data))
        return found

    def send(self, identifier: int, data: bytes) -> bool:
        """Send a frame; whether it was taken."""
        if self._socket is None:
            return False
        try:
            self._socket.send(frame_bytes(identifier, data))
        except OSError:
            self.lost_frames += 1
            return False
        return True

    def disturb(self, rng: np.random.Generator) -> None:
        """A remote, extended or error frame, or one with a random identifier and random bytes."""
        flags, identifier, data = disturbance(rng)
        self.send(flags | identifier, data)

    def report_bus_off(self) -> None:
        """An error frame of class bus-off, as socketcan gives it."""
        self.send(ERROR | BUS_OFF_CLASS, bytes(8))

    def close(self) -> None:
        """End."""
        end, self._socket = self._socket, None
        if end is not None:
            end.close()


class SlcanAdapter:
    """A CAN adapter with the slcan protocol on a pseudo-terminal: the host opens :attr:`port` as interface slcan."""

    def __init__(self, link: Path | None = None) -> None:
        self.pty = Pty(link)
        self.is_open = False
        self._line = bytearray()

    @property
    def port(self) -> str:
        """What the host opens."""
        return str(self.pty.path)

    def receive(self) -> list[tuple[int, bytes]]:
        """Data frames that arrived; never waits."""
        found = []
        for byte in self.pty.receive():
            if byte != 0x0D:
                self._line.append(byte)
                del self._line[:-_LONGEST_LINE]
                continue
            line, self._line = bytes(self._line), bytearray()
            frame = self._take(line)
            if frame is not None:
                found.append(frame)
        return found

    def _take(self, line: bytes) -> tuple[int, bytes] | None:
        if not line:
            return None
        kind = line[0]
        if kind in _PLAIN_COMMANDS:
            self.is_open = kind in b"OL" or (self.is_open and kind != ord("C"))
            self.pty.send(b"\r")
        elif kind in _ANSWERS:
            self.pty.send(_ANSWERS[kind])
        elif kind == ord("t") and self.is_open and (frame := frame_of_slcan(line)) is not None:
            self.pty.send(b"z\r")
            return frame
        else:
            self.pty.send(b"\a")
        return None

    def send(self, identifier: int, data: bytes) -> bool:
        """Send a frame; whether somebody took it."""
        if not self.is_open:
            return False
        return self.pty.send(slcan_line(Frame(identifier, data)))

    def disturb(self, rng: np.random.Generator) -> None:
        """Random bytes, half of a line, or a line with a wrong digit."""
        kind = int(rng.integers(3))
        noise = (rng.bytes(int(rng.integers(1, 24))), b"t0308001", b"t0308G0000000FFFFFFFF\r")[kind]
        self.pty.send(noise)

    def report_bus_off(self) -> None:
        """The protocol has no word for it."""

    def close(self) -> None:
        """End."""
        self.pty.close()
