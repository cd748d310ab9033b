# SPDX-License-Identifier: Apache-2.0
"""The pretension as a reference over DDS: bounded by the limits, reached at its rate, reported by the diagnostics."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")

from ros_probe import Probe
from std_msgs.msg import Float64

from continuum_robot.nodes.topics import qos
from continuum_robot.robot.loading import load_robot

pytestmark = [pytest.mark.ros]

ROBOT = load_robot("opencr_five_tendon")
OPTIONS = {"start_motion": False, "visualize": False}


def pretension(stack):
    values = {
        entry.key: entry.value for entry in stack.nodes["clarke_controller"].diagnostics.status("controller").values
    }
    return float(values["pretension_n"])


def test_a_tension_reference_is_followed_within_the_limits(stack, probe: Probe):
    publisher = probe.node.create_publisher(Float64, "tension_reference", qos.owned_reference())
    probe.wait_real(lambda: publisher.get_subscription_count() > 0)
    publisher.publish(Float64(data=ROBOT.limits.maximum_n + 1.0))  # refused
    publisher.publish(Float64(data=5.0))
    probe.wait(lambda: abs(pretension(stack) - 5.0) < 1e-9)
    place = np.array(stack.driver.loop.reading.displacement_m)
    assert stack.driver.loop.safety.tension.min() > 4.5
    publisher.publish(Float64(data=float("nan")))
    publisher.publish(Float64(data=4.0))
    probe.wait(lambda: abs(pretension(stack) - 4.0) < 1e-9)
    moved = np.array(stack.driver.loop.reading.displacement_m) - place
    manifold = stack.driver.loop.cycle.controller.controller.manifold
    assert np.abs(manifold.clarke(moved)).max() < 2e-4
    assert not stack.driver.faults
