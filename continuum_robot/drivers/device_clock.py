# SPDX-License-Identifier: Apache-2.0
"""A device's clock against the host's: frames are stamped when they were sampled, not when they arrived."""

from __future__ import annotations

import math
from collections import deque

from continuum_robot.errors import ParameterError

_BUCKET_S = 1.0
_BUCKETS = 16
_OLDEST_S = 30.0
QUARTZ = 2e-4
"""Drift that any clock of quartz may have, s/s; 1e-4 is what one is good for."""
_SEEN_FOR, _CERTAINTY = 4, 10.0  # seconds, and standard errors, from which on a larger one is believed


def wrapped_difference(later: int, earlier: int) -> int:
    """``later - earlier`` of counters that wrap at 2^32, as a signed 32-bit number."""
    return ((later - earlier + 0x80000000) & 0xFFFFFFFF) - 0x80000000


class DeviceClock:
    """Maps a device's microseconds, which wrap at 2^32, to the host's time.

    A frame never arrives before it was sampled, so the least of (arrival - device time) is nearest to the offset of
    the clocks: a minimum over the last 16 s. Their drift is the slope of a straight line through the minima of each
    second. What remains is the least delay of the line, which no one-way traffic shows.
    """

    def __init__(self, largest_drift: float = 1e-2) -> None:
        if not 0 <= largest_drift < 0.1:
            raise ParameterError("largest_drift", largest_drift, "0 to 0.1 s/s")
        self._largest_drift = largest_drift
        self.reset()

    def reset(self) -> None:
        """Begin anew, after the device started again."""
        self.drift, self.problem, self.followed = 0.0, "", True
        self._last_us: int | None = None
        self._device_s = 0.0
        # (device time, offset) of the earliest arrival in each second of the device.
        self._minima: deque[tuple[float, float]] = deque(maxlen=_BUCKETS)
        self._bucket_s = 0.0

    def update(self, time_us: int, arrival_s: float) -> float:
        """Note an arrival."""
        if self._last_us is not None:
            self._device_s += wrapped_difference(time_us, self._last_us) * 1e-6
        self._last_us = time_us
        device_s = self._device_s
        offset_s = arrival_s - device_s
        if not self._minima or device_s - self._bucket_s >= _BUCKET_S:
            while self._minima and device_s - self._minima[0][0] > _OLDEST_S:  # after a silence
                self._minima.popleft()
            self._fit_drift()
            self._minima.append((device_s, offset_s))
            self._bucket_s = device_s
        elif offset_s - self._minima[-1][1] < self.drift * (device_s - self._minima[-1][0]):
            self._minima[-1] = (device_s, offset_s)
        least_s = min(offset - self.drift * (time_s - device_s) for time_s, offset in self._minima)
        return min(device_s + least_s, arrival_s)

    def _fit_drift(self) -> None:
        if len(self._minima) < 3:
            return
        count = len(self._minima)
        mean_time = sum(time_s for time_s, _ in self._minima) / count
        mean_offset = sum(offset_s for _, offset_s in self._minima) / count
        variance = sum((time_s - mean_time) ** 2 for time_s, _ in self._minima)
        slope = sum((time_s - mean_time) * (offset_s - mean_offset) for time_s, offset_s in self._minima) / variance
        rest = sum((offset_s - mean_offset - slope * (time_s - mean_time)) ** 2 for time_s, offset_s in self._minima)
        error = math.sqrt(rest / (count - 2) / variance)
        believed = count >= _SEEN_FOR and abs(slope) > QUARTZ + _CERTAINTY * error
        largest = self._largest_drift if believed else min(QUARTZ, self._largest_drift)
        self.drift = min(largest, max(-largest, slope))
        # The offset grows by (1 - rate) / rate for a clock that runs at ``rate``.
        off = -slope / (1 + slope)
        self.problem = f"its clock runs {abs(off):.2%} {'fast' if off > 0 else 'slow'}" if believed else ""
        self.followed = not believed or abs(slope) <= self._largest_drift
        if not self.followed:
            self.problem += f", more than the {self._largest_drift:.2%} that the ages of its frames allow for"
        elif believed:
            self.problem += f": a quartz stays within {QUARTZ:.2%}"
