# SPDX-License-Identifier: Apache-2.0
"""The newest message of some topics, taken when asked for, at no cost to any executor in between."""

from __future__ import annotations

import math
import threading
import time
from typing import Any

from rclpy.node import Node
from rclpy.qos import QoSProfile
from rclpy.subscription import Subscription

from continuum_robot.nodes.topics import qos
from continuum_robot.nodes.topics.owned_topic import nodes_of, owners_of, publisher_of


class NewestMessages:
    """Listens with a node that is not spun: the middleware keeps the newest message until it is asked for.

    May be asked by several threads.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self._lock = threading.Lock()
        self._newest: dict[str, Any] = {}
        self._taken_s: dict[str, float] = {}
        self._subscriptions: dict[str, Subscription[Any]] = {}
        self._names: dict[str, dict[bytes, str]] = {}
        self._refused: set[str] = set()

    def listen(self, topic: str, kind: Any, profile: QoSProfile | None = None) -> None:
        """Subscribe to a further topic."""
        self._subscriptions[topic] = self._node.create_subscription(kind, topic, _ignore, profile or qos.newest_state())

    def __contains__(self, topic: str) -> bool:
        return topic in self._subscriptions

    def __getitem__(self, topic: str) -> Any:
        """The newest message of a topic, None before the first."""
        with self._lock:
            taken = self._take(topic)
            if taken is not None:
                self._newest[topic], self._taken_s[topic] = taken, time.monotonic()
            return self._newest.get(topic)

    def silent_s(self, topic: str) -> float:
        """How long ago the newest message was taken, s; inf before the first."""
        with self._lock:
            return time.monotonic() - self._taken_s.get(topic, -math.inf)

    def fresh(self, topic: str, within_s: float = math.inf) -> Any:
        """The newest message of a topic, None where it was taken longer ago, or the topic is not listened to."""
        newest = self[topic] if topic in self._subscriptions else None
        return newest if self.silent_s(topic) < within_s else None

    def drain(self, topic: str) -> list[Any]:
        """All messages of a topic that wait, the oldest first: of one whose profile keeps several."""
        with self._lock:
            return list(iter(lambda: self._take(topic), None))

    def forget(self, topic: str) -> None:
        """Let only what comes from now on count."""
        self.drain(topic)
        with self._lock:
            self._newest.pop(topic, None)
            self._taken_s.pop(topic, None)

    def publishers(self, topic: str) -> int:
        """How many publish on a topic, as far as they are discovered."""
        return self._node.count_publishers(topic)

    def close(self) -> None:
        """Leave the topics."""
        with self._lock:
            self._node.destroy_node()

    def _take(self, topic: str) -> Any:
        subscription = self._subscriptions[topic]
        with subscription.handle:
            taken = subscription.handle.take_message(subscription.msg_type, False)
        if taken is None:
            return None
        return None if self._is_refused(topic, subscription.topic_name, publisher_of(taken[1])) else taken[0]

    def _is_refused(self, topic: str, full_topic: str, gid: bytes) -> bool:
        """Whether another program publishes what a node of the stack does that is there."""
        owners = owners_of(self._node, topic)
        if owners and self._names.get(topic, {}).get(gid) not in owners:
            self._names[topic] = nodes_of(self._node, full_topic)
        names = self._names.get(topic, {})
        name = names.get(gid, "")
        if name in ("", *owners) or set(owners).isdisjoint(names.values()):
            return False
        if (said := f"{name} writes {topic} beside {' and '.join(owners)}: refused") not in self._refused:
            self._refused.add(said)
            self._node.get_logger().error(f"{said}. Stop one of them")
        return True


def _ignore(_message: Any) -> None:
    """Never called: the node is not spun."""
