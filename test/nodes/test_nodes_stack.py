# SPDX-License-Identifier: Apache-2.0
"""The composed stack on DDS in real time: it comes up, is reconfigured live, goes down and up again in one process."""

from __future__ import annotations

import math

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")

from continuum_robot.msg import ClarkeState, Shape, StringLengths, TendonStates
from continuum_robot.srv import ManageStack
from rclpy.qos import QoSProfile, ReliabilityPolicy
from ros_probe import PATIENT, PATIENT_CONTROLLER, Probe

from continuum_robot.nodes.composition import ComposedStack
from continuum_robot.nodes.stack_options import StackOptions
from continuum_robot.robot.coordinates import clarke_manifold
from continuum_robot.robot.loading import load_robot

pytestmark = [pytest.mark.ros, pytest.mark.real_time]

ROBOT = load_robot("opencr_five_tendon")
MANIFOLD = clarke_manifold(ROBOT)


@pytest.fixture(scope="module")
def stack(domain):
    parameters = {"tendon_driver": {"rate_hz": 250.0, **PATIENT}, "clarke_controller": PATIENT_CONTROLLER}
    options = StackOptions(visualize=True, parameters=parameters)
    with ComposedStack(options) as stack:
        stack.wait_until_up(120.0)
        yield stack


@pytest.fixture(scope="module")
def probe(stack):
    with Probe() as probe:
        probe.listen_to_stack()
        probe.listen(Shape, "shape")
        probe.listen(StringLengths, "string_lengths")
        probe.wait_for_message("tendon_states")
        probe.wait_for_message("stack_status")
        yield probe


def test_all_nodes_come_up_and_say_that_they_are_simulated(stack, probe):
    status = stack.status()
    assert status.state == "up"
    assert set(status.node_states) == {"active"}
    assert status.simulated
    assert probe.wait_for_message("tendon_states").simulated
    assert probe.wait_for_message("shape").simulated
    assert probe.wait_for_message("string_lengths").simulated
    probe.wait(lambda: "/tendon_driver: driver" in probe.diagnostics)
    assert all(s.hardware_id == "simulated" for name, s in probe.diagnostics.items() if name.startswith("/tendon"))


def test_down_and_up_again_in_the_same_process(stack, probe):
    probe.bring_up()
    assert probe.manage(ManageStack.Request.SHUTDOWN).success
    probe.wait(lambda: probe.stack_state() == "down")
    assert {node.state for name, node in stack.nodes.items() if name != "supervisor"} == {"unconfigured"}
    assert probe.manage(ManageStack.Request.STARTUP).success
    probe.wait(lambda: probe.stack_state() == "up")
    assert probe.manage(ManageStack.Request.PAUSE).success
    assert stack.driver.state == "inactive"
    # Power off: states are still published, nothing is commanded.
    state = probe.wait_for_message("tendon_states")
    assert np.all(np.isnan(state.commanded_tension))
    assert probe.manage(ManageStack.Request.RESUME).success
    probe.wait(lambda: probe.driver_state() == "active")
    assert stack.status().faults == []


def test_activation_does_not_jump(stack, probe):
    probe.bring_up()
    assert probe.set_parameter("reference_source", "reference.kind", "hold").successful
    probe.pause(1.3)
    for _ in range(2):
        assert probe.manage(ManageStack.Request.PAUSE).success
        probe.pause(0.3)
        probe.received["tendon_states"].clear()
        assert probe.manage(ManageStack.Request.RESUME).success
        probe.pause(0.5)
        states = list(probe.received["tendon_states"])
        tensions = np.array([m.commanded_tension for m in states])
        first = int(np.argmax(np.isfinite(tensions).all(axis=1)))
        measured = np.array(states[max(first - 1, 0)].tension)
        start = np.clip(measured, ROBOT.limits.minimum_n, ROBOT.limits.maximum_n)
        step_n = ROBOT.limits.rate_n_per_s * 0.02
        assert np.all(np.abs(tensions[first] - start) < step_n)
        # The segment does not twitch: it stays within 2 mm of where it stood (slack tendons may be taken up meanwhile).
        clarke = MANIFOLD.clarke(np.array([m.displacement for m in states[first : first + 50]]))
        assert np.ptp(clarke, axis=0).max() < 2e-3
    assert probe.set_parameter("reference_source", "reference.kind", "chirp").successful


def test_parameters_are_described_with_unit_and_range(stack, probe):
    descriptor = probe.describe("clarke_controller", "gains.segment_1.p")
    assert "N/m" in descriptor.description
    assert descriptor.floating_point_range[0].from_value == 0.0
    assert not descriptor.read_only
    assert probe.describe("clarke_controller", "robot").read_only
    assert probe.describe("tendon_driver", "limits.maximum_n").read_only


@pytest.mark.parametrize(
    ("node", "name", "value", "words"),
    [
        ("clarke_controller", "gains.segment_1.p", -1.0, ("gains.segment_1.p", "range")),
        ("clarke_controller", "gains.segment_1.p", math.nan, ("gains.segment_1.p",)),
        ("clarke_controller", "gains.segment_1.p", 3000, ("gains.segment_1.p", "3000", "decimal number", "5.0")),
        ("clarke_controller", "gains.segment_1.u_clamp_max", 0.0, ("u_clamp_max",)),
        ("clarke_controller", "robot", "two_segment", ("read-only", "robot")),
        ("clarke_controller", "pretension_n", 19.9 + 0.2, ("pretension_n", "limits", "20")),
        ("tendon_driver", "temperature_warn_c", 99.0, ("temperature_warn_c", "temperature_error_c")),
        ("tendon_driver", "loop.missed_warn_percent", 50.0, ("missed_error_percent",)),
        ("reference_source", "reference.kind", "zigzag", ("zigzag", "chirp")),
        ("reference_source", "reference.amplitude_m", [0.5, 0.0], ("amplitude", "0.025")),
        ("reference_source", "reference.amplitude_m", [0.01], ("amplitude_m", "2 values")),
    ],
)
def test_a_bad_parameter_is_refused_in_a_sentence_and_changes_nothing(stack, probe, node, name, value, words):
    before = probe.get_parameter(node, name)
    result = probe.set_parameter(node, name, value)
    assert not result.successful
    for word in words:
        assert word in result.reason
    assert probe.get_parameter(node, name) == before


def test_several_parameters_change_together_or_not_at_all(stack, probe):
    gains = {"gains.segment_1.p": 2000.0, "gains.segment_1.d": -5.0}
    assert not probe.set_together("clarke_controller", gains).successful
    assert probe.get_parameter("clarke_controller", "gains.segment_1.p") == ROBOT.control.gains[0].p
    # Warn and error move together, each alone would be refused.
    assert probe.set_together("tendon_driver", {"temperature_warn_c": 90.0, "temperature_error_c": 95.0}).successful
    assert probe.set_together("tendon_driver", {"temperature_warn_c": 70.0, "temperature_error_c": 85.0}).successful


def test_a_second_operation_is_told_to_wait(stack, probe):
    probe.bring_up()
    response = probe.manage(99)
    assert not response.success
    assert "0 to 4" in response.message


def test_plain_publishers_and_best_effort_subscribers_are_compatible(stack, probe):
    """A script's default profile reaches the controller, and a best-effort viewer sees the states."""
    probe.bring_up()
    probe.listen(TendonStates, "tendon_states", QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT))
    probe.wait_for_message("tendon_states")
    probe.trigger("reference_source/hold")
    controller = stack.nodes["clarke_controller"]
    refused = controller._reference.refused
    message = ClarkeState(position=[math.nan, 0.0])

    def refused_again() -> bool:
        # Again and again, as a script does: the first may come before the middleware has introduced both sides.
        probe.publish(ClarkeState, "clarke_reference", message, QoSProfile(depth=10))
        return controller._reference.refused > refused

    probe.wait(refused_again, what="the plain publisher was not heard")
    probe.stop_publishing("clarke_reference")
