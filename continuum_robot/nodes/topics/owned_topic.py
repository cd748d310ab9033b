# SPDX-License-Identifier: Apache-2.0
"""Topics with one owner: what any other program publishes there is refused, counted and named.

The owner of commands, references and streams is one publisher, by the GID that the middleware states with each message.
Latched topics, silent between changes, belong to a node, by the name that the graph has for the publisher.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from rclpy.clock import Clock, ClockType
from rclpy.node import Node
from rclpy.qos import QoSProfile
from rclpy.subscription import Subscription
from rclpy.waitable import NumberOfEntities, Waitable

from continuum_robot.nodes.topics import qos

if TYPE_CHECKING:
    from continuum_robot.nodes.base.lifecycle import ManagedNode

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

    def helper(self, purpose: str) -> PublisherNode:
        """A node for an executor of its own, hidden from lists, as its name begins with an underscore.

        Names are for this node to resolve, with its remappings; the command line would give both one name.
        """
        return PublisherNode(
            f"_{self.get_name()}_{purpose}",
            context=self.context,
            namespace=self.get_namespace(),
            use_global_arguments=False,
            enable_rosout=False,
            start_parameter_services=False,
        )

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


LOOK_PERIOD_S = 0.05
"""The middleware's list of publishers takes half a millisecond: it is asked at most this often."""
STEADY_S = 0.5
"""Refused for so long without a break, a writer is no handover under way any more."""
SILENCE_S = 0.5
"""After so long without a message a topic is the next publisher's."""
UNKNOWN_NODE = "_NODE_NAME_UNKNOWN_"
NOBODY = b""
"""GID of a publisher that the middleware does not report, or not yet; it may be any."""
LONGEST_WAIT_S = 10.0
_MOST_WAITING = 16


OWNERS = {
    "base_stage/state": ("base_stage",),
    "base_stage/status": ("base_stage",),
    "clarke_state": ("clarke_controller",),
    "contact": ("contact_monitor",),
    "driver_status": ("tendon_driver",),
    "fiber_curvature": ("fiber_interrogator",),
    "reference_holding": ("reference_source",),
    "reference_writer": ("reference_source",),
    "shape": ("shape_estimator",),
    "stack_status": ("supervisor",),
    "string_lengths": ("string_encoder",),
    "tendon_states": ("tendon_driver",),
    "tendon_states_decimated": ("tendon_driver",),
    "tip_state": ("predictive_tip", "reference_source", "tip_approach"),
    "tracked_pose_with_covariance": ("tip_tracker",),
    "tracked_tip": ("tip_tracker",),
}
"""Names of the nodes of the stack that publish a topic, in its namespace."""


def subscribe_to_owner(
    node: ManagedNode,
    kind: Any,
    topic: str,
    callback: Callable[[Any], None],
    owner: str | Callable[[Any], str] = "",
    profile: QoSProfile | None = None,
) -> None:
    """Subscribe for good to a topic, as far as it is the owner that publishes."""
    _OwnedTopic(node, kind, topic, callback, owner or owners_of(node, topic)[0], profile or qos.latched())


def subscribe_to_stream(
    node: ManagedNode, kind: Any, topic: str, callback: Callable[[Any], None], *, raw: bool = False, lazy: bool = False
) -> None:
    """Subscribe for good to a stream in the flow of a node, the newest message of one publisher."""
    take = of_stream(node, topic, callback)
    node.flow.create_subscription(kind, topic, take, qos.newest_state(), raw=raw, lazy=lazy, with_gid=True)


def of_stream(node: ManagedNode, topic: str, callback: Callable[[Any], None]) -> PublisherCallback:
    """What hands on the messages of one publisher at a time."""
    owner = Owner(node, topic)

    def take(message: Any, gid: bytes) -> None:
        if owner.admits(gid, node.clock.monotonic_s()):
            callback(message)

    return take


def nodes_of(node: Node, topic: str) -> dict[bytes, str]:
    """Full name of the node of each publisher of a topic, by the publisher's GID, as far as the graph has it."""
    return {
        gid: f"{one.node_namespace.rstrip('/')}/{one.node_name}"
        for gid, one in publishers(node, topic).items()
        if one.node_name != UNKNOWN_NODE
    }


def owners_of(node: Node, topic: str) -> tuple[str, ...]:
    """Full names of the nodes that publish one of :data:`OWNERS`, in the namespace of ``node``; else none."""
    return tuple(full_name_of(node, name) for name in OWNERS.get(topic, ()))


def full_name_of(node: Node, name: str) -> str:
    """Full name of the node ``name`` in the namespace of ``node``."""
    return f"{node.get_namespace().rstrip('/')}/{name}"


class Owner:
    """Whose messages of a topic are taken: those of the first publisher that is heard, until it is silent.

    Messages may carry their writer's name, and a service may give the topic to a name: then it is the first publisher's
    that writes under it. No message can forge its GID, so another program that uses the name is refused as any other.
    """

    def __init__(self, node: Node, topic: str, silence_s: float = SILENCE_S, remedy: str = "stop the other") -> None:
        self._node, self._topic, self._silence_s, self._remedy = node, topic, silence_s, remedy
        self.writer, self.refused, self.named = "", 0, ""
        self._gid, self._heard_s, self._for_good = NOBODY, -math.inf, False
        self._intruder, self._refused_since_s, self._refused_s = ("", NOBODY), math.inf, -math.inf
        self._returns, self._disturbed = 0, False

    @property
    def contested(self) -> bool:
        """Whether the owner went on after messages of another, and did so again: one overlap may be a handover."""
        return self._returns > 1

    def settle(self) -> None:
        """What was contested is dealt with."""
        self._returns, self._disturbed = 0, False

    def give(self, writer: str, now_s: float, *, for_good: bool = False) -> None:
        """To a name, "" to the next publisher; ``for_good``: to no other name, however long it is silent."""
        if writer != self.writer or not writer:
            self.writer, self._gid = writer, NOBODY
        self._for_good = for_good
        self._heard_s, self._refused_s = now_s if writer else -math.inf, -math.inf
        self.settle()

    def admits(self, gid: bytes, now_s: float, writer: str = "") -> bool:
        """Whether a message is the owner's."""
        same = writer == self.writer
        if not (same and NOBODY in (gid, self._gid)) and not (same and gid == self._gid):
            silent = now_s - self._heard_s > self._silence_s
            if not silent or (self._for_good and not same):
                self._refuse((writer, gid), now_s)
                return False
            self.settle()
        self.writer, self._gid, self._heard_s = writer, gid or self._gid, now_s
        self._returns += self._disturbed
        self._disturbed = False
        return True

    def _refuse(self, intruder: tuple[str, bytes], now_s: float) -> None:
        # The first messages of a handover may come before it is known, and the last ones after it.
        if now_s - self._refused_s > STEADY_S:
            self._refused_since_s = now_s
        self.refused, self._refused_s, self._intruder, self._disturbed = self.refused + 1, now_s, intruder, True
        if now_s - self._refused_since_s >= STEADY_S:
            self.tell()

    def tell(self) -> None:
        """Log whose messages are refused, once for each."""
        writer, gid = self._intruder
        names = {} if writer else nodes_of(self._node, self._node.resolve_topic_name(self._topic))
        intruder = writer or names.get(gid, "another program")
        if writer and writer == self.writer:
            intruder = f"another program that calls itself {writer}"
        if intruder != self.named:
            self.named, owner = intruder, self.writer or names.get(self._gid, "its owner")
            self._node.get_logger().error(
                f"{intruder} writes {self._topic} beside {owner}: refused. Stop it, or {self._remedy}"
            )

    def forget_named(self) -> None:
        """Nobody was called an intruder; who goes on is called so again."""
        self.named = ""


class _OwnedTopic:
    """Asks the graph for the node of each publisher; a message that is quicker than the graph waits for that."""

    def __init__(
        self,
        node: ManagedNode,
        kind: Any,
        topic: str,
        callback: Callable[[Any], None],
        owner: str | Callable[[Any], str],
        profile: QoSProfile,
    ) -> None:
        self._node, self._topic, self._callback = node, node.resolve_topic_name(topic), callback
        self._owner = owner
        self._names: dict[bytes, str] = {}
        self._refused: set[str] = set()
        self._waiting: dict[bytes, tuple[Any, float]] = {}
        self._timer = node.create_timer(LOOK_PERIOD_S, self._settle, clock=Clock(clock_type=ClockType.STEADY_TIME))
        self._timer.cancel()
        node.subscribe_with_publisher(kind, topic, self._on_message, profile)

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
            owner = self._owner(message) if callable(self._owner) else self._owner
            if owner in (name, ""):
                self._callback(message)
            elif name not in self._refused:
                self._refused.add(name)
                self._node.get_logger().error(
                    f"{name or 'an unknown program'} publishes {self._topic}: refused, it is {owner}'s. Stop it"
                )
        if not self._waiting:
            self._timer.cancel()
        elif self._timer.is_canceled():
            self._timer.reset()
