# SPDX-License-Identifier: Apache-2.0
"""One owner for a topic over DDS: whose messages are taken, and the names of those whose are not."""

from __future__ import annotations

import math

from rclpy.node import Node

from continuum_robot.nodes.topics.publisher_subscription import publishers
from continuum_robot.runtime.writer_claim import NOBODY, WriterClaim

LOOK_PERIOD_S = 0.05
"""The middleware's list of publishers takes half a millisecond: it is asked at most this often."""
STEADY_S = 0.5
"""Refused for so long without a break, a writer is no handover under way any more."""
UNKNOWN_NODE = "_NODE_NAME_UNKNOWN_"


class TopicClaim:
    """Admits the owner's messages: see :class:`WriterClaim`. With a turn, the owner is who has it; a node that is named
    as the owner is, where it publishes.
    """

    def __init__(self, node: Node, topic: str, silence_s: float, owner: str = "") -> None:
        self._node, self._topic, self._owner = node, topic, owner
        self.claim = WriterClaim(silence_s)
        self.turn = ""
        self._names: dict[bytes, str] = {}
        self._met: set[bytes] = set()
        self._present: set[bytes] = set()
        self._owners: set[bytes] = set()
        self._looked_s = -math.inf
        self._refused: dict[bytes, tuple[float, float]] = {}
        self._reported: set[bytes] = set()
        self.named = ""

    def admits(self, gid: bytes, now_s: float) -> bool:
        """Whether a message is the owner's; another's is refused, and named in the log where that goes on."""
        claim = self.claim
        if gid == NOBODY:
            return True
        # Where there is a turn, a message that was quicker than the graph does not decide about those behind it.
        if gid == claim.holder and (not self.turn or gid in self._names):
            return claim.admits(gid, now_s)
        if self._is_admitted(gid, now_s):
            self._refused.pop(gid, None)
            self._reported.discard(gid)
            return True
        # The first messages of a handover may come before the turn is known, and the last ones after it.
        since_s, newest_s = self._refused.get(gid, (now_s, now_s))
        if now_s - newest_s > STEADY_S:
            since_s = now_s
        self._refused[gid] = since_s, now_s
        if now_s - since_s >= STEADY_S:
            self.tell()
        return False

    def forget_named(self) -> None:
        """Nobody was called an intruder; who goes on is called so again."""
        self.named = ""
        self._reported.clear()

    def take_turn(self, name: str) -> None:
        """From now on the topic is this node's, at once."""
        self.turn = name
        if self.claim.holder != NOBODY and self._names.get(self.claim.holder, name) != name:
            self.claim.release()

    def tell(self) -> None:
        """Log whose messages are refused, once for each."""
        gid = self.claim.intruder
        if gid == NOBODY or gid in self._reported:
            return
        self._reported.add(gid)
        self.named = self.intruder_name
        owner = self.turn or self.holder_name
        self._node.get_logger().error(
            f"{self.intruder_name} writes {self._topic} beside {owner or 'its owner'}: refused. Stop it, or "
            + ("have it take the turn (service reference_source/take)" if self.turn else "the other one")
        )

    @property
    def holder_name(self) -> str:
        """Name of the node whose messages are taken; "" for none, or where it is not known."""
        return self._names.get(self.claim.holder, "")

    @property
    def intruder_name(self) -> str:
        """Name of the node that was refused last; "" for none."""
        gid = self.claim.intruder
        if gid == NOBODY:
            return ""
        return self._names.get(gid, "") or f"an unknown program ({gid.hex()})"

    def _is_admitted(self, gid: bytes, now_s: float) -> bool:
        claim = self.claim
        if gid not in self._met:  # at once: a new publisher is not taken for the one whose turn it is
            self._met.add(gid)
            self._looked_s = -math.inf
        if self._owner or claim.holder == NOBODY or gid not in self._names:
            self._look(now_s)
        name, is_owner = self._names.get(gid, ""), gid in self._owners
        if (self.turn and name and name != self.turn) or (self._owners & self._present and not is_owner):
            claim.refuse(gid)
            return False
        if claim.holder != NOBODY:
            self._look(now_s)
            gone = claim.holder in self._names and claim.holder not in self._present
            handed_over = self.turn and name == self.turn and self.holder_name != self.turn
            if gone or handed_over or (is_owner and claim.holder not in self._owners):
                claim.release()
        return claim.admits(gid, now_s)

    def _look(self, now_s: float) -> None:
        """Learn the names of those who publish, and who has gone."""
        if 0.0 <= now_s - self._looked_s < LOOK_PERIOD_S:
            return
        self._looked_s = now_s
        found = publishers(self._node, self._node.resolve_topic_name(self._topic))
        self._present = set(found)
        for gid, one in found.items():
            if one.node_name != UNKNOWN_NODE:
                self._names[gid] = one.node_name
                if f"{one.node_namespace.rstrip('/')}/{one.node_name}" == self._owner:
                    self._owners.add(gid)
