# SPDX-License-Identifier: Apache-2.0
"""Simulated motor boards on sockets that carry CAN frames, for drivers in other processes."""

from __future__ import annotations

import contextlib
import socket
from pathlib import Path

import numpy as np

from continuum_robot.drivers.simulated_wires import CAN_FRAME, ERROR, EXTENDED, REMOTE, channel_name, socket_path
from continuum_robot.simulation.wire.can_wire import BUS_OFF_CLASS
from continuum_robot.simulation.wire.hardware import SimulatedHardware
from continuum_robot.simulation.wire.listening import Listener

_FRAMES_AT_ONCE = 4096
_FLAGS = EXTENDED | REMOTE | ERROR


class FrameSocketWire:
    """The device's end of a CAN channel on a socket; a ``CanWire``. Without a partner nothing comes and nothing goes.

    Parameters
    ----------
    wire : connected, of type SOCK_SEQPACKET, does not block; owned from now on
    """

    def __init__(self, wire: socket.socket) -> None:
        self._wire: socket.socket | None = wire

    def receive(self) -> list[tuple[int, bytes]]:
        """Data frames that arrived; never waits."""
        found: list[tuple[int, bytes]] = []
        wire = self._wire
        if wire is None:
            return found
        try:
            for _ in range(_FRAMES_AT_ONCE):
                frame = wire.recv(CAN_FRAME.size)
                if not frame:
                    self.close()
                    break
                if len(frame) != CAN_FRAME.size:
                    continue
                identifier, length, data = CAN_FRAME.unpack(frame)
                if not identifier & _FLAGS and length <= 8:
                    found.append((identifier, data[:length]))
        except BlockingIOError:
            pass
        except OSError:
            self.close()
        return found

    def send(self, identifier: int, data: bytes) -> bool:
        """Send a frame; whether it was taken.

        Parameters
        ----------
        identifier : of the frame, 11 bits
        data : its bytes, 8 at most
        """
        if self._wire is None:
            return False
        try:
            self._wire.send(CAN_FRAME.pack(identifier, len(data), data))
        except OSError:
            return False
        return True

    def disturb(self, rng: np.random.Generator) -> None:
        """A remote, extended or error frame, or one with a random identifier and random bytes."""
        kind = int(rng.integers(4))
        identifier = int(rng.integers(0x7FF))
        if kind == 0:
            self.send(identifier | REMOTE, bytes(8))
            return
        if kind == 1:
            self.send(0x04 | ERROR, bytes(8))
            return
        data = rng.bytes(int(rng.integers(9)))
        self.send((identifier << 18 | 1) | EXTENDED if kind == 2 else 0x100 + identifier % 0x600, data)

    def report_bus_off(self) -> None:
        """An error frame of class bus-off, as Linux gives it."""
        self.send(BUS_OFF_CLASS | ERROR, bytes(8))

    def close(self) -> None:
        """End. Safe to call at any time."""
        wire, self._wire = self._wire, None
        if wire is not None:
            with contextlib.suppress(OSError):
                wire.close()


class Unconnected:
    """A ``CanWire`` on which nobody is."""

    def receive(self) -> list[tuple[int, bytes]]:
        """Nothing."""
        return []

    def send(self, identifier: int, data: bytes) -> bool:  # noqa: ARG002
        """Send a frame, which nobody takes.

        Parameters
        ----------
        identifier : of the frame, 11 bits
        data : its bytes, 8 at most
        """
        return False

    def disturb(self, rng: np.random.Generator) -> None:
        """Nothing reaches anybody."""

    def report_bus_off(self) -> None:
        """There is no host."""

    def close(self) -> None:
        """End."""


class BoardSockets:
    """One listening socket for each motor board; a new connection takes the place of the old one.

    Parameters
    ----------
    hardware : open
    folder : of the sockets

    Attributes
    ----------
    listeners : by channel

    Raises
    ------
    DeviceError : a socket cannot be made
    """

    def __init__(self, hardware: SimulatedHardware, folder: Path) -> None:
        self._hardware = hardware
        self.listeners: dict[str, Listener] = {}
        try:
            for channel, board in hardware.boards.items():
                self.listeners[channel] = Listener(socket_path(folder, channel_name(channel)))
                board.wire.close()
                board.wire = Unconnected()
        except BaseException:
            self.close()
            raise

    def accept(self) -> None:
        """Put new connections on their boards; what was under way to and from the old ones is gone."""
        for channel, listener in self.listeners.items():
            wire = listener.accept()
            if wire is not None:
                board = self._hardware.boards[channel]
                board.wire.close()
                board.wire = FrameSocketWire(wire)

    def close(self) -> None:
        """End; the boards' own wires are closed with the hardware. Safe to call at any time."""
        for listener in self.listeners.values():
            listener.close()
        self.listeners.clear()
