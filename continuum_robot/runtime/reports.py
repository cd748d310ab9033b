# SPDX-License-Identifier: Apache-2.0
"""What the loop and the commands that answer its states did, as plain numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


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


@dataclass(frozen=True, slots=True)
class ResponseReport:
    """Times from the beginning of a cycle, before it reads, to its command written.

    Attributes
    ----------
    count : cycles that wrote
    p50_us, p99_us, mean_us, maximum_us : NaN when there was none
    """

    count: int
    p50_us: float
    p99_us: float
    mean_us: float
    maximum_us: float

    @classmethod
    def of(cls, times: Any) -> ResponseReport:
        """The report of a histogram.

        Parameters
        ----------
        times : a :class:`~continuum_robot.runtime.timing.Histogram` of either form
        """
        return cls(times.count, times.quantile_us(0.5), times.quantile_us(0.99), times.mean_us, times.maximum_us)
