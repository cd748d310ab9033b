# SPDX-License-Identifier: Apache-2.0
"""At most one message a period out of a stream that comes faster."""

from __future__ import annotations


class Thinning:
    """Reports which messages of a stream are due."""

    def __init__(self, grace: float = 0.0) -> None:
        self.period_ns = 0
        self._grace, self._next_ns = grace, 0

    def due(self, now_ns: int) -> bool:
        """Whether a message of this time is due; the next one is a period later, after a gap not to be made up for."""
        if now_ns < self._next_ns - int(self._grace * self.period_ns):
            return False
        late = now_ns - self._next_ns > self.period_ns
        self._next_ns = (now_ns if late else self._next_ns) + self.period_ns
        return True
