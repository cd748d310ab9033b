# SPDX-License-Identifier: Apache-2.0
"""A port of an emulated device that is a socket: a file names it, which a host opens as it would a serial port.

What goes through a pseudo-terminal is carried by an ordinary worker of the kernel. On a busy computer that one gets no
processor for a quarter of a second now and then, and who reads, waits for it, whatever his own priority. A socket has
no such worker, and no baud rate either.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import socket
from pathlib import Path

_BEGIN = b"socket of an emulated device: "
_LARGEST_READ = 65536


class SocketPort:
    """The device's end; methods as of :class:`continuum_robot.drivers.pty.Pty`, in place of which it is.

    Parameters
    ----------
    path : of the file that a host opens
    """

    waiting = 0
    """Not known without reading."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._listening: socket.socket | None = None
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
        partial.write_bytes(_BEGIN + listening.getsockname())
        partial.chmod(0o600)
        partial.replace(self.path)

    def hang_up(self) -> None:
        """Disconnect: the host's port is dead, and its name gone."""
        ends, self._host, self._listening = (self._host, self._listening), None, None
        for end in filter(None, ends):
            end.close()
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

    def host_speed(self) -> int:
        """0: a socket has none."""
        return 0

    def close(self) -> None:
        """Disconnect for good. Safe to call at any time."""
        self.hang_up()


class HostEnd:
    """The host's end, with what :class:`continuum_robot.drivers.serial_port.SerialPort` uses of a serial port.

    Parameters
    ----------
    file : that names the socket, open; its lock is held until :meth:`close`
    name : of the socket

    Raises
    ------
    OSError : nobody is there any more
    """

    def __init__(self, file: int, name: bytes) -> None:
        self._file, self._socket = file, socket.socket(socket.AF_UNIX)
        self.baudrate = 0
        try:
            self._socket.connect(name)
        except OSError:
            self.close()
            raise
        self._socket.setblocking(False)

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
        """Send. Raises ``OSError`` where the device is gone, or its buffer is full."""
        self._socket.sendall(data)

    def close(self) -> None:
        """End."""
        self._socket.close()
        os.close(self._file)


def host_end(path: str) -> HostEnd | None:
    """Open a file that names an emulated device's socket, for one host alone; None where it is something else.

    Raises
    ------
    OSError : another host has it, or the device is gone
    """
    if not Path(path).is_file():
        return None
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        begin, name = os.read(file, len(_BEGIN)), os.read(file, _LARGEST_READ)
        if begin == _BEGIN:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            taken, file = file, -1
            return HostEnd(taken, name)
        return None
    finally:
        if file >= 0:
            os.close(file)
