# SPDX-License-Identifier: Apache-2.0
"""Sampled, delayed, corrupted view of a simulated quantity."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Generic, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.simulation import faults

Array = NDArray[np.float64]
Corruption = Callable[[Array], Array]


class Stamped(NamedTuple):
    """A value and when it was acquired: ``stamp_s`` in s, ``value`` of any shape."""

    stamp_s: float
    value: Array


class Channel:
    """What a sensor makes of a simulated quantity: samples of a period, corrupted once, visible after a delay.

    Deterministic: randomness is in ``corrupt`` alone, which holds its generator.
    """

    def __init__(
        self,
        period_s: float = 0.0,
        delay_s: float = 0.0,
        corrupt: Corruption | None = None,
        memory_s: float = 0.0,
    ) -> None:
        for name, value in (("period_s", period_s), ("delay_s", delay_s), ("memory_s", memory_s)):
            if not 0 <= value < np.inf:
                raise ParameterError(name, value, "a time of at least 0 s")
        self._period_s, self._delay_s, self._memory_s = period_s, delay_s, memory_s
        self._least_s = max(period_s * (1 - 1e-9), 1e-12)
        self._corrupt = corrupt
        self._samples: deque[Stamped] = deque()

    def clear(self) -> None:
        """Forget all samples."""
        self._samples.clear()

    def push(self, value: Array, now_s: float) -> None:
        """Offer the true value at ``now_s`` (s, not decreasing); it becomes a sample when the period is over."""
        samples = self._samples
        if samples and now_s < samples[-1].stamp_s + self._least_s:
            return
        value = np.array(value, dtype=float)
        samples.append(Stamped(now_s, value if self._corrupt is None else self._corrupt(value)))
        oldest_s = now_s - self._delay_s - self._memory_s
        # The newest sample that is already visible must stay.
        while len(samples) > 1 and samples[1].stamp_s <= oldest_s:
            samples.popleft()

    def read(self, now_s: float, additional_delay_s: float = 0.0) -> Stamped | None:
        """The newest sample that is visible at ``now_s``."""
        # Times that are sums of a cycle's period differ by rounding.
        visible_s = now_s - self._delay_s - additional_delay_s + 1e-9
        if self._samples and self._samples[-1].stamp_s <= visible_s:
            return self._samples[-1]
        return next((sample for sample in reversed(self._samples) if sample.stamp_s <= visible_s), None)


def gaussian(sigma: float, rng: np.random.Generator) -> Corruption:
    """Additive white noise of standard deviation ``sigma`` in the quantity's unit; each call draws from ``rng``."""
    if sigma == 0:
        return lambda value: value
    return lambda value: value + sigma * rng.standard_normal(value.shape)


def quantised(resolution: ArrayLike) -> Corruption:
    """Rounding to the nearest multiple of ``resolution`` in the quantity's unit, for all or of each; 0: none."""
    resolution = np.asarray(resolution, dtype=float)
    if not resolution.all():
        return lambda value: value
    return lambda value: resolution * np.rint(value / resolution)


def in_sequence(*steps: Corruption) -> Corruption:
    """One corruption after the other, the first argument first."""

    def corrupt(value: Array) -> Array:
        for step in steps:
            value = step(value)
        return value

    return corrupt


class FaultyReadings:
    """Samples as they are served: late, frozen, lost or wrong where a fault of that kind is active."""

    def __init__(self, board: faults.FaultBoard, channel: Channel, rng: np.random.Generator) -> None:
        self._board, self._channel, self._rng = board, channel, rng
        self._last: tuple[float, Array, Array] | None = None

    def forget(self) -> None:
        """Forget all samples."""
        self._channel.clear()
        self._last = None

    def unknown(self, now_s: float, shape: tuple[int, ...]) -> tuple[Array, Array]:
        """What is served at a time (s) before the first sample: NaN of a shape (..., channels), infinite ages, s."""
        self._last = now_s, np.full(shape, np.nan), np.full(shape[-1], np.inf)
        return self._last[1].copy(), self._last[2].copy()

    def served(self, sample: Stamped, now_s: float) -> tuple[Array, Array]:
        """What is served of a sample."""
        values, age = sample.value, np.zeros(sample.value.shape[-1])
        if not self._board.empty:
            values, age = self._corrupted(sample, now_s)
            self._board.forget_ended(now_s)
        self._last = sample.stamp_s, values, age
        return values.copy(), age.copy()

    def _corrupted(self, sample: Stamped, now_s: float) -> tuple[Array, Array]:
        board = self._board
        values = np.atleast_2d(sample.value).copy()
        age = np.zeros(values.shape[1])
        delay_s = board.magnitude(faults.DELAY_READINGS, now_s)
        for index in np.flatnonzero(~np.isnan(delay_s)):
            late = self._channel.read(sample.stamp_s, float(delay_s[index]))
            values[:, index] = np.nan if late is None else np.atleast_2d(late.value)[:, index]
            age[index] = np.inf if late is None else sample.stamp_s - late.stamp_s
        jump = board.magnitude(faults.ENCODER_JUMP, now_s)
        values[0] += np.where(np.isnan(jump), 0.0, jump)
        if self._last is not None:
            last_s, before, before_age = self._last[0], np.atleast_2d(self._last[1]), self._last[2]
            frozen = board.mask(faults.FREEZE_SENSOR, now_s)
            values[:2, frozen] = before[:2, frozen]
            fraction = board.magnitude(faults.DROP_READINGS, now_s)
            dropped = self._rng.random(age.size) < np.where(fraction == 0, 1.0, fraction)
            values[:, dropped] = before[:, dropped]
            age[dropped] = before_age[dropped] + (sample.stamp_s - last_s)
        values[:, board.mask(faults.NAN_READING, now_s)] = np.nan
        return values.reshape(sample.value.shape), age


class Dated(Protocol):
    """Something seen at a time."""

    @property
    def time_s(self) -> float:
        """When it was seen, s."""


Report = TypeVar("Report", bound=Dated)


class LateReports(Generic[Report]):
    """Reports that are under way, in the order in which they were seen."""

    def __init__(self) -> None:
        self._under_way: deque[Report] = deque()

    def add(self, report: Report) -> None:
        """Take one that was seen now."""
        self._under_way.append(report)

    def until(self, now_s: float, delay_s: float) -> list[Report]:
        """What comes until now and has not come before."""
        come = []
        while self._under_way and self._under_way[0].time_s + delay_s <= now_s + 1e-9:
            come.append(self._under_way.popleft())
        return come
