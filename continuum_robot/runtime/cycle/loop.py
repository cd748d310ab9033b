# SPDX-License-Identifier: Apache-2.0
"""The driver's cycle at absolute deadlines, without the interpreter lock where it is compiled. Stepped code."""

from __future__ import annotations

import cython

from continuum_robot.runtime.cycle.driver_cycle import DriverCycle
from continuum_robot.runtime.timing import LoopTiming
from continuum_robot.stepped.buffers import stepped
from continuum_robot.stepped.system_calls import monotonic_ns, wake_up

BUSY_WINDOW_NS = cython.declare(cython.longlong, 250_000_000)
BUSY_FRACTION = cython.declare(cython.double, 0.8)


@cython.cclass
class CycleLoop(LoopTiming):
    """Runs a :class:`DriverCycle` until it is asked to leave."""

    cycle: DriverCycle
    before_ns: cython.longlong
    wake_descriptor: cython.int
    leaves: cython.bint
    window_ns: cython.longlong
    busy_ns: cython.longlong

    def __init__(self, cycle: DriverCycle, period_ns: int, wake_descriptor: int = -1) -> None:
        super().__init__(period_ns)
        self.cycle, self.wake_descriptor = cycle, wake_descriptor
        self.before_ns = self.window_ns = self.busy_ns = 0
        self.leaves = False

    @stepped
    def run_on(self) -> cython.void:
        """Cycles until :attr:`leaves`."""
        while not self.leaves:
            self.run_one(self.deadlines.wait(), self.deadlines.missed)

    @stepped
    def run_one(self, start_ns: cython.longlong, missed: cython.longlong) -> cython.void:
        """A cycle that begins at ``start_ns`` (ns), after ``missed`` deadlines that passed."""
        end_ns: cython.longlong
        self.statistics.begin(start_ns, missed)
        if self.before_ns == 0:
            self.before_ns = start_ns - self.period_ns
        self.cycle.step(start_ns * 1e-9, (start_ns - self.before_ns) * 1e-9, missed)
        self.before_ns = start_ns
        end_ns = monotonic_ns()
        if self.cycle.written:
            self.responses.add(end_ns - start_ns)
            self.cycle.note_written(end_ns * 1e-9)
        self.statistics.end(end_ns)
        self.watch(start_ns, end_ns)
        if self.wake_descriptor >= 0:
            wake_up(self.wake_descriptor)

    @stepped
    def watch(self, start_ns: cython.longlong, end_ns: cython.longlong) -> cython.void:
        """Leave after a cycle from ``start_ns`` to ``end_ns`` (ns) where cycles used nearly all the time for a while.

        Outside somebody decides whether this thread may keep a priority that stops everything else.
        """
        self.busy_ns += end_ns - start_ns
        if end_ns - self.window_ns > BUSY_WINDOW_NS:
            if self.busy_ns > BUSY_FRACTION * (end_ns - self.window_ns):
                self.leaves = True
            self.window_ns, self.busy_ns = end_ns, 0

    def arm(self) -> None:
        """Before :meth:`run`: what asked to leave until now is forgotten."""
        self.leaves = False

    def run(self) -> None:
        """Run until :meth:`leave`, or until it is too busy; in the compiled form without the interpreter lock."""
        self.before_ns, self.window_ns, self.busy_ns = 0, monotonic_ns(), 0
        with cython.nogil:
            self.run_on()

    def leave(self) -> None:
        """Leave :meth:`run` after the cycle under way."""
        self.leaves = True
