# SPDX-License-Identifier: Apache-2.0
"""A pseudo-terminal with a simulated device at its far end; the driver opens the near end as a serial port."""

from __future__ import annotations

import array
import contextlib
import fcntl
import os
import pty
import select
import tempfile
import termios
import threading
import time
import tty
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from continuum_robot.drivers.local_port import bytes_waiting

_LARGEST_READ = 65536
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
        """Disconnect for good. Safe to call at any time."""
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
