# SPDX-License-Identifier: Apache-2.0
"""What other programs publish: a pretension, within the limits and at its rate; topics of an owner, refused."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")

from continuum_robot.msg import ClarkeState, Contact, DriverStatus, Shape, StackStatus, TendonStates, TipState
from continuum_robot.srv import TakeReference
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from lifecycle_msgs.msg import State, TransitionEvent
from rcl_interfaces.msg import Log
from rclpy.node import Node
from ros_probe import Probe
from std_msgs.msg import Bool, Float64, String

from continuum_robot.app.client.newest_messages import NewestMessages
from continuum_robot.nodes.topics import conversions, qos
from continuum_robot.nodes.topics.owned_topic import STREAM_OWNERS, nodes_of
from continuum_robot.robot.loading import load_robot
from continuum_robot.rod.tendon_modes import controlled_manifold

pytestmark = [pytest.mark.ros]

ROBOT = load_robot("opencr_five_tendon")
OPTIONS = {"start_motion": False, "visualize": False, "contact": True}
FORGED = 2**40


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
    assert stack.driver.loop.safety.commanded.min() > 4.5
    publisher.publish(Float64(data=float("nan")))
    publisher.publish(Float64(data=4.0))
    probe.wait(lambda: abs(pretension(stack) - 4.0) < 1e-9)
    moved = np.array(stack.driver.loop.reading.displacement_m) - place
    assert np.abs(controlled_manifold(ROBOT).clarke(moved)).max() < 2e-4
    assert not stack.driver.faults


def test_what_others_publish_on_topics_of_an_owner_is_refused_and_named(stack, probe: Probe):
    probe.listen(Log, "/rosout")
    before = stack.status()
    forged = DriverStatus(state=DriverStatus.INACTIVE, faults=[200, 1], estop=True)
    inactive = TransitionEvent(goal_state=State(id=State.PRIMARY_STATE_INACTIVE))
    lost = DiagnosticStatus(
        name="/clarke_controller: lifecycle", level=b"\2", message="lost", values=[KeyValue(key="defect", value="one")]
    )
    for kind, topic, message in (
        (String, "reference_writer", String(data="probe")),
        (DriverStatus, "driver_status", forged),
        (Bool, "reference_holding", Bool(data=not before.holding)),
        (StackStatus, "stack_status", StackStatus(state="fault", faults=["one"])),
        (TransitionEvent, "clarke_controller/transition_event", inactive),
        (DiagnosticArray, "/diagnostics", DiagnosticArray(status=[lost])),
    ):
        probe.publish(kind, topic, message, qos.latched())

    def refused(topic, *nodes):
        said = {log.name for log in probe.received["/rosout"] if f"publishes /{topic}: refused" in log.msg}
        return said >= set(nodes)

    probe.wait_real(lambda: refused("reference_writer", "clarke_controller"))
    probe.wait_real(lambda: refused("driver_status", "simulator", "supervisor", "reference_source"))
    for topic in ("reference_holding", "clarke_controller/transition_event", "diagnostics"):
        probe.wait_real(lambda topic=topic: refused(topic, "supervisor"))
    probe.wait_real(lambda: refused("stack_status", "tendon_driver"))
    assert stack.nodes["clarke_controller"]._references.writer == "reference_source"
    assert not any(node.defect for node in stack.nodes.values())
    after = stack.status()
    assert (after.faults, after.estop, after.holding) == ([], False, before.holding)
    assert after.state == "up"
    assert "inactive" not in after.node_states
    assert probe.trigger("reference_source/restart").success, "the driver obeys still"


def test_streams_of_the_stacks_nodes_are_taken_from_them_alone(stack, probe: Probe):
    """A shape, a contact and states that nobody measured: a client refuses them, the nodes do not hear them here."""
    probe.listen(Log, "/rosout")
    size, count = ROBOT.coordinate_count, ROBOT.tendon_count
    far = [1.0] * size
    streams = {
        "shape": Shape(coefficients=far, coefficient_rates=[0.0] * size, covariance=(np.eye(size) * 1e-9).ravel()),
        "contact": Contact(valid=True, in_contact=True, residual=far),
        "clarke_state": ClarkeState(position=far, velocity=[0.0] * size),
        "tendon_states_decimated": TendonStates(displacement=[1.0] * count, tension=[9.0] * count),
    }
    operator = probe.link.make(lambda: Node("operator", context=probe.link.context))
    messages = NewestMessages(operator)

    def knows_owners():
        return all(f"/{STREAM_OWNERS[topic]}" in nodes_of(operator, f"/{topic}").values() for topic in streams)

    probe.wait_real(knows_owners, what="the nodes of the stack do not appear")
    for topic, message in streams.items():
        message.sequence = FORGED
        messages.listen(topic, type(message), qos.newest_state())
        probe.publish(type(message), topic, message, qos.every_state())

    def named():
        logs = [log.msg for log in probe.received["/rosout"] if log.name == "operator"]
        return all(any(f"writes {topic} beside" in text for text in logs) for topic in streams)

    def again():
        for topic, message in streams.items():
            probe.publish(type(message), topic, message, qos.every_state())
            for heard in messages.drain(topic):
                assert heard.sequence != FORGED
        return named()

    probe.wait(again, 10.0, "the programs that forge are not named")
    assert stack.nodes["contact_monitor"].component.counts["inputs_of_another_size"] == 0
    contact = conversions.message_of(stack.nodes["reference_source"].component.reaction._contact[0], Contact)
    assert contact.sequence != FORGED
    assert stack.status().faults == []
    assert not any(node.defect for node in stack.nodes.values())
    messages.close()


def test_the_controller_and_a_client_take_no_first_message_of_a_stranger(stack, probe: Probe):
    controller = stack.nodes["clarke_controller"]
    size = ROBOT.coordinate_count
    forged = ClarkeState(writer="probe", position=[1.0] * size, velocity=[0.0] * size)
    operator = probe.link.make(lambda: Node("operator", context=probe.link.context))
    messages = NewestMessages(operator)
    messages.listen("tip_state", TipState, qos.newest_state())

    def write() -> None:
        probe.publish(ClarkeState, "clarke_reference", forged, qos.command_publisher())
        probe.publish(TipState, "tip_state", TipState(state="reached"), qos.command_publisher())

    def known() -> bool:
        write()
        owners = ((controller, "/clarke_reference"), (operator, "/tip_state"))
        return all("/probe" in nodes_of(node, topic).values() for node, topic in owners)

    probe.wait(known, 10.0, "the forging program does not appear")
    messages.forget("tip_state")
    take = TakeReference.Request(writer="somebody")
    assert probe.call(TakeReference, "reference_source/take", take).success
    refused = controller._references.claim.refused
    probe.wait(lambda: write() or controller._references.claim.refused > refused, 10.0, "nothing was refused")
    assert messages["tip_state"] is None
    assert np.abs(controller._reference.position).max() < 0.5
    assert probe.trigger("reference_source/hold").success
    messages.close()
