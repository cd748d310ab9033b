# SPDX-License-Identifier: Apache-2.0
"""The channels of the motor boards: on a socket where the interface has one, over python-can otherwise."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from continuum_robot.drivers.odri_can.bus import BusPort, CanChannel
from continuum_robot.drivers.odri_can.frame_port import FramePort
from continuum_robot.drivers.odri_can.records import ChannelCounters
from continuum_robot.drivers.odri_can.sockets import SOCKETCAN, SocketChannel, SocketFactory
from continuum_robot.errors import DeviceError


class BusChannel:
    """A channel over python-can, which opens itself again after errors.

    Parameters
    ----------
    interface, name, bitrate_bps, clock, threaded : of the :class:`.CanChannel`

    Attributes
    ----------
    name : as given
    port : sends and receives in the cycle
    """

    def __init__(self, interface: str, name: str, bitrate_bps: int, clock: Callable[[], float], threaded: bool) -> None:
        self.name = name
        self.port = BusPort(interface, name, bitrate_bps, clock, threaded)

    @property
    def _channel(self) -> CanChannel:
        return self.port.channel

    def open(self) -> None:
        """Open the channel. Raises :class:`DeviceError`."""
        self._channel.open()

    def close(self) -> None:
        """End. Safe to call at any time."""
        self._channel.close()

    def reopen(self) -> None:
        """Nothing: it does that itself."""

    @property
    def is_open(self) -> bool:
        """Whether it was opened and not closed."""
        return self._channel.is_open

    @property
    def bus_off(self) -> bool:
        """Whether the CAN controller reported bus-off, and no sound frame came since."""
        return self._channel.bus_off

    @property
    def failed(self) -> bool:
        """Whether frames cannot be received or sent."""
        return self._channel.failed

    @property
    def last_error(self) -> str:
        """The error of the newest failed call, "" before the first."""
        return self._channel.last_error

    @property
    def counters(self) -> ChannelCounters:
        """What happened since it was made."""
        return self._channel.counters


Channel = SocketChannel | BusChannel


def has_socket(interface: str, socket_factory: SocketFactory | None = None) -> bool:
    """Whether the channels of an interface are sockets, which the cycle reads itself.

    Parameters
    ----------
    interface : of the robot file
    socket_factory : opens a channel's socket in the interface's place
    """
    return socket_factory is not None or interface == SOCKETCAN


def channel_of(
    interface: str,
    name: str,
    bitrate_bps: int,
    *,
    clock: Callable[[], float],
    threaded: bool,
    socket_factory: SocketFactory | None = None,
    port: FramePort | None = None,
) -> Channel:
    """A channel, not open yet.

    Parameters
    ----------
    interface : of the robot file
    name : of the channel
    bitrate_bps : bit/s
    clock : monotonic time, s
    threaded : python-can receives in a thread of its own
    socket_factory : opens its socket in the interface's place
    port : of a socket, compiled; None: an interpreted one
    """
    if has_socket(interface, socket_factory):
        return SocketChannel(name, bitrate_bps, socket_factory, port)
    return BusChannel(interface, name, bitrate_bps, clock, threaded)


def open_all(channels: Sequence[Channel]) -> None:
    """Open channels.

    Parameters
    ----------
    channels : not open yet

    Raises
    ------
    DeviceError : names every one that cannot be opened
    """
    errors = []
    for channel in channels:
        try:
            channel.open()
        except DeviceError as error:
            errors.append(error)
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise DeviceError(
            "CAN channels",
            "; ".join(f"{error.device.removeprefix('CAN channel ')}: {error.problem}" for error in errors),
            " ".join(dict.fromkeys(error.remedy for error in errors)),
        )
