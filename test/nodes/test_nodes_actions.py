# SPDX-License-Identifier: Apache-2.0
"""Clients of actions of a node that another thread spins."""

from __future__ import annotations

import time

import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")

from continuum_robot.action import HomeTendons
from rclpy.node import Node
from ros_probe import Probe

from continuum_robot.nodes.base.waiting import action_client

PAUSE_S = 0.3


def test_the_executor_does_not_look_at_a_client_that_rclpy_has_not_finished(monkeypatch):
    """rclpy adds the client to its node before it has made the lock with which an executor asks for its entities."""
    add_waitable = Node.add_waitable

    def add_and_be_interrupted(node, waitable):
        add_waitable(node, waitable)
        time.sleep(PAUSE_S)

    with Probe() as probe:
        monkeypatch.setattr(Node, "add_waitable", add_and_be_interrupted)
        for _ in range(2):
            with action_client(probe.node, HomeTendons, "home_tendons") as client:
                assert not client.server_is_ready()
                assert client in probe.node.waitables
            assert client not in probe.node.waitables
        assert not probe.link.failed
