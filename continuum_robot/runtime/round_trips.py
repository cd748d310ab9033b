# SPDX-License-Identifier: Apache-2.0
"""Round trips from a state to the command of another program that answers it."""

from __future__ import annotations

from continuum_robot.runtime.reports import RoundTripReport
from continuum_robot.runtime.timing import Histogram


class RoundTripStatistics:
    """Matches commands with the states they answer, by sequence number."""

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
        """A command that answers state ``sequence`` arrived; its round trip in ns, None where there is no state."""
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
