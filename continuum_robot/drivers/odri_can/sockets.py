# SPDX-License-Identifier: Apache-2.0
"""A CAN channel on a socket: SocketCAN of the kernel, or any datagram socket that carries ``struct can_frame``."""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Callable

from continuum_robot.drivers.held_name import HeldName
from continuum_robot.drivers.odri_can.bus import explain_can, hold_channel
from continuum_robot.drivers.odri_can.frame_port import FramePort
from continuum_robot.drivers.odri_can.records import ChannelCounters
from continuum_robot.errors import DeviceError

SEND_BUFFER_BYTES = 4_194_304
"""Asked for; the kernel gives what net.core.wmem_max allows, of which a frame takes about 800 bytes."""
SOCKETCAN = "socketcan"
# linux/can/raw.h and linux/can/error.h
_CAN_RAW_ERR_FILTER, _ALL_ERROR_CLASSES = 2, 0x1FFFFFFF
_FRAME = struct.Struct("<IB3x8s")

SocketFactory = Callable[[str], socket.socket]


def frame_bytes(can_id: int, data: bytes) -> bytes:
    """A ``struct can_frame``.

    Parameters
    ----------
    can_id : identifier, and flags as linux/can.h has them
    data : 8 bytes at most
    """
    return _FRAME.pack(can_id, len(data), data)


def frame_parts(frame: bytes) -> tuple[int, bytes]:
    """Identifier with flags, and data, of a ``struct can_frame``; its inverse is :func:`frame_bytes`.

    Parameters
    ----------
    frame : its 16 bytes
    """
    can_id, length, data = _FRAME.unpack(frame)
    return can_id, data[:length]


def frame_sockets() -> tuple[socket.socket, socket.socket]:
    """Both ends of a channel in this computer, non-blocking; a stall of 50 ms of a board's frames loses none."""
    ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for end in ends:
        end.setblocking(False)
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
    return ends


def can_socket(name: str) -> socket.socket:
    """A raw socket on a CAN interface, non-blocking, which hears of the controller's errors too.

    Parameters
    ----------
    name : of the interface, e.g. can0

    Raises
    ------
    OSError : no CAN in the kernel, no such interface, or it is down
    """
    made = socket.socket(socket.AF_CAN, socket.SOCK_RAW, socket.CAN_RAW)
    try:
        made.setsockopt(socket.SOL_CAN_RAW, _CAN_RAW_ERR_FILTER, _ALL_ERROR_CLASSES)
        made.bind((name,))
        # An interface that is down can be bound all the same, and shows it here.
        error = made.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if error:
            raise OSError(error, f"{name} is down or gone")
        made.setblocking(False)
    except BaseException:
        made.close()
        raise
    return made


class SocketChannel:
    """One channel with one board, on a socket.

    Parameters
    ----------
    name : can0, or any where a factory makes the socket
    bitrate_bps : bit/s, for messages: it is set with ``ip link``
    factory : opens the socket of a channel instead of SocketCAN's
    port : sends and receives in the cycle; None: an interpreted one

    Attributes
    ----------
    name, port : as given
    """

    def __init__(
        self, name: str, bitrate_bps: int, factory: SocketFactory | None = None, port: FramePort | None = None
    ) -> None:
        self.name, self.port = name, FramePort() if port is None else port
        self._bitrate_bps, self._factory = bitrate_bps, can_socket if factory is None else factory
        self._socket: socket.socket | None = None
        self._held = HeldName(f"{SOCKETCAN} {name}") if factory is None else None
        self._is_open, self._reopened = False, 0

    def open(self) -> None:
        """Open the channel.

        Raises
        ------
        DeviceError : why it cannot be opened, and what to do
        """
        if self._is_open:
            return
        if self._held is not None:
            hold_channel(self._held, self.name)
        try:
            self._attach()
        except DeviceError:
            self.close()
            raise
        self._is_open = True

    def close(self) -> None:
        """End. Safe to call at any time."""
        self._is_open = False
        self._drop()
        if self._held is not None:
            self._held.release()

    def reopen(self) -> None:
        """Try another socket, where the old one is of no use any more; between two cycles."""
        if not self._is_open or not self.port.state()[1]:
            return
        self._drop()
        with contextlib.suppress(DeviceError):
            self._attach()
            self._reopened += 1

    def _attach(self) -> None:
        try:
            self._socket = self._factory(self.name)
        except OSError as error:
            problem, remedy = explain_can(SOCKETCAN, self.name, self._bitrate_bps, error)
            raise DeviceError(f"CAN channel {self.name}", problem, remedy) from error
        self.port.attach(self._socket.fileno())

    def _drop(self) -> None:
        # First the port: the number of a closed socket may soon be another file's.
        self.port.detach()
        held, self._socket = self._socket, None
        if held is not None:
            held.close()

    @property
    def is_open(self) -> bool:
        """Whether it was opened and not closed."""
        return self._is_open

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
    def counters(self) -> ChannelCounters:
        """What happened since it was made."""
        counters: ChannelCounters = self.port.counters()
        counters.reopened = self._reopened
        return counters
