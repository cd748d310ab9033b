# SPDX-License-Identifier: Apache-2.0
"""A python-can bus between two ends in one thread: as its interface virtual, at a fifth of the time a frame."""

from __future__ import annotations

from collections import deque
from typing import Any

import can

MOST_FRAMES = 20000


class MemoryBus(can.BusABC):
    """One end of a bus; :meth:`pair` makes both. Frames are handed over as they are and never wait for anything.

    An end that nobody reads keeps the newest ``MOST_FRAMES`` frames.

    Parameters
    ----------
    channel : name, for messages
    inbox, outbox : frames to this end, and to the other
    """

    def __init__(self, channel: str, inbox: deque[can.Message], outbox: deque[can.Message]) -> None:
        super().__init__(channel=channel)
        self.channel_info = f"in memory: {channel}"
        self._inbox, self._outbox = inbox, outbox

    @classmethod
    def pair(cls, channel: str) -> tuple[MemoryBus, MemoryBus]:
        """Both ends of a bus."""
        first: deque[can.Message] = deque(maxlen=MOST_FRAMES)
        second: deque[can.Message] = deque(maxlen=MOST_FRAMES)
        return cls(channel, first, second), cls(channel, second, first)

    def send(self, msg: can.Message, timeout: float | None = None) -> None:  # noqa: ARG002
        """Hand a frame over. Raises :class:`can.CanOperationError` on an end that was shut down.

        Parameters
        ----------
        msg : the frame
        timeout : s; not used: nobody waits in virtual time
        """
        if self._is_shutdown:
            raise can.CanOperationError("the bus is shut down")
        self._outbox.append(msg)

    def recv(self, timeout: float | None = None) -> can.Message | None:  # noqa: ARG002
        """The next frame, None where there is none now.

        Parameters
        ----------
        timeout : s; not used: nobody waits in virtual time

        Raises
        ------
        CanOperationError : the end was shut down
        """
        if self._is_shutdown:
            raise can.CanOperationError("the bus is shut down")
        return self._inbox.popleft() if self._inbox else None

    def _recv_internal(self, timeout: float | None) -> tuple[Any, bool]:
        return self.recv(timeout), True

    def __del__(self) -> None:
        """Nothing outside of this process hangs on it, so that nobody needs to be warned."""
