# SPDX-License-Identifier: Apache-2.0
"""A simulated Rokubi force-torque sensor on a pty: its frames, its commands, its baud rate."""

from __future__ import annotations

import math
import re
import termios
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from continuum_robot.drivers.rokubi_serial.codec import (
    BASE_RATE_HZ,
    BAUD_RATES_BPS,
    DEFAULT_BAUD_BPS,
    FRAME_BYTES,
    ForceFrame,
    Status,
    encode,
)
from continuum_robot.errors import ParameterError
from continuum_robot.simulation.wire.line_faults import LINE_FAULTS, LineFaults
from continuum_robot.simulation.wire.pty import Pty

Vector = NDArray[np.float64]

BOOT_S = 0.3
TEMPERATURE_C = 28.5
_MOST_FRAMES = 500
_BITS_PER_BYTE = 10
_BABBLE_BYTES = 16
_LONGEST_INPUT = 256
_COMMAND = re.compile(rb"f,(\d+),([01]),([01]),([01])|c,([01]),([01]),([01]),([0-4])|[CRI#sw]")
_BANNER = (
    "App Init\r\nname: simulated Rokubi\r\nS/N: {serial}\r\nFW version: 3.0\r\nc,0,1,0,{code}\r\nf,{sinc},0,0,1\r\n"
)

SENSOR_FAULTS = {
    "reboot": "the sensor starts again: silent for 0.3 s (or the duration), then as it was delivered",
    "overrange": "the load is beyond the range: clipped, and flagged",
    "invalid": "a gauge is open: the measurement is invalid, and flagged",
    "freeze": "the same measurement repeats with a fresh time",
    "jump": "the measured force along z jumps by the magnitude, N",
    "hang_up": "the plug is out, for the duration or until plug_in()",
    "power_cycle": "the plug is out for the duration (0.3 s without), and the sensor starts again",
}


class SimulatedRokubi:
    """The sensor, its line and what may go wrong with both.

    As delivered it speaks 230400 bit/s, 100 frames a second. A host that set its port to another speed than the
    sensor's gets random bytes, and the sensor does not understand it.

    Parameters
    ----------
    wrench : true force (N) and moment (N.m) on the sensor now, in its frame, shape (6,)
    link : name of its port, see :class:`Pty`
    baud_bps : at which it speaks now
    baud_holds_after : "run": a new baud rate holds when the sensor runs again; "restart": after a restart
    full_scale : loads beyond it are clipped, shape (6,), N and N.m; None: none are
    noise : standard deviation of its white noise, shape (6,), N and N.m
    clock_drift : its clock runs faster by this, s/s
    serial_number : that it shows when it starts
    rng : draws noise and what line faults need

    Attributes
    ----------
    dropped : frames that nobody took, or that did not fit its baud rate

    Raises
    ------
    ParameterError : a baud rate that it cannot do, or an unknown ``baud_holds_after``
    """

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
        self._wrench, self._rate = wrench, 1.0 + clock_drift
        self._baud_holds_after, self._serial_number = baud_holds_after, serial_number
        self._full_scale = np.full(6, math.inf) if full_scale is None else np.asarray(full_scale, dtype=float)
        self._noise = np.zeros(6) if noise is None else np.asarray(noise, dtype=float)
        self._rng = np.random.default_rng(0) if rng is None else rng
        self._line = Pty(link)
        self._faults = LineFaults(self._rng)
        self._lock = threading.Lock()
        self.dropped = 0
        self._delivered_bps = baud_bps
        self._active: dict[str, tuple[float, float]] = {}
        self._plug_in_s = math.inf
        self._now_s: float | None = None
        self._held: Vector | None = None
        self._true: Vector = np.zeros(6)
        self._baud_bps = self._next_baud_bps = baud_bps
        self._running = self._booted = True
        self._sinc, self._input = 512, b""
        self._boot_s = self._run_s = 0.0
        self._frames = 0

    @property
    def port(self) -> str:
        """What a driver opens."""
        return str(self._line.path)

    @property
    def baud_bps(self) -> int:
        """At which it speaks now, bit/s."""
        return self._baud_bps

    def step(self, now_s: float) -> None:
        """Let time pass.

        Parameters
        ----------
        now_s : s, monotonic or virtual; the first call is when it starts to measure
        """
        with self._lock:
            if self._now_s is None:
                self._boot_s = self._run_s = now_s
            self._now_s = now_s
            true = np.asarray(self._wrench(), dtype=float)
            self._true = np.where(np.isfinite(true), true, self._true)
            if now_s >= self._plug_in_s:
                self._plug_in()
            received = self._line.receive()
            if now_s < self._boot_s:
                return
            if not self._booted:
                self._booted = True
                self._say(_BANNER.format(serial=self._serial_number, code=self._baud_code, sinc=self._sinc))
            if self._understands_host():
                self._input = (self._input + received)[-_LONGEST_INPUT:]
                self._obey(now_s)
            if self._running and now_s >= self._boot_s:
                self._measure(now_s)

    def inject(self, name: str, magnitude: float = 0.0, *, count: int = 1, duration_s: float = 0.0) -> None:
        """Inject a fault now.

        Parameters
        ----------
        name : of :data:`SENSOR_FAULTS` or of a line; "" ends all
        magnitude : N for a jump; fraction of frames that a fault of the line touches, 0: all
        count : frames that a fault of the line touches, where there is no duration
        duration_s : s; 0: until "" for faults of the sensor

        Raises
        ------
        ParameterError : unknown name
        """
        with self._lock:
            now_s = 0.0 if self._now_s is None else self._now_s
            until_s = now_s + duration_s if duration_s > 0 else math.inf
            if name in LINE_FAULTS:
                self._faults.inject(name, count=count, duration_s=duration_s, fraction=magnitude or 1.0)
            elif name == "":
                self._faults.inject("")
                self._active.clear()
                self._plug_in()
            elif name == "reboot":
                self._restart(now_s + (duration_s or BOOT_S))
            elif name == "hang_up":
                self._line.hang_up()
                self._plug_in_s = until_s
            elif name == "power_cycle":
                self._line.hang_up()
                self._plug_in_s = now_s + (duration_s or BOOT_S)
                self._restart(self._plug_in_s)
            elif name in SENSOR_FAULTS:
                self._held = None
                self._active[name] = (magnitude, until_s)
            else:
                raise ParameterError("fault", name, "one of " + ", ".join([*SENSOR_FAULTS, *LINE_FAULTS]))

    def plug_in(self) -> None:
        """Connect the line again, if it is not."""
        with self._lock:
            self._plug_in()

    def close(self) -> None:
        """End. Safe to call at any time."""
        with self._lock:
            self._line.close()

    def _plug_in(self) -> None:
        self._plug_in_s = math.inf
        self._line.plug_in()

    def _restart(self, boot_s: float) -> None:
        if self._baud_holds_after == "restart":
            self._delivered_bps = self._next_baud_bps
        self._baud_bps = self._next_baud_bps = self._delivered_bps
        self._sinc, self._input = 512, b""
        self._running, self._booted = True, False
        self._boot_s = self._run_s = boot_s
        self._frames = 0

    @property
    def _baud_code(self) -> int:
        return BAUD_RATES_BPS.index(self._baud_bps)

    def _understands_host(self) -> bool:
        return self._line.host_speed() == getattr(termios, f"B{self._baud_bps}")

    def _say(self, text: str) -> None:
        self._line.send(text.encode() if self._understands_host() else self._rng.bytes(_BABBLE_BYTES))

    def _obey(self, now_s: float) -> None:
        while match := _COMMAND.search(self._input):
            command, self._input = match.group(), self._input[match.end() :]
            letter = command[:1].decode()
            if letter == "#":
                self._restart(now_s + BOOT_S)
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
            self._line.send(self._rng.bytes(_BABBLE_BYTES))
            return
        for name, (_, until_s) in list(self._active.items()):
            if now_s >= until_s:
                del self._active[name]
        measured = self._true + self._noise * self._rng.standard_normal(6)
        if "jump" in self._active:
            measured = measured + np.array([0.0, 0.0, self._active["jump"][0], 0.0, 0.0, 0.0])
        clipped = np.clip(measured, -self._full_scale, self._full_scale)
        status = Status.TOO_SLOW.value if too_slow else 0
        if "overrange" in self._active or (clipped != measured).any():
            status |= Status.OVERRANGE.value
        if "invalid" in self._active:
            status |= Status.INVALID.value
        if "freeze" in self._active:
            self._held = clipped if self._held is None else self._held
            clipped = self._held
        f0, f1, f2, m0, m1, m2 = clipped.tolist()
        frame = ForceFrame(status, (f0, f1, f2, m0, m1, m2), time_us, TEMPERATURE_C)
        pieces = self._faults.apply(encode(frame), now_s)
        if pieces and not self._line.send(b"".join(pieces)):
            self.dropped += 1
