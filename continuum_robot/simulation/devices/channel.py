# SPDX-License-Identifier: Apache-2.0
"""Sampled, delayed, corrupted view of a simulated quantity."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ParameterError

Array = NDArray[np.float64]
Corruption = Callable[[Array], Array]


@dataclass(frozen=True, slots=True)
class Stamped:
    """A value and when it was acquired: ``stamp_s`` in s, ``value`` of any shape."""

    stamp_s: float
    value: Array


class Channel:
    """What a sensor makes of a simulated quantity: samples of a period, corrupted once, visible after a delay.

    Deterministic: randomness is in ``corrupt`` alone, which holds its generator.

    Parameters
    ----------
    period_s : least time between two samples, s; 0: each :meth:`push` is a sample
    delay_s : time from a sample's acquisition until it can be read, s
    corrupt : noise and quantisation of a sample; None: none
    memory_s : how far back samples are kept beyond the delay, for readings with an additional delay, s

    Raises
    ------
    ParameterError : a negative time
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
        self._corrupt = corrupt
        self._samples: deque[Stamped] = deque()

    def clear(self) -> None:
        """Forget all samples."""
        self._samples.clear()

    def push(self, value: Array, now_s: float) -> None:
        """Offer the true value at ``now_s`` (s, not decreasing); it becomes a sample when the period is over."""
        samples = self._samples
        if samples and now_s < samples[-1].stamp_s + max(self._period_s * (1 - 1e-9), 1e-12):
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
    return lambda value: resolution * np.round(value / resolution)


def in_sequence(*steps: Corruption) -> Corruption:
    """One corruption after the other, the first argument first."""

    def corrupt(value: Array) -> Array:
        for step in steps:
            value = step(value)
        return value

    return corrupt
