# SPDX-License-Identifier: Apache-2.0
"""A thread beside the executor calls a service and waits for its response, or has an action done."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import Any

from rclpy.action import ActionClient
from rclpy.node import Node

from continuum_robot.errors import RobotTimeoutError
from continuum_robot.nodes.base.spinning import run_in_executor, wait_for

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
