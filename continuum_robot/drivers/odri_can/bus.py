# SPDX-License-Identifier: Apache-2.0
"""A CAN channel over python-can, for interfaces that have no socket: a thread receives, sending may wait a little.

Interfaces with a socket are in sockets.py.
"""

from __future__ import annotations

import contextlib
import errno
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import can

from continuum_robot.drivers.held_name import HeldName
from continuum_robot.drivers.odri_can.can_link import bring_up_line
from continuum_robot.drivers.odri_can.frame_port import FramePort
from continuum_robot.drivers.odri_can.records import ChannelCounters
from continuum_robot.drivers.odri_can.slcan import SlcanBus
from continuum_robot.drivers.odri_can.telemetry import Telemetry
from continuum_robot.drivers.serial_port import UDEV_RULES, PortInUseError, explain
from continuum_robot.errors import DeviceError

SEND_TIMEOUT_S = 0.02
"""Longer than a frame needs: pyserial calls a write late that was only interrupted."""
NEXT_SEND_TIMEOUT_S = 0.001
"""After a failure: a channel that takes nothing must not stop the loop."""
RECEIVE_WAIT_S = 0.05
FRAMES_AT_ONCE = 4096
MOST_FRAMES = 20000
REOPEN_AFTER = 5
REOPEN_PERIOD_S = 0.5
SEND_FAILURES = 3
JOIN_TIMEOUT_S = 2.0
BUS_OFF_CLASS = 0x40
MULTICAST_PORT = 43113
_WITHOUT_HOLD = ("slcan", "virtual")
"""python-can's interfaces that need no :class:`HeldName`: the first locks its port, the second is within a process."""

BUS_ERRORS = (can.CanError, ValueError, OSError)
"""What python-can's interfaces raise: slcan a ValueError for a bad line, socketcan a plain OSError."""

Receive = Callable[[int, bytes, float], None]


def hold_channel(held: HeldName, name: str) -> None:
    """Hold a channel, which the system lets any number of programs open, for this one.

    Parameters
    ----------
    held : its name among those of this machine
    name : of the channel, for the message

    Raises
    ------
    PortInUseError : another one holds it
    """
    holder = held.take()
    if holder:
        raise PortInUseError(
            f"CAN channel {name}",
            f"process {holder} uses it",
            "Stop that program first: two would drive the same boards.",
        )


class CanChannel:
    """One channel with one board.

    Parameters
    ----------
    interface : of python-can: slcan, virtual or udp_multicast
    name : a serial port, any name, or ADDRESS[:PORT]
    bitrate_bps : bit/s
    receive : called with identifier, data and time of arrival (s, on ``clock``) for each sound frame
    clock : monotonic time, s
    threaded : receive in a thread of its own; otherwise in :meth:`poll`

    Attributes
    ----------
    counters : see :class:`ChannelCounters`
    bus_off : the CAN controller reported bus-off, and no sound frame came since
    last_error : of the newest failed call, "" before the first
    """

    def __init__(
        self,
        interface: str,
        name: str,
        bitrate_bps: int,
        receive: Receive,
        *,
        clock: Callable[[], float] = time.monotonic,
        threaded: bool = True,
    ) -> None:
        self.interface, self.name, self.bitrate_bps = interface, name, bitrate_bps
        self.counters = ChannelCounters()
        self.bus_off = False
        self.last_error = ""
        self._receive, self._clock, self._threaded = receive, clock, threaded
        self._bus: can.BusABC | None = None
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()
        self._errors_in_a_row = self._failures_in_a_row = 0
        self._reopen_s = 0.0
        self._held = None if interface in _WITHOUT_HOLD else HeldName(f"{interface} {name}")

    def open(self) -> None:
        """Open the channel and begin to receive.

        Raises
        ------
        DeviceError : why it cannot be opened, and what to do
        """
        if self._bus is not None or self._thread is not None:
            return
        if self._held is not None:
            hold_channel(self._held, self.name)
        try:
            self._bus = self._opened()
        except DeviceError:
            self.close()
            raise
        self._errors_in_a_row = self._failures_in_a_row = 0
        self.bus_off = False
        self._stop.clear()
        if self._threaded:
            self._thread = threading.Thread(target=self._run, name=f"receive {self.name}", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """End. Safe to call at any time."""
        self._stop.set()
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.join(JOIN_TIMEOUT_S)
        self._drop_bus()
        if self._held is not None:
            self._held.release()

    @property
    def is_open(self) -> bool:
        """Whether it was opened and not closed."""
        return self._bus is not None or self._thread is not None

    @property
    def failed(self) -> bool:
        """Whether frames cannot be received or sent: errors in a row, or the receive thread died."""
        dead = self._thread is not None and not self._thread.is_alive()
        return (
            dead
            or self._bus is None
            or self._errors_in_a_row >= REOPEN_AFTER
            or self._failures_in_a_row >= SEND_FAILURES
        )

    def send(self, identifier: int, data: bytes) -> bool:
        """Send a frame, in at most 20 ms, and 1 ms after a failure.

        Parameters
        ----------
        identifier : 11 bits
        data : at most 8 bytes

        Returns
        -------
        whether it went out; :attr:`failed` shows when several in a row did not
        """
        bus = self._bus
        if bus is None:
            self._failures_in_a_row += 1
            return False
        timeout_s = NEXT_SEND_TIMEOUT_S if self._failures_in_a_row else SEND_TIMEOUT_S
        try:
            bus.send(can.Message(arbitration_id=identifier, data=data, is_extended_id=False), timeout=timeout_s)
        except BUS_ERRORS as error:
            self.last_error = str(error)
            self.counters.send_errors += 1
            self._failures_in_a_row += 1
            return False
        self.counters.frames_out += 1
        self._failures_in_a_row = 0
        return True

    def poll(self) -> None:
        """Receive what arrived; for channels without a thread."""
        if self._bus is None:
            self._reopen()
        for _ in range(FRAMES_AT_ONCE):
            errors = self.counters.receive_errors
            if not self._receive_one(0.0) and self.counters.receive_errors == errors:
                return

    def _run(self) -> None:
        while not self._stop.is_set():
            if self._bus is None:
                self._stop.wait(REOPEN_PERIOD_S)
                if not self._stop.is_set():
                    self._reopen()
            else:
                self._receive_one(RECEIVE_WAIT_S)

    def _receive_one(self, wait_s: float) -> bool:
        """Receive a frame; False where none came or it failed."""
        bus = self._bus
        if bus is None:
            return False
        try:
            message = bus.recv(wait_s)
        except BUS_ERRORS as error:
            self.last_error = str(error)
            self._on_receive_error(bus)
            return False
        if message is None:
            return False
        self._errors_in_a_row = 0
        if message.is_error_frame:
            self.counters.error_frames += 1
            self.bus_off = self.bus_off or bool(message.arbitration_id & BUS_OFF_CLASS)
        elif (
            message.is_remote_frame
            or message.is_extended_id
            or message.is_fd
            or message.data is None
            or len(message.data) != message.dlc
        ):
            self.counters.refused_frames += 1
        else:
            self.counters.frames_in += 1
            self.bus_off = False
            self._receive(message.arbitration_id, bytes(message.data), self._clock())
        return True

    def _on_receive_error(self, bus: can.BusABC) -> None:
        self.counters.receive_errors += 1
        self._errors_in_a_row += 1
        if self._errors_in_a_row >= REOPEN_AFTER:
            self._drop_bus()
            self._reopen_s = self._clock() + REOPEN_PERIOD_S
            return
        # Some interfaces keep what they could not read, and would stumble over it for ever.
        flush: Any = getattr(bus, "flush", None)
        if flush is not None:
            with contextlib.suppress(*BUS_ERRORS):
                flush()

    def _reopen(self) -> None:
        now_s = self._clock()
        if now_s < self._reopen_s:
            return
        self._reopen_s = now_s + REOPEN_PERIOD_S
        with contextlib.suppress(DeviceError):
            self._bus = self._opened()
            # A board that is off is sent nothing: old failures would count for ever.
            self._errors_in_a_row = self._failures_in_a_row = 0
            self.counters.reopened += 1

    def _drop_bus(self) -> None:
        bus, self._bus = self._bus, None
        if bus is None:
            return
        with contextlib.suppress(*BUS_ERRORS):  # a port that was pulled out cannot be identified that it is closed
            bus.shutdown()
        port = getattr(bus, "serialPortOrig", None)
        if port is not None:
            with contextlib.suppress(*BUS_ERRORS):
                port.close()

    def _opened(self) -> can.BusABC:
        try:
            return self._python_can(self.name)
        except BUS_ERRORS as error:
            problem, remedy = explain_can(self.interface, self.name, self.bitrate_bps, error)
            raise DeviceError(f"CAN channel {self.name}", problem, remedy) from error

    def _python_can(self, name: str) -> can.BusABC:
        if self.interface == "slcan":
            return SlcanBus(name, self.bitrate_bps)
        return can.Bus(**bus_options(self.interface, name))


class BusPort(FramePort):
    """A python-can channel in the place of a socket: the same methods, interpreted only.

    Parameters
    ----------
    interface, name, bitrate_bps, clock, threaded : of the :class:`CanChannel`

    Attributes
    ----------
    channel : see there
    """

    def __init__(self, interface: str, name: str, bitrate_bps: int, clock: Callable[[], float], threaded: bool) -> None:
        super().__init__()
        self.gone = False
        self._threaded = threaded
        self._frames: deque[tuple[int, bytes, float]] = deque(maxlen=MOST_FRAMES)
        self.channel = CanChannel(interface, name, bitrate_bps, self._keep, clock=clock, threaded=threaded)

    def _keep(self, identifier: int, data: bytes, stamp_s: float) -> None:
        self._frames.append((identifier, data, stamp_s))

    def drain(self, telemetry: Telemetry, arrival_s: float) -> None:  # noqa: ARG002
        """Hand all frames that came to a board's telemetry, with the times at which they came.

        Parameters
        ----------
        telemetry : of the board
        arrival_s : not used, s: the channel knows better
        """
        if not self._threaded:
            self.channel.poll()
        while self._frames:
            telemetry.receive(*self._frames.popleft())
        self.bus_off = self.channel.bus_off

    def send(self, identifier: int, first: int, second: int) -> bool:
        """Send a frame, in bounded time.

        Parameters
        ----------
        identifier : 11 bits
        first, second : its words

        Returns
        -------
        whether it went out
        """
        words = (first & 0xFFFFFFFF).to_bytes(4, "big") + (second & 0xFFFFFFFF).to_bytes(4, "big")
        return self.channel.send(identifier, words)

    def has_failed(self) -> bool:
        """As the channel's."""
        return self.channel.failed


def bus_options(interface: str, name: str) -> dict[str, Any]:
    """Arguments of ``can.Bus`` for a channel.

    Parameters
    ----------
    interface : of python-can, not slcan
    name : of the channel; for udp_multicast an address, perhaps with ``:PORT``
    """
    options: dict[str, Any] = {"interface": interface, "channel": name, "ignore_config": True}
    if interface == "udp_multicast":
        address, _, port = name.rpartition(":")
        # No hop: the frames stay on this computer.
        options |= {"channel": address or name, "port": int(port) if address else MULTICAST_PORT, "hop_limit": 0}
    return options


def explain_can(interface: str, name: str, bitrate_bps: int, error: Exception) -> tuple[str, str]:
    """Why a CAN channel could not be opened, and what to do.

    Parameters
    ----------
    interface : of python-can
    name : of the channel
    bitrate_bps : bit/s
    error : that opening raised

    Returns
    -------
    problem and remedy; a sentence each, the problem without its full stop
    """
    cause = _origin(error)
    number = getattr(cause, "errno", None)
    if isinstance(error, (can.CanInterfaceNotImplementedError, ImportError)) or isinstance(cause, ImportError):
        extra = {"udp_multicast": "multicast", "slcan": "serial"}.get(interface, interface)
        return f"interface {interface} lacks a package ({error})", f"Run: pip install 'python-can[{extra}]'."
    if interface == "slcan":
        port, _, baud = name.partition("@")
        if "bitrate" in str(error):
            return f"slcan cannot do {bitrate_bps} bit/s", "Set bitrate_bps to 1000000, the boards' own."
        bauds = int(baud) if baud.isdigit() else 115200
        trouble = cause if isinstance(cause, (OSError, ValueError)) else OSError(str(cause))
        return explain(port, bauds, "hardware.tendon_actuators.channels", trouble)
    if number == errno.EAFNOSUPPORT:
        return "this computer's kernel has no CAN", "Load it with `sudo modprobe can can_raw`, or use interface slcan."
    if number in (errno.ENODEV, errno.ENXIO):
        return (
            f"there is no CAN interface {name} (here: {_can_interfaces()})",
            "Plug the adapter in, or correct hardware.tendon_actuators.channels.",
        )
    if number == errno.ENETDOWN:
        return "the interface is down", f"Run: {bring_up_line(name, bitrate_bps)}"
    if number in (errno.EACCES, errno.EPERM):
        return "no permission for CAN sockets", f"Run outside of the container or sandbox, or install {UDEV_RULES}."
    if number == errno.EBUSY:
        return "the adapter is in use by another program", "Stop that program first."
    return f"cannot be opened ({cause})", "`continuum-robot devices` lists what is there."


def _origin(error: BaseException) -> BaseException:
    """The first error of a chain, which has the number that the others lost."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def _can_interfaces() -> str:
    """Names of the CAN interfaces of this computer; type 280 is ARPHRD_CAN."""
    found = []
    for kind in Path("/sys/class/net").glob("*/type"):
        with contextlib.suppress(OSError):
            if kind.read_text().strip() == "280":
                found.append(kind.parent.name)
    return ", ".join(sorted(found)) or "none"
