# SPDX-License-Identifier: Apache-2.0
"""A simulated Rokubi force-torque sensor on a pty: its frames, its commands, its baud rate."""

from __future__ import annotations

import math
import re
import termios
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from continuum_robot.drivers.emulated_sensor import BOOT_S, EmulatedSensor
from continuum_robot.drivers.local_port import Pty
from continuum_robot.drivers.rokubi_serial.codec import (
    DEFAULT_BAUD_BPS,
    ForceFrame,
    Status,
    encode,
)
from continuum_robot.drivers.rokubi_serial.settings import BASE_RATE_HZ, BAUD_RATES_BPS, FRAME_BYTES, RokubiSerial
from continuum_robot.errors import ParameterError
from continuum_robot.robot.description import Robot

Vector = NDArray[np.float64]

TEMPERATURE_C = 28.5
_MOST_FRAMES = 500
_BITS_PER_BYTE = 10
_BABBLE_BYTES = 16
_LONGEST_INPUT = 256
_COMMAND = re.compile(rb"f,(\d+),([01]),([01]),([01])|c,([01]),([01]),([01]),([0-4])|[CRI#sw]")
_BANNER = (
    "App Init\r\nname: simulated Rokubi\r\nS/N: {serial}\r\nFW version: 3.0\r\nc,0,1,0,{code}\r\nf,{sinc},0,0,1\r\n"
)


class SimulatedRokubi(EmulatedSensor):
    """The sensor, its line and what may go wrong with both.

    As delivered it speaks 230400 bit/s, 100 frames a second. A host that set its port to another speed than the
    sensor's gets random bytes, and the sensor does not understand it.
    """

    faults: ClassVar = {
        "overrange": "the load is beyond the range: clipped, and flagged",
        "invalid": "a gauge is open: the measurement is invalid, and flagged",
        "freeze": "the same measurement repeats with a fresh time",
        "jump": "the measured force along z jumps by the magnitude, N",
    }

    def __init__(
        self,
        wrench: Callable[[], Vector],
        *,
        link: Path | None = None,
        baud_bps: int = DEFAULT_BAUD_BPS,
        baud_holds_after: str = "run",
        full_scale: Vector | None = None,
        noise: Vector | None = None,
        clock_drift: float = 0.0,
        serial_number: int = 1,
        rng: np.random.Generator | None = None,
    ) -> None:
        if baud_bps not in BAUD_RATES_BPS:
            raise ParameterError("baud_bps", baud_bps, "one of " + ", ".join(map(str, BAUD_RATES_BPS)))
        if baud_holds_after not in ("run", "restart"):
            raise ParameterError("baud_holds_after", baud_holds_after, "run or restart")
        super().__init__(Pty(link), rng)
        self._wrench, self._rate = wrench, 1.0 + clock_drift
        self._baud_holds_after, self._serial_number = baud_holds_after, serial_number
        self._full_scale = np.full(6, math.inf) if full_scale is None else np.asarray(full_scale, dtype=float)
        self._noise = np.zeros(6) if noise is None else np.asarray(noise, dtype=float)
        self._delivered_bps = baud_bps
        self._held: Vector | None = None
        self._true: Vector = np.zeros(6)
        self._baud_bps = self._next_baud_bps = baud_bps
        self._running = self._booted = True
        self._sinc, self._input = 512, b""
        self._run_s = 0.0
        self._frames = 0

    @property
    def baud_bps(self) -> int:
        """At which it speaks now, bit/s."""
        return self._baud_bps

    def start(self, now_s: float) -> None:
        """Measure."""
        self._run_s = now_s

    def look(self) -> None:
        """The load, where it is known."""
        true = np.asarray(self._wrench(), dtype=float)
        self._true = np.where(np.isfinite(true), true, self._true)

    def strike(self, fault: str, target: int, magnitude: float) -> float:
        """What is frozen is measured first."""
        del target
        self._held = None if fault == "freeze" else self._held
        return magnitude

    def boot(self, boot_s: float) -> None:
        if self._baud_holds_after == "restart":
            self._delivered_bps = self._next_baud_bps
        self._baud_bps = self._next_baud_bps = self._delivered_bps
        self._sinc, self._input = 512, b""
        self._running, self._booted = True, False
        self._run_s = boot_s
        self._frames = 0

    def advance(self, now_s: float, received: bytes) -> None:
        """Say who it is, obey, measure."""
        if not self._booted:
            self._booted = True
            self._say(_BANNER.format(serial=self._serial_number, code=self._baud_code, sinc=self._sinc))
        if self._understands_host():
            self._input = (self._input + received)[-_LONGEST_INPUT:]
            self._obey(now_s)
        if self._running and now_s >= self._boot_s:
            self._measure(now_s)

    @property
    def _baud_code(self) -> int:
        return BAUD_RATES_BPS.index(self._baud_bps)

    def _understands_host(self) -> bool:
        return self.line.host_speed() == getattr(termios, f"B{self._baud_bps}")

    def _say(self, text: str) -> None:
        self.line.send(text.encode() if self._understands_host() else self.rng.bytes(_BABBLE_BYTES))

    def _obey(self, now_s: float) -> None:
        while match := _COMMAND.search(self._input):
            command, self._input = match.group(), self._input[match.end() :]
            letter = command[:1].decode()
            if letter == "#":
                self._boot_s = now_s + BOOT_S
                self.boot(self._boot_s)
                return
            if letter == "C":
                self._running = False
            elif self._running:
                continue
            elif letter == "f":
                self._sinc = max(1, int(match.group(1)))
            elif letter == "c":
                self._next_baud_bps = BAUD_RATES_BPS[int(match.group(8))]
            self._say(f"r,0,{letter},0\r\n")
            if letter == "R":
                self._running, self._run_s, self._frames = True, now_s, 0
                if self._baud_holds_after == "run":
                    self._baud_bps = self._next_baud_bps
                return

    def _measure(self, now_s: float) -> None:
        rate_hz = BASE_RATE_HZ / self._sinc
        due = int((now_s - self._run_s) * self._rate * rate_hz + 1e-6)
        line_hz = self._baud_bps / (_BITS_PER_BYTE * FRAME_BYTES)
        for index in range(max(self._frames, due - _MOST_FRAMES) + 1, due + 1):
            if line_hz < rate_hz and int(index * line_hz / rate_hz) == int((index - 1) * line_hz / rate_hz):
                self.dropped += 1
                continue
            time_us = round((self._run_s - self._boot_s) * self._rate * 1e6 + index * 1e6 / rate_hz)
            self._send(time_us & 0xFFFFFFFF, now_s, too_slow=line_hz < rate_hz)
        self._frames = max(self._frames, due)

    def _send(self, time_us: int, now_s: float, *, too_slow: bool) -> None:
        if not self._understands_host():
            self.line.send(self.rng.bytes(_BABBLE_BYTES))
            return
        measured = self._true + self._noise * self.rng.standard_normal(6)
        measured[2] += self.struck("jump", now_s) or 0.0
        clipped = np.clip(measured, -self._full_scale, self._full_scale)
        status = Status.TOO_SLOW.value if too_slow else 0
        if self.struck("overrange", now_s) is not None or (clipped != measured).any():
            status |= Status.OVERRANGE.value
        if self.struck("invalid", now_s) is not None:
            status |= Status.INVALID.value
        if self.struck("freeze", now_s) is not None:
            self._held = clipped if self._held is None else self._held
            clipped = self._held
        f0, f1, f2, m0, m1, m2 = clipped.tolist()
        frame = ForceFrame(status, (f0, f1, f2, m0, m1, m2), time_us, TEMPERATURE_C)
        if not self.emit(encode(frame), now_s):
            self.dropped += 1


def emulator(_robot: Robot, _settings: RokubiSerial, wrench: Callable[[], Vector], **options: Any) -> SimulatedRokubi:
    """An emulated sensor under a load, shape (6,), N and N.m; options as of the sensor."""
    return SimulatedRokubi(wrench, **options)
