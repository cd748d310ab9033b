# SPDX-License-Identifier: Apache-2.0
"""A name that one process of this machine holds, for what the system itself gives to several at once."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import socket
import struct
import sys

_CREDENTIALS = struct.Struct("3i")


class HeldName:
    """Held until it is released or its process ends: the kernel frees it however that happens.

    An abstract socket, which lives in the network namespace, as CAN interfaces and the loopback do; Linux only,
    elsewhere everybody gets it.
    """

    def __init__(self, name: str) -> None:
        self._address = f"\0continuum_robot-{hashlib.sha256(name.encode()).hexdigest()}"
        self._socket: socket.socket | None = None

    def take(self) -> str:
        """Hold it; empty, or the number of the process that holds it already, "unknown" if it lets go right now."""
        if self._socket is not None or sys.platform != "linux":
            return ""
        held = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            held.bind(self._address)
        except OSError as error:
            held.close()
            if error.errno != errno.EADDRINUSE:
                raise
            return self._holder()
        held.listen(1)
        self._socket = held
        return ""

    def release(self) -> None:
        """Let go. Safe to call at any time."""
        held, self._socket = self._socket, None
        if held is not None:
            held.close()

    def _holder(self) -> str:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
            asking.setblocking(False)
            with contextlib.suppress(OSError):
                asking.connect(self._address)
                credentials = asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
                return str(_CREDENTIALS.unpack(credentials)[0])
        return "unknown"
