# SPDX-License-Identifier: Apache-2.0
"""Subscriptions whose callback learns who published each message.

rclpy calls such callbacks (message and message info) in all executors but the EventsExecutor, which fails at the first
message (rclpy 9.1.2). A waitable takes the message itself, and works in every executor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from rclpy.node import Node
from rclpy.qos import QoSProfile
from rclpy.subscription import Subscription
from rclpy.waitable import NumberOfEntities, Waitable

GID_BYTES = 16
"""What a message carries of its publisher's GID; the graph shows more in older versions."""

PublisherCallback = Callable[[Any, bytes], None]
"""Gets a message, and the GID of its publisher; empty where the middleware does not report it."""


class PublisherSubscription(Waitable[Any]):
    """A subscription that an executor treats as a waitable."""

    def __init__(
        self, node: Node, kind: Any, topic: str, callback: PublisherCallback, profile: QoSProfile, *, raw: bool = False
    ) -> None:
        super().__init__(node.default_callback_group)
        self._kind, self._raw, self._callback = kind, raw, callback
        self.subscription = node.create_subscription(kind, topic, _not_called, profile, raw=raw)

    def __enter__(self) -> None:
        """As of a waitable: in use."""
        self.subscription.handle.__enter__()

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        """As of a waitable: no longer in use."""
        self.subscription.handle.__exit__(kind, error, trace)

    def get_num_entities(self) -> NumberOfEntities:
        """As of a waitable."""
        return NumberOfEntities(num_subs=1)

    def add_to_wait_set(self, wait_set: Any) -> None:
        """As of a waitable."""
        self._index = wait_set.add_subscription(self.subscription.handle)

    def is_ready(self, wait_set: Any) -> bool:
        """As of a waitable."""
        return bool(wait_set.is_ready("subscription", self._index))

    def take_data(self) -> Any:
        """The message and what is known of it, None where there is none."""
        with self.subscription.handle:
            return self.subscription.handle.take_message(self._kind, self._raw)

    async def execute(self, taken_data: Any) -> None:
        """Call the callback."""
        if taken_data is not None:
            message, info = taken_data
            self._callback(message, publisher_of(info))


def _not_called(_message: Any) -> None:
    """No executor takes this subscription's messages but as a waitable."""


def publisher_of(info: Any) -> bytes:
    """GID of the publisher, from what rclpy takes with a message; empty where the middleware does not report it."""
    return bytes((info.get("publisher_gid") or {}).get("data", b""))[:GID_BYTES]


def publishers(node: Node, topic: str) -> dict[bytes, Any]:
    """What the graph reports of each publisher of a topic, by the GID that its messages carry."""
    return {bytes(one.endpoint_gid)[:GID_BYTES]: one for one in node.get_publishers_info_by_topic(topic)}


class PublisherNode(Node):
    """A node with subscriptions whose callbacks learn who published."""

    _own: tuple[PublisherSubscription, ...] = ()

    @property
    def subscriptions(self) -> Iterator[Subscription[Any]]:
        """Those that an executor takes as such; the others are in waitables."""
        own = [one.subscription for one in self._own]
        return (one for one in super().subscriptions if one not in own)

    def subscribe_with_publisher(
        self, kind: Any, topic: str, callback: PublisherCallback, profile: QoSProfile, *, raw: bool = False
    ) -> None:
        """Subscribe for good, with a callback that learns who published; before the node is spun."""
        own = PublisherSubscription(self, kind, topic, callback, profile, raw=raw)
        self._own += (own,)
        self.add_waitable(own)
