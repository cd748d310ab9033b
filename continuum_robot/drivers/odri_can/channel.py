# SPDX-License-Identifier: Apache-2.0
"""A CAN channel of a motor board: the kernel's socket where the interface has one, python-can for every other adapter.

The cycle reads and writes a socket itself, compiled too. Other interfaces run interpreted.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable
from typing import Any

import can

from continuum_robot.drivers.can_bus import BUS_ERRORS, SOCKETCAN, CanLine, can_socket
from continuum_robot.drivers.odri_can.frame_port import FRAMES_A_CYCLE, RECEIVE_ERRORS_IN_A_ROW, FramePort
from continuum_robot.drivers.odri_can.telemetry import Telemetry
from continuum_robot.errors import DeviceError

SEND_TIMEOUT_S = 0.02
"""Longer than a frame needs: pyserial calls a write late that was only interrupted."""
NEXT_SEND_TIMEOUT_S = 0.001
"""After a failure: a channel that takes nothing must not stop the loop."""
JOIN_TIMEOUT_S = 2.0
BUS_OFF_CLASS = 0x40
SETTING = "hardware.tendon_actuators.channels"
SocketFactory = Callable[[str], socket.socket]


class BusPort(FramePort):
    """A python-can bus in the place of a socket: the same methods, interpreted only."""

    _bus: Any = None
    _error = ""

    def attach_bus(self, bus: can.BusABC) -> None:
        """Use a bus from now on.

        Parameters
        ----------
        bus : open
        """
        self._bus = bus
        self.attach(-1)

    def drain(self, telemetry: Telemetry, arrival_s: float) -> None:
        """Hand all frames that wait to a board's telemetry.

        Parameters
        ----------
        telemetry : of the board
        arrival_s : when they arrived, s
        """
        for _ in range(0 if self.gone else FRAMES_A_CYCLE):
            try:
                message = self._bus.recv(0.0)
            except BUS_ERRORS as error:
                self._error = str(error)
                self.receive_errors += 1
                self._errors_in_a_row += 1
                if self._errors_in_a_row >= RECEIVE_ERRORS_IN_A_ROW:
                    self.gone = True
                    return
                continue
            if message is None:
                return
            self._errors_in_a_row = 0
            if message.is_error_frame:
                self.error_frames += 1
                self.bus_off = self.bus_off or bool(message.arbitration_id & BUS_OFF_CLASS)
            elif (
                message.is_remote_frame
                or message.is_extended_id
                or message.is_fd
                or message.data is None
                or len(message.data) != message.dlc
            ):
                self.refused_frames += 1
            else:
                self.frames_in += 1
                self.bus_off = False
                telemetry.receive(message.arbitration_id, bytes(message.data), arrival_s)

    def send(self, identifier: int, first: int, second: int) -> bool:
        """Send a frame, in at most 20 ms, and 1 ms after a failure.

        Parameters
        ----------
        identifier : 11 bits
        first, second : its words

        Returns
        -------
        whether it went out
        """
        if self.gone:
            self._failures_in_a_row += 1
            return False
        words = struct.pack(">II", first & 0xFFFFFFFF, second & 0xFFFFFFFF)
        timeout_s = NEXT_SEND_TIMEOUT_S if self._failures_in_a_row else SEND_TIMEOUT_S
        try:
            self._bus.send(can.Message(arbitration_id=identifier, data=words, is_extended_id=False), timeout=timeout_s)
        except BUS_ERRORS as error:
            self._error = str(error)
            self.send_errors += 1
            self._failures_in_a_row += 1
            return False
        self.frames_out += 1
        self._failures_in_a_row = 0
        return True

    def last_error(self) -> str:
        """The error of the newest failed call, "" before the first."""
        return self._error


def has_socket(interface: str, socket_factory: SocketFactory | None = None) -> bool:
    """Whether the channels of an interface are sockets, which the cycle reads itself.

    Parameters
    ----------
    interface : of the robot file
    socket_factory : opens a channel's socket in the interface's place
    """
    return socket_factory is not None or interface == SOCKETCAN


class Channel:
    """One channel with one board.

    Parameters
    ----------
    interface : of python-can
    name : of the channel
    bitrate_bps : bit/s; that of SocketCAN is set with ``ip link``
    socket_factory : opens the channel's socket in the interface's place
    port : of a socket, compiled; None: an interpreted one

    Attributes
    ----------
    name, port : as given
    is_open : it was opened and not closed
    """

    def __init__(
        self,
        interface: str,
        name: str,
        bitrate_bps: int,
        socket_factory: SocketFactory | None = None,
        port: FramePort | None = None,
    ) -> None:
        self.name, self.is_open = name, False
        factory = socket_factory or (can_socket if interface == SOCKETCAN else None)
        self._on_socket = factory is not None
        self.port: Any = (port or FramePort()) if self._on_socket else BusPort()
        make = None if factory is None else lambda: factory(name)
        shared = socket_factory is not None
        self._line = CanLine(interface, name, bitrate_bps, SETTING, make=make, shared=shared)
        self._opening: threading.Thread | None = None
        self._reopened = 0

    def open(self) -> None:
        """Open the channel.

        Raises
        ------
        DeviceError : why it cannot be opened, and what to do
        """
        if self.is_open:
            return
        self._attach()
        self.is_open = True

    def close(self) -> None:
        """End. Safe to call at any time."""
        self.is_open = False
        if self._opening is not None:
            self._opening.join(JOIN_TIMEOUT_S)
        self.port.detach()
        self._line.close()

    def reopen(self) -> None:
        """Try another end where the old one is of no use any more, between two cycles; python-can's in a thread."""
        if not self.is_open or not self.port.state()[1]:
            return
        if self._on_socket:
            self._replace()
        elif self._opening is None or not self._opening.is_alive():
            self._opening = threading.Thread(target=self._replace, name=f"open {self.name}", daemon=True)
            self._opening.start()

    def _replace(self) -> None:
        # First the port: the number of a closed socket may soon be another file's.
        self.port.detach()
        self._line.drop()
        with contextlib.suppress(DeviceError):
            self._attach()
            self._reopened += 1

    def _attach(self) -> None:
        end = self._line.open()
        if self._on_socket:
            self.port.attach(end.fileno())
        else:
            self.port.attach_bus(end)

    @property
    def bus_off(self) -> bool:
        """Whether the CAN controller reported bus-off, and no sound frame came since."""
        return bool(self.port.state()[0])

    @property
    def failed(self) -> bool:
        """Whether frames cannot be received or sent."""
        return bool(self.port.state()[2])

    @property
    def last_error(self) -> str:
        """The error of the newest failed call, "" before the first."""
        return str(self.port.last_error())

    @property
    def counters(self) -> dict[str, int]:
        """What happened since it was made: see :meth:`.FramePort.counters`, and how often it was opened again."""
        return {**self.port.counters(), "reopened": self._reopened}
