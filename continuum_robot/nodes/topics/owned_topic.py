# SPDX-License-Identifier: Apache-2.0
"""Latched topics of which one node of the stack is the owner: what any other program publishes there is refused."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rclpy.clock import Clock, ClockType
from rclpy.node import Node

from continuum_robot.nodes.topics import qos
from continuum_robot.nodes.topics.publisher_subscription import publishers
from continuum_robot.nodes.topics.topic_claim import LOOK_PERIOD_S, UNKNOWN_NODE
from continuum_robot.runtime.writer_claim import NOBODY

if TYPE_CHECKING:
    from continuum_robot.nodes.base.lifecycle import ManagedNode

LONGEST_WAIT_S = 10.0
_MOST_WAITING = 16


OWNERS = {
    "driver_status": "tendon_driver",
    "reference_holding": "reference_source",
    "reference_writer": "reference_source",
}
"""Name of the node that publishes a topic, in the namespace of the topic's stack."""


def subscribe_to_owner(node: ManagedNode, kind: Any, topic: str, callback: Callable[[Any], None]) -> None:
    """Subscribe for good to one of :data:`OWNERS`, as far as it is the owner that publishes.

    Parameters
    ----------
    node : that listens
    kind : type of the messages
    topic : relative name
    callback : gets each message of the owner
    """
    _OwnedTopic(node, kind, topic, callback)


def nodes_of(node: Node, topic: str) -> dict[bytes, str]:
    """Full name of the node of each publisher of a topic, by the publisher's GID, as far as the graph has it.

    Parameters
    ----------
    node : that asks
    topic : as resolved
    """
    return {
        gid: f"{one.node_namespace.rstrip('/')}/{one.node_name}"
        for gid, one in publishers(node, topic).items()
        if one.node_name != UNKNOWN_NODE
    }


def owner_of(node: Node, topic: str) -> str:
    """Full name of the node that publishes one of :data:`OWNERS` in the namespace of ``node``."""
    return f"{node.get_namespace().rstrip('/')}/{OWNERS[topic]}"


class _OwnedTopic:
    """Asks the graph for the node of each publisher; a message that is quicker than the graph waits for that."""

    def __init__(self, node: ManagedNode, kind: Any, topic: str, callback: Callable[[Any], None]) -> None:
        self._node, self._topic, self._callback = node, node.resolve_topic_name(topic), callback
        self._owner = owner_of(node, topic)
        self._names: dict[bytes, str] = {}
        self._refused: set[str] = set()
        self._waiting: dict[bytes, tuple[Any, float]] = {}
        self._timer = node.create_timer(LOOK_PERIOD_S, self._settle, clock=Clock(clock_type=ClockType.STEADY_TIME))
        self._timer.cancel()
        node.subscribe_with_publisher(kind, topic, self._on_message, qos.latched())

    def _on_message(self, message: Any, gid: bytes) -> None:
        if gid == NOBODY:  # a middleware that does not report it: everybody is the same
            self._callback(message)
            return
        if gid in self._names or len(self._waiting) < _MOST_WAITING:
            self._waiting[gid] = message, time.monotonic()
        self._settle()

    def _settle(self) -> None:
        """Deal with the messages whose publisher is known by now."""
        if not self._waiting.keys() <= self._names.keys():
            self._names = nodes_of(self._node, self._topic)
        for gid, (message, come_s) in list(self._waiting.items()):
            name = self._names.get(gid, "")
            if not name and time.monotonic() - come_s < LONGEST_WAIT_S:
                continue
            del self._waiting[gid]
            if name == self._owner:
                self._callback(message)
            elif name not in self._refused:
                self._refused.add(name)
                self._node.get_logger().error(
                    f"{name or 'an unknown program'} publishes {self._topic}: refused, it is {self._owner}'s. Stop it"
                )
        if not self._waiting:
            self._timer.cancel()
        elif self._timer.is_canceled():
            self._timer.reset()
