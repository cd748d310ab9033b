# SPDX-License-Identifier: Apache-2.0
"""The services by which others manage the stack: they answer when an operation has ended, in threads of their own.

An operation takes seconds. An ``async`` callback could wait for it in the executor's thread, but rclpy's EventsExecutor
sends an answer of such callbacks only from 7.1.11 (Jazzy) and 9.1.2 (Kilted) on.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.executors import ExternalShutdownException, MultiThreadedExecutor, ShutdownException
from rclpy.node import Node

from continuum_robot.errors import ParameterError
from continuum_robot.nodes.base.lifecycle import ManagedNode
from continuum_robot.nodes.base.requests import check_request
from continuum_robot.srv import ManageStack

ASKERS = 4
"""Programs that may wait for an operation at the same time: a newer request interrupts the one under way."""
SPIN_TIMEOUT_S = 1.0
CLOSE_TIMEOUT_S = 5.0
MEET_TIMEOUT_S = 5.0


def _meet(others: threading.Barrier) -> None:
    with contextlib.suppress(threading.BrokenBarrierError):
        others.wait(MEET_TIMEOUT_S)


class ManageService:
    """Serves ManageStack under several names."""

    def __init__(
        self, node: ManagedNode, names: Sequence[str], operate: Callable[[int], Coroutine[Any, Any, tuple[bool, str]]]
    ) -> None:
        self._supervisor, self._operate = node, operate
        self._closed = threading.Event()
        # Hidden from lists, as its name begins with an underscore; named and resolved as the e-stop's.
        self._node = Node(
            f"_{node.get_name()}_manage",
            context=node.context,
            namespace=node.get_namespace(),
            use_global_arguments=False,
            enable_rosout=False,
            start_parameter_services=False,
        )
        group = ReentrantCallbackGroup()
        for name in names:
            self._node.create_service(ManageStack, node.resolve_service_name(name), self._serve, callback_group=group)
        self._executor = MultiThreadedExecutor(num_threads=ASKERS, context=node.context)
        self._executor.add_node(self._node)
        # All threads now: one that is first needed on the day of two resets at once looks like a leak.
        met = threading.Barrier(ASKERS)
        for _ in range(ASKERS):
            self._executor.create_task(_meet, met)
        self._thread = threading.Thread(target=self._spin, name="manage_stack", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End; callers that still wait are answered."""
        self._closed.set()
        ended = self._executor.shutdown(CLOSE_TIMEOUT_S)
        self._thread.join(CLOSE_TIMEOUT_S)
        if ended and not self._thread.is_alive():
            self._node.destroy_node()

    def _serve(self, request: ManageStack.Request, response: ManageStack.Response) -> ManageStack.Response:
        try:
            command = check_request("ManageStack", request).command
        except ParameterError as error:
            response.message = f"refused: {error}, see ManageStack.srv"
            return response
        executor: Any = self._supervisor.executor
        if executor is None:
            response.message = "refused: the supervisor is not being spun"
            return response
        done = threading.Event()
        task = executor.create_task(self._operate(command))
        task.add_done_callback(lambda _task: done.set())
        while not done.wait(SPIN_TIMEOUT_S):
            if self._closed.is_set() or not self._supervisor.context.ok():
                response.message = "the supervisor ends"
                return response
        response.success, response.message = task.result()
        return response

    def _spin(self) -> None:
        while self._supervisor.context.ok() and not self._closed.is_set():
            try:
                self._executor.spin_once(timeout_sec=SPIN_TIMEOUT_S)
            except (ExternalShutdownException, ShutdownException):
                return
            except Exception as error:
                if self._closed.is_set():  # a request came while the executor was shut down
                    return
                self._supervisor.on_defect(error)
