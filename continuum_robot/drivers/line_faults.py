# SPDX-License-Identifier: Apache-2.0
"""What may happen to frames on a line: bits flip, bytes vanish, frames stick together, come late or not at all."""

from __future__ import annotations

import math
from dataclasses import dataclass

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
