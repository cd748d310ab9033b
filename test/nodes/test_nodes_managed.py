# SPDX-License-Identifier: Apache-2.0
"""What the supervisor believes of a node whose service seems to be gone for a moment."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")

from lifecycle_msgs.msg import Transition

from continuum_robot.errors import DeviceError
from continuum_robot.nodes.supervision import managed
from continuum_robot.nodes.supervision.managed import Managed


class Waits:
    """Answers at once; time passes by itself."""

    def __init__(self, label):
        self.label = label

    async def sleep(self, duration_s):
        pass

    async def call(self, _client, _request, _timeout_s):
        return SimpleNamespace(current_state=SimpleNamespace(label=self.label))


class Client:
    """Seems not to be there for so many looks."""

    def __init__(self, hidden):
        self.hidden = hidden

    def service_is_ready(self):
        self.hidden -= 1
        return self.hidden < 0


def make(label, hidden):
    supervisor = SimpleNamespace(
        create_client=lambda _kind, _name: Client(hidden), create_subscription=lambda *_args: None
    )
    return Managed(supervisor, "clarke_controller", Waits(label), lambda: None)


def run(coroutine):
    with pytest.raises(StopIteration):
        coroutine.send(None)


def test_a_node_that_made_its_transition_is_there_though_its_service_seems_gone_for_a_moment():
    node = make("inactive", hidden=3)
    run(node.change(Transition.TRANSITION_CONFIGURE, "inactive", 1.0))
    assert node.state == "inactive"


def test_a_node_that_stays_away_after_a_transition_is_told(monkeypatch):
    monkeypatch.setattr(managed, "VANISHED_S", 0.02)
    node = make("inactive", hidden=10**9)
    with pytest.raises(DeviceError, match="is unknown instead of inactive"):
        node.change(Transition.TRANSITION_CONFIGURE, "inactive", 1.0).send(None)


def test_a_node_that_is_not_there_yet_is_unknown_at_once():
    node = make("inactive", hidden=1)
    run(node.refresh())
    assert node.state == "unknown"
