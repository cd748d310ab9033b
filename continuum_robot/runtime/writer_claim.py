# SPDX-License-Identifier: Apache-2.0
"""Who writes on a topic that has one owner: the first that does, until it is silent, or another one takes over."""

from __future__ import annotations

from typing import Generic, TypeVar

Writer = TypeVar("Writer", str, bytes)
"""The writer's name in its messages, or the GID of its publisher."""


class WriterClaim(Generic[Writer]):
    """Admits the messages of one writer, and refuses those of any other meanwhile."""

    def __init__(self, silence_s: float) -> None:
        self._silence_s, self._heard_s, self._for_good = silence_s, 0.0, False
        self.holder: Writer | None = None
        self.intruder: Writer | None = None
        self.refused = 0
        self._returns, self._disturbed = 0, False

    @property
    def contested(self) -> bool:
        """Whether the holder went on after messages of another, and did so again: one overlap may be a handover."""
        return self._returns > 1

    def admits(self, writer: Writer, now_s: float) -> bool:
        """Whether a message is the owner's."""
        if writer != self.holder:
            held = self.holder is not None and (self._for_good or now_s - self._heard_s <= self._silence_s)
            if held:
                self.refuse(writer)
                return False
            self.take(writer, now_s)
        self._heard_s = now_s
        self._returns += self._disturbed
        self._disturbed = False
        return True

    def take(self, writer: Writer, now_s: float, *, for_good: bool = False) -> None:
        """The topic is this writer's from now on; ``for_good``: however long it is silent."""
        self.release()
        self.holder, self._heard_s, self._for_good = writer, now_s, for_good

    def refuse(self, writer: Writer) -> None:
        """Count a message of another."""
        self.refused += 1
        self.intruder, self._disturbed = writer, True

    def settle(self) -> None:
        """What was contested is dealt with; the holder keeps the claim."""
        self._returns, self._disturbed = 0, False

    def release(self) -> None:
        """The topic is nobody's; the count of refused messages stays."""
        self.holder, self._for_good = None, False
        self.settle()
