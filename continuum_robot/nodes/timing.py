# SPDX-License-Identifier: Apache-2.0
"""Statistics of a periodic loop and of the round trip from a state to its command. Plain Python, no ROS."""

from __future__ import annotations

import math
from dataclasses import dataclass


class Histogram:
    """Counts of times in bins of equal width; quantiles to a bin's width, constant memory and time.

    Parameters
    ----------
    bin_us : width of a bin, us
    limit_us : times beyond it share the last bin, us; :attr:`maximum_us` stays exact
    """

    def __init__(self, bin_us: float = 5.0, limit_us: float = 20_000.0) -> None:
        self.bin_us, self.limit_us = bin_us, limit_us
        self._scale = 1.0 / (1000.0 * bin_us)
        self._last = int(limit_us / bin_us)
        self.reset()

    def reset(self) -> None:
        """Forget everything."""
        self._bins = [0] * (self._last + 1)
        self.count = 0
        self._sum_us = 0.0
        self._square_sum_us2 = 0.0
        self.maximum_us = math.nan

    def add(self, time_ns: int) -> None:
        """Count a time, ns.

        Parameters
        ----------
        time_ns : ns
        """
        time_us = time_ns * 1e-3
        index = int(time_ns * self._scale)
        self._bins[index if index < self._last else self._last] += 1
        self.count += 1
        self._sum_us += time_us
        self._square_sum_us2 += time_us * time_us
        if not time_us <= self.maximum_us:
            self.maximum_us = time_us

    @property
    def mean_us(self) -> float:
        """Mean, us; NaN when empty."""
        return self._sum_us / self.count if self.count else math.nan

    @property
    def deviation_us(self) -> float:
        """Standard deviation, us; NaN when empty."""
        if not self.count:
            return math.nan
        return math.sqrt(max(0.0, self._square_sum_us2 / self.count - self.mean_us**2))

    def quantile_us(self, share: float) -> float:
        """The time that ``share`` (0 to 1) of all do not exceed, us: the upper edge of its bin; NaN when empty."""
        if not self.count:
            return math.nan
        wanted, seen = max(1, math.ceil(share * self.count)), 0
        for index, number in enumerate(self._bins):
            seen += number
            if seen >= wanted:
                return min(self.maximum_us, (index + 1) * self.bin_us) if index < self._last else self.maximum_us
        return self.maximum_us


@dataclass(frozen=True, slots=True)
class LoopReport:
    """What a periodic loop did since its statistics were reset.

    Attributes
    ----------
    cycles, missed : cycles run, and deadlines that passed without a cycle
    duration_s : time since the reset
    rate_hz : cycles a second
    missed_percent : missed of all deadlines
    period_mean_us, period_deviation_us, period_p99_us, period_max_us : time between the starts of cycles
    execution_mean_us, execution_deviation_us, execution_p99_us, execution_max_us : time that a cycle took
    """

    cycles: int
    missed: int
    duration_s: float
    rate_hz: float
    missed_percent: float
    period_mean_us: float
    period_deviation_us: float
    period_p99_us: float
    period_max_us: float
    execution_mean_us: float
    execution_deviation_us: float
    execution_p99_us: float
    execution_max_us: float


class LoopStatistics:
    """Period, execution time and missed deadlines of a loop; one thread writes, any other may read a report."""

    def __init__(self) -> None:
        self.period, self.execution = Histogram(), Histogram()
        self._reset_asked = False
        self._clear(0)

    def _clear(self, now_ns: int) -> None:
        self.period.reset()
        self.execution.reset()
        self.cycles = self.missed = 0
        self._begun_ns = self._start_ns = now_ns
        self._end_ns = now_ns

    def reset(self) -> None:
        """Start over with the next cycle; safe from any thread."""
        self._reset_asked = True

    def begin(self, now_ns: int, missed: int) -> None:
        """A cycle starts; ``missed`` deadlines passed since the one before.

        Parameters
        ----------
        now_ns : monotonic clock, ns
        missed : number of deadlines
        """
        if self._reset_asked or self._begun_ns == 0:
            self._reset_asked = False
            self._clear(now_ns)
        else:
            self.period.add(now_ns - self._start_ns)
            self.missed += missed
        self._start_ns = now_ns

    def end(self, now_ns: int) -> None:
        """The cycle is done.

        Parameters
        ----------
        now_ns : monotonic clock, ns
        """
        self.execution.add(now_ns - self._start_ns)
        self.cycles += 1
        self._end_ns = now_ns

    def report(self) -> LoopReport:
        """The numbers so far; NaN where nothing was measured."""
        # The first cycle opens the first period, so n starts span n - 1 periods.
        duration_s = (self._start_ns - self._begun_ns) * 1e-9
        periods, period, execution = self.period.count, self.period, self.execution
        deadlines = self.cycles + self.missed
        return LoopReport(
            cycles=self.cycles,
            missed=self.missed,
            duration_s=duration_s,
            rate_hz=periods / duration_s if duration_s > 0 else math.nan,
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


@dataclass(frozen=True, slots=True)
class RoundTripReport:
    """Round trips from publishing tendon_states to receiving the tendon_commands that answer them.

    Attributes
    ----------
    states : states published
    commands : commands received that answer a known state
    unsequenced : commands received that answer none (sequence 0)
    late : commands received more than a period after their state
    unknown : commands whose sequence was never published, or too long ago
    p50_us, p99_us, mean_us, maximum_us : time of the round trip; NaN when there was none
    """

    states: int
    commands: int
    unsequenced: int
    late: int
    unknown: int
    p50_us: float
    p99_us: float
    mean_us: float
    maximum_us: float


class RoundTripStatistics:
    """Matches commands with the states they answer, by sequence number.

    Parameters
    ----------
    period_s : a command that comes later than this after its state counts as late, s
    memory : number of the newest states that are remembered
    """

    def __init__(self, period_s: float, memory: int = 4096) -> None:
        self._period_ns = round(period_s * 1e9)
        self._memory = memory
        self._sequence = [0] * memory
        self._published_ns = [0] * memory
        self.trips = Histogram()
        self.reset()

    def reset(self) -> None:
        """Forget the statistics, not the states under way."""
        self.trips.reset()
        self.states = self.commands = self.unsequenced = self.late = self.unknown = 0

    def published(self, sequence: int, now_ns: int) -> None:
        """State ``sequence`` (from 1) leaves at monotonic time ``now_ns``."""
        slot = sequence % self._memory
        self._published_ns[slot] = now_ns
        self._sequence[slot] = sequence
        self.states += 1

    def received(self, sequence: int, now_ns: int) -> int | None:
        """A command that answers state ``sequence`` arrived; its round trip in ns, None where there is no state.

        Parameters
        ----------
        now_ns : monotonic clock, ns
        """
        if sequence == 0:
            self.unsequenced += 1
            return None
        slot = sequence % self._memory
        if self._sequence[slot] != sequence:
            self.unknown += 1
            return None
        trip_ns = now_ns - self._published_ns[slot]
        self.trips.add(trip_ns)
        self.commands += 1
        if trip_ns > self._period_ns:
            self.late += 1
        return trip_ns

    def report(self) -> RoundTripReport:
        """The numbers so far."""
        trips = self.trips
        return RoundTripReport(
            states=self.states,
            commands=self.commands,
            unsequenced=self.unsequenced,
            late=self.late,
            unknown=self.unknown,
            p50_us=trips.quantile_us(0.5),
            p99_us=trips.quantile_us(0.99),
            mean_us=trips.mean_us,
            maximum_us=trips.maximum_us,
        )


class WriterWatch:
    """Notices that two writers answer the same states. Plain counting; the middleware only tells how many there are.

    Two publishers may be seen for a while after a killed controller was restarted, so their number alone is no proof.
    """

    def __init__(self) -> None:
        self._newest = 0
        self._alternations = 0
        self._repeated = False

    def command(self, sequence: int) -> None:
        """A command that answers state ``sequence``, 0: of none, arrived."""
        if sequence <= self._newest:
            self._repeated = True
        else:
            # One writer that goes on after another has answered the same, an older state, or none.
            self._alternations += self._repeated
            self._repeated = False
            self._newest = sequence

    def two_writers(self, publishers: int) -> bool:
        """Whether the commands since the last call came from two writers; ``publishers`` are on the topic now."""
        both = publishers > 1 and self._alternations > 1
        self._alternations = 0
        return both
