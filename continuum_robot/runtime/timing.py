# SPDX-License-Identifier: Apache-2.0
"""Timing of a periodic loop: its deadlines, and statistics of its periods and execution times. Stepped code."""

from __future__ import annotations

import math

import cython

from continuum_robot.runtime.reports import LoopReport, ResponseReport
from continuum_robot.stepped.buffers import counters, stepped
from continuum_robot.stepped.system_calls import monotonic_ns, sleep_until_ns


@cython.cclass
class Histogram:
    """Counts of times in bins of equal width; quantiles to a bin's width, constant memory and time."""

    bins: cython.longlong[::1]
    last: cython.int
    scale: cython.double
    _bin_us: cython.double
    _count: cython.longlong
    sum_us: cython.double
    square_sum_us2: cython.double
    _maximum_us: cython.double

    def __init__(self, bin_us: float = 5.0, limit_us: float = 20_000.0) -> None:
        self._bin_us = bin_us
        self.scale = 1.0 / (1000.0 * bin_us)
        self.last = int(limit_us / bin_us)
        self.bins = counters(self.last + 1)
        self.clear()

    @stepped
    def clear(self) -> cython.void:
        """Forget everything."""
        index: cython.int
        for index in range(self.last + 1):
            self.bins[index] = 0
        self._count = 0
        self.sum_us = self.square_sum_us2 = 0.0
        self._maximum_us = 0.0

    @stepped
    def add(self, time_ns: cython.longlong) -> cython.void:
        """Count a time ``time_ns`` of at least 0 ns."""
        time_us: cython.double = time_ns * 1e-3
        index: cython.int = self.last
        if time_ns * self.scale < self.last:
            index = int(time_ns * self.scale)
        self.bins[index] += 1
        self._count += 1
        self.sum_us += time_us
        self.square_sum_us2 += time_us * time_us
        if time_us > self._maximum_us or self._count == 1:
            self._maximum_us = time_us

    @property
    def bin_us(self) -> float:
        """Width of a bin, us."""
        return self._bin_us

    @property
    def count(self) -> int:
        """How many were counted."""
        return self._count

    @property
    def maximum_us(self) -> float:
        """The longest, us; NaN when empty."""
        return self._maximum_us if self._count else math.nan

    @property
    def mean_us(self) -> float:
        """Mean, us; NaN when empty."""
        return self.sum_us / self._count if self._count else math.nan

    @property
    def deviation_us(self) -> float:
        """Standard deviation, us; NaN when empty."""
        if not self._count:
            return math.nan
        mean_us = self.sum_us / self._count
        return math.sqrt(max(0.0, self.square_sum_us2 / self._count - mean_us * mean_us))

    def reset(self) -> None:
        """Forget everything."""
        self.clear()

    def quantile_us(self, fraction: float) -> float:
        """The time that a ``fraction`` (0 to 1) of all do not exceed, us: the upper edge of its bin; NaN when empty."""
        index: cython.int
        if not self._count:
            return math.nan
        desired, seen = max(1, math.ceil(fraction * self._count)), 0
        for index in range(self.last):
            seen += self.bins[index]
            if seen >= desired:
                return min(self._maximum_us, (index + 1) * self._bin_us)
        return self._maximum_us


@cython.cclass
class LoopStatistics:
    """Period, execution time and missed deadlines of a loop; one thread writes, any other may read a report."""

    period: Histogram
    execution: Histogram
    reset_asked: cython.bint
    cycles: cython.longlong
    missed: cython.longlong
    begun_ns: cython.longlong
    start_ns: cython.longlong

    def __init__(self) -> None:
        self.period, self.execution = Histogram(), Histogram()
        self.reset_asked = False
        self.clear(0)

    @stepped
    def clear(self, now_ns: cython.longlong) -> cython.void:
        """Start over at ``now_ns`` (ns)."""
        self.period.clear()
        self.execution.clear()
        self.cycles = self.missed = 0
        self.begun_ns = self.start_ns = now_ns

    def reset(self) -> None:
        """Start over with the next cycle; safe from any thread."""
        self.reset_asked = True

    @stepped
    def begin(self, now_ns: cython.longlong, missed: cython.longlong) -> cython.void:
        """A cycle starts at ``now_ns`` (ns); ``missed`` deadlines passed since the one before."""
        if self.reset_asked or self.begun_ns == 0:
            self.reset_asked = False
            self.clear(now_ns)
        else:
            self.period.add(now_ns - self.start_ns)
            self.missed += missed
        self.start_ns = now_ns

    @stepped
    def end(self, now_ns: cython.longlong) -> cython.void:
        """The cycle is done at ``now_ns`` (ns)."""
        self.execution.add(now_ns - self.start_ns)
        self.cycles += 1

    def report(self) -> LoopReport:
        """The numbers so far; NaN where nothing was measured."""
        # The first cycle opens the first period, so n starts span n - 1 periods.
        duration_s = (self.start_ns - self.begun_ns) * 1e-9
        period, execution = self.period, self.execution
        deadlines = self.cycles + self.missed
        return LoopReport(
            cycles=self.cycles,
            missed=self.missed,
            duration_s=duration_s,
            rate_hz=period.count / duration_s if duration_s > 0 else math.nan,
            missed_percent=100.0 * self.missed / deadlines if deadlines else math.nan,
            period_mean_us=period.mean_us,
            period_deviation_us=period.deviation_us,
            period_p99_us=period.quantile_us(0.99),
            period_max_us=period.maximum_us,
            execution_mean_us=execution.mean_us,
            execution_deviation_us=execution.deviation_us,
            execution_p99_us=execution.quantile_us(0.99),
            execution_max_us=execution.maximum_us,
        )


@cython.cclass
class Deadlines:
    """Absolute deadlines of a loop on the monotonic clock. Those that passed are counted and skipped, never
    caught up.
    """

    period_ns: cython.longlong
    deadline_ns: cython.longlong
    missed: cython.longlong

    def __init__(self, period_ns: int) -> None:
        self.period_ns = period_ns
        self.deadline_ns = monotonic_ns()
        self.missed = 0

    @stepped
    def wait(self) -> cython.longlong:
        """Wait for the next deadline: the time at which this thread runs on, ns."""
        start_ns: cython.longlong
        self.deadline_ns += self.period_ns
        sleep_until_ns(self.deadline_ns)
        start_ns = monotonic_ns()
        self.missed = 0
        if start_ns - self.deadline_ns >= self.period_ns:
            # The grid of deadlines is kept.
            self.missed = (start_ns - self.deadline_ns) // self.period_ns
            self.deadline_ns += self.missed * self.period_ns
        return start_ns


@cython.cclass
class LoopTiming:
    """Deadlines of a loop, statistics of its cycles, and the times from their beginning to the command written."""

    deadlines: Deadlines
    statistics = cython.declare(LoopStatistics, visibility="readonly")
    responses: Histogram
    period_ns: cython.longlong

    def __init__(self, period_ns: int) -> None:
        self.period_ns, self.deadlines = period_ns, Deadlines(period_ns)
        self.statistics, self.responses = LoopStatistics(), Histogram(1.0, 20_000.0)

    def restart(self) -> None:
        """A grid of deadlines from now on, and statistics of it."""
        self.deadlines = Deadlines(self.period_ns)
        self.reset_statistics()

    def begin_paced(self) -> int:
        """Wait for the next deadline, for a cycle that Python code runs; when it begins, ns."""
        start_ns: cython.longlong
        with cython.nogil:
            start_ns = self.deadlines.wait()
            self.statistics.begin(start_ns, self.deadlines.missed)
        return start_ns

    def end_paced(self) -> None:
        """Such a cycle ends."""
        self.statistics.end(monotonic_ns())

    def responded(self, duration_ns: int) -> None:
        """Such a cycle had written ``duration_ns`` (ns) after its beginning."""
        self.responses.add(duration_ns)

    @property
    def missed(self) -> int:
        """Deadlines that passed before the newest cycle."""
        return self.deadlines.missed

    def response_report(self) -> ResponseReport:
        """Times from a cycle's beginning to its command written, since the last reset."""
        return ResponseReport.of(self.responses)

    def reset_statistics(self) -> None:
        """Start the statistics over."""
        self.statistics.reset()
        self.responses.reset()
