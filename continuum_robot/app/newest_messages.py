# SPDX-License-Identifier: Apache-2.0
"""The newest message of some topics, taken when asked for, at no cost to any executor in between."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Mapping
from typing import Any

from rclpy.context import Context
from rclpy.node import Node
from rclpy.qos import HistoryPolicy, QoSProfile, ReliabilityPolicy
from rclpy.subscription import Subscription

NEWEST = QoSProfile(history=HistoryPolicy.KEEP_LAST, depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)


class NewestMessages:
    """Listens with a node that is not spun: the middleware keeps the newest message until it is asked for.

    May be asked by several threads.

    Parameters
    ----------
    context : rclpy context
    namespace : of the stack, "" for none
    name : of the node
    topics : type of message of each topic
    profiles : quality of service where the newest message, best effort, is not what is wanted
    """

    def __init__(
        self,
        context: Context,
        namespace: str,
        name: str,
        topics: Mapping[str, Any],
        profiles: Mapping[str, QoSProfile] | None = None,
    ) -> None:
        self._node = Node(
            name,
            context=context,
            namespace=namespace or None,
            cli_args=[],
            start_parameter_services=False,
            enable_rosout=False,
        )
        self._lock = threading.Lock()
        self._newest: dict[str, Any] = {}
        self._taken_s: dict[str, float] = {}
        self._subscriptions: dict[str, Subscription[Any]] = {
            topic: self._node.create_subscription(kind, topic, _ignore, (profiles or {}).get(topic, NEWEST))
            for topic, kind in topics.items()
        }

    def __getitem__(self, topic: str) -> Any:
        """The newest message of a topic, None before the first."""
        with self._lock:
            taken = self._take(topic)
            if taken is not None:
                self._newest[topic], self._taken_s[topic] = taken, time.monotonic()
            return self._newest.get(topic)

    def silent_s(self, topic: str) -> float:
        """How long ago the newest message was taken, s; inf before the first.

        Parameters
        ----------
        topic : its name, as it was given at the start
        """
        with self._lock:
            return time.monotonic() - self._taken_s.get(topic, -math.inf)

    def fresh(self, topic: str, within_s: float) -> Any:
        """The newest message of a topic, None where it was taken longer ago.

        Parameters
        ----------
        topic : its name, as it was given at the start
        within_s : how old it may be, s
        """
        newest = self[topic]
        return newest if self.silent_s(topic) < within_s else None

    def drain(self, topic: str) -> list[Any]:
        """All messages of a topic that wait, the oldest first: of one whose profile keeps several.

        Parameters
        ----------
        topic : its name, as it was given at the start
        """
        with self._lock:
            return list(iter(lambda: self._take(topic), None))

    def forget(self, topic: str) -> None:
        """Let only what comes from now on count.

        Parameters
        ----------
        topic : its name, as it was given at the start
        """
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
        return None if taken is None else taken[0]


def _ignore(_message: Any) -> None:
    """Never called: the node is not spun."""
