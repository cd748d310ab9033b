# SPDX-License-Identifier: Apache-2.0
"""Clocks: real time, and simulated time in lock-step.

A clock gives two times. Stamps of messages are ns since the epoch, the same for all computers. Ages, timeouts and
steps are differences of monotonic time, so that a step of the wall clock changes nothing in them.
"""

from __future__ import annotations

import time
from typing import Protocol

from continuum_robot.errors import ParameterError

START_NS = 1_000_000_000
"""Simulated time at which a run in lock-step begins, ns: a stamp of 0 means that there is none."""


class Clock(Protocol):
    """Time of a node or of a cycle."""

    stepped: bool

    def now_ns(self) -> int:
        """Stamp of a message that is made now, ns."""

    def monotonic_ns(self) -> int:
        """Time that never jumps, for differences, ns."""

    def monotonic_s(self) -> float:
        """The same in s."""

    def stamp_ns(self, instant_s: float) -> int:
        """Stamp of an instant that is known on the monotonic clock, ns."""


class RealClock:
    """Real time: stamps from the wall clock, ages from the monotonic one."""

    stepped = False

    def now_ns(self) -> int:
        """Wall-clock time, ns since the epoch."""
        return time.time_ns()

    def monotonic_ns(self) -> int:
        """Monotonic time of this computer, ns."""
        return time.monotonic_ns()

    def monotonic_s(self) -> float:
        """Monotonic time of this computer, s."""
        return time.monotonic()

    def stamp_ns(self, instant_s: float) -> int:
        """See :meth:`Clock.stamp_ns`."""
        since_ns = time.monotonic_ns() - round(instant_s * 1e9)
        return time.time_ns() - since_ns


class SteppedClock:
    """Simulated time, set by the coordinator of lock-step; stamps and ages are the same time."""

    stepped = True

    def __init__(self, start_ns: int = START_NS) -> None:
        self._time_ns = start_ns

    def set_ns(self, time_ns: int) -> None:
        """Set the time."""
        if time_ns < self._time_ns:
            raise ParameterError("time_ns", time_ns, f"at least {self._time_ns}: time does not run backwards")
        self._time_ns = time_ns

    def now_ns(self) -> int:
        """Simulated time, ns."""
        return self._time_ns

    def monotonic_ns(self) -> int:
        """Simulated time, ns."""
        return self._time_ns

    def monotonic_s(self) -> float:
        """Simulated time, s."""
        return self._time_ns * 1e-9

    def stamp_ns(self, instant_s: float) -> int:
        """See :meth:`Clock.stamp_ns`."""
        return round(instant_s * 1e9)
