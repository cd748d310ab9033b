# SPDX-License-Identifier: Apache-2.0
"""An NDI tracker on a network, as the Polaris Vega: its commands and answers over TCP, each with a time limit.

The library ndicapi waits without end for a tracker that falls silent there, so its socket is not used. The commands are
those of the serial line: NDI, Combined Application Program Interface Guide.
"""

from __future__ import annotations

import socket

PORT = 8765
"""The Polaris Vega's own."""
CONNECT_S = 2.0
SET_UP_S = 5.0
TRACK_S = 0.5
_LONGEST = 65536


def check_sum(data: bytes) -> int:
    """The CRC of commands and answers: polynomial x^16 + x^15 + x^2 + 1, least bit first, from 0."""
    found = 0
    for byte in data:
        found ^= byte
        for _ in range(8):
            found = (found >> 1) ^ (0xA001 if found & 1 else 0)
    return found


def network_address(name: str) -> tuple[str, int] | None:
    """Address and TCP port of ``ADDRESS:PORT``; None for the path of a serial port."""
    address, _, port = name.rpartition(":")
    return (address, int(port)) if address and port.isdigit() and not name.startswith("/") else None


class NetworkLine:
    """A connection to a tracker."""

    def __init__(self, address: str, port: int) -> None:
        self._socket = socket.create_connection((address, port), CONNECT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, command: str) -> str:
        """Send a command, and take its answer."""
        sent = command.encode()
        self._socket.settimeout(TRACK_S if command.startswith("TX") else SET_UP_S)
        self._socket.sendall(sent + b"%04X\r" % check_sum(sent))
        answer = b""
        while not answer.endswith(b"\r"):
            data = self._socket.recv(_LONGEST)
            if not data or len(answer) > _LONGEST:
                raise OSError("the tracker closed the connection" if not data else "an answer without an end")
            answer += data
        text, check = answer[:-5], answer[-5:-1]
        if check != b"%04X" % check_sum(text):
            raise OSError("an answer with a wrong check sum")
        if text.startswith(b"ERROR"):
            raise OSError(f"the tracker refuses: {text.decode('ascii', 'replace')}")
        return text.decode("ascii", "replace")

    def close(self) -> None:
        """End."""
        self._socket.close()
