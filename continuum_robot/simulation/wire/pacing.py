# SPDX-License-Identifier: Apache-2.0
"""Time for simulated devices that run beside the drivers: a thread that steps them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from continuum_robot.errors import ParameterError
from continuum_robot.runtime.periodic import ProcessorFraction


class Pacer:
    """Calls a simulated device's ``step(now_s)`` on the monotonic clock, from a thread of its own.

    A step that comes late is given the time that it is; none is caught up.
    """

    def __init__(self, step: Callable[[float], None], period_s: float = 0.001) -> None:
        if not period_s > 0:
            raise ParameterError("period_s", period_s, "a positive time in s")
        self._step, self._period_s = step, period_s
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None

    def start(self) -> None:
        """Begin."""
        if self._thread is None:
            self._stop.clear()
            self._failure = None
            self._thread = threading.Thread(target=self._run, name="simulated device", daemon=True)
            self._thread.start()

    @property
    def running(self) -> bool:
        """Whether the device is stepped."""
        return self._thread is not None and self._thread.is_alive()

    def stop(self) -> None:
        """End, and wait for it. Safe to call at any time."""
        thread, self._thread = self._thread, None
        self._stop.set()
        if thread is not None:
            thread.join()
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _run(self) -> None:
        due_s = time.monotonic()
        fraction = ProcessorFraction.of_first()
        try:
            while not self._stop.is_set():
                self._step(time.monotonic())
                if fraction is not None and fraction.give_up("simulated device"):
                    fraction = None
                due_s = max(due_s + self._period_s, time.monotonic())
                self._stop.wait(max(0.0, due_s - time.monotonic()))
        except BaseException as error:
            self._failure = error
