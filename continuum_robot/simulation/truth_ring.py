# SPDX-License-Identifier: Apache-2.0
"""What really happens to a simulated robot, for a judge in another process: the newest seconds in a mapped file.

Layout, little-endian float64: a first row with the number of rows written so far, the number of tendons and the number
of rows that fit; then rows of :data:`COLUMNS_OF_TIME` and one value a tendon for each of :data:`QUANTITIES`. Row i of
the run is at place i modulo the number of rows that fit.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import DeviceError

Vector = NDArray[np.float64]

ROWS = 20_000
"""Of a millisecond each: a reader may be late by 20 s."""
COLUMNS_OF_TIME = ("time_s", "lived_s")
QUANTITIES = ("tension_n", "motor_n", "displacement_m")
_MARGIN = 1000


class TruthRingWriter:
    """The writing end; goes on behind the rows of a writer that ended."""

    def __init__(self, path: Path, tendon_count: int, rows: int = ROWS) -> None:
        columns = len(COLUMNS_OF_TIME) + len(QUANTITIES) * tendon_count
        size = 8 * columns * (rows + 1)
        try:
            if not path.exists() or path.stat().st_size != size:
                path.write_bytes(b"")
                os.truncate(path, size)
            self._rows: Vector = np.memmap(path, dtype="<f8", mode="r+", shape=(rows + 1, columns))
        except OSError as error:
            raise DeviceError(
                str(path), f"cannot be made ({error.strerror or error})", "Choose another file"
            ) from error
        self._kept = rows
        self._rows[0, 1:3] = tendon_count, rows
        self._written = int(self._rows[0, 0])

    def write(self, time_s: float, lived_s: float, tension_n: Vector, motor_n: Vector, displacement_m: Vector) -> None:
        """Note one instant."""
        row = self._rows[1 + self._written % self._kept]
        count = tension_n.size
        row[0], row[1] = time_s, lived_s
        row[2 : 2 + count], row[2 + count : 2 + 2 * count], row[2 + 2 * count :] = tension_n, motor_n, displacement_m
        self._written += 1
        self._rows[0, 0] = self._written


class TruthRingReader:
    """The reading end: each row once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._rows: Vector | None = None
        self._read = 0
        self.lost = 0

    def read(self) -> dict[str, Vector]:
        """The rows since the last call."""
        rows = self._mapped()
        if rows is None:
            return {}
        kept, count = int(rows[0, 2]), int(rows[0, 1])
        written = int(rows[0, 0])
        first = max(self._read, written - kept + _MARGIN)
        self.lost += first - self._read
        self._read = written
        values = np.array(rows[1 + np.arange(first, written) % kept])
        truth = {name: values[:, place] for place, name in enumerate(COLUMNS_OF_TIME)}
        for place, name in enumerate(QUANTITIES):
            begin = len(COLUMNS_OF_TIME) + place * count
            truth[name] = values[:, begin : begin + count]
        return truth

    def _mapped(self) -> Vector | None:
        if self._rows is not None:
            return self._rows
        try:
            head = np.fromfile(self._path, dtype="<f8", count=3)
        except OSError:
            return None
        if head.size < 3 or head[2] == 0:
            return None
        columns = len(COLUMNS_OF_TIME) + len(QUANTITIES) * int(head[1])
        self._rows = np.memmap(self._path, dtype="<f8", mode="r", shape=(int(head[2]) + 1, columns))
        return self._rows
