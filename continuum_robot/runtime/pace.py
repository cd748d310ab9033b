# SPDX-License-Identifier: Apache-2.0
"""At which pace a cycle runs: in real time in a thread, or in virtual time in the thread that waits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from continuum_robot.runtime.control_thread import Cycle
from continuum_robot.runtime.cycle.driver_cycle import DriverCycle
from continuum_robot.runtime.reports import LoopReport, ResponseReport

Result = TypeVar("Result")


class Pace(Protocol):
    """Runs a cycle again and again; its clock is that of the cycle. :class:`ControlThread` is the one of real time."""

    period_s: float

    @property
    def running(self) -> bool:
        """Whether cycles run."""

    def start(
        self,
        cycle: Cycle,
        *,
        on_failure: Callable[[BaseException], None],
        free: Callable[[], bool],
        on_rows: Callable[[], None],
    ) -> None:
        """Let it run."""

    def stop(self) -> bool:
        """Let the cycle under way end, and no further one run; False where it hangs."""

    def call(self, function: Callable[[], Result], timeout_s: float = 0.5) -> Result:
        """Run ``function`` between two cycles and give its result; at once where none runs."""

    def wait(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Let cycles run until ``condition`` holds, ``timeout_s`` at most; whether it does."""

    def now_s(self) -> float:
        """The time of the cycle, s."""

    def wrote(self, cycle: DriverCycle) -> None:
        """A cycle has written; how long after its beginning is noted in real time."""

    def report(self) -> LoopReport | None:
        """Timing since the last reset; None in virtual time."""

    def response_report(self) -> ResponseReport | None:
        """Times from a cycle's beginning to its command written, since the last reset; None in virtual time."""

    def reset_statistics(self) -> None:
        """Start the statistics over."""


class UntimedPace:
    """What cycles in a time that is not the computer's have in common: nothing is late, and there is no timing."""

    def now_s(self) -> float:
        """The time of the cycle, s; each kind has its own."""
        raise NotImplementedError

    def wrote(self, cycle: DriverCycle) -> None:
        """As :class:`Pace`."""
        cycle.wrote(self.now_s())

    def report(self) -> None:
        """As :class:`Pace`."""

    def response_report(self) -> None:
        """As :class:`Pace`."""

    def reset_statistics(self) -> None:
        """As :class:`Pace`."""


class VirtualPace(UntimedPace):
    """Cycles in virtual time: they run only while somebody waits, as fast as they can."""

    def __init__(self, period_s: float, start_s: float = 0.0, on_step: Callable[[float], object] | None = None) -> None:
        self.period_s, self._on_step = period_s, on_step
        self._now_s, self._cycle_s = start_s, start_s
        self._cycle: Cycle | None = None
        self._on_failure: Callable[[BaseException], None] | None = None

    @property
    def running(self) -> bool:
        """Whether cycles run when time passes."""
        return self._cycle is not None

    def start(
        self,
        cycle: Cycle,
        *,
        on_failure: Callable[[BaseException], None],
        free: Callable[[], bool] = lambda: True,  # noqa: ARG002
        on_rows: Callable[[], None] = lambda: None,  # noqa: ARG002
    ) -> None:
        """As :class:`Pace`; every cycle is run here."""
        self._cycle, self._on_failure, self._cycle_s = cycle, on_failure, self._now_s

    def stop(self) -> bool:
        """As :class:`Pace`."""
        self._cycle = None
        return True

    def call(self, function: Callable[[], Result], timeout_s: float = 0.5) -> Result:  # noqa: ARG002
        """Run ``function`` now."""
        return function()

    def wait(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """As :class:`Pace`."""
        end_s = self._now_s + timeout_s
        while not condition():
            if not self.running or self._now_s > end_s:
                return False
            self.run_one()
        return True

    def run(self, duration_s: float) -> None:
        """Let cycles run."""
        for _ in range(round(duration_s / self.period_s)):
            if self.running:
                self.run_one()

    def run_one(self) -> None:
        """Let one cycle run."""
        self.pass_time(self.period_s)
        cycle, elapsed_s = self._cycle, self._now_s - self._cycle_s
        self._cycle_s = self._now_s
        if cycle is None:
            return
        try:
            cycle(self._now_s, elapsed_s, max(0, round(elapsed_s / self.period_s) - 1))
        except Exception as error:
            self._cycle = None
            if self._on_failure is None:
                raise
            self._on_failure(error)
            raise

    def go_on(self, cycle_s: float) -> None:
        """Cycles have run elsewhere, the last of them at ``cycle_s``, s."""
        self._now_s = self._cycle_s = cycle_s

    @property
    def cycle_s(self) -> float:
        """When the newest cycle began, s."""
        return self._cycle_s

    def pass_time(self, duration_s: float) -> None:
        """Let time pass without a cycle."""
        end_s = self._now_s + duration_s
        while self._now_s < end_s - 1e-9:
            # On the same numbers as a SteppedClock: whole nanoseconds.
            self._now_s = round((self._now_s + min(self.period_s, end_s - self._now_s)) * 1e9) * 1e-9
            if self._on_step is not None:
                self._on_step(self._now_s)

    def now_s(self) -> float:
        """Virtual time, s."""
        return self._now_s
