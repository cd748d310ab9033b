# SPDX-License-Identifier: Apache-2.0
"""The parts of the supervisor's node: the nodes that it manages, the services that ask it, another supervisor."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from lifecycle_msgs.msg import State, TransitionEvent
from lifecycle_msgs.srv import ChangeState, GetState
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.executors import ExternalShutdownException, MultiThreadedExecutor, ShutdownException
from rclpy.node import Node

from continuum_robot.errors import DeviceError, ParameterError
from continuum_robot.msg import StackStatus
from continuum_robot.nodes.base.lifecycle import ManagedNode
from continuum_robot.nodes.base.requests import check_request
from continuum_robot.nodes.base.waiting import Waiting
from continuum_robot.nodes.topics import qos
from continuum_robot.nodes.topics.owned_topic import full_name_of, subscribe_to_owner
from continuum_robot.srv import ManageStack


class Presence:
    """Whether a program seems to be gone, by what is known of it. Times are those of one monotonic clock, s."""

    def __init__(self, silence_s: float, vanished_s: float) -> None:
        self._silence_s, self._vanished_s = silence_s, vanished_s
        self._heard_s = -math.inf
        self._unseen_since_s = math.inf

    def heard(self, now_s: float) -> None:
        """It reported or answered something, at ``now_s`` (s)."""
        self._heard_s = now_s

    def heard_since(self, then_s: float) -> bool:
        """Whether it was heard later than ``then_s`` (s)."""
        return self._heard_s > then_s

    def forget(self) -> None:
        """It is gone, and was never heard."""
        self._heard_s = -math.inf

    def forgive(self, now_s: float) -> None:
        """The judge was away itself: nobody's silence until ``now_s`` (s) counts."""
        if self._heard_s > -math.inf:
            self._heard_s = now_s
        self._unseen_since_s = math.inf

    def seems_gone(self, now_s: float, *, listed: bool) -> bool:
        """Whether it was silent, or not listed, for too long."""
        self._unseen_since_s = math.inf if listed else min(self._unseen_since_s, now_s)
        silent = self._heard_s > -math.inf and now_s - self._heard_s > self._silence_s
        return silent or now_s - self._unseen_since_s > self._vanished_s


UNKNOWN = "unknown"
HEARTBEAT_TIMEOUT_S = 3.0
"""Silence after which a node is asked whether it is still there, s."""
VANISHED_S = 1.2
ANSWER_TIMEOUT_S = 2.0
JUDGED_AFTER_S = 3.0
"""Time that a node has to answer that question before it counts as lost, s."""
ASK_AGAIN_S = 1.0
_LABELS = {
    State.PRIMARY_STATE_UNCONFIGURED: "unconfigured",
    State.PRIMARY_STATE_INACTIVE: "inactive",
    State.PRIMARY_STATE_ACTIVE: "active",
    State.PRIMARY_STATE_FINALIZED: "finalized",
}


class Managed:
    """What the supervisor knows of one node, and what it asks of it."""

    def __init__(self, supervisor: ManagedNode, name: str, waiting: Waiting, on_state: Callable[[], None]) -> None:
        self.name = name
        self.state = UNKNOWN
        self.problem = self.defect = ""
        self._waiting, self._on_state = waiting, on_state
        self._namespace, self._in_graph = supervisor.get_namespace(), supervisor.get_node_names_and_namespaces
        # As its transitions reported; unlike `state`, no answer of a process that came in its place changes it.
        self._announced = UNKNOWN
        self.lost = self._asked = False
        self._presence = Presence(HEARTBEAT_TIMEOUT_S, VANISHED_S)
        self._change: Any = supervisor.create_client(ChangeState, f"{name}/change_state")
        self._get: Any = supervisor.create_client(GetState, f"{name}/get_state")
        topic, owner = f"{name}/transition_event", full_name_of(supervisor, name)
        subscribe_to_owner(supervisor, TransitionEvent, topic, self._on_transition, owner, qos.events())

    def back(self) -> None:
        """It was lost, and counts as being there again."""
        self.lost = False

    @property
    def settled(self) -> bool:
        """Whether it is in a state, and not between two, as far as known."""
        return self.state in _LABELS.values()

    async def refresh(self, patience_s: float = 0.0) -> bool:
        """Ask it for its state."""
        end_s = time.monotonic() + patience_s
        while not self._get.service_is_ready():
            if time.monotonic() >= end_s:
                self.state = UNKNOWN
                return True
            await self._waiting.sleep(0.0)
        response = await self._waiting.call(self._get, GetState.Request(), ANSWER_TIMEOUT_S)
        self.state = UNKNOWN if response is None else str(response.current_state.label)
        if response is not None:
            # It may die before its first word on /diagnostics.
            self._hear(self.state)
            if self._announced == UNKNOWN:
                self._announced = self.state
        return response is not None

    def forgive(self) -> None:
        """The supervisor was away, or did not hear itself: what was not heard of the node until now does not count."""
        self._presence.forgive(time.monotonic())

    def seems_gone(self) -> bool:
        """Whether it has to be asked, by :meth:`answers`: its services vanished, it is silent on /diagnostics, or what
        speaks in its place contradicts what it announced.
        """
        # While another stack of this name leaves, the middleware counts its requests and responses unequal and calls
        # our own services not ready for a moment.
        listed = self._change.service_is_ready()
        return not self.lost and not self._asked and self._presence.seems_gone(time.monotonic(), listed=listed)

    async def answers(self) -> bool:
        """Ask it whether it is still there, as long as the graph has it.

        Beside a second stack of this name the nodes of that one answer too.
        """
        self._asked, asked_s = True, time.monotonic()
        try:
            while not self._presence.heard_since(asked_s):
                left_s = asked_s + JUDGED_AFTER_S - time.monotonic()
                if left_s <= 0.0 or (self.name, self._namespace) not in self._in_graph():
                    return False
                response = await self._waiting.call(self._get, GetState.Request(), left_s, ASK_AGAIN_S)
                if response is not None:
                    self._hear(str(response.current_state.label))
                await self._waiting.sleep(ASK_AGAIN_S / 10)
            return True
        finally:
            self._asked = False

    def lose(self) -> None:
        """It is gone."""
        self.lost, self.state, self._announced = True, UNKNOWN, UNKNOWN
        self._presence.forget()

    async def appear(self, timeout_s: float, check: Callable[[], None]) -> None:
        """Wait until it answers."""
        deadline_s = time.monotonic() + timeout_s
        while True:
            await self.refresh()
            if self.settled:
                break
            check()
            if time.monotonic() > deadline_s:
                raise DeviceError(self.name, "does not appear", "Start it, or leave it out of node_names")
            await self._waiting.sleep(0.1)
        if self.state == "finalized":
            raise DeviceError(self.name, "is finalized", "Start its program again")
        self.back()

    async def change(self, transition: int, desired: str, timeout_s: float) -> None:
        """Make a transition."""
        request = ChangeState.Request()
        request.transition.id = transition
        self.problem = self.defect = ""
        response = await self._waiting.call(self._change, request, timeout_s)
        if response is not None and response.success:
            self._presence.heard(time.monotonic())
            self.state = desired
        else:
            # Its answer may have been lost; and it is there, whatever the middleware reports: see lose().
            await self.refresh(VANISHED_S)
        if self.state == desired:
            self._announced = desired  # it may have announced it before it was listened to
        self._on_state()
        if self.state == desired:
            return
        if response is None:
            raise DeviceError(self.name, f"did not become {desired} within {timeout_s:g} s", "Look at its log")
        await self._waiting.sleep(0.1)  # its diagnostics with the reason are under way
        reason = self.problem or f"is {self.state} instead of {desired}"
        raise DeviceError(self.name, reason.rstrip("."), "Remove the cause, then bring the stack up again")

    def heard(self, problem: str, state: str = "", defect: str = "") -> None:
        """It spoke on /diagnostics."""
        self._hear(state)
        self.problem, self.defect = problem, defect

    def _hear(self, state: str) -> None:
        """Something that calls itself so is in this state, "" where it does not say."""
        if not self._replaced(state):
            self._presence.heard(time.monotonic())

    def _replaced(self, state: str) -> bool:
        """Whether another process of that name reports this state, started in place of a dead one: a transition would
        have been announced.
        """
        return state == "unconfigured" and self._announced in ("inactive", "active")

    def _on_transition(self, event: TransitionEvent) -> None:
        label = _LABELS.get(event.goal_state.id)
        if label is not None:
            self.state = self._announced = label
            self._on_state()


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
        self._node = node.helper("manage")
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


RIVAL_S = 3.0


class SecondSupervisor:
    """Detects ``stack_status`` of another supervisor among this supervisor's."""

    def __init__(self, node: Node, waiting: Waiting, listen_s: float) -> None:
        self._namespace, self._waiting = node.get_namespace(), waiting
        self._listen_s = listen_s
        self._own_stamps: deque[tuple[int, int]] = deque(maxlen=50)
        self._heard_s = -math.inf
        self._listened = False
        node.create_subscription(StackStatus, "stack_status", self._on_status, qos.latched())

    @property
    def present(self) -> bool:
        """Whether another supervisor speaks in this namespace: its nodes have the same names as ours."""
        return time.monotonic() - self._heard_s < RIVAL_S

    def own(self, message: StackStatus) -> None:
        """A status of this supervisor, before it is published."""
        self._own_stamps.append((message.header.stamp.sec, message.header.stamp.nanosec))

    async def refuse_after_discovery(self) -> None:
        """As :meth:`refuse`, once there was time to hear of another one."""
        if not self._listened:
            # The status of another supervisor is latched: it comes as soon as it is discovered.
            await self._waiting.sleep(self._listen_s)
            self._listened = True
        self.refuse()

    def refuse(self) -> None:
        """Raise :class:`DeviceError` where there is one."""
        if self.present:
            raise DeviceError(
                "supervisor",
                f"another one manages the namespace {self._namespace} in this DDS domain",
                "Stop that stack, or give this one another namespace or ROS_DOMAIN_ID",
            )

    def _on_status(self, message: StackStatus) -> None:
        stamp = message.header.stamp
        if (stamp.sec, stamp.nanosec) not in self._own_stamps:
            self._heard_s = time.monotonic()
