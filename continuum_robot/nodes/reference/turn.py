# SPDX-License-Identifier: Apache-2.0
"""The turn of a node beside the reference source to write ``clarke_reference``, and what ends it."""

from __future__ import annotations

from rclpy.client import Client
from rclpy.task import Future
from std_msgs.msg import String

from continuum_robot.msg import DriverStatus
from continuum_robot.nodes.base.lifecycle import ManagedNode
from continuum_robot.nodes.topics.driver_status import state_name
from continuum_robot.nodes.topics.owned_topic import subscribe_to_owner
from continuum_robot.srv import TakeReference

_TAKE_TIMEOUT_S = 2.0


class ReferenceTurn:
    """Asks the reference source for the turn, and notes what ends it: a driver that does not obey, another writer."""

    def __init__(self, node: ManagedNode) -> None:
        self._node = node
        self.driver = self._drop = ""
        self._is_writer = False
        self._asked: tuple[Future, float] | None = None
        subscribe_to_owner(node, DriverStatus, "driver_status", self._on_driver_status)
        subscribe_to_owner(node, String, "reference_writer", self._on_writer)
        self._take: Client = node.create_client(TakeReference, "reference_source/take")

    def forget(self) -> None:
        """Wait for nothing, and nothing has ended."""
        self._asked, self._drop = None, ""

    def ended_by(self) -> str:
        """What ended the turn since the call before, a phrase; empty for nothing."""
        drop, self._drop = self._drop, ""
        return drop

    def ask(self, now_s: float) -> None:
        """Ask the reference source to fall silent; where there is none, the turn is free."""
        self._asked = None
        if self._take.service_is_ready():
            future = self._take.call_async(TakeReference.Request(writer=self._node.get_name()))
            self._asked = future, now_s
            self._node.flow.hold(future)

    def given(self, now_s: float) -> bool:
        """Whether the turn is the node's; where it is refused, :meth:`ended_by` reports why."""
        if self._asked is None:
            return True
        answer, asked_s = self._asked
        if answer.done():
            response = answer.result()
            self._asked = None
            if response is not None and response.success:
                return True
            self._drop = f"the reference source reported {response.message if response is not None else 'nothing'}"
        elif now_s - asked_s > _TAKE_TIMEOUT_S:
            self._asked, self._drop = None, "the reference source does not answer"
        return False

    def _on_driver_status(self, message: DriverStatus) -> None:
        self.driver = state_name(message)
        holds = message.controller == DriverStatus.CONTROLLER_HOLD_TENSION
        if message.state == DriverStatus.ACTIVE and holds:
            self.driver = "holding the tensions"
        if self.driver != "active":
            self._drop = f"the driver is {self.driver}"

    def _on_writer(self, message: String) -> None:
        # Before the node is the writer, it is somebody else's word on somebody else.
        if message.data != self._node.get_name() and self._is_writer:
            self._drop = f"{message.data} writes clarke_reference now"
        self._is_writer = message.data == self._node.get_name()
