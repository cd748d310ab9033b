# SPDX-License-Identifier: Apache-2.0
"""Who judges the silence of others has to know whether it was away itself."""

from __future__ import annotations


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
