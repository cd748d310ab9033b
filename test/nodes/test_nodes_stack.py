# SPDX-License-Identifier: Apache-2.0
"""The composed stack on DDS in real time: it goes down and up again, pauses, and hears programs of others."""

from __future__ import annotations

import math

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")

from continuum_robot.msg import ClarkeState, TendonStates
from continuum_robot.srv import ManageStack, TakeReference
from rcl_interfaces.msg import Log
from rclpy.qos import QoSProfile, ReliabilityPolicy
from ros_probe import Probe, listening_probe, patient_stack

from continuum_robot.robot.coordinates import clarke_manifold
from continuum_robot.robot.loading import load_robot

pytestmark = [pytest.mark.ros, pytest.mark.real_time]

ROBOT = load_robot("opencr_five_tendon")
MANIFOLD = clarke_manifold(ROBOT)


@pytest.fixture(scope="module")
def stack(domain):
    with patient_stack(start_motion=True) as stack:
        yield stack


@pytest.fixture(scope="module")
def probe(stack):
    with listening_probe() as probe:
        probe.listen(Log, "/rosout")
        yield probe


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


def test_plain_publishers_and_best_effort_subscribers_are_compatible(stack, probe):
    """A script's default profile reaches the controller, and a best-effort viewer sees the states."""
    probe.bring_up()
    probe.listen(TendonStates, "tendon_states", QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT))
    probe.wait_for_message("tendon_states")
    take_turn(probe, "probe")
    controller = stack.nodes["clarke_controller"]
    refused = controller._reference.refused
    message = ClarkeState(writer="probe", position=[math.nan, 0.0])

    def refused_again() -> bool:
        # Again and again, as a script does: the first may come before the middleware has introduced both sides.
        probe.publish(ClarkeState, "clarke_reference", message, QoSProfile(depth=10))
        return controller._reference.refused > refused

    probe.wait(refused_again, what="the plain publisher was not heard")
    probe.stop_publishing("clarke_reference")
    take_turn(probe, "")


def take_turn(probe, writer):
    response = probe.call(TakeReference, "reference_source/take", TakeReference.Request(writer=writer))
    assert response.success, response.message


@pytest.fixture
def gentle(stack, probe):
    """Gains that are stable at any delay: what the robot does is not looked at."""
    probe.bring_up()
    gains = ROBOT.control.gains[0]
    names = {name: f"gains.segment_1.{name}" for name in ("p", "i", "d")}
    assert probe.set_together("clarke_controller", {names["p"]: 500.0, names["i"]: 0.0, names["d"]: 0.0}).successful
    yield
    usual = {full: getattr(gains, name) for name, full in names.items()}
    assert probe.set_together("clarke_controller", usual).successful


def test_references_of_who_has_not_taken_the_turn_are_refused_and_named(stack, probe, gentle):
    probe.trigger("reference_source/hold")
    probe.wait(lambda: probe.newest("clarke_reference").velocity[0] == 0.0, what="the reference does not come to rest")
    stands = probe.wait_for_message("clarke_reference").position[0]
    aim = 0.006 if stands < 0.0 else -0.006
    controller = stack.nodes["clarke_controller"]
    owner, followed = controller._references, controller._reference
    message = ClarkeState(writer="probe", position=[aim, 0.0], velocity=[0.0, 0.0], acceleration=[0.0, 0.0])
    before, seen = owner.refused, []

    def write():
        probe.publish(ClarkeState, "clarke_reference", message)
        probe.pause(0.01)
        seen.append(followed.position[0])

    probe.wait(lambda: write() or owner.named, what="it was not refused")
    assert owner.refused > before
    assert owner.named == "probe"
    np.testing.assert_allclose(seen, stands, atol=1e-4)
    words = "probe writes clarke_reference beside reference_source: refused"
    probe.wait(lambda: any(words in log.msg for log in probe.received["/rosout"]), what=words)
    # With the turn it is followed at once, and nobody is called an intruder; another program of its name is refused.
    forged = ClarkeState(writer="probe", position=[-aim, 0.0], velocity=[0.0, 0.0], acceleration=[0.0, 0.0])
    with Probe() as other:
        other.publish(ClarkeState, "clarke_reference", forged)  # discovered before it counts
        take_turn(probe, "probe")
        probe.wait(lambda: write() or abs(followed.position[0] - aim) < 1e-4, what="it is not followed")
        assert owner.writer == "probe"
        refused = owner.refused

        def both_write():
            write()
            other.publish(ClarkeState, "clarke_reference", forged)
            return owner.refused > refused + 10

        probe.wait(both_write, what="another program with the owner's name was not refused")
        assert abs(followed.position[0] - aim) < 1e-4
    take_turn(probe, "")
    probe.stop_publishing("clarke_reference")
    probe.wait(lambda: owner.writer == "reference_source", what="the reference source does not have it again")
    assert not any("reference_source writes" in log.msg for log in probe.received["/rosout"])
