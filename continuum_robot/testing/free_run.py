# SPDX-License-Identifier: Apache-2.0
"""Cycles of a stack without Python code between them, while nothing in them needs any."""

from __future__ import annotations

from typing import Any

from continuum_robot.runtime.cycle.driver_loop import DriverLoop
from continuum_robot.runtime.pace import VirtualPace
from continuum_robot.simulation.devices.tendon_actuators import SimulatedTendonActuators


class FreeRun:
    """The compiled cycle of a loop around its simulated motors, which it has for itself meanwhile."""

    def __init__(
        self, parts: Any, loop: DriverLoop, pace: VirtualPace, actuators: SimulatedTendonActuators, reference: Any
    ) -> None:
        self._loop, self._pace, self._actuators = loop, pace, actuators
        self.cycles = parts.VirtualRun(loop.cycle, reference, loop.period_s)

    def begin(self, most: int) -> bool:
        """Put the motors into the cycle, for so many cycles at most; False where they need Python code."""
        if not (self._loop.powered and self._loop.runs_free() and self._pace.running):
            return False
        device = self._actuators.lend(most)
        if device is None:
            return False
        self.cycles.put_in(device)
        self.cycles.now_s, self.cycles.before_s = self._pace.now_s(), self._pace.cycle_s
        return True

    def end(self) -> None:
        """Take them out again, and tell the loop's watcher what the newest cycle found."""
        self.cycles.take_out()
        error = self._actuators.take_back()
        self._pace.go_on(self.cycles.now_s)
        self._loop.report_newest(error)

    def run(self, count: int) -> int:
        """Let so many cycles run; how many did, before one that has to be looked at or needs Python code."""
        if not self.begin(count):
            return 0
        self.cycles.run(count)
        self.end()
        return int(self.cycles.done)
