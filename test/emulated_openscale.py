# SPDX-License-Identifier: Apache-2.0
"""An emulated OpenScale board: its lines at its report rate, its menu, and the speed of its line."""

from __future__ import annotations

import termios
from collections.abc import Callable
from typing import Any, ClassVar

from continuum_robot.drivers.emulated_sensor import EmulatedSensor
from continuum_robot.drivers.openscale.codec import ScaleLine, encode

MENU = b"\r\nOpenScale configuration menu\r\n1) Tare scale to zero\r\nx) Exit\r\n>"


class OpenScaleEmulator(EmulatedSensor):
    """A board with its cell."""

    faults: ClassVar = {}

    def __init__(
        self,
        line: Any,
        force_n: Callable[[], float],
        *,
        period_s: float = 0.1,
        baud_bps: int = 9600,
        timestamp: bool = True,
        clock_rate: float = 1.0,
    ) -> None:
        super().__init__(line)
        self._force_n, self._period_s, self._newton = force_n, period_s, 0.0
        self._speed, self._timestamp, self._rate = getattr(termios, f"B{baud_bps}"), timestamp, clock_rate
        self.boot(0.0)

    def start(self, now_s: float) -> None:
        """Report from now on."""
        self.boot(now_s)

    def boot(self, boot_s: float) -> None:
        """Its time begins anew."""
        self._next_s, self.in_menu = boot_s, False

    def look(self) -> None:
        """The force on the cell."""
        self._newton = self._force_n()

    def advance(self, now_s: float, received: bytes) -> None:
        """Report what is due, unless the menu is open."""
        if b"x" in received and self.line.host_speed() == self._speed:
            self.in_menu = not self.in_menu
            self.line.send(MENU if self.in_menu else b"\r\nExiting\r\n")
        while self._next_s <= now_s:
            self._next_s += self._period_s
            if self.in_menu:
                continue
            time_ms = round(1e3 * self._rate * (now_s - self._boot_s)) if self._timestamp else None
            line = encode(ScaleLine(self._newton, time_ms))
            if self.line.host_speed() != self._speed:
                line = bytes(byte | 0x80 for byte in line)
            self.emit(line, now_s)
