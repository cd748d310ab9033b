# SPDX-License-Identifier: Apache-2.0
"""The stack of a servo robot: its trajectory, pretension, tip target and a client, all by displacements."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")

from continuum_robot.msg import ClarkeState, TendonStates
from geometry_msgs.msg import PointStamped
from rcl_interfaces.msg import Parameter, ParameterType, ParameterValue
from rcl_interfaces.srv import SetParameters
from rclpy.serialization import serialize_message
from robot_files import robot_file
from ros_probe import Probe
from std_msgs.msg import Float64

from continuum_robot.errors import ParameterError
from continuum_robot.estimation.contact.held_loads import HELD, MEASURED, UNTOLD
from continuum_robot.nodes.clarke_controller import ClarkeControllerNode
from continuum_robot.nodes.contact_monitor import ContactMonitorNode
from continuum_robot.nodes.driver.parameters import refuse_of_tensions
from continuum_robot.nodes.topics import conversions, qos
from continuum_robot.nodes.topics.flat_messages import commands_layout
from continuum_robot.robot.loading import load_robot
from continuum_robot.runtime.clock import START_NS

pytestmark = [pytest.mark.ros]

ROBOT = "three_segment_servo"
OPTIONS = {"simulation_level": "dynamics", "visualize": False, "contact": True}
N, LIMITS = load_robot(ROBOT).tendon_count, load_robot(ROBOT).limits
TIP_M = 2e-3


def test_it_follows_the_trajectory_of_its_file(stack, probe: Probe):
    probe.pause(2.5)
    for topic in ("clarke_state", "clarke_reference"):
        probe.received[topic].clear()
    probe.pause(2.0)
    states, references = list(probe.received["clarke_state"]), list(probe.received["clarke_reference"])
    desired_s, measured_s = (
        np.array([conversions.stamp_ns(m.header.stamp) * 1e-9 for m in messages]) for messages in (references, states)
    )
    desired, measured = np.array([m.position for m in references]), np.array([m.position for m in states])
    inside = (measured_s > desired_s[0]) & (measured_s < desired_s[-1])
    for axis in range(6):
        error = measured[inside, axis] - np.interp(measured_s[inside], desired_s, desired[:, axis])
        assert np.sqrt(np.mean(error**2)) < 8e-4  # m: loads with the motors' friction show the shape
    sent = list(probe.received["tendon_states"])[-200:]
    assert not any(len(m.commanded_tension) for m in sent)
    moved = np.array([m.commanded_displacement for m in sent])
    assert moved.shape[1] == N
    assert np.ptp(moved[:, 0]) > 1e-3
    assert not probe.faults()


def test_the_controller_has_no_parameters_without_effect(stack):
    parameters = stack.nodes["clarke_controller"].parameters
    names = set(stack.nodes["clarke_controller"]._parameters)
    assert {"pretension_n", "integral_per_s", "tendon_forces"} <= names
    assert not any(name.startswith(("gains", "feedforward", "inverse_dynamics")) for name in names)
    assert parameters.get("integral_per_s") == 0.0
    for name, value in (("take_up_fraction", 0.5), ("cogging", "on")):
        with pytest.raises(ParameterError, match=name):
            refuse_of_tensions({"take_up_fraction": 0.25, "cogging": "auto", name: value})


def test_a_pretension_is_followed(stack, probe: Probe):
    publisher = probe.node.create_publisher(Float64, "tension_reference", qos.owned_reference())
    probe.wait_real(lambda: publisher.get_subscription_count() > 0)
    publisher.publish(Float64(data=7.0))

    def reached() -> bool:
        status = stack.nodes["clarke_controller"].diagnostics.status("controller")
        values = {entry.key: entry.value for entry in status.values}
        return abs(float(values["pretension_n"]) - 7.0) < 1e-9 and "displacement_missing_m" in values

    probe.wait(reached, 20.0, "the pretension is not reached")
    control = stack.driver.loop.cycle.controller.controller
    probe.pause(0.1)
    assert control.tension.min() == pytest.approx(7.0)
    assert not probe.faults()


def test_its_tip_is_brought_to_a_target(stack, probe: Probe):
    here = probe.wait_for_message("shape").tip.position
    target = np.array([here.x + 0.01, here.y - 0.01, here.z - 0.002])
    message = PointStamped()
    message.header.frame_id = "base"
    message.point.x, message.point.y, message.point.z = target.tolist()

    def there() -> bool:
        probe.publish(PointStamped, "tip_target", message, qos.command_publisher())
        place = probe.newest("shape").tip.position
        return bool(np.linalg.norm(np.array([place.x, place.y, place.z]) - target) < TIP_M)

    probe.wait(there, 20.0, "the tip does not come to its target")
    assert not probe.faults()


def test_a_pretension_beyond_the_limits_is_refused(stack, probe: Probe):
    value = ParameterValue(type=ParameterType.PARAMETER_DOUBLE, double_value=LIMITS.maximum_n + 1)
    request = SetParameters.Request(parameters=[Parameter(name="pretension_n", value=value)])
    answer = probe.call(SetParameters, "clarke_controller/set_parameters", request)
    assert not answer.results[0].successful
    assert "pretension_n" in answer.results[0].reason


def test_over_topics_it_answers_states_by_displacements(make):
    """States of servos at rest that measure no load."""
    robot = load_robot(ROBOT)
    node = make(ClarkeControllerNode, robot=robot.name, clock="lockstep", seed=1)
    node.configure()
    node.activate()
    node._driver_active = True
    layout, answers = commands_layout(N, displacements=True, writer="clarke_controller"), []
    node._commands = SimpleNamespace(
        publish=lambda data: answers.append(np.array(layout.numbers(data)[layout.place["displacement"]])),
        get_subscription_count=lambda: 1,
    )
    zero, unknown, written = [0.0] * N, [math.nan] * N, np.full(N, 1e-4)
    for k in range(1, 401):
        node.clock.set_ns(START_NS + k * 5_000_000)
        states = TendonStates(
            sequence=k,
            displacement=written.tolist(),
            velocity=zero,
            tension=unknown,
            age=zero,
            commanded_displacement=written.tolist(),
            limited=np.zeros(N, dtype=np.uint8),
        )
        states.header.stamp.sec, states.header.stamp.nanosec = divmod(node.clock.now_ns(), 1_000_000_000)
        node._on_reference(ClarkeState(position=[0.0] * 6))
        node._on_states(serialize_message(states))
        assert len(answers) == k
        written = answers[-1]
    np.testing.assert_allclose(answers[0], 1e-4, atol=1e-12)
    control = node._controller.controller
    assert control.tension.min() == pytest.approx(robot.control.pretension_n)
    np.testing.assert_allclose(control.clarke, 0.0, atol=1e-6)


def test_the_contact_monitor_says_which_loads_it_takes_and_refuses_without(stack, make, tmp_path):
    status = stack.nodes["contact_monitor"].diagnostics.status("contact")
    assert MEASURED in {entry.value for entry in status.values}
    untold = np.full(N, np.nan)
    node = make(ContactMonitorNode, robot=ROBOT)
    node.configure()
    assert not node.component._choose_loads(untold)
    assert node.component.missing == UNTOLD
    strings = [
        {"name": f"s{i}", "anchor_m": a, "pitch_radius_m": 0.009, "angle_rad": 0.2 + 1.6 * (i % 2)}
        for i, a in enumerate((0.1, 0.1, 0.2, 0.2, 0.3, 0.3))
    ]
    other = make(ContactMonitorNode, robot=robot_file(tmp_path, {"strings": strings}, ROBOT))
    other.configure()
    assert other.component._choose_loads(untold)
    assert other.component.loads == HELD
