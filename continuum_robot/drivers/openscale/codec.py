# SPDX-License-Identifier: Apache-2.0
"""Lines of a SparkFun OpenScale: text without a check sum, of fields that its menu switches on and off.

A line has, each followed by a comma: a time since power-on (ms, optional), the calibrated reading, its unit (``kg`` or
``lbs``), then optionally the raw reading and temperatures. Source: SparkFun, OpenScale Applications and Hookup Guide,
"Interface Specifications" and "Configuration", learn.sparkfun.com/tutorials/openscale-applications-and-hookup-guide.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from continuum_robot.drivers.framed_serial import Stream

STANDARD_GRAVITY = 9.80665
NEWTON = {"kg": STANDARD_GRAVITY, "lbs": 0.45359237 * STANDARD_GRAVITY}
"""Weight of a unit of mass, N."""
_LONGEST_LINE = 128


class ScaleLine(NamedTuple):
    """A reading."""

    force_n: float
    time_ms: int | None


def parse(line: bytes) -> ScaleLine | None:
    """The reading of a line without its end; None for anything else, as the text of the menu."""
    fields = [field.strip() for field in line.decode("ascii", "replace").split(",")]
    place = next((k for k, field in enumerate(fields) if field in NEWTON), 0)
    if place not in (1, 2):
        return None
    try:
        value, time_ms = float(fields[place - 1]), int(fields[0]) if place == 2 else None
    except ValueError:
        return None
    return ScaleLine(value * NEWTON[fields[place]], time_ms) if math.isfinite(value) else None


def encode(line: ScaleLine, decimals: int = 3) -> bytes:
    """A line in kilograms, as a board with its menu's defaults sends it."""
    time = "" if line.time_ms is None else f"{line.time_ms},"
    return f"{time}{line.force_n / STANDARD_GRAVITY:.{decimals}f},kg,\r\n".encode()


class LineStream(Stream[ScaleLine]):
    """Readings in lines; anything else costs itself."""

    def cut(self, data: bytes) -> tuple[list[ScaleLine], bytes]:
        """Readings in ``data``, and the beginning of the next line."""
        *lines, rest = data.split(b"\n")
        found = []
        for line in lines:
            # The first line may begin in the middle of a number, which nothing in it shows.
            reading = None if self._is_first else parse(line)
            if reading is not None:
                found.append(reading)
            else:
                self.rejected += not self._is_first
            self._is_first = False
        return found, rest[-_LONGEST_LINE:]
