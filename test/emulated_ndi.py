# SPDX-License-Identifier: Apache-2.0
"""A simulated NDI tracker on a pseudo-terminal or TCP: commands and answers with their check sums, as on the line."""

from __future__ import annotations

import socket
import termios
import threading
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from continuum_robot.drivers.local_port import Pty, serve
from continuum_robot.drivers.ndi_serial.device import check_sum
from continuum_robot.drivers.ndi_serial.settings import NDI_BAUD_CODES
from continuum_robot.geometry.so3 import quaternion_from_matrix

Vector = NDArray[np.float64]

OKAY = b"OKAY"
INVALID_COMMAND, WRONG_CHECK, WRONG_MODE, NO_SUCH_HANDLE = 0x01, 0x04, 0x0C, 0x0D
_RESET_BPS = 9600
_HANDLE = 0x0A
_TRACKED, _OUT_OF_SIGHT = 0x31, 0x131  # port status: occupied, initialised, enabled; and out of the volume
FAULTS = ("silent", "wrong_check", "missing", "no_tool")


class _NetworkLine:
    """The tracker's end of a TCP connection on the loopback; a later one takes the place of an earlier one."""

    def __init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self._connection: socket.socket | None = None
        self.path = f"127.0.0.1:{self._server.getsockname()[1]}"

    def fileno(self) -> int:
        """Of what is to be looked at: a host that connects, then what it sends."""
        return (self._connection or self._server).fileno()

    def receive(self) -> bytes:
        """What the host sent; empty where it connected or left."""
        if self._connection is None:
            self._connection = self._server.accept()[0]
            return b""
        data = self._connection.recv(4096)
        if not data:
            self._connection.close()
            self._connection = None
        return data

    def send(self, data: bytes) -> None:
        """Send to the host, if there is one."""
        if self._connection is not None:
            self._connection.sendall(data)

    def close(self) -> None:
        for end in (self._connection, self._server):
            if end is not None:
                end.close()


class SimulatedNdiTracker:
    """A tracker with one tool."""

    def __init__(self, pose: Callable[[], Vector | None], *, wired: bool = True, network: bool = False) -> None:
        self._pose, self._wired = pose, wired
        self.pty: Pty | _NetworkLine = _NetworkLine() if network else Pty()
        self.commands: list[str] = []
        self.faults: set[str] = set()
        self.definition, self.baud_code, self.baud_bps = bytearray(), "", _RESET_BPS
        self._initialised = self._requested = self._ready = self._enabled = self._tracking = False
        self._frame = 0
        self._buffer = b""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="simulated tracker", daemon=True)
        self._thread.start()

    @property
    def port(self) -> str:
        """What a driver opens."""
        return str(self.pty.path)

    def break_line(self) -> None:
        """Start again, as after a break on the line, which a pseudo-terminal does not carry."""
        self._initialised = self._requested = self._ready = self._enabled = self._tracking = False
        self.baud_bps, self._buffer = _RESET_BPS, b""
        self._send(b"RESET")

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
        self.pty.close()

    def _serve(self) -> None:
        serve(self.pty, lambda: self._take(self.pty.receive()), self._stop)

    def _at_host_rate(self) -> bool:
        if isinstance(self.pty, _NetworkLine):
            return True
        return self.pty.host_speed() == getattr(termios, f"B{self.baud_bps}")

    def _send(self, answer: bytes) -> None:
        wrong = 1 if "wrong_check" in self.faults else 0
        if self._at_host_rate():
            self.pty.send(answer + b"%04X\r" % (check_sum(answer) ^ wrong))

    def _take(self, data: bytes) -> None:
        if not self._at_host_rate():
            return
        self._buffer += data
        while b"\r" in self._buffer:
            command, self._buffer = self._buffer.split(b"\r", 1)
            if command and "silent" not in self.faults:
                baud_bps = self.baud_bps
                answer = self._answer(command)
                asked, self.baud_bps = self.baud_bps, baud_bps
                self._send(answer)
                self.baud_bps = asked  # what COMM asks for holds after its answer

    def _answer(self, received: bytes) -> bytes:
        """With ``:`` behind the name a check sum ends the command, with a space none does."""
        if b":" in received:
            received, check = received[:-4], received[-4:]
            if check != b"%04X" % check_sum(received):
                return _error(WRONG_CHECK)
        text = received.decode("ascii", errors="replace")
        self.commands.append(text)
        name, _, rest = text.replace(" ", ":", 1).partition(":")
        if name not in ("INIT", "COMM", "RESET") and not self._initialised:
            return _error(WRONG_MODE)
        if (name == "TX") != self._tracking and name not in ("TSTOP", "INIT"):
            return _error(WRONG_MODE)
        obey = getattr(self, f"_{name.lower()}", None)
        return _error(INVALID_COMMAND) if obey is None else obey(rest)

    def _init(self, _rest: str) -> bytes:
        self._initialised, self._tracking = True, False
        self._requested = self._ready = self._enabled = False
        return OKAY

    def _comm(self, rest: str) -> bytes:
        self.baud_code = rest
        self.baud_bps = {code: baud_bps for baud_bps, code in NDI_BAUD_CODES.items()}[int(rest[0])]
        return OKAY

    def _phsr(self, rest: str) -> bytes:
        there = (self._wired or self._requested) and "no_tool" not in self.faults
        desired = {
            "01": False,
            "02": there and not self._ready,
            "03": there and self._ready and not self._enabled,
            "04": there and self._enabled,
        }.get(rest, there)
        return b"01%02X%03X" % (_HANDLE, 0x001 | 0x010 * self._ready) if desired else b"00"

    def _phrq(self, _rest: str) -> bytes:
        self._requested = True
        self.definition.clear()
        return b"%02X" % _HANDLE

    def _pvwr(self, rest: str) -> bytes:
        handle, address, data = int(rest[:2], 16), int(rest[2:6], 16), bytes.fromhex(rest[6:])
        if handle != _HANDLE or address != len(self.definition):
            return _error(NO_SUCH_HANDLE)
        self.definition += data
        return OKAY

    def _pinit(self, rest: str) -> bytes:
        if int(rest, 16) != _HANDLE:
            return _error(NO_SUCH_HANDLE)
        self._ready = True
        return OKAY

    def _pena(self, rest: str) -> bytes:
        if int(rest[:2], 16) != _HANDLE or not self._ready:
            return _error(NO_SUCH_HANDLE)
        self._enabled = True
        return OKAY

    def _tstart(self, _rest: str) -> bytes:
        self._tracking = True
        return OKAY

    def _tstop(self, _rest: str) -> bytes:
        self._tracking = False
        return OKAY

    def _tx(self, _rest: str) -> bytes:
        self._frame += 1
        pose = None if "missing" in self.faults else self._pose()
        if pose is None:
            seen = b"MISSING%08X" % _OUT_OF_SIGHT
        else:
            turn = b"".join(b"%+06d" % round(1e4 * part) for part in quaternion_from_matrix(pose[:3, :3]))
            place = b"".join(b"%+07d" % round(1e5 * part) for part in pose[:3, 3])  # hundredths of a mm
            seen = turn + place + b"%+06d" % 1200 + b"%08X" % _TRACKED
        return b"01%02X" % _HANDLE + seen + b"%08X\n" % self._frame + b"0000"


def _error(code: int) -> bytes:
    return b"ERROR%02X" % code
