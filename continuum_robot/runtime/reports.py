# SPDX-License-Identifier: Apache-2.0
"""What the loop and the commands that answer its states did, as plain numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class LoopReport:
    """What a periodic loop did since its statistics were reset."""

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
    """Round trips from publishing tendon_states to receiving the tendon_commands that answer them."""

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
    """Times from the beginning of a cycle, before it reads, to its command written."""

    count: int
    p50_us: float
    p99_us: float
    mean_us: float
    maximum_us: float

    @classmethod
    def of(cls, times: Any) -> ResponseReport:
        """The report of a histogram."""
        return cls(times.count, times.quantile_us(0.5), times.quantile_us(0.99), times.mean_us, times.maximum_us)
