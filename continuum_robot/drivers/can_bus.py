# SPDX-License-Identifier: Apache-2.0
"""CAN channels, whatever speaks on them: how they are opened and held, what goes wrong, and what to do then."""

from __future__ import annotations

import contextlib
import errno
import select
import socket
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from continuum_robot.drivers.held_name import HeldName
from continuum_robot.drivers.serial_port import UDEV_RULES, PortInUseError, explain
from continuum_robot.errors import DeviceError, missing_package, optional

can = optional("can")

BITRATE_BPS, DATA_BITRATE_BPS = 1_000_000, 5_000_000
"""Usual rates, the second of the data of CAN-FD."""
SAMPLE_POINT = 0.867
"""13 of 15 time quanta, which the firmware of motor boards has fixed; the 7/8 of CANopen is near enough."""
RESTART_MS = 100
"""How long the adapter stays away from the bus after a bus-off."""
QUEUE_LENGTH = 1000
"""Frames; the kernel's own 10 fill at once."""
SOCKETCAN, SLCAN, VIRTUAL, MULTICAST = "socketcan", "slcan", "virtual", "udp_multicast"
MULTICAST_PORT = 43113
BUS_ERRORS = (*((can.CanError,) if can else ()), ValueError, IndexError, OSError)
"""What python-can's interfaces raise: slcan a ValueError or an IndexError for a bad line, others a plain OSError."""
_OPENING_ERRORS = (*BUS_ERRORS, ImportError, NameError, NotImplementedError)  # NameError: kvaser
_SEND_S, _SEND_FAILURES = 0.1, 3
"""How long a frame may take to be sent, s, and how many in a row may fail: pyserial calls a write late that was only
interrupted, and a full queue loses a frame."""
SEND_BUFFER_BYTES = 4_194_304
"""Asked for; the kernel gives what net.core.wmem_max allows, of which a frame takes about 800 bytes."""
# linux/can/raw.h and linux/can/error.h
_CAN_RAW_ERR_FILTER, _ALL_ERROR_CLASSES = 2, 0x1FFFFFFF
_FRAME = struct.Struct("<IB3x8s")

_STANDARD = 0x7FF
LONGEST_DATA = 8


def bus_of(interface: str, name: str, bitrate_bps: int, *, fd: bool = False) -> Any:
    """A python-can bus."""
    if interface == SLCAN:
        try:
            from continuum_robot.drivers.slcan_bus import SlcanBus  # noqa: PLC0415 - made from a class of python-can
        except ModuleNotFoundError as error:
            raise missing_package(error) from None
        # The board answers or not; two seconds for an Arduino to boot are not needed.
        return SlcanBus(name, bitrate=bitrate_bps, sleep_after_open=0.0, timeout=0.0)
    options: dict[str, Any] = {"channel": name, "bitrate": bitrate_bps} | ({"fd": True} if fd else {})
    if interface == MULTICAST:
        address, _, port = name.rpartition(":")
        # No hop: the frames stay on this computer.
        options = {"channel": address or name, "port": int(port) if address else MULTICAST_PORT, "hop_limit": 0}
    return can.Bus(interface=interface, ignore_config=True, **options)


class Frame(NamedTuple):
    """A CAN frame."""

    identifier: int
    data: bytes


def slcan_line(frame: Frame) -> bytes:
    """A frame as an slcan adapter has it."""
    return f"t{frame.identifier:03X}{len(frame.data)}{frame.data.hex().upper()}\r".encode()


def take_slcan(received: bytearray) -> Frame | None:
    """The first whole frame of slcan lines, which is removed with all that came before; None where there is none."""
    while (end := received.find(b"\r")) >= 0:
        line = bytes(received[:end])
        del received[: end + 1]
        if (frame := frame_of_slcan(line)) is not None:
            return frame
    return None


def frame_of_slcan(line: bytes) -> Frame | None:
    """The data frame of an slcan line without its end; None for anything else."""
    with contextlib.suppress(ValueError):
        if line[:1] == b"t" and len(line) == 5 + 2 * int(line[4:5]) and int(line[4:5]) <= LONGEST_DATA:
            return Frame(int(line[1:4], 16), bytes.fromhex(line[5:].decode()))
    return None


class CanLine:
    """A CAN channel that this program holds alone."""

    def __init__(
        self,
        interface: str,
        name: str,
        bitrate_bps: int,
        setting: str,
        *,
        fd: bool = False,
        make: Callable[[], Any] | None = None,
        shared: bool = False,
    ) -> None:
        self.name = name
        self.end: Any = None
        self._interface, self._bitrate_bps, self._setting, self._fd = interface, bitrate_bps, setting, fd
        self._make = make or (lambda: bus_of(interface, name, bitrate_bps, fd=fd))
        # Only virtual channels are within a process; the system lets any number of programs open most others.
        self._held = None if shared or interface == VIRTUAL else HeldName(f"{interface} {name}")
        self._failed, self._keeps = 0, False

    def open(self) -> Any:
        if self.end is not None:
            return self.end
        holder = self._held.take() if self._held is not None else ""
        if holder:
            problem, remedy = f"process {holder} uses it", "Stop that program first: two would drive the same motors."
            raise PortInUseError(f"CAN channel {self.name}", problem, remedy)
        self._failed = 0
        try:
            self.end = self._make()
        except _OPENING_ERRORS as error:
            if not self._keeps:  # one that was dropped waits for its adapter
                self.close()
            words = explain_can(self._interface, self.name, self._bitrate_bps, error, self._setting, fd=self._fd)
            raise DeviceError(f"CAN channel {self.name}", *words) from error
        self._keeps = True
        return self.end

    def drop(self) -> None:
        """Close its end, and hold it on. Safe to call at any time."""
        end, self.end = self.end, None
        with contextlib.suppress(*BUS_ERRORS):
            if end is not None:
                getattr(end, "shutdown" if can and isinstance(end, can.BusABC) else "close")()

    def close(self) -> None:
        self.drop()
        self._keeps = False
        if self._held is not None:
            self._held.release()

    # --- frames of python-can

    def send(self, frame: Frame) -> None:
        """Send a frame. Raises :class:`DeviceError` where some in a row could not be sent."""
        message = can.Message(
            arbitration_id=frame.identifier,
            is_extended_id=frame.identifier > _STANDARD,
            is_fd=self._fd,
            data=frame.data,
        )
        try:
            self._opened().send(message, timeout=_SEND_S)
            self._failed = 0
        except BUS_ERRORS as error:
            self._failed += 1
            if self._failed >= _SEND_FAILURES:
                raise self._gone(error) from error

    def receive(self, wait_s: float) -> Frame | None:
        """A data frame that arrived, or arrives within ``wait_s`` (s); None without one."""
        bus, end_s = self._opened(), time.monotonic() + wait_s
        while True:
            left_s = max(0.0, end_s - time.monotonic()) if wait_s else 0.0
            try:
                message = bus.recv(_waited(bus, left_s) if left_s else 0.0)
            except (ValueError, IndexError):  # a damaged line of a serial adapter
                if time.monotonic() >= end_s:
                    return None
                continue
            except BUS_ERRORS as error:
                raise self._gone(error) from error
            if message is None:
                return None
            if not (message.is_error_frame or message.is_remote_frame or message.is_extended_id > self._fd):
                return Frame(message.arbitration_id, bytes(message.data))

    def _opened(self) -> Any:
        if self.end is None:
            raise DeviceError(f"CAN channel {self.name}", "is not open", "Open it first.")
        return self.end

    def _gone(self, error: Exception) -> DeviceError:
        return DeviceError(f"CAN channel {self.name}", f"is gone ({error})", "Check the adapter and its plug.")


def _waited(bus: Any, wait_s: float) -> float:
    """Wait for something to read; gives how long the interface itself is to wait, s."""
    try:
        select.select([bus.fileno()], [], [], wait_s)
    except NotImplementedError:
        return wait_s
    return 0.0


def line_at(port: str, bitrate_bps: int, setting: str, *, fd: bool = False) -> CanLine:
    """The line that a robot file names in one word."""
    interface, colon, channel = port.partition(":")
    if port.startswith("/"):
        interface, channel = SLCAN, port
    elif not colon:
        interface, channel = SOCKETCAN, port
    return CanLine(interface, channel, bitrate_bps, setting, fd=fd)


# --- frames as the kernel has them


def frame_bytes(can_id: int, data: bytes) -> bytes:
    """A ``struct can_frame``."""
    return _FRAME.pack(can_id, len(data), data)


def frame_parts(frame: bytes) -> tuple[int, bytes]:
    """Identifier with flags, and data, of a ``struct can_frame``; its inverse is :func:`frame_bytes`."""
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
    """A raw socket on a CAN interface, non-blocking, which receives the controller's error frames too."""
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


# --- what to do


def bring_up_commands(name: str, bitrate_bps: int = BITRATE_BPS, *, fd: bool = False) -> tuple[str, str]:
    """The two commands that bring a CAN interface up, for root; the first may fail.

    Some drivers refuse ``restart-ms`` (gs_usb, whose adapters come back from a bus-off by themselves). In one
    command with the bit rate the interface would then stay down.
    """
    rates = f"bitrate {bitrate_bps} sample-point {SAMPLE_POINT}" + f" dbitrate {DATA_BITRATE_BPS} fd on" * fd
    return (
        f"ip link set {name} type can restart-ms {RESTART_MS}",
        f"ip link set {name} up txqueuelen {QUEUE_LENGTH} type can {rates}",
    )


def bring_up_line(name: str, bitrate_bps: int = BITRATE_BPS, *, fd: bool = False) -> str:
    """Both commands as a line to type; arguments as of :func:`bring_up_commands`."""
    return "; ".join(f"sudo {command}" for command in bring_up_commands(name, bitrate_bps, fd=fd))


def explain_can(
    interface: str, name: str, bitrate_bps: int, error: Exception, setting: str, *, fd: bool = False
) -> tuple[str, str]:
    """Why a CAN channel could not be opened, and what to do."""
    cause = _origin(error)
    number = getattr(cause, "errno", None)
    if interface not in can.VALID_INTERFACES:
        known = ", ".join(sorted(can.VALID_INTERFACES))
        return f"python-can has no interface {interface}", f"Correct {setting} or its interface: one of {known}."
    missing = (can.CanInterfaceNotImplementedError, ImportError, NameError)
    if isinstance(error, missing) or isinstance(cause, missing):
        extra = {MULTICAST: "multicast", SLCAN: "serial"}.get(interface, interface)
        return (
            f"interface {interface} lacks a package or its maker's driver ({error})",
            f"Run: pip install 'python-can[{extra}]'; python-can's page of the interface says what else it needs.",
        )
    if interface == SLCAN:
        port, _, baud = name.partition("@")
        if "bitrate" in str(error):
            return f"slcan cannot do {bitrate_bps} bit/s", "Correct bitrate_bps: 1000000 is usual."
        bauds = int(baud) if baud.isdigit() else 115200
        trouble = cause if isinstance(cause, (OSError, ValueError)) else OSError(str(cause))
        return explain(port, bauds, setting, trouble)
    if interface != SOCKETCAN:
        return f"cannot be opened ({cause})", f"Check the adapter, its plug, and {setting}."
    if number == errno.EAFNOSUPPORT:
        return "this computer's kernel has no CAN", "Load it with `sudo modprobe can can_raw`, or use interface slcan."
    if number in (errno.ENODEV, errno.ENXIO):
        return (
            f"there is no CAN interface {name} (here: {_can_interfaces()})",
            f"Plug the adapter in, or correct {setting}.",
        )
    if number == errno.ENETDOWN:
        return "the interface is down", f"Run: {bring_up_line(name, bitrate_bps, fd=fd)}"
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
