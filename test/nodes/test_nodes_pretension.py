# SPDX-License-Identifier: Apache-2.0
"""What other programs publish: a pretension, within the limits and at its rate; topics of an owner, refused."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")

from diagnostic_msgs.msg import DiagnosticStatus, KeyValue
from rcl_interfaces.msg import Log
from ros_probe import Probe
from std_msgs.msg import Bool, Float64, String

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


def test_what_others_publish_on_topics_of_an_owner_is_refused_and_named(stack, probe: Probe):
    probe.listen(Log, "/rosout")
    before = stack.status()
    forged = {"state": "inactive", "faults": "one, two", "activated_ns": "x", "estop": "true"}
    values = [KeyValue(key=key, value=value) for key, value in forged.items()]
    for kind, topic, message in (
        (String, "reference_writer", String(data="probe")),
        (DiagnosticStatus, "driver_status", DiagnosticStatus(values=values)),
        (Bool, "reference_holding", Bool(data=not before.holding)),
    ):
        probe.publish(kind, topic, message, qos.latched())

    def refused(topic, *nodes):
        said = {log.name for log in probe.received["/rosout"] if f"publishes /{topic}: refused" in log.msg}
        return said >= set(nodes)

    probe.wait_real(lambda: refused("reference_writer", "clarke_controller"))
    probe.wait_real(lambda: refused("driver_status", "simulator", "supervisor", "reference_source"))
    probe.wait_real(lambda: refused("reference_holding", "supervisor"))
    assert stack.nodes["clarke_controller"]._references.turn == "reference_source"
    assert not any(node.defect for node in stack.nodes.values())
    after = stack.status()
    assert (after.faults, after.estop, after.holding) == ([], False, before.holding)
    assert probe.trigger("reference_source/restart").success, "the driver obeys still"
