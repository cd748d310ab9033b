# SPDX-License-Identifier: Apache-2.0
"""Work in a thread that can be waited for and cancelled, one at a time."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import Any

from continuum_robot.errors import DeviceError, RobotFaultError, RobotTimeoutError

END_TIMEOUT_S = 120.0


class Task:
    """Work in a thread of its own.

    Parameters
    ----------
    name : for errors
    work : is called with the task, and looks at :meth:`check` now and then

    Attributes
    ----------
    cancelled : set where it shall end
    result : what the work returned
    error : what it raised
    """

    def __init__(self, name: str, work: Callable[[Task], Any]) -> None:
        self.name = name
        self.cancelled = threading.Event()
        self.result: Any = None
        self.error: Exception | None = None
        self._work = work
        self._thread = threading.Thread(target=self._main, name=name, daemon=True)
        self._thread.start()

    @property
    def done(self) -> bool:
        """Whether it has ended."""
        return not self._thread.is_alive()

    def join(self, timeout_s: float) -> bool:
        """Whether it ended within a time."""
        self._thread.join(timeout_s)
        return self.done

    def check(self) -> None:
        """Raises RobotFaultError where the task was cancelled."""
        if self.cancelled.is_set():
            raise RobotFaultError(self.name, "was cancelled", "Begin it again")

    def _main(self) -> None:
        try:
            self.result = self._work(self)
        except Exception as error:  # told where the result is asked for
            self.error = error


class Tasks:
    """One task at a time; the newest is remembered."""

    def __init__(self) -> None:
        self._newest: Task | None = None

    @property
    def done(self) -> bool:
        """Whether none is under way."""
        return self._newest is None or self._newest.done

    def begin(self, name: str, work: Callable[[Task], Any], *, wait: bool) -> Any:
        """Begin a task, after :meth:`end`.

        Parameters
        ----------
        name, work : as of :class:`Task`
        wait : for its result, else None is returned at once
        """
        task = self._newest = Task(name, work)
        if not wait:
            return None
        try:
            return self.result()
        except BaseException:
            task.cancelled.set()
            raise

    def cancel(self) -> None:
        """Ask the task under way to end; does not wait."""
        if self._newest is not None:
            self._newest.cancelled.set()

    def end(self) -> None:
        """Have the task under way end, and wait for that."""
        self.cancel()
        if self._newest is not None:
            self._newest.join(END_TIMEOUT_S)

    def result(self, timeout_s: float | None = None) -> Any:
        """Wait for what the newest task returns, or raise what it raised.

        Parameters
        ----------
        timeout_s : s; None: for as long as it takes

        Raises
        ------
        DeviceError : there was none
        RobotTimeoutError : it is not over yet; it goes on
        """
        task = self._newest
        if task is None:
            raise DeviceError("robot", "no motion was begun", "Begin one with wait=False")
        end_s = math.inf if timeout_s is None else time.monotonic() + timeout_s
        while not task.join(0.1):  # short waits, so that Ctrl-C is heard
            if time.monotonic() > end_s:
                raise RobotTimeoutError(task.name, f"is not over after {timeout_s:g} s", "Wait longer, or cancel()")
        if task.error is not None:
            raise task.error
        return task.result
