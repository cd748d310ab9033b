# SPDX-License-Identifier: Apache-2.0
"""Threads that work for a loop with real-time priority, and would hold it up without one."""

from __future__ import annotations

import contextlib
import os
import threading


class Urgency:
    """Gives a thread the priority of whoever needs its results, which may be a loop under SCHED_FIFO."""

    def __init__(self) -> None:
        self._whose: tuple[int, int | None] | None = None

    def as_of_caller(self, thread: threading.Thread | None) -> None:
        """Give a thread the calling thread's scheduler and priority, once for each pair; nothing where not allowed."""
        if thread is None or thread is threading.current_thread():
            return
        whose = threading.get_native_id(), thread.native_id
        if whose != self._whose and thread.native_id is not None:
            self._whose = whose
            with contextlib.suppress(OSError, AttributeError):  # no such thread any more, or not on Linux
                os.sched_setscheduler(thread.native_id, os.sched_getscheduler(0), os.sched_getparam(0))
