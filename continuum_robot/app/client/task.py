# SPDX-License-Identifier: Apache-2.0
"""Work in a thread of its own, which can be waited for and cancelled."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import Any

from continuum_robot.errors import RobotFaultError, RobotTimeoutError

END_TIMEOUT_S = 120.0
POLL_S = 0.1
"""Waits are short, so that Ctrl-C is heard."""


class Task:
    """Work that has begun."""

    def __init__(self, name: str, work: Callable[[Task], Any]) -> None:
        self.name = name
        self._work = work
        self._cancelled = threading.Event()
        self._result: Any = None
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._main, name=name, daemon=True)
        self._thread.start()

    @property
    def done(self) -> bool:
        """Whether it has ended."""
        return not self._thread.is_alive()

    def check(self) -> None:
        """Raises RobotFaultError where it was cancelled; for the work."""
        if self._cancelled.is_set():
            raise RobotFaultError(self.name, "was cancelled", "Begin it again")

    def cancel(self) -> None:
        """Ask it to end; does not wait."""
        self._cancelled.set()

    def end(self) -> None:
        """Have it end, and wait for that."""
        self.cancel()
        self._thread.join(END_TIMEOUT_S)

    def result(self, timeout_s: float | None = None) -> Any:
        """Wait for what the work returns, or raise what it raised."""
        end_s = math.inf if timeout_s is None else time.monotonic() + timeout_s
        self._thread.join(POLL_S)
        while not self.done:
            if time.monotonic() > end_s:
                raise RobotTimeoutError(self.name, f"is not over after {timeout_s:g} s", "Wait longer, or cancel()")
            self._thread.join(POLL_S)
        if self._error is not None:
            raise self._error
        return self._result

    def _main(self) -> None:
        try:
            self._result = self._work(self)
        except Exception as error:  # reported where the result is asked for
            self._error = error
