# SPDX-License-Identifier: Apache-2.0
"""The compiled cycle in the driver's thread, and a thread that hands its rows to Python code."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

from continuum_robot.runtime.reports import LoopReport, ResponseReport


class FreeRun:
    """Lets the compiled cycle run without the interpreter lock while nobody wants anything of it."""

    def __init__(self, form: Any, cycle: Any, period_s: float) -> None:
        self._event = os.eventfd(0, os.EFD_CLOEXEC)
        self._loop = form.CycleLoop(cycle, round(period_s * 1e9), self._event)
        self._free: Callable[[], bool] = lambda: False
        self._on_rows: Callable[[], None] = lambda: None
        self._on_failure: Callable[[BaseException], None] = lambda _error: None
        self._ended = False
        self._reader: threading.Thread | None = None

    def serve(
        self, free: Callable[[], bool], on_rows: Callable[[], None], on_failure: Callable[[BaseException], None]
    ) -> None:
        """Begin to hand rows on."""
        self._free, self._on_rows, self._on_failure, self._ended = free, on_rows, on_failure, False
        self._reader = threading.Thread(target=self._read, name="cycle log", daemon=True)
        self._reader.start()

    def arm(self) -> None:
        """Before :meth:`run`: what asked to leave until now is forgotten."""
        self._loop.arm()

    def run(self) -> bool:
        """Run cycles until :meth:`leave`, or for a while where they leave no time to others.

        False at once where Python code is needed in each.
        """
        if not self._free():
            return False
        self._loop.run()
        return True

    def leave(self) -> None:
        """Let :meth:`run` return after the cycle under way."""
        self._loop.leave()

    def end(self) -> None:
        """Tell of no further rows. Safe to call twice."""
        self._ended = True
        reader, self._reader = self._reader, None
        if reader is not None:
            os.eventfd_write(self._event, 1)
            reader.join(2.0)

    def begin_paced(self, start_ns: int, missed: int) -> None:
        """A cycle that Python code runs begins."""
        self._loop.begin_paced(start_ns, missed)

    def end_paced(self, end_ns: int) -> None:
        """It ends at ``end_ns`` (ns)."""
        self._loop.end_paced(end_ns)

    def responded(self, duration_ns: int) -> None:
        """It had written ``duration_ns`` (ns) after its beginning."""
        self._loop.responded(duration_ns)

    def report(self) -> LoopReport:
        """Timing of all cycles, those that Python code ran too."""
        return self._loop.report()

    def response_report(self) -> ResponseReport:
        """Their times from the beginning to the command written."""
        return self._loop.response_report()

    def reset_statistics(self) -> None:
        """Start the statistics over."""
        self._loop.reset_statistics()

    def _read(self) -> None:
        try:
            while not self._ended:
                os.eventfd_read(self._event)
                self._on_rows()
        except BaseException as error:
            if not self._ended:
                self._on_failure(error)

    def __del__(self) -> None:
        """The event goes with the loop."""
        os.close(self._event)
