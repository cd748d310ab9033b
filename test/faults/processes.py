# SPDX-License-Identifier: Apache-2.0
"""What processes hold, as Linux counts it, and whether a quantity of one grows: a robust slope and its interval."""

from __future__ import annotations

import csv
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import numpy as np
from numpy.typing import NDArray
from rich.text import Text

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


Vector = NDArray[np.float64]

ALLOWED_PER_H: Mapping[str, float] = {"pss_mib": math.inf, "rss_mib": 4.0, "handles": 2.0, "threads": 1.0}
"""Growth an hour that counts as noise: caches that fill slowly, handles of peers that come and go. PSS is written and
not judged: it also grows where a process of the same fork ends and its pages are shared no more."""
WARM_UP_S = 120.0
"""Of each process: imports, discovery, first buffers."""
MINIMUM_BINS = 12
MINIMUM_S = 600.0
"""Time behind the warm-ups of all lives below which nothing is judged: a step of an allocator is no slope."""
_BLOCK = 4
_RESAMPLED = 400
_HOUR_S = 3600.0


@dataclass(frozen=True, slots=True)
class Growth:
    """The slope of one quantity of one process."""

    process: str
    quantity: str
    per_h: float
    low_per_h: float
    high_per_h: float
    first: float
    last: float
    bins: int
    grows: bool
    judged: bool

    @property
    def shown(self) -> Text:
        """As a cell of a table."""
        if not self.judged:
            return Text("too short to judge")
        text = f"{self.per_h:+.2f} ({self.low_per_h:+.2f} to {self.high_per_h:+.2f})"
        return Text(text, "red" if self.grows else "")


def judge_growth(
    process: str,
    quantity: str,
    time_s: Vector,
    value: Vector,
    life: NDArray[np.int64],
    *,
    warm_up_s: float,
    bin_s: float,
    allowed_per_h: float | None = None,
) -> Growth:
    """Judge a quantity of a process that may have been started again in between.

    The first ``warm_up_s`` of each life are left out, the rest is reduced to medians over ``bin_s``. The slope is the
    median of the slopes of all pairs of medians of the same life (Theil 1950, Sen 1968), so a restart is no shrinking.
    Its interval comes from a moving block bootstrap of the residuals (Künsch 1989), since neighbouring medians are
    not independent: memory goes in steps.
    """
    allowed = ALLOWED_PER_H[quantity] if allowed_per_h is None else allowed_per_h
    lives = [_binned(time_s[life == one], value[life == one], warm_up_s, bin_s) for one in dict.fromkeys(life.tolist())]
    lives = [(time, medians) for time, medians in lives if time.size >= 2]
    bins = sum(time.size for time, _ in lives)
    covered_s = sum(float(np.ptp(time)) for time, _ in lives)
    if covered_s < MINIMUM_S or bins < MINIMUM_BINS:
        return Growth(process, quantity, math.nan, math.nan, math.nan, math.nan, math.nan, bins, False, False)
    slope = _slope(lives)
    detrended = [medians - slope * (time - time.mean()) for time, medians in lives]
    residuals = [one - np.median(one) for one in detrended]
    rng = np.random.default_rng(0)
    resampled = [
        _slope([(time, slope * time + _blocks(rest, rng)) for (time, _), rest in zip(lives, residuals, strict=True)])
        for _ in range(_RESAMPLED)
    ]
    low, high = np.quantile(resampled, [0.025, 0.975])
    medians = np.concatenate([one for _, one in lives])
    tenth = max(1, medians.size // 10)
    return Growth(
        process,
        quantity,
        per_h=_HOUR_S * slope,
        low_per_h=_HOUR_S * float(low),
        high_per_h=_HOUR_S * float(high),
        first=float(np.median(medians[:tenth])),
        last=float(np.median(medians[-tenth:])),
        bins=bins,
        grows=bool(_HOUR_S * low > allowed),
        judged=True,
    )


def _binned(time_s: Vector, value: Vector, warm_up_s: float, bin_s: float) -> tuple[Vector, Vector]:
    """Middles and medians of full time slices of one life behind its warm-up."""
    kept = time_s >= time_s[0] + warm_up_s
    time_s, value = time_s[kept], value[kept]
    if time_s.size == 0:
        return time_s, value
    place = ((time_s - time_s[0]) / bin_s).astype(int)
    places = np.unique(place)
    return (
        np.array([time_s[place == one].mean() for one in places]),
        np.array([np.median(value[place == one]) for one in places]),
    )


def _slope(lives: Sequence[tuple[Vector, Vector]]) -> float:
    slopes = []
    for time_s, value in lives:
        first, second = np.triu_indices(time_s.size, 1)
        slopes.append((value[second] - value[first]) / (time_s[second] - time_s[first]))
    return float(np.median(np.concatenate(slopes)))


def _blocks(residuals: Vector, rng: np.random.Generator) -> Vector:
    """Residuals of a life, drawn in blocks of neighbours."""
    length = min(_BLOCK, residuals.size)
    starts = rng.integers(0, residuals.size - length + 1, size=-(-residuals.size // length))
    return np.concatenate([residuals[start : start + length] for start in starts])[: residuals.size]
