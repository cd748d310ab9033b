# SPDX-License-Identifier: Apache-2.0
"""Who writes on a topic that has one owner: the first that does, until it is silent, gone, or hands over."""

from __future__ import annotations

NOBODY = b""


class WriterClaim:
    """Admits the messages of one writer, and refuses those of any other meanwhile."""

    def __init__(self, silence_s: float) -> None:
        self._silence_s, self._heard_s = silence_s, 0.0
        self.holder = self.intruder = NOBODY
        self.refused = 0
        self._returns, self._disturbed = 0, False

    @property
    def contested(self) -> bool:
        """Whether the holder went on after messages of another, and did so again: one overlap may be a handover."""
        return self._returns > 1

    def admits(self, gid: bytes, now_s: float) -> bool:
        """Whether a message is the owner's."""
        if gid == self.holder:
            self._heard_s = now_s
            self._returns += self._disturbed
            self._disturbed = False
            return True
        if self.holder == NOBODY or now_s - self._heard_s > self._silence_s:
            self.release()
            self.holder, self._heard_s = gid, now_s
            return True
        self.refuse(gid)
        return False

    def refuse(self, gid: bytes) -> None:
        """Count a message of another."""
        self.refused += 1
        self.intruder, self._disturbed = gid, True

    def settle(self) -> None:
        """What was contested is dealt with; the holder keeps the claim."""
        self._returns, self._disturbed = 0, False

    def release(self) -> None:
        """The topic is nobody's; the count of refused messages stays."""
        self.holder = NOBODY
        self.settle()
