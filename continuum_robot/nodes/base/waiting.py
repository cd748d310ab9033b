# SPDX-License-Identifier: Apache-2.0
"""Waits that end: of coroutines, while the executor goes on, and of threads beside it."""

from __future__ import annotations

import contextlib
import functools
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from rclpy.action import ActionClient
from rclpy.clock import Clock, ClockType
from rclpy.node import Node
from rclpy.task import Future

from continuum_robot.errors import RobotTimeoutError
from continuum_robot.nodes.base.spinning import run_in_executor, wait_for
from continuum_robot.runtime.hang_watch import OwnGap

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


AGAIN_S = 1.0
"""An answer is lost where the server has not yet found the client's reader 0.1 s after the request: as on a busy
machine, in the first moment of a program's life. The same request a second later finds both joined."""


def call_service(client: Any, request: Any, timeout_s: float, again_s: float | None = None) -> Any:
    """Call a service and wait for its response, which the node's executor, another thread, takes in."""
    if not wait_for(client.service_is_ready, timeout_s):
        raise RobotTimeoutError(
            client.srv_name, f"is not there after {timeout_s:g} s", "Is the stack up, and its namespace?"
        )
    answered = threading.Event()
    calls = []
    end_s = time.monotonic() + timeout_s
    while (left_s := end_s - time.monotonic()) > 0.0:
        calls.append(client.call_async(request))
        calls[-1].add_done_callback(lambda _call: answered.set())
        if answered.wait(left_s if again_s is None else min(left_s, again_s * 2 ** (len(calls) - 1))):
            break
    responses = [call.result() for call in calls if call.done()]
    for call in calls:
        if not call.done():
            client.remove_pending_request(call)
    if not responses:
        raise RobotTimeoutError(
            client.srv_name, f"did not answer within {timeout_s:g} s", "Look at the log of its node"
        )
    return responses[0]


@contextlib.contextmanager
def action_client(node: Node, kind: Any, name: str) -> Iterator[Any]:
    """A client of an action, while the block lasts, of a node that another thread spins.

    rclpy shows the client to the executor before it is complete, and it is only then safe that the executor does not
    look: it is made and destroyed in the executor's own thread.
    """
    client = run_in_executor(node.executor, lambda: ActionClient(node, kind, name))
    try:
        yield client
    finally:
        run_in_executor(node.executor, client.destroy)
