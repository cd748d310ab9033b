# SPDX-License-Identifier: Apache-2.0
"""What a cut network is called, on both sides, without one: test_nodes_two_hosts.py cuts a cable."""

from __future__ import annotations

import types

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")

from continuum_robot.msg import ClarkeState
from rclpy.serialization import serialize_message

from continuum_robot.app.client.stack_link import LONGEST_SILENCE_S, StackLink
from continuum_robot.errors import RobotTimeoutError
from continuum_robot.nodes.reference.lines import BROKEN_OFF_S, ReferenceWriter
from continuum_robot.nodes.topics import conversions


class Heard:
    """The newest state of the tendons, so many seconds old."""

    def __init__(self, silent_s: float | None) -> None:
        self._silent_s = silent_s

    def __getitem__(self, topic: str) -> object:
        return None if self._silent_s is None else object()

    def silent_s(self, topic: str) -> float:
        return self._silent_s


def test_a_motion_is_given_up_where_the_robot_is_not_heard_any_more() -> None:
    link = StackLink.__new__(StackLink)
    for silent_s in (None, 0.0, 0.9 * LONGEST_SILENCE_S):
        link.messages = Heard(silent_s)
        link.check_heard()
    link.messages = Heard(2.0 * LONGEST_SILENCE_S)
    with pytest.raises(RobotTimeoutError, match="was not heard for 6 s"):
        link.check_heard()


class Node:
    """What a writer needs of the reference source."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.clock = types.SimpleNamespace(monotonic_s=lambda: self.now_s)
        self.flow = self
        self.receive = None

    def create_publisher(self, *_arguments: object) -> types.SimpleNamespace:
        return types.SimpleNamespace(publish=lambda message: None)

    def create_subscription(
        self, _kind: object, _topic: str, callback: object, *_rest: object, **_more: object
    ) -> None:
        self.receive = callback


def reference(velocity: float) -> bytes:
    message = ClarkeState(sequence=1)
    message.position = message.acceleration = conversions.float_array(np.zeros(2))
    message.velocity = conversions.float_array(np.array([0.0, velocity]))
    return serialize_message(message)


def test_only_a_motion_of_another_program_that_ended_in_the_middle_is_broken_off() -> None:
    node = Node()
    writer = ReferenceWriter(node, "reference_source")
    node.receive(reference(0.01))
    node.now_s += 10.0
    assert writer.broken_off_s() == 0.0  # the source writes itself
    writer.hand_to("client", tell=True)
    node.now_s += 10.0
    assert writer.broken_off_s() == 0.0  # it has the turn, and wrote nothing yet
    node.receive(reference(0.01))
    node.now_s += 0.9 * BROKEN_OFF_S
    assert writer.broken_off_s() == 0.0
    node.now_s += 4.0
    assert writer.broken_off_s() == pytest.approx(4.0 + 0.9 * BROKEN_OFF_S)
    node.receive(reference(0.0))  # at rest: the end of a motion
    node.now_s += 10.0
    assert writer.broken_off_s() == 0.0
    node.receive(reference(0.01))
    node.now_s += 10.0
    writer.hand_to("reference_source", tell=True)
    assert writer.broken_off_s() == 0.0
