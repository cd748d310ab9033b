# SPDX-License-Identifier: Apache-2.0
"""Memory, handles and threads of processes, as Linux counts them, written to a CSV file while a soak runs."""

from __future__ import annotations

import csv
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

QUANTITIES = ("pss_mib", "rss_mib", "handles", "threads")
_COLUMNS = ("time_s", "process", "pid", *QUANTITIES)


@dataclass(frozen=True, slots=True)
class Usage:
    """What a process holds."""

    pss_mib: float
    rss_mib: float
    handles: int
    threads: int


def usage_of(pid: int) -> Usage | None:
    """What a process holds now; None where it has ended or belongs to another user."""
    folder = Path("/proc", str(pid))
    try:
        memory = _fields(folder / "smaps_rollup")
        threads = int(_fields(folder / "status")["Threads"])
        handles = sum(1 for _ in (folder / "fd").iterdir())
        return Usage(_mib(memory["Pss"]), _mib(memory["Rss"]), handles, threads)
    except (OSError, KeyError):  # it ended meanwhile: the files are gone, or empty
        return None


def _fields(file: Path) -> dict[str, str]:
    lines = (line.split(":", 1) for line in file.read_text(encoding="ascii", errors="replace").splitlines())
    return {line[0]: line[1].strip() for line in lines if len(line) == 2}


def _mib(text: str) -> float:
    return float(text.split(maxsplit=1)[0]) / 1024.0


class UsageLog:
    """Writes what processes hold to a CSV file, and reads it from there: it must not grow itself. A context manager."""

    def __init__(self, file: Path) -> None:
        self._path, self._file = file, file.open("w", encoding="utf-8", newline="")
        self._writer = csv.writer(self._file)
        self._writer.writerow(_COLUMNS)
        self._begin_s = time.monotonic()

    def sample(self, pids: Mapping[str, int]) -> None:
        """Write a row for each process that lives."""
        for name, pid in pids.items():
            usage = usage_of(pid)
            if usage is None:
                continue
            now_s = time.monotonic() - self._begin_s
            values = (getattr(usage, quantity) for quantity in QUANTITIES)
            self._writer.writerow((f"{now_s:.1f}", name, pid, *(f"{value:.6g}" for value in values)))
        self._file.flush()

    @property
    def processes(self) -> tuple[str, ...]:
        """Names, in the order in which they appeared."""
        return tuple(dict.fromkeys(row["process"] for row in self._rows()))

    def series(self, process: str, quantity: str) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
        """Times (s), values and process ids, each of shape (T,)."""
        rows = [row for row in self._rows() if row["process"] == process]
        return (
            np.array([float(row["time_s"]) for row in rows]),
            np.array([float(row[quantity]) for row in rows]),
            np.array([int(row["pid"]) for row in rows], dtype=np.int64),
        )

    def _rows(self) -> list[dict[str, str]]:
        with self._path.open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))

    def __enter__(self) -> UsageLog:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._file.close()
