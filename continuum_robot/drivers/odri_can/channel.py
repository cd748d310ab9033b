# SPDX-License-Identifier: Apache-2.0
"""A CAN channel of a motor board: the kernel's socket where the interface has one, python-can for every other adapter.

The cycle reads and writes a socket itself, compiled too. Other interfaces run interpreted.
"""

from __future__ import annotations

import contextlib
import errno
import socket
import struct
import threading
from collections.abc import Callable
from typing import Any

from continuum_robot.drivers.can_bus import BUS_ERRORS, SOCKETCAN, CanLine, can_socket
from continuum_robot.drivers.odri_can.frame_port import FramePort
from continuum_robot.errors import DeviceError, optional
from continuum_robot.stepped.system_calls import CAN_FRAME_BYTES, NOTHING_WAITS, CanFrame

can = optional("can")

SEND_TIMEOUT_S, NEXT_SEND_TIMEOUT_S = 0.02, 0.001
"""Longer than a frame needs, since pyserial calls a write late that was only interrupted. After a failure: a channel
that takes nothing must not stop the loop."""
JOIN_TIMEOUT_S = 2.0
SETTING = "hardware.tendon_actuators.channels"
SocketFactory = Callable[[str], socket.socket]
_WORDS = struct.Struct(">ii")


class BusFrame(CanFrame):
    """A frame read from and written to a python-can bus in the place of a socket, interpreted only."""

    def __init__(self, channel: Channel) -> None:
        super().__init__()
        self._channel, self._late = channel, False

    def receive(self, descriptor: int) -> int:  # noqa: ARG002
        """As a socket's: ``CAN_FRAME_BYTES``, another number where it is no classic frame, or an errno."""
        try:
            message = self._channel.line.end.recv(0.0)
        except BUS_ERRORS as error:
            self._channel.bus_error = str(error)
            return -errno.EIO
        if message is None:
            return NOTHING_WAITS
        data = bytes(message.data or b"")
        if message.is_fd or (len(data) != message.dlc and not message.is_remote_frame):
            return 1
        flags = message.is_extended_id << 31 | message.is_remote_frame << 30 | message.is_error_frame << 29
        self.head = int.from_bytes((flags | message.arbitration_id).to_bytes(4, "little"), "big")
        self.length = len(data)
        self.first, self.second = _WORDS.unpack(data.ljust(8, b"\0"))
        return CAN_FRAME_BYTES

    def send(self, descriptor: int) -> int:  # noqa: ARG002
        """As a socket's, in at most 20 ms, and 1 ms after a failure."""
        identifier = int.from_bytes(self.head.to_bytes(4, "big"), "little")
        data = struct.pack(">II", self.first & 0xFFFFFFFF, self.second & 0xFFFFFFFF)
        message = can.Message(arbitration_id=identifier, data=data, is_extended_id=False)
        try:
            self._channel.line.end.send(message, timeout=NEXT_SEND_TIMEOUT_S if self._late else SEND_TIMEOUT_S)
        except BUS_ERRORS as error:
            self._channel.bus_error, self._late = str(error), True
            return -errno.EIO
        self._late = False
        return CAN_FRAME_BYTES


class Channel:
    """One channel with one board."""

    def __init__(
        self,
        interface: str,
        name: str,
        bitrate_bps: int,
        socket_factory: SocketFactory | None = None,
        port_type: Callable[..., Any] = FramePort,
    ) -> None:
        self.name, self.bus_error, self.is_open = name, "", False
        factory = socket_factory or (can_socket if interface == SOCKETCAN else None)
        self._on_socket = factory is not None
        self.port: Any = port_type() if self._on_socket else FramePort(lambda: BusFrame(self))
        make = None if factory is None else lambda: factory(name)
        shared = socket_factory is not None
        self.line = CanLine(interface, name, bitrate_bps, SETTING, make=make, shared=shared)
        self._opening: threading.Thread | None = None
        self._reopened = 0

    def open(self) -> None:
        if self.is_open:
            return
        self._attach()
        self.is_open = True

    def close(self) -> None:
        self.is_open = False
        if self._opening is not None:
            self._opening.join(JOIN_TIMEOUT_S)
        self.port.detach()
        self.line.close()

    def reopen(self) -> None:
        """Try another end where the old one is of no use any more, between two cycles; python-can's in a thread."""
        if not self.is_open or not self.port.gone:
            return
        if self._on_socket:
            self._replace()
        elif self._opening is None or not self._opening.is_alive():
            self._opening = threading.Thread(target=self._replace, name=f"open {self.name}", daemon=True)
            self._opening.start()

    def _replace(self) -> None:
        # First the port: the number of a closed socket may soon be another file's.
        self.port.detach()
        self.line.drop()
        with contextlib.suppress(DeviceError):
            self._attach()
            self._reopened += 1

    def _attach(self) -> None:
        end = self.line.open()
        self.port.attach(end.fileno() if self._on_socket else -1)

    @property
    def last_error(self) -> str:
        """The error of the newest failed call, "" before the first."""
        return self.bus_error or str(self.port.last_error)

    @property
    def counters(self) -> dict[str, int]:
        """What happened since it was made: see :attr:`.FramePort.counters`, and how often it was opened again."""
        return {**self.port.counters, "reopened": self._reopened}
