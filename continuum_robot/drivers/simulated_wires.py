# SPDX-License-Identifier: Apache-2.0
"""Where drivers meet a simulator in another process: sockets in a folder of the robot, and the connecting side of them.

Every wire is a Unix socket of type SOCK_SEQPACKET: it keeps datagrams apart and in order, and a partner that ends is
noticed. A CAN channel carries ``struct can_frame`` of 16 bytes: identifier and flags (little-endian, the flags of Linux
in the three highest bits), length, three bytes of padding, eight of data.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import socket
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from continuum_robot.errors import DeviceError

LINK, SERVOS = "link", "servos"
WAIT_S = 10.0
BUFFER_BYTES = 1 << 20
"""Of what the other side has not read; the system grants less."""
LONGEST_PATH_BYTES = 107
_LONGEST_NAME = 24
_RETRY_S = 0.01


def robot_key(namespace: str, robot: str = "", domain_id: str | None = None) -> str:
    """The part of a file's name that distinguishes the simulated robots of a machine."""
    domain_id = os.environ.get("ROS_DOMAIN_ID", "0") or "0" if domain_id is None else domain_id
    # Each part keeps its own place, so that different keys never give the same name.
    parts = [str(os.getuid()), domain_id, namespace.strip("/"), robot]
    return "-".join(_plain(part) for part in parts)


def shared_folder() -> Path:
    """/dev/shm where that can be written, else the folder for temporary files."""
    shared = Path("/dev/shm")
    return shared if os.access(shared, os.W_OK) else Path(tempfile.gettempdir())


def simulator_folder(namespace: str, robot: str = "", domain_id: str | None = None) -> Path:
    """The folder of a simulated robot's sockets."""
    # The key may be longer than what a socket's path can hold.
    digest = hashlib.sha256(robot_key(namespace, robot, domain_id).encode()).hexdigest()[:20]
    return shared_folder() / f"continuum_robot-{os.getuid()}-{digest}"


def socket_path(folder: Path, name: str) -> Path:
    """The socket of a wire in a folder of :func:`simulator_folder`."""
    plain = _plain(name)
    if len(plain) > _LONGEST_NAME:
        # The dash keeps it apart from every short name.
        plain = "-" + hashlib.sha256(name.encode()).hexdigest()[: _LONGEST_NAME - 1]
    path = folder / plain
    if len(os.fsencode(path)) > LONGEST_PATH_BYTES:
        raise DeviceError(
            str(path),
            f"is longer than the {LONGEST_PATH_BYTES} bytes of a socket's path",
            "Set TMPDIR to a short path.",
        )
    return path


def servos_name(number: int) -> str:
    """The name of a bus of servos."""
    return SERVOS if number == 0 else f"{SERVOS}{number + 1}"


def channel_name(channel: str) -> str:
    """The wire's name of a CAN channel, which never is that of another wire."""
    return f"can_{channel}"


def connect(path: Path, wait_s: float = 0.0) -> socket.socket:
    """Connect to a simulator's socket; what comes back does not block."""
    end_s = time.monotonic() + wait_s
    while True:
        wire = seqpacket()
        try:
            wire.connect(str(path))
        except OSError as error:
            wire.close()
            if time.monotonic() < end_s:
                time.sleep(_RETRY_S)
                continue
            raise _no_simulator(path, error.strerror or str(error)) from error
        return wire


def _no_simulator(path: Path, reason: str) -> DeviceError:
    return DeviceError(
        f"simulated robot at {path}",
        f"is not there ({reason})",
        "Start the node simulator first, with the same robot, simulation_level, namespace and ROS_DOMAIN_ID.",
    )


def seqpacket() -> socket.socket:
    """A socket of the kind that all wires are, which does not block."""
    wire = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    wire.setblocking(False)
    with contextlib.suppress(OSError):
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER_BYTES)
    return wire


class SimulatedWires:
    """Opens the wires of a robot that another process simulates.

    Only the first opening of a wire waits for the simulator: one that is opened again belongs to a running loop.
    """

    def __init__(
        self,
        namespace: str,
        robot: str = "",
        domain_id: str | None = None,
        *,
        wait_s: float = WAIT_S,
        on_connect: Callable[[], None] = lambda: None,
    ) -> None:
        self.folder = simulator_folder(namespace, robot, domain_id)
        self._wait_s = wait_s
        self._opened: set[str] = set()
        self._on_connect = on_connect

    def open_channel(self, channel: str) -> socket.socket:
        """The host's end of a CAN channel."""
        return self._open(channel_name(channel))

    def open_link(self) -> socket.socket:
        """The driver's end of actuators without motor boards."""
        return self._open(LINK)

    def find_servos(self, number: int = 0) -> str:
        """The serial port of a bus of servos; ``number`` as of :func:`servos_name`."""
        name = servos_name(number)
        path, end_s = self.folder / name, time.monotonic() + (0.0 if name in self._opened else self._wait_s)
        while not path.exists():
            if time.monotonic() >= end_s:
                raise _no_simulator(path, "no such port")
            time.sleep(_RETRY_S)
        self._opened.add(name)
        return str(path)

    def _open(self, name: str) -> socket.socket:
        wire = connect(socket_path(self.folder, name), 0.0 if name in self._opened else self._wait_s)
        self._opened.add(name)
        self._on_connect()
        return wire


def _plain(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_]", lambda match: f".{ord(match.group()):x}.", text)
