# SPDX-License-Identifier: Apache-2.0
"""The listening side of drivers/simulated_wires.py."""

from __future__ import annotations

import contextlib
import os
import socket
from pathlib import Path

from continuum_robot.drivers.simulated_wires import seqpacket
from continuum_robot.errors import DeviceError

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
