# SPDX-License-Identifier: Apache-2.0
"""One node that the supervisor manages: its lifecycle state, transitions, and whether it is still there.

A node is there while its messages arrive, or its services are in the graph.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

from lifecycle_msgs.msg import State, TransitionEvent
from lifecycle_msgs.srv import ChangeState, GetState
from rclpy.node import Node

from continuum_robot.errors import DeviceError
from continuum_robot.nodes.base.waiting import Waiting
from continuum_robot.nodes.topics import qos


class Presence:
    """Judges one program by what is known of it. Times are those of one monotonic clock, s.

    Parameters
    ----------
    silence_s : for so long a program may say nothing once it was heard, s
    vanished_s : for so long its services may not be listed, s
    replaced_s : for so long what speaks under its name may contradict what is known of it, s

    Attributes
    ----------
    lost : it was found gone, and has not been heard since :meth:`back`
    """

    def __init__(self, silence_s: float, vanished_s: float, replaced_s: float = math.inf) -> None:
        self._silence_s, self._vanished_s, self._replaced_s = silence_s, vanished_s, replaced_s
        self._heard_s = -math.inf
        self._unseen_since_s = self._another_since_s = math.inf
        self.lost = False

    def heard(self, now_s: float, *, same: bool = True) -> None:
        """It reported or answered something.

        Parameters
        ----------
        now_s : s
        same : what it reports can come from the program that was there
        """
        self._heard_s = now_s
        self._another_since_s = math.inf if same else min(self._another_since_s, now_s)

    def back(self) -> None:
        """It counts as being there again."""
        self.lost = False

    def ask_again(self, now_s: float) -> None:
        """The judge was away itself: nobody's silence until now counts.

        Parameters
        ----------
        now_s : s
        """
        if self._heard_s > -math.inf:
            self._heard_s = now_s
        self._unseen_since_s = self._another_since_s = math.inf

    def lose(self, now_s: float, *, listed: bool) -> bool:
        """Whether it is found gone now, for the first time.

        Parameters
        ----------
        now_s : s
        listed : its services are there
        """
        self._unseen_since_s = math.inf if listed else min(self._unseen_since_s, now_s)
        silent = self._heard_s > -math.inf and now_s - self._heard_s > self._silence_s
        replaced = self._heard_s - self._another_since_s > self._replaced_s
        if self.lost or not (silent or replaced or now_s - self._unseen_since_s > self._vanished_s):
            return False
        self.lost, self._heard_s, self._another_since_s = True, -math.inf, math.inf
        return True


UNKNOWN = "unknown"
HEARTBEAT_TIMEOUT_S = 4.0
VANISHED_S = 1.2
ANSWER_TIMEOUT_S = 2.0
REPLACED_S = 2.5
"""A node that reports for so long to be unconfigured, where it was known to be more, is a new process. Beside a second
stack of this name the nodes of this one report too, once a second.
"""
_LABELS = {
    State.PRIMARY_STATE_UNCONFIGURED: "unconfigured",
    State.PRIMARY_STATE_INACTIVE: "inactive",
    State.PRIMARY_STATE_ACTIVE: "active",
    State.PRIMARY_STATE_FINALIZED: "finalized",
}


class Managed:
    """What the supervisor knows of one node, and what it asks of it.

    Parameters
    ----------
    supervisor : the node that asks
    name : of the managed node
    waiting : of the supervisor
    on_state : called when its state may have changed

    Attributes
    ----------
    name : as given
    state : lifecycle state as last heard, "unknown" where it does not answer
    problem : what it reports that is wrong with it, "" for nothing
    defect : an exception of it that nothing handled, "" for none
    """

    def __init__(self, supervisor: Node, name: str, waiting: Waiting, on_state: Callable[[], None]) -> None:
        self.name = name
        self.state = UNKNOWN
        self.problem = self.defect = ""
        self._waiting, self._on_state = waiting, on_state
        # As its transitions reported; unlike `state`, no answer of a process that came in its place changes it.
        self._announced = UNKNOWN
        self._presence = Presence(HEARTBEAT_TIMEOUT_S, VANISHED_S, REPLACED_S)
        self._change: Any = supervisor.create_client(ChangeState, f"{name}/change_state")
        self._get: Any = supervisor.create_client(GetState, f"{name}/get_state")
        supervisor.create_subscription(TransitionEvent, f"{name}/transition_event", self._on_transition, qos.events())

    @property
    def lost(self) -> bool:
        """Whether it is gone, and that has been reported."""
        return self._presence.lost

    def back(self) -> None:
        """It was lost, and counts as being there again."""
        self._presence.back()

    async def refresh(self, patience_s: float = 0.0) -> bool:
        """Ask it for its state.

        Parameters
        ----------
        patience_s : how long its service may seem not to be there, s

        Returns
        -------
        False where its service is there and does not answer; its state then is unknown
        """
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
            self._presence.heard(time.monotonic(), same=not self._replaced(self.state))
            if self._announced == UNKNOWN:
                self._announced = self.state
        return response is not None

    async def ask_again(self) -> None:
        """The supervisor was away: what was not heard meanwhile does not count, and the node is asked for its state."""
        self._presence.ask_again(time.monotonic())
        if not self.lost and self._get.service_is_ready():
            response = await self._waiting.call(self._get, GetState.Request(), HEARTBEAT_TIMEOUT_S)
            if response is not None:
                same = not self._replaced(str(response.current_state.label))
                self._presence.heard(time.monotonic(), same=same)

    async def appear(self, timeout_s: float, check: Callable[[], None]) -> None:
        """Wait until it answers.

        Parameters
        ----------
        timeout_s : at most, s
        check : called while waiting; what it raises ends that

        Raises
        ------
        DeviceError : it does not appear, or is finalized
        """
        deadline_s = time.monotonic() + timeout_s
        while True:
            await self.refresh()
            if self.state != UNKNOWN:
                break
            check()
            if time.monotonic() > deadline_s:
                raise DeviceError(self.name, "does not appear", "Start it, or leave it out of node_names")
            await self._waiting.sleep(0.1)
        if self.state == "finalized":
            raise DeviceError(self.name, "is finalized", "Start its program again")
        self._presence.back()

    async def change(self, transition: int, desired: str, timeout_s: float) -> None:
        """Make a transition.

        Parameters
        ----------
        transition : of lifecycle_msgs
        desired : state to which it leads
        timeout_s : at most, s

        Raises
        ------
        DeviceError : it did not come to that state; reports why
        """
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
        """It spoke on /diagnostics.

        Parameters
        ----------
        problem : what it reports that is wrong with it, "" for nothing
        state : its lifecycle state, "" where it does not say
        defect : an exception of it that nothing handled, "" for none
        """
        self._presence.heard(time.monotonic(), same=not self._replaced(state))
        self.problem, self.defect = problem, defect

    def lose(self) -> bool:
        """Whether it is found gone now: its services vanished, it reports nothing on /diagnostics any more, or another
        process speaks in its place.
        """
        # While another stack of this name leaves, the middleware counts its requests and responses unequal and calls
        # our own services not ready for a moment.
        if not self._presence.lose(time.monotonic(), listed=self._change.service_is_ready()):
            return False
        self.state = self._announced = UNKNOWN
        return True

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
