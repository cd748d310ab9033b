# SPDX-License-Identifier: Apache-2.0
"""The contacts of johnston's table 7: which they are, what is recorded of each, and how a method is scored."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from continuum_robot.estimation.contact.settings import KALMAN, METHODS

Array = NDArray[np.float64]

METHOD_NAMES = dict(zip(METHODS, ("GMO", "JFD", "Kalman disturbance observer"), strict=True))
PLACES_M = (0.0585, 0.1100, 0.1618, 0.2133, 0.2650)
# Direction, and for each disk from the base the speed of the capstan, deg/s: table 7.
CASES = {
    "+x": (36, 72, 108, 144, 180),
    "+y": (36, 72, 108, 144, 180),
    "-x": (180, 144, 108, 72, 36),
    "-y": (180, 144, 108, 72, 36),
}
DIRECTIONS = {"+x": (1.0, 0.0, 0.0), "+y": (0.0, 1.0, 0.0), "-x": (-1.0, 0.0, 0.0), "-y": (0.0, -1.0, 0.0)}
SETTLE_S = 0.3  # that the observers take from their start
RELEASE = 0.7
_FELT_N = 0.1
CONFIRM = 3  # cycles above a threshold


@dataclass
class Recording:
    """One run, a row a cycle."""

    direction: str
    disk: int
    speed_deg: float
    arc_length_m: float
    time_s: Array = field(default_factory=lambda: np.zeros(0))
    truth: Array = field(default_factory=lambda: np.zeros((0, 2)))
    forces: dict[str, Array] = field(default_factory=dict)
    statistic: dict[str, Array] = field(default_factory=dict)
    places: dict[str, Array] = field(default_factory=dict)
    detected: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, dtype=bool))
    c: Array = field(default_factory=lambda: np.zeros((0, 0)))

    @property
    def name(self) -> str:
        """Of the case."""
        return f"{self.direction}, disk {self.disk}, {self.speed_deg:g} deg/s"

    @property
    def touching(self) -> NDArray[np.bool_]:
        """Where there is contact, (k,)."""
        return (np.linalg.norm(self.truth, axis=1) > _FELT_N) & (self.time_s >= SETTLE_S)

    def raised(self, method: str) -> NDArray[np.bool_]:
        """Where a method reports contact: after some cycles above its threshold, until below 0.7 of it, (k,)."""
        if method == KALMAN and len(self.detected):
            return self.detected & (self.time_s >= SETTLE_S)
        found, state, above = np.zeros(len(self.time_s), dtype=bool), False, 0
        for index, value in enumerate(self.statistic[method]):
            above = above + 1 if value > 1 else 0
            state = value > RELEASE if state else above >= CONFIRM
            found[index] = state and self.time_s[index] >= SETTLE_S
        return found


def cases(count: int) -> list[Recording]:
    """The contacts of table 7, or some of them."""
    every = [
        Recording(direction, disk + 1, float(speeds[disk]), PLACES_M[disk])
        for direction, speeds in CASES.items()
        for disk in range(len(PLACES_M))
    ]
    return [every[k] for k in np.unique(np.linspace(0, len(every) - 1, count).round().astype(int))]


@dataclass(frozen=True)
class Score:
    """What a method made of one contact."""

    delay_ms: float
    error_n: Array
    ungated_error_n: Array
    contact_error_n: float
    place_m: float
    early: int


def score(run: Recording, method: str) -> Score:
    """Compare a method with the truth of a run."""
    raised, touching = run.raised(method), run.touching
    starts = np.flatnonzero(raised & ~np.roll(raised, 1))
    error = np.where(raised[:, None], run.forces[method], 0.0) - run.truth
    rmse = np.sqrt(np.mean(error**2, axis=0))
    ungated = np.sqrt(np.mean((run.forces[method] - run.truth) ** 2, axis=0))
    early = int(np.sum(~touching[starts]))
    if not touching.any():
        return Score(math.nan, rmse, ungated, math.nan, math.nan, early)
    first = int(np.flatnonzero(touching)[0])
    reported = np.flatnonzero(raised & touching)
    within = math.sqrt(float(np.mean(np.sum(error[touching] ** 2, axis=1))))
    if len(reported) == 0:
        return Score(math.nan, rmse, ungated, within, math.nan, early)
    places = run.places[method][reported]
    places = places[np.isfinite(places)]
    place_m = float(np.median(places)) if len(places) else math.nan
    delay_ms = 1e3 * float(run.time_s[reported[0]] - run.time_s[first])
    return Score(delay_ms, rmse, ungated, within, place_m, early)
