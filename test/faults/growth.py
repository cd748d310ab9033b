# SPDX-License-Identifier: Apache-2.0
"""Whether a quantity of a process grows: a robust slope, and its confidence interval from resampled residuals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

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
