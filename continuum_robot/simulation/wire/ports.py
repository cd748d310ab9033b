# SPDX-License-Identifier: Apache-2.0
"""Where emulated devices meet drivers: ports, and the threads that step them.

:class:`Listener` is the listening side of drivers/simulated_wires.py.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import termios
import threading
import time
from collections.abc import Callable
from pathlib import Path

from continuum_robot.drivers.local_port import Pty, SocketPort, serve
from continuum_robot.drivers.polled import Urgency
from continuum_robot.drivers.servo_emulation import FAULTS, EmulatedServos
from continuum_robot.drivers.simulated_wires import seqpacket
from continuum_robot.errors import DeviceError, ParameterError
from continuum_robot.runtime.periodic import ProcessorFraction


class Pacer:
    """Calls a simulated device's ``step(now_s)`` on the monotonic clock, from a thread of its own.

    A step that comes late is given the time that it is; none is caught up.
    """

    def __init__(self, step: Callable[[float], None], period_s: float = 0.001) -> None:
        if not period_s > 0:
            raise ParameterError("period_s", period_s, "a positive time in s")
        self._step, self._period_s = step, period_s
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None

    def start(self) -> None:
        """Begin."""
        if self._thread is None:
            self._stop.clear()
            self._failure = None
            self._thread = threading.Thread(target=self._run, name="simulated device", daemon=True)
            self._thread.start()

    @property
    def running(self) -> bool:
        """Whether the device is stepped."""
        return self._thread is not None and self._thread.is_alive()

    def stop(self) -> None:
        """End, and wait for it. Safe to call at any time."""
        thread, self._thread = self._thread, None
        self._stop.set()
        if thread is not None:
            thread.join()
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _run(self) -> None:
        due_s = time.monotonic()
        fraction = ProcessorFraction.of_first()
        try:
            while not self._stop.is_set():
                self._step(time.monotonic())
                if fraction is not None and fraction.give_up("simulated device"):
                    fraction = None
                due_s = max(due_s + self._period_s, time.monotonic())
                self._stop.wait(max(0.0, due_s - time.monotonic()))
        except BaseException as error:
            self._failure = error


_BACKLOG = 4


def make_folder(folder: Path) -> None:
    """Make a simulator's folder, readable by its user alone, without sockets of a simulator that died.

    Call it while the robot's :class:`PlantLinkWriter` is open: its lock keeps a second simulator out.
    """
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
        if folder.is_symlink() or status.st_uid != os.getuid() or status.st_mode & 0o077:
            raise DeviceError(str(folder), "belongs to another user", "Remove it.")
        for stale in folder.iterdir():
            stale.unlink()
    except OSError as error:
        if isinstance(error, DeviceError):
            raise
        raise DeviceError(str(folder), f"cannot be made: {error.strerror}", "Make its folder writable.") from error


def remove_folder(folder: Path) -> None:
    """Remove it, after its listeners were closed."""
    with contextlib.suppress(OSError):
        folder.rmdir()


class Listener:
    """A socket that a driver connects to; of several connections the newest is the one that counts."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._socket = seqpacket()
        try:
            self._socket.bind(str(path))
            path.chmod(0o600)
            self._socket.listen(_BACKLOG)
        except OSError as error:
            self._socket.close()
            raise DeviceError(str(path), f"cannot be made: {error.strerror}", "Make its folder writable.") from error

    def fileno(self) -> int:
        """Descriptor, readable when somebody wants to connect."""
        return self._socket.fileno()

    def accept(self) -> socket.socket | None:
        """The newest connection that was asked for since the last call, None for none; never waits."""
        newest: socket.socket | None = None
        with contextlib.suppress(BlockingIOError, ConnectionError):
            while True:
                wire, _ = self._socket.accept()
                if newest is not None:
                    newest.close()
                newest = wire
        if newest is not None:
            newest.setblocking(False)
        return newest

    def close(self) -> None:
        """End, and remove the socket. Safe to call at any time."""
        self._socket.close()
        self.path.unlink(missing_ok=True)


UNPLUGGED = "unplugged"
LINE_FAULTS = FAULTS | {UNPLUGGED: "the adapter of the bus is pulled out"}
"""Name and meaning of every fault of the servos and of their line."""
_SPEEDS = {getattr(termios, name): int(name[1:]) for name in dir(termios) if name[0] == "B" and name[1:].isdigit()}


class ServoLine:
    """The serial bus of emulated servos.

    Neither a pseudo-terminal nor a socket has a baud rate: the servos are given the host's. A named port is a socket.
    """

    def __init__(
        self, servos: EmulatedServos, link: Path | None = None, catch_up: Callable[[], object] = lambda: None
    ) -> None:
        self.servos, self._catch_up = servos, catch_up
        self.pty: Pty | SocketPort = SocketPort(link) if link and sys.platform == "linux" else Pty(link)
        self._waiting, self._urgency = b"", Urgency()
        self.wrong_speed, self.unplugged = 0, False
        self.lock = threading.RLock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def port(self) -> str:
        """What the host opens."""
        return str(self.pty.path)

    def begin_catching_up(self, now_s: float) -> None:
        """The steps up to ``now_s`` (monotonic, s) come late: what the host sent was there in time."""
        with self.lock:
            if self._thread is None:
                self._waiting += self.pty.receive()
            if self._waiting or self.pty.waiting:
                self.servos.hear(now_s)

    def go_on(self, now_s: float) -> None:
        """Drive the motors; nothing is answered before it is ``now_s`` (monotonic, s) for the plant too."""
        with self.lock:
            self.servos.step(now_s)

    def step(self, now_s: float) -> None:
        """Take packets, answer, drive the motors; ``now_s`` monotonic, s."""
        self._urgency.as_of_caller(self._thread)
        with self.lock:
            answers = self.servos.step(now_s, self._packets(self.pty.receive()) if self._thread is None else b"")
            if answers:
                self.pty.send(answers)

    def serve(self) -> None:
        """Answer packets as they come, between the steps too, at the time of the latest one.

        The steps do not look at the line then: on a busy computer reading waits for a worker of the kernel, even where
        there is nothing to be read, and the robot would stand still meanwhile.
        """
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="emulated servos", daemon=True)
            self._thread.start()

    def ask(self, data: bytes) -> bytes:
        """What the servos answer to bytes of a host in this process, at the time of the latest step."""
        with self.lock:
            if self.unplugged:
                raise DeviceError("simulated servos", "are gone: the adapter is unplugged", "Plug it in.")
            return self.servos.take(data)

    def inject(self, fault: str, number: int, magnitude: float = 1.0) -> None:
        """As of the servos, and of the line."""
        with self.lock:
            if fault == UNPLUGGED and not self.unplugged:
                self.unplugged = True
                self.pty.hang_up()
            elif not fault and self.unplugged:
                self.unplugged = False
                self.pty.plug_in()
            if fault != UNPLUGGED:
                self.servos.inject(fault, number, magnitude)

    def close(self) -> None:
        """End. Safe to call at any time."""
        thread, self._thread = self._thread, None
        self._stop.set()
        if thread is not None:
            thread.join()
        self.pty.close()

    def _serve(self) -> None:
        serve(self.pty, self._answer, self._stop)

    def _answer(self) -> None:
        received = self.pty.receive()
        with self.lock:
            self._waiting += received
        self._catch_up()
        with self.lock:
            if answers := self.servos.take(self._packets(b"")):
                self.pty.send(answers)

    def _packets(self, received: bytes) -> bytes:
        data, self._waiting = self._waiting + received, b""
        if data:
            self.servos.host_bps = _SPEEDS.get(self.pty.host_speed()) or self.servos.baud_bps
            self.wrong_speed += self.servos.host_bps != self.servos.baud_bps
        return data
