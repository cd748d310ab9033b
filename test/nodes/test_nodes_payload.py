# SPDX-License-Identifier: Apache-2.0
"""A payload that is hung at the running robot, and then told to the models, by parameters of the nodes."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")

from continuum_robot.msg import Contact
from rclpy.parameter import Parameter
from robot_files import GONE, robot_file
from ros_probe import SIMULATED_STEP_S, Probe

from continuum_robot.app.client.robot import Robot
from continuum_robot.errors import ParameterError
from continuum_robot.nodes.composition import ComposedStack
from continuum_robot.nodes.shape_estimator import ShapeEstimatorNode
from continuum_robot.nodes.stack.options import StackOptions

pytestmark = [pytest.mark.ros]

PAYLOAD_KG = 0.05


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """The prototype hung to the side, under its feed-forward and a PID without integral, so that weight shows."""
    changes = {
        "gravity_m_per_s2": [9.81, 0.0, 0.0],
        "control.feedforward_stiffness": 1.0,
        "control.feedforward_gravity": 1.0,
        "control.gains[0].i": 0.0,
        "hardware": GONE,
    }
    return robot_file(tmp_path_factory.mktemp("robot"), changes, name="hung")


@pytest.fixture(scope="module")
def running(file, domain):
    options = StackOptions(robot=file, visualize=False, clock="lockstep", seed=1, run_s=SIMULATED_STEP_S, contact=True)
    with ComposedStack(options) as stack, Probe(stack=stack) as probe:
        probe.listen_to_stack()
        probe.listen(Contact, "contact")
        stack.wait_until_up(120.0)
        yield stack, probe


def after(running, seconds):
    """Ratio of the contact's residual to its threshold, and error of the coordinates, m, so many seconds later."""
    stack, probe = running
    contacts = probe.received["contact"]
    end = len(contacts) + round(100 * seconds)
    probe.wait(lambda: len(contacts) >= end, 60.0)
    desired = np.array(stack.nodes["clarke_controller"]._reference.position)
    return contacts[-1].ratio, float(np.abs(probe.received["clarke_state"][-1].position - desired).max())


def test_a_payload_is_told_to_the_running_models(running, file):
    stack, probe = running
    free, reached_m = after(running, 2.0)
    assert free < 0.1
    assert probe.set_parameter("simulator", "payload_kg", PAYLOAD_KG).successful
    hung, sagging_m = after(running, 2.0)
    assert hung > 1
    assert probe.received["contact"][-1].in_contact
    client = Robot.connect(robot=file)
    try:
        client.set_payload(PAYLOAD_KG)
        assert client.description.payload_kg == PAYLOAD_KG
    finally:
        client.close()
    begin = len(probe.received["tendon_commands"])
    told, held_m = after(running, 3.0)
    # Dry friction and cogging keep the rest, as they do without a payload.
    assert told < 0.5
    assert not probe.received["contact"][-1].in_contact
    assert held_m < 0.3 * sagging_m
    assert reached_m < 1e-5
    commands = np.array([command.tension for command in probe.received["tendon_commands"][begin:]])
    rate_n_per_s = stack.nodes["clarke_controller"].load_robot().limits.rate_n_per_s
    assert np.abs(np.diff(commands, axis=0)).max() < 0.1 * rate_n_per_s * 1e-3  # no limit cuts what the model asks for
    for name in ("simulator", "clarke_controller", "shape_estimator", "contact_monitor"):
        assert probe.get_parameter(name, "payload_kg") == PAYLOAD_KG
    assert stack.status().faults == []
    assert not any(node.defect for node in stack.nodes.values())


@pytest.mark.parametrize(
    ("node", "payload_kg", "why"),
    [
        ("clarke_controller", 101.0, "payload_kg"),
        ("simulator", float("nan"), "payload_kg"),
        ("tendon_driver", 0.1, "read-only"),
    ],
)
def test_impossible_payloads_are_refused(running, node, payload_kg, why):
    stack, probe = running
    before = probe.get_parameter(node, "payload_kg")
    result = probe.set_parameter(node, "payload_kg", payload_kg)
    assert not result.successful
    assert why in result.reason
    assert probe.get_parameter(node, "payload_kg") == before
    with pytest.raises(ParameterError, match="payload"):
        stack.nodes["simulator"].carry(-1.0)


def test_a_negative_one_is_that_of_the_file(running, file):
    stack, probe = running
    for name in ("clarke_controller", "contact_monitor"):
        assert probe.set_parameter(name, "payload_kg", -1.0).successful
    client = Robot.connect(robot=file)
    try:
        client.set_payload(0.0, simulated=True)
    finally:
        client.close()
    after(running, 1.5)
    assert stack.nodes["simulator"].plant.robot.payload_kg == 0.0
    assert stack.nodes["clarke_controller"]._robot.payload_kg == 0.0


def test_a_mechanism_carries_none(make):
    node = make(ShapeEstimatorNode, robot="rolling_five_link")
    node.trigger_configure()
    result = node.set_parameters([Parameter("payload_kg", value=0.1)])[0]
    assert not result.successful
    assert "no payload" in result.reason
