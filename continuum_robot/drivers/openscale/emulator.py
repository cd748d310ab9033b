# SPDX-License-Identifier: Apache-2.0
"""An emulated OpenScale board: its lines at its report rate, its menu, and the speed of its line."""

from __future__ import annotations

import termios
from collections.abc import Callable
from typing import Protocol

from continuum_robot.drivers.openscale.codec import ScaleLine, encode

MENU = b"\r\nOpenScale configuration menu\r\n1) Tare scale to zero\r\nx) Exit\r\n>"
FAULTS = ("silent", "babble")


class _Wire(Protocol):
    def send(self, data: bytes) -> bool: ...

    def receive(self) -> bytes: ...

    def host_speed(self) -> int: ...


class OpenScaleEmulator:
    """A board with its cell.

    Parameters
    ----------
    wire : the device's end of a serial line
    force_n : on the cell, N
    period_s : of its reports, s
    baud_bps : its own; to a host at another speed it babbles
    timestamp : whether lines begin with its time
    clock_rate : of its time against true time: a ceramic resonator is half a percent off

    Attributes
    ----------
    faults : of ``FAULTS``, while they are in the set
    in_menu : a host opened its menu: it reports nothing until it is left
    """

    def __init__(
        self,
        wire: _Wire,
        force_n: Callable[[], float],
        *,
        period_s: float = 0.1,
        baud_bps: int = 9600,
        timestamp: bool = True,
        clock_rate: float = 1.0,
    ) -> None:
        self.faults: set[str] = set()
        self.in_menu = False
        self._wire, self._force_n, self._period_s = wire, force_n, period_s
        self._speed, self._timestamp, self._rate = getattr(termios, f"B{baud_bps}"), timestamp, clock_rate
        self._booted_s: float | None = None
        self._next_s = 0.0

    def reboot(self) -> None:
        """Lose power and come back: its time begins anew."""
        self._booted_s, self.in_menu = None, False

    def step(self, now_s: float) -> None:
        """Report what is due until ``now_s`` (s)."""
        if self._booted_s is None:
            self._booted_s = self._next_s = now_s
        if b"x" in self._wire.receive() and self._wire.host_speed() == self._speed:
            self.in_menu = not self.in_menu
            self._wire.send(MENU if self.in_menu else b"\r\nExiting\r\n")
        while self._next_s <= now_s:
            self._next_s += self._period_s
            if "silent" in self.faults or self.in_menu:
                continue
            time_ms = round(1e3 * self._rate * (now_s - self._booted_s)) if self._timestamp else None
            line = encode(ScaleLine(self._force_n(), time_ms))
            if "babble" in self.faults or self._wire.host_speed() != self._speed:
                line = bytes(byte | 0x80 for byte in line)
            self._wire.send(line)
