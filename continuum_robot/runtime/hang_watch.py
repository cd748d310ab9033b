# SPDX-License-Identifier: Apache-2.0
"""Who judges the silence of others: of a loop's cycles from outside, and whether the judge was away itself."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class OwnGap:
    """Notices that this program stood still between two looks: stopped, swapped out, or starved.

    Messages that came meanwhile wait in queues that are read only now, so a look right behind a gap would find
    everybody silent.
    """

    def __init__(self, longest_s: float) -> None:
        self._longest_s = longest_s
        self._looked_s: float | None = None
        self._gap = False

    def look(self, now_s: float) -> bool:
        """Whether to let this look pass: there was a gap before it. Never twice in a row, so nothing waits for ever."""
        before_s, self._looked_s = self._looked_s, now_s
        self._gap = before_s is not None and now_s - before_s > self._longest_s and not self._gap
        return self._gap


LOOK_S = 0.05
OWN_GAP_S = 0.2


class HangWatch:
    """Counts how long no cycle has begun, in a thread of its own.

    A time in which this watch did not run either is not counted: then the program stood, and not the cycle alone.
    """

    def __init__(self, cycles: Callable[[], int], limit_s: float, on_change: Callable[[], None]) -> None:
        self._cycles, self._limit_s, self._on_change = cycles, limit_s, on_change
        self.hangs, self.standing_s = False, 0.0
        self._own, self._seen, self._since_s = OwnGap(OWN_GAP_S), -1, 0.0
        self._ended = threading.Event()

    def start(self) -> None:
        """Begin to look, again after :meth:`end` too."""
        self._ended = threading.Event()
        threading.Thread(target=self._run, args=(self._ended,), name="hang watch", daemon=True).start()

    def end(self) -> None:
        """Look no more. Safe to call twice."""
        self._ended.set()

    def look(self, now_s: float) -> None:
        """Look at ``now_s`` (monotonic, s)."""
        cycles, gap = self._cycles(), self._own.look(now_s)
        new = cycles != self._seen
        if new or (gap and not self.hangs):
            self._seen, self._since_s = cycles, now_s
        self.standing_s = now_s - self._since_s
        hangs = not new and (self.hangs or self.standing_s > self._limit_s)
        if hangs != self.hangs:
            self.hangs = hangs
            self._on_change()

    def _run(self, ended: threading.Event) -> None:
        while not ended.wait(LOOK_S):
            self.look(time.monotonic())
