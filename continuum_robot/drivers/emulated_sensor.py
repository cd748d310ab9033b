# SPDX-License-Identifier: Apache-2.0
"""The base of emulated sensors on a line: its plug, its power, and what may go wrong with either."""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from continuum_robot.errors import ParameterError

LINE_FAULTS = {
    "flip": "a bit of a frame flips",
    "delete": "a byte of a frame is lost",
    "glue": "the last byte of a frame is lost: it sticks to the next one",
    "truncate": "a frame ends early",
    "garbage": "20 random bytes before a frame",
    "babble": "random bytes instead of a frame, as with a wrong baud rate",
    "duplicate": "a frame comes twice",
    "reorder": "a frame comes after the next one",
    "silence": "frames vanish",
    "stall": "frames are held back and come all at once in the end",
}


@dataclass
class _Active:
    name: str
    fraction: float
    frames_left: float
    duration_s: float
    end_s: float = math.inf


class LineFaults:
    """Damages frames on their way."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._active: list[_Active] = []
        self._held: list[bytes] = []
        self._later: list[bytes] = []
        self.damaged = 0

    def inject(self, name: str, *, count: int = 1, duration_s: float = 0.0, fraction: float = 1.0) -> None:
        """Begin a fault with the next frame."""
        if not name:
            self._active.clear()
            return
        if name not in LINE_FAULTS:
            raise ParameterError("fault", name, "one of " + ", ".join(LINE_FAULTS))
        if not 0 < fraction <= 1:
            raise ParameterError("fraction", fraction, "more than 0, at most 1")
        frames = math.inf if duration_s > 0 else count
        self._active.append(_Active(name, fraction, frames, duration_s))

    def apply(self, frame: bytes, now_s: float) -> list[bytes]:
        """What arrives when a frame is sent."""
        names = [fault.name for fault in list(self._active) if self._strikes(fault, now_s)]
        self.damaged += bool(names)
        pieces, self._later = self._later, []
        for name in names:
            frame = self._damaged(name, frame)
        sent = [frame, frame] if "duplicate" in names else [frame]
        if "reorder" in names:
            self._later = sent
        else:
            pieces = sent + pieces
        if "stall" in names:
            self._held += pieces
            return []
        held, self._held = self._held, []
        return [piece for piece in held + pieces if piece]

    def _strikes(self, fault: _Active, now_s: float) -> bool:
        """Whether a fault touches the next frame; takes it off the list where it is over."""
        if fault.end_s == math.inf and fault.duration_s > 0:
            fault.end_s = now_s + fault.duration_s
        if now_s >= fault.end_s or fault.frames_left <= 0:
            self._active.remove(fault)
            return False
        if fault.fraction < 1 and self._rng.random() >= fault.fraction:
            return False
        fault.frames_left -= 1
        return True

    def _damaged(self, name: str, frame: bytes) -> bytes:
        data, rng = bytearray(frame), self._rng
        if name == "flip" and data:
            data[rng.integers(len(data))] ^= 1 << int(rng.integers(8))
        elif name == "delete" and data:
            del data[rng.integers(len(data))]
        elif name == "glue":
            del data[-1:]
        elif name == "truncate" and data:
            del data[rng.integers(1, len(data)) if len(data) > 1 else 0 :]
        elif name == "garbage":
            data[:0] = rng.bytes(20)
        elif name == "babble":
            data[:] = rng.bytes(len(data))
        elif name == "silence":
            data.clear()
        return bytes(data)


BOOT_S = 0.3
PLUGS = {
    "reboot": "it starts again: silent meanwhile (0.3 s, or the duration), then as after power-on",
    "hang_up": "the plug is out, for the duration or until plug_in()",
    "power_cycle": "the plug is out for the duration (0.3 s without), and it starts again",
}


class EmulatedSensor:
    """A sensor that sends by its own clock. A device's folder overrides the methods that raise.

    It is stepped by :meth:`step`, in virtual time or by a thread.
    """

    faults: ClassVar[Mapping[str, str]]
    """Names and meanings of its own faults, beside those of plug, power and line."""

    def __init__(self, line: Any, rng: np.random.Generator | None = None, targets: int = 1) -> None:
        self.line, self.dropped = line, 0
        self.rng = np.random.default_rng(0) if rng is None else rng
        self._damage, self._targets = LineFaults(self.rng), targets
        self._lock = threading.Lock()
        self._struck: dict[tuple[str, int], tuple[float, float]] = {}
        self._now_s: float | None = None
        self._plug_in_s, self._boot_s = math.inf, 0.0

    @classmethod
    def catalog(cls) -> dict[str, str]:
        """Name and meaning of every fault of :meth:`inject`."""
        return {**cls.faults, **PLUGS, **LINE_FAULTS}

    # --- what a device adds

    def look(self) -> None:
        """Take over what it measures, now."""
        raise NotImplementedError

    def boot(self, boot_s: float) -> None:
        """Be as after power-on from a time on, s."""
        raise NotImplementedError

    def advance(self, now_s: float, received: bytes) -> None:
        """Do what is due by ``now_s`` (s), with what the host sent."""
        raise NotImplementedError

    def strike(self, fault: str, target: int, magnitude: float) -> float:
        """Carry out one of its own faults on a channel; gives what :meth:`struck` says while it lasts."""
        del fault, target
        return magnitude

    # --- from outside

    @property
    def port(self) -> str:
        """What a driver opens."""
        return str(self.line.path)

    def step(self, now_s: float) -> None:
        """Let time pass."""
        with self._lock:
            is_first, self._now_s = self._now_s is None, now_s
            self.look()
            if is_first:
                self._boot_s = now_s
                self.start(now_s)
            if now_s >= self._plug_in_s:
                self._plug_in()
            received = self.line.receive()
            if now_s >= self._boot_s:
                self.advance(now_s, received)

    def start(self, now_s: float) -> None:
        """Begin with the first step, at ``now_s`` (s)."""

    def inject(
        self, name: str, target: int = -1, magnitude: float = 0.0, *, count: int = 1, duration_s: float = 0.0
    ) -> None:
        """Inject a fault now."""
        if not -1 <= target < self._targets:
            raise ParameterError("channel", target, f"-1 for all, or 0 to {self._targets - 1}")
        with self._lock:
            now_s = 0.0 if self._now_s is None else self._now_s
            until_s = now_s + duration_s if duration_s > 0 else math.inf
            if name in LINE_FAULTS:
                self._damage.inject(name, count=count, duration_s=duration_s, fraction=magnitude or 1.0)
            elif name == "":
                self._damage.inject("")
                self._struck.clear()
                self._plug_in()
            elif name in PLUGS:
                back_s = now_s + (duration_s or BOOT_S)
                if name != "reboot":
                    self.line.hang_up()
                    self._plug_in_s = until_s if name == "hang_up" else back_s
                if name != "hang_up":
                    self._boot_s = back_s
                    self.boot(back_s)
            elif name in self.faults:
                for one in range(self._targets) if target < 0 else [target]:
                    self._struck[name, one] = (self.strike(name, one, magnitude), until_s)
            else:
                raise ParameterError("fault", name, "one of " + ", ".join(self.catalog()))

    def plug_in(self) -> None:
        """Connect the line again, if it is not."""
        with self._lock:
            self._plug_in()

    def wait_delivered(self) -> None:
        """In simulated time: wait until the driver can read what was sent in :meth:`step`."""
        self.line.wait_delivered()

    def close(self) -> None:
        with self._lock:
            self.line.close()

    # --- what devices use

    def struck(self, fault: str, now_s: float, target: int = 0) -> float | None:
        """Magnitude of one of its own faults while it lasts; None without it."""
        magnitude, until_s = self._struck.get((fault, target), (0.0, -math.inf))
        return magnitude if now_s < until_s else None

    def emit(self, frame: bytes, now_s: float) -> bool:
        """Send a frame, as the line's faults have it; whether it was taken. ``now_s``: s."""
        taken = list(map(self.line.send, self._damage.apply(frame, now_s)))
        return all(taken)

    def _plug_in(self) -> None:
        self._plug_in_s = math.inf
        self.line.plug_in()
