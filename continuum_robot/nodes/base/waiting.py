# SPDX-License-Identifier: Apache-2.0
"""Coroutines of a node wait for a time or for a service, each wait ends, and the executor goes on meanwhile."""

from __future__ import annotations

import functools
import time
from dataclasses import dataclass, field
from typing import Any

from rclpy.clock import Clock, ClockType
from rclpy.node import Node
from rclpy.task import Future

from continuum_robot.runtime.own_gap import OwnGap

LONGEST_GAP_S = 0.5


@dataclass
class _Wait:
    """A future that ends by itself at a deadline."""

    deadline_s: float
    future: Future[Any] = field(default_factory=Future)


def _finish(wait: _Wait, done: Future[Any]) -> None:
    if not wait.future.done() and not done.cancelled():
        wait.future.set_result(done.result())


class Waiting:
    """Ends waits whose time has come, by a timer of the node. All in the executor's thread."""

    def __init__(self, node: Node, period_s: float) -> None:
        self._waits: list[_Wait] = []
        self._gap = OwnGap(LONGEST_GAP_S)
        self._timer = node.create_timer(period_s, self._tick, clock=Clock(clock_type=ClockType.STEADY_TIME))

    async def sleep(self, duration_s: float) -> None:
        """Wait for a time, to the next period; 0: until then."""
        await self._until(duration_s).future

    async def call(self, client: Any, request: Any, timeout_s: float, again_s: float | None = None) -> Any:
        """Call a service; the response, None where there was none in time."""
        deadline_s = time.monotonic() + timeout_s
        calls: list[Future[Any]] = []
        try:
            while True:
                left_s = deadline_s - time.monotonic()
                wait = self._until(left_s if again_s is None else min(again_s, left_s))
                calls.append(client.call_async(request))
                for call in calls:
                    call.add_done_callback(functools.partial(_finish, wait))
                response = await wait.future
                if response is not None or again_s is None or time.monotonic() >= deadline_s:
                    return response
        finally:
            for call in calls:
                if not call.done():
                    client.remove_pending_request(call)

    def _until(self, duration_s: float) -> _Wait:
        wait = _Wait(time.monotonic() + duration_s)
        self._waits.append(wait)
        return wait

    def _tick(self) -> None:
        now_s = time.monotonic()
        away = self._gap.look(now_s)  # this program stood still: answers may wait that came in time
        if away or not self._waits:
            return
        expired = [wait for wait in self._waits if wait.deadline_s <= now_s or wait.future.done()]
        if expired:
            self._waits = [wait for wait in self._waits if wait not in expired]
        for wait in expired:
            if not wait.future.done():
                wait.future.set_result(None)
