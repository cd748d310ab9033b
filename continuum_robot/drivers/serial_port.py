# SPDX-License-Identifier: Apache-2.0
"""What serial drivers stand on: a port that never blocks and whose errors say what to do; datagrams likewise."""

from __future__ import annotations

import contextlib
import errno
import grp
import os
import pwd
import select
import socket
from pathlib import Path
from typing import Any

from continuum_robot.drivers.local_port import host_end
from continuum_robot.errors import DeviceError, ParameterError, optional

serial = optional("serial")

UDEV_RULES = "hardware/99-continuum-robot.rules"
WRITE_TIMEOUT_S = 1.0
"""For any write, s. Short ones fit into the system's buffer at once; but a stall of this computer counts too."""
_LARGEST_READ = 65536
_READS_AT_ONCE = 64
_LARGEST_DATAGRAM = 2048
_DATAGRAMS_AT_ONCE = 1024


class PortInUseError(DeviceError):
    """A port that another program has open: the device may well be there."""


class SerialPort:
    """A serial port for one program alone."""

    def __init__(self, name: str, baud_bps: int, *, device: str, setting: str) -> None:
        self.name, self.baud_bps = name, baud_bps
        self._device, self._setting = device, setting
        self._port: Any = None

    @property
    def is_open(self) -> bool:
        """Whether it is open."""
        return self._port is not None

    def open(self) -> None:
        if self._port is not None:
            return
        try:
            self._port = host_end(self.name, self.baud_bps)
            if self._port is None:
                self._port = port = serial.Serial(
                    self.name, self.baud_bps, timeout=0, write_timeout=WRITE_TIMEOUT_S, exclusive=True
                )
                # Adapters from FTDI collect bytes for 16 ms otherwise; others, and ptys, do not know the word.
                with contextlib.suppress(OSError, ValueError, NotImplementedError):
                    port.set_low_latency_mode(True)
        except (OSError, ValueError) as error:
            raise self._refusal(error) from error

    def read(self) -> bytes:
        port = self._require_open()
        found: list[bytes] = []
        try:
            while data := _read_once(port.fileno()):
                found.append(data)
                if len(found) == _READS_AT_ONCE:
                    break
            if not found:
                # A port whose device is gone reads as one that is silent, but has no number of waiting bytes.
                _ = port.in_waiting
        except OSError as error:
            raise self._lost(error) from error
        return b"".join(found)

    def wait(self, timeout_s: float) -> None:
        """Sleep until something arrives, or for a time."""
        select.select([self._require_open().fileno()], [], [], timeout_s)

    def write(self, data: bytes) -> None:
        port = self._require_open()
        try:
            port.write(data)
        except OSError as error:
            if not (serial and isinstance(error, serial.SerialTimeoutException)):
                raise self._lost(error) from error
            raise DeviceError(
                f"{self._device} at {self.name}",
                f"took no bytes for {WRITE_TIMEOUT_S:g} s",
                "Check that this device is connected there; switch it off and on again.",
            ) from error

    def set_baud(self, baud_bps: int) -> None:
        """Go on at another speed."""
        port = self._require_open()
        try:
            port.baudrate = baud_bps
        except (OSError, ValueError) as error:
            raise self._refusal(error) from error
        self.baud_bps = baud_bps

    def discard(self) -> None:
        """Throw away what arrived and was not read."""
        while self.read():
            pass

    def close(self) -> None:
        port, self._port = self._port, None
        if port is not None:
            with contextlib.suppress(OSError):
                port.close()

    def _require_open(self) -> Any:
        if self._port is None:
            raise DeviceError(f"{self._device} at {self.name}", "is not open", "Open it first.")
        return self._port

    def _lost(self, error: OSError) -> DeviceError:
        return DeviceError(
            f"{self._device} at {self.name}",
            f"is gone ({error.strerror or error})",
            "Plug it in again: it is taken up by itself.",
        )

    def _refusal(self, error: OSError | ValueError) -> DeviceError:
        problem, remedy = explain(self.name, self.baud_bps, self._setting, error)
        kind = PortInUseError if _is_in_use(error) else DeviceError
        return kind(f"{self._device} at {self.name}", problem, remedy)


def ports() -> list[Any]:
    """Serial ports of this computer with hardware behind them, by name."""
    found = optional("serial.tools.list_ports").comports()
    # The kernel lists legacy ports whether or not there is a plug.
    return sorted((port for port in found if port.hwid != "n/a"), key=lambda port: port.device)


def _read_once(file: int) -> bytes:
    try:
        return os.read(file, _LARGEST_READ)
    except BlockingIOError:
        return b""


def explain(name: str, baud_bps: int, setting: str, error: OSError | ValueError) -> tuple[str, str]:
    """Why a port could not be opened, and what to do."""
    number = getattr(error, "errno", None)
    if not Path(name).exists():
        found = ", ".join(port.device for port in ports()) or "none"
        return (
            f"there is no such port (serial ports here: {found})",
            f"Plug the device in, install {UDEV_RULES}, or correct {setting}.",
        )
    if number in (errno.EACCES, errno.EPERM):
        return f"no permission; the port belongs to group {group_of(name)}", permission_remedy(name)
    if _is_in_use(error):
        users = ", ".join(_users_of(name)) or "another program"
        return (
            f"the port is already open in {users}",
            "Stop that program first: two readers steal bytes from each other.",
        )
    if isinstance(error, ValueError):
        return f"the port cannot do {baud_bps} bit/s", f"Correct the baud rate beside {setting}."
    if number in (errno.ENXIO, errno.ENODEV, errno.EIO, errno.ECONNREFUSED):
        return "nothing is behind the port any more", "Plug the device out and in again."
    return "is no serial port", f"Correct {setting}; `continuum-robot devices` lists the ports."


def _is_in_use(error: OSError | ValueError) -> bool:
    return getattr(error, "errno", None) in (errno.EBUSY, errno.EAGAIN) or "exclusively lock" in str(error)


def permission_remedy(name: str) -> str:
    """What gives this user permission for a port, as a sentence."""
    group = group_of(name)
    if group == "root":
        return f"Install {UDEV_RULES}, which gives the port to group dialout."
    user = pwd.getpwuid(os.getuid()).pw_name
    if any(entry.gr_name == group and user in entry.gr_mem for entry in grp.getgrall()):
        return f"User {user} was added to the group: log out and in again."
    return f"Run: sudo usermod -aG {group} {user}, and log in again; or install {UDEV_RULES}."


def group_of(name: str) -> str:
    """Name of the group that a file belongs to; its number where it has no name."""
    number = Path(name).stat().st_gid
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)


def _users_of(name: str) -> list[str]:
    """Processes that hold a file open, as far as we may look: ``process 1234 (name)``."""
    target = Path(name).resolve()
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            holds = any(link.resolve() == target for link in (process / "fd").iterdir())
            if holds:
                found.append(f"process {process.name} ({(process / 'comm').read_text().strip()})")
        except OSError:
            continue
    return found


class DatagramSocket:
    """Datagrams from one device on one address."""

    def __init__(self, name: str, *, device: str, setting: str) -> None:
        address, _, port = name.rpartition(":")
        if not address or not port.isdigit() or not 0 <= int(port) < 1 << 16:
            raise ParameterError(setting, name, "ADDRESS:PORT to listen on, e.g. 192.168.7.1:7400")
        self.name = name
        self._address, self._device, self._setting = (address, int(port)), device, setting
        self._socket: socket.socket | None = None

    @property
    def port(self) -> int:
        """The port that it listens on, once open."""
        if self._socket is None:
            return self._address[1]
        return int(self._socket.getsockname()[1])

    def open(self) -> None:
        if self._socket is not None:
            return
        connection = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            connection.setblocking(False)
            connection.bind(self._address)
        except OSError as error:
            connection.close()
            raise DeviceError(
                f"{self._device} at {self.name}",
                f"cannot listen there ({error.strerror or error})",
                f"Stop the program that listens there, or set {self._setting} to an address of this computer.",
            ) from error
        self._socket = connection

    def receive(self) -> list[tuple[bytes, tuple[str, int]]]:
        """Datagrams that arrived, each with its sender; never blocks."""
        connection = self._require_open()
        found: list[tuple[bytes, tuple[str, int]]] = []
        while len(found) < _DATAGRAMS_AT_ONCE:
            try:
                found.append(connection.recvfrom(_LARGEST_DATAGRAM))
            except OSError:  # nothing there, or word from a host that refused what was sent to it
                break
        return found

    def send(self, data: bytes, receiver: tuple[str, int]) -> None:
        """Send a datagram."""
        try:
            self._require_open().sendto(data, receiver)
        except OSError as error:
            if isinstance(error, DeviceError):
                raise
            raise DeviceError(
                f"{self._device} at {self.name}", f"cannot be sent to ({error.strerror})", "Check the network."
            ) from error

    def close(self) -> None:
        connection, self._socket = self._socket, None
        if connection is not None:
            connection.close()

    def _require_open(self) -> socket.socket:
        if self._socket is None:
            raise DeviceError(f"{self._device} at {self.name}", "is not open", "Open it first.")
        return self._socket
