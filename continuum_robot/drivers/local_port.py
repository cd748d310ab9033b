# SPDX-License-Identifier: Apache-2.0
"""Ports of emulated devices: a pseudo-terminal, or a socket, which a file names and a host opens as a serial port.

What goes through a pseudo-terminal is carried by an ordinary worker of the kernel. On a busy computer that one gets no
processor for a quarter of a second now and then, and who reads, waits for it, whatever his own priority. A socket has
no such worker. The host writes its baud rate into the file, since a socket has none.
"""

from __future__ import annotations

import array
import contextlib
import errno
import fcntl
import os
import pty
import select
import socket
import tempfile
import termios
import threading
import time
import tty
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

_BEGIN = b"socket of an emulated device: "
_NAME_SIZE = 32
_RATE = len(_BEGIN) + _NAME_SIZE
"""Where the baud rate stands in the file."""
_LARGEST_READ = 65536


def bytes_waiting(file: int) -> int:
    """How many bytes can be read from an open file; never waits, and 0 where it is gone."""
    count = array.array("i", [0])
    try:
        fcntl.ioctl(file, termios.FIONREAD, count)
    except OSError:
        return 0
    return count[0]


class SocketPort:
    """The device's end; methods as of :class:`continuum_robot.drivers.local_port.Pty`, in place of which it is."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._listening: socket.socket | None = None
        self._file = -1
        self._host: socket.socket | None = None
        self.plug_in()

    @property
    def is_plugged_in(self) -> bool:
        """Whether there is a line."""
        return self._listening is not None

    def fileno(self) -> int:
        """Descriptor that is readable when the host came, sent something, or went; -1 while disconnected."""
        found = self._host or self._listening
        return -1 if found is None else found.fileno()

    def plug_in(self) -> None:
        """Connect the device, if it is not."""
        if self._listening is not None:
            return
        listening = socket.socket(socket.AF_UNIX)
        listening.bind("")  # the system chooses a name, which no file of another program can have
        listening.listen(1)
        listening.setblocking(False)
        self._listening = listening
        partial = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        self._file = os.open(partial, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        os.write(self._file, _BEGIN + listening.getsockname().ljust(_NAME_SIZE))
        partial.replace(self.path)

    def hang_up(self) -> None:
        """Disconnect: the host's port is dead, and its name gone."""
        ends, self._host, self._listening = (self._host, self._listening), None, None
        for end in filter(None, ends):
            end.close()
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        with contextlib.suppress(OSError):
            self.path.unlink()

    def send(self, data: bytes) -> bool:
        """Send to the host; whether there is one that reads."""
        host = self._host
        try:
            return host is not None and host.send(data) == len(data)
        except OSError:
            return False

    def receive(self) -> bytes:
        """What the host sent; empty where nothing."""
        try:
            if self._host is None:
                if self._listening is not None:
                    host, _ = self._listening.accept()
                    host.setblocking(False)
                    self._host = host
                return b""
            data = self._host.recv(_LARGEST_READ)
        except BlockingIOError:
            return b""
        except OSError:
            data = b""
        if not data and (gone := self._host) is not None:
            self._host = None
            gone.close()
        return data

    @property
    def waiting(self) -> int:
        """Bytes that :meth:`receive` would give."""
        return 0 if self._host is None else bytes_waiting(self._host.fileno())

    def host_speed(self) -> int:
        """The speed that the host set, as a constant of ``termios``; 0 while disconnected."""
        rate = os.pread(self._file, _LARGEST_READ, _RATE) if self._file >= 0 else b""
        return int(getattr(termios, f"B{rate.decode()}", 0)) if rate else 0

    def close(self) -> None:
        self.hang_up()


class HostEnd:
    """The host's end, with what :class:`continuum_robot.drivers.serial_port.SerialPort` uses of a serial port."""

    def __init__(self, file: int, name: bytes, baud_bps: int) -> None:
        self._file, self._socket = file, socket.socket(socket.AF_UNIX)
        try:
            self.baudrate = baud_bps
            self._socket.connect(name)
        except OSError:
            self.close()
            raise
        self._socket.setblocking(False)

    @property
    def baudrate(self) -> int:
        """In bit/s."""
        return self._baud_bps

    @baudrate.setter
    def baudrate(self, baud_bps: int) -> None:
        self._baud_bps = baud_bps
        os.ftruncate(self._file, _RATE)
        os.pwrite(self._file, str(baud_bps).encode(), _RATE)

    def fileno(self) -> int:
        """Descriptor to read from."""
        return self._socket.fileno()

    @property
    def in_waiting(self) -> int:
        """How many bytes can be read at least. Raises ``OSError`` where the device is gone."""
        try:
            seen = self._socket.recv(_LARGEST_READ, socket.MSG_PEEK)
        except BlockingIOError:
            return 0
        if not seen:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return len(seen)

    def write(self, data: bytes) -> None:
        self._socket.sendall(data)

    def close(self) -> None:
        self._socket.close()
        os.close(self._file)


def host_end(path: str, baud_bps: int) -> HostEnd | None:
    """Open a file that names an emulated device's socket, for one host alone; None where it is something else."""
    if not Path(path).is_file():
        return None
    file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        begin, name = os.read(file, len(_BEGIN)), os.read(file, _NAME_SIZE)
        if begin == _BEGIN:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            taken, file = file, -1
            return HostEnd(taken, name.rstrip(), baud_bps)
        return None
    finally:
        if file >= 0:
            os.close(file)


_LOOK_S = 0.05


class Pty:
    """A serial line to a simulated device that can be plugged out and in."""

    def __init__(self, link: Path | None = None) -> None:
        self._folder = None if link is not None else tempfile.TemporaryDirectory(prefix="continuum_robot_")
        self.path = link if link is not None else Path(self._folder.name) / "port" if self._folder else Path()
        self._device: int | None = None
        self._host: int | None = None
        self._unsent = b""
        self._sent = 0
        self.plug_in()

    @property
    def is_plugged_in(self) -> bool:
        """Whether there is a line."""
        return self._device is not None

    def fileno(self) -> int:
        """Descriptor of the device's end, readable when the host sent something; -1 while disconnected."""
        return -1 if self._device is None else self._device

    def plug_in(self) -> None:
        """Connect the device, if it is not."""
        if self._device is not None:
            return
        # The near end is held open here too: without, the kernel would forget its settings with each driver.
        self._device, self._host = pty.openpty()
        for end in (self._device, self._host):
            tty.setraw(end)
        os.set_blocking(self._device, False)
        self._unsent = b""
        partial = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        partial.symlink_to(os.ttyname(self._host))
        partial.replace(self.path)

    def hang_up(self) -> None:
        """Disconnect: the driver's port is dead, and its name gone."""
        device, host = self._device, self._host
        self._device = self._host = None
        for end in (device, host):
            if end is not None:
                os.close(end)
        with contextlib.suppress(OSError):
            self.path.unlink()

    def wait_delivered(self, timeout_s: float = 1.0) -> None:
        """Wait until what was sent can be read: the kernel hands it over in a thread of its own.

        For devices in simulated time, where none passes meanwhile and the host read everything before.
        """
        host, count = self._host, array.array("i", [0])
        end_s = time.monotonic() + timeout_s
        while host is not None and time.monotonic() < end_s:
            fcntl.ioctl(host, termios.FIONREAD, count)
            if count[0] >= self._sent:
                break
            time.sleep(0)
        self._sent = 0

    def send(self, data: bytes) -> bool:
        """Send to the host, all or nothing."""
        device = self._device
        if device is None:
            return False
        try:
            if self._unsent:
                self._unsent = self._unsent[os.write(device, self._unsent) :]
            if self._unsent:
                return False
            self._unsent = data[os.write(device, data) :]
            self._sent += len(data) - len(self._unsent)
        except OSError:
            return False
        return True

    def receive(self) -> bytes:
        """What the host sent; empty where nothing."""
        if self._device is None:
            return b""
        try:
            return os.read(self._device, _LARGEST_READ)
        except OSError:
            return b""

    @property
    def waiting(self) -> int:
        """Bytes that :meth:`receive` would give, as far as the kernel has brought them; never waits."""
        return 0 if self._device is None else bytes_waiting(self._device)

    def host_speed(self) -> int:
        """The speed that the host set, as a constant of ``termios``; 0 while disconnected."""
        return 0 if self._host is None else int(termios.tcgetattr(self._host)[5])

    def close(self) -> None:
        self.hang_up()
        if self._folder is not None:
            self._folder.cleanup()


class Line(Protocol):
    """What :func:`serve` waits at."""

    def fileno(self) -> int:
        """Descriptor of the device's end; -1 while disconnected."""


def serve(line: Line, heard: Callable[[], None], stop: threading.Event) -> None:
    """Call ``heard`` whenever a line has something to be read, also after it was plugged out and in, until ``stop``."""
    while not stop.is_set():
        descriptor = line.fileno()
        if descriptor < 0:
            stop.wait(_LOOK_S)
            continue
        with contextlib.suppress(OSError, ValueError):  # hung up meanwhile
            if select.select([descriptor], [], [], _LOOK_S)[0]:
                heard()
