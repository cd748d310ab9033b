# SPDX-License-Identifier: Apache-2.0
"""Topics with one owner: what any other program publishes there is refused, counted and named.

Commands and references carry their writer's name. Of all other topics the graph knows the node that publishes.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rclpy.clock import Clock, ClockType
from rclpy.node import Node
from rclpy.qos import QoSProfile

from continuum_robot.nodes.topics import qos
from continuum_robot.nodes.topics.publisher_subscription import PublisherCallback, publishers
from continuum_robot.runtime.writer_claim import WriterClaim

if TYPE_CHECKING:
    from continuum_robot.nodes.base.lifecycle import ManagedNode

LOOK_PERIOD_S = 0.05
"""The middleware's list of publishers takes half a millisecond: it is asked at most this often."""
STEADY_S = 0.5
"""Refused for so long without a break, a writer is no handover under way any more."""
UNKNOWN_NODE = "_NODE_NAME_UNKNOWN_"
NOBODY = b""
"""GID of a publisher that the middleware does not report."""
LONGEST_WAIT_S = 10.0
_MOST_WAITING = 16


OWNERS = {
    "base_stage/status": "base_stage",
    "driver_status": "tendon_driver",
    "reference_holding": "reference_source",
    "reference_writer": "reference_source",
    "stack_status": "supervisor",
}
"""Name of the node that alone publishes a latched topic, in the namespace of the topic's stack."""
TIP_STATE = "tip_state"
TIP_STATE_OWNERS = ("predictive_tip", "reference_source", "tip_approach")
"""Nodes that publish the topic, each for the targets that it takes."""
STREAM_OWNERS = {
    "base_stage/command": "",
    "base_stage/state": "base_stage",
    "base_stage/status": "base_stage",
    "clarke_state": "clarke_controller",
    "contact": "contact_monitor",
    "fiber_curvature": "fiber_interrogator",
    "shape": "shape_estimator",
    "string_lengths": "string_encoder",
    "tendon_states": "tendon_driver",
    "tendon_states_decimated": "tendon_driver",
    "tracked_pose": "",
    "tracked_pose_with_covariance": "tip_tracker",
    "tracked_tip": "tip_tracker",
}
"""Name of the node that publishes a stream where it is there; where it is not, one program of somebody else may."""
STREAM_SILENCE_S = 0.5
"""After so long without a message another program may publish a stream that no node of the stack publishes."""


def subscribe_to_owner(
    node: ManagedNode,
    kind: Any,
    topic: str,
    callback: Callable[[Any], None],
    owner: str | Callable[[Any], str] = "",
    profile: QoSProfile | None = None,
) -> None:
    """Subscribe for good to a topic, as far as it is the owner that publishes."""
    _OwnedTopic(node, kind, topic, callback, owner or owner_of(node, topic), profile or qos.latched())


def subscribe_to_stream(
    node: ManagedNode, kind: Any, topic: str, callback: Callable[[Any], None], *, raw: bool = False, lazy: bool = False
) -> None:
    """Subscribe for good to one of :data:`STREAM_OWNERS` in the flow of a node, the newest message of one program."""
    take = of_stream(node, topic, callback)
    node.flow.create_subscription(kind, topic, take, qos.newest_state(), raw=raw, lazy=lazy, with_gid=True)


def of_stream(node: ManagedNode, topic: str, callback: Callable[[Any], None]) -> PublisherCallback:
    """What hands on the messages of the program that one of :data:`STREAM_OWNERS` belongs to."""
    claim = StreamClaim(node, topic)

    def take(message: Any, gid: bytes) -> None:
        if claim.admits(gid, node.clock.monotonic_s()):
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
    """Full names of the nodes that alone publish ``tip_state`` or one of :data:`OWNERS`; none for other topics."""
    names = TIP_STATE_OWNERS if topic == TIP_STATE else (OWNERS[topic],) if topic in OWNERS else ()
    return tuple(full_name_of(node, name) for name in names)


def owner_of(node: Node, topic: str) -> str:
    """Full name of the node that publishes one of :data:`OWNERS` in the namespace of ``node``."""
    return full_name_of(node, OWNERS[topic])


def full_name_of(node: Node, name: str) -> str:
    """Full name of the node ``name`` in the namespace of ``node``."""
    return f"{node.get_namespace().rstrip('/')}/{name}"


class NamedOwner:
    """Whose messages are taken, by the writer's name in them; others' are refused, and named in the log."""

    def __init__(self, node: Node, topic: str, silence_s: float, remedy: str) -> None:
        self._node, self._topic, self._remedy = node, topic, remedy
        self.claim: WriterClaim[str] = WriterClaim(silence_s)
        self._refused: dict[str, tuple[float, float]] = {}
        self.named = ""

    @property
    def writer(self) -> str:
        """The owner's name, "" for nobody's."""
        return self.claim.holder or ""

    def admits(self, writer: str, now_s: float) -> bool:
        """Whether a message is the owner's."""
        if self.claim.admits(writer, now_s):
            self._refused.pop(writer, None)
            return True
        # The first messages of a handover may come before it is known, and the last ones after it.
        since_s, newest_s = self._refused.get(writer, (now_s, now_s))
        since_s = now_s if now_s - newest_s > STEADY_S else since_s
        self._refused[writer] = since_s, now_s
        if now_s - since_s >= STEADY_S:
            self.tell()
        return False

    def tell(self) -> None:
        """Log whose messages are refused, once for each."""
        name = self.claim.intruder or "an unnamed program"
        if name != self.named:
            self.named = name
            self._node.get_logger().error(
                f"{name} writes {self._topic} beside {self.writer or 'its owner'}: refused. Stop it, or {self._remedy}"
            )

    def forget_named(self) -> None:
        """Nobody was called an intruder; who goes on is called so again."""
        self.named = ""


class StreamClaim:
    """Whose messages of one of :data:`STREAM_OWNERS` are taken: its owner's; where that is not there, one program's."""

    def __init__(self, node: Node, topic: str) -> None:
        self._node, self._topic = node, topic
        self._owner = full_name_of(node, STREAM_OWNERS[topic]) if STREAM_OWNERS[topic] else ""
        self._claim: WriterClaim[bytes] = WriterClaim(STREAM_SILENCE_S)
        self._names: dict[bytes, str] = {}
        self._looked_s = -math.inf
        self._named: set[str] = set()

    def admits(self, gid: bytes, now_s: float) -> bool:
        """Whether a message is the owner's."""
        claim = self._claim
        if gid == NOBODY or (gid == claim.holder and self._names.get(gid) == self._owner):
            return claim.admits(gid, now_s)
        if not 0.0 <= now_s - self._looked_s < LOOK_PERIOD_S:
            self._looked_s = now_s
            self._names = nodes_of(self._node, self._node.resolve_topic_name(self._topic))
        name = self._names.get(gid, "")
        if self._owner and name == self._owner:
            claim.take(gid, now_s)
            return True
        if (not self._owner or self._owner not in self._names.values()) and claim.admits(gid, now_s):
            return True
        claim.refuse(gid)
        if name and name not in self._named:
            self._named.add(name)
            owner = self._owner or self._names.get(claim.holder or NOBODY, "its owner")
            self._node.get_logger().error(f"{name} writes {self._topic} beside {owner}: refused. Stop one of them")
        return False


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
