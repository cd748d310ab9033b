# SPDX-License-Identifier: Apache-2.0
"""Every way into the safe state, over ROS: ramped, latched, named in /diagnostics, and recovered without a restart.

By what others command: test_nodes_command_safety.py.
"""

from __future__ import annotations

import contextlib
import math
import threading

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")

from continuum_robot.msg import EstopButton
from continuum_robot.srv import ManageStack, ReleaseEstop
from rclpy.node import Node
from ros_probe import Probe, pause
from ros_safe_state import ROBOT, SAFE_N, check_safe_state, recover, recovered
from std_msgs.msg import Bool

from continuum_robot.nodes.topics import qos

pytestmark = [pytest.mark.ros]

# With a controller on a topic, others can be heard there too.
OPTIONS = {
    "controller": "topic",
    "visualize": False,
    "start_motion": False,
    "parameters": {"tendon_driver": {"rate_hz": 250.0, "estop_button_timeout_s": 2.0}},
}


@pytest.fixture
def probe(probe: Probe):
    with recovered(probe):
        yield probe


def test_a_silent_controller(stack, probe):
    assert probe.transition("clarke_controller", "deactivate")
    check_safe_state(probe, "command_timeout")


def test_the_way_to_the_safe_tension_is_a_ramp(stack, probe):
    probe.received["tendon_states"].clear()
    probe.wait_for_message("tendon_states")
    probe.trigger("estop")
    probe.wait(
        lambda: np.abs(np.array(probe.newest("tendon_states").commanded_tension) - SAFE_N).max() < 1e-9,
        what="the tensions did not reach the safe value",
    )
    states = list(probe.received["tendon_states"])
    tensions = np.array([m.commanded_tension for m in states])
    sequence = np.array([m.sequence for m in states])
    ended = int(np.argmax(np.abs(tensions - SAFE_N).max(axis=1) < 1e-9))
    begun = max(0, ended - 20)
    assert sequence[ended] - sequence[begun] > 5  # no jump: it took several cycles, though not each was heard
    # A cycle counts for 10 ms at most, however long it took.
    largest_step_n = ROBOT.limits.safe_rate_n_per_s * 0.01
    steps_n = np.abs(np.diff(tensions[begun : ended + 1], axis=0)).max(axis=1)
    assert np.all(steps_n <= largest_step_n * np.diff(sequence[begun : ended + 1]) + 1e-9)
    assert "estop" in probe.faults()


def test_a_frozen_sensor(stack, probe):
    assert probe.trigger("reference_source/restart").success
    probe.pause(1.2)  # let it move along its trajectory
    assert probe.inject("freeze_sensor", tendon=0).success
    check_safe_state(probe, "frozen_reading")


def test_a_reading_that_is_nan(stack, probe):
    assert probe.inject("nan_reading", tendon=2).success
    probe.wait_for_fault("reading_not_finite")
    assert math.isnan(probe.wait_for_message("tendon_states").displacement[2])
    # The driver does not recover while the cause is there, and reports it.
    response = probe.trigger("reset_estop")
    assert not response.success
    assert "NaN" in response.message
    assert probe.inject("").success
    probe.pause(0.1)
    assert probe.trigger("reset_estop").success


def test_readings_that_stop_coming(stack, probe):
    assert probe.inject("drop_readings", magnitude=1.0).success
    check_safe_state(probe, "reading_timeout")


def test_a_fault_that_the_device_reports(stack, probe):
    assert probe.inject("device_fault", tendon=1).success
    probe.wait_for_fault("device_fault")
    probe.wait(lambda: "motor board" in probe.health("/tendon_driver: bus"))


def test_the_estop_service(stack, probe):
    assert probe.trigger("estop").success
    check_safe_state(probe, "estop")
    assert probe.newest("stack_status").estop


def test_the_estop_topic_holds_until_it_is_released(stack, probe):
    probe.press_estop(True)
    check_safe_state(probe, "estop")
    response = probe.trigger("reset_estop")
    assert not response.success
    assert "topic" in response.message
    assert not probe.manage(ManageStack.Request.RESET).success
    probe.press_estop(False)
    pause(0.2)
    assert "estop" in probe.faults()  # releasing the button clears nothing by itself
    assert probe.trigger("reset_estop").success


@contextlib.contextmanager
def other_program(probe, name):
    """A publisher of the e-stop's topic in a node of its own; not pressed at the end."""
    node = Node(name, context=probe.context)
    publisher = node.create_publisher(Bool, "estop", qos.latched())
    try:
        probe.wait(lambda: publisher.get_subscription_count() >= 2, what="nobody listens to estop")
        yield publisher
    finally:
        node.destroy_node()


def test_a_false_on_the_estop_topic_releases_only_its_own_true(stack, probe):
    probe.press_estop(True)
    probe.wait_for_fault("estop")
    with other_program(probe, "other") as other:
        other.publish(Bool(data=True))
        probe.wait(lambda: holders(probe) == {"/probe", "/other"}, what="the other one is not named")
        other.publish(Bool(data=False))
        probe.wait(lambda: holders(probe) == {"/probe"}, what="the other one does not let go")
        response = probe.manage(ManageStack.Request.RESET)
        assert not response.success
        assert "/probe reports true on the topic estop" in response.message
        assert "/other" not in response.message
        probe.press_estop(False)
        probe.wait(lambda: not holders(probe))
    # Who let go before it left holds nothing.
    assert probe.trigger("reset_estop").success


def test_a_publisher_that_has_gone_holds_the_estop_until_an_operator_releases_it(stack, probe):
    with other_program(probe, "gone") as gone:
        gone.publish(Bool(data=True))
        probe.wait_for_fault("estop")
        probe.wait(lambda: holders(probe) == {"/gone"}, what="it is not named")
        response = probe.call(ReleaseEstop, "release_estop", ReleaseEstop.Request(holder="/gone"))
        assert not response.success
        assert "release it there" in response.message
    probe.press_estop(False)  # of another one: no use
    probe.wait(lambda: "has gone" in probe.trigger("reset_estop").message, what="nobody notices that it has gone")
    assert not probe.manage(ManageStack.Request.RESET).success
    assert not probe.call(ReleaseEstop, "release_estop", ReleaseEstop.Request(holder="/nobody")).success
    response = probe.call(ReleaseEstop, "release_estop", ReleaseEstop.Request(holder="/gone"))
    assert response.success, response.message
    assert "estop" in probe.faults()  # it clears nothing
    assert probe.trigger("reset_estop").success


def test_a_button_holds_the_estop_while_it_is_pressed_and_while_it_is_silent(stack, probe):
    pressed, ended = threading.Event(), threading.Event()

    def beat() -> None:
        sequence = 0
        while not ended.wait(0.05):
            sequence += 1
            message = EstopButton(id="door", pressed=pressed.is_set(), sequence=sequence)
            probe.publish(EstopButton, "estop_button", message)

    heart = threading.Thread(target=beat)
    heart.start()
    try:
        pressed.set()
        probe.wait_for_fault("estop")
        response = probe.trigger("reset_estop")
        assert not response.success
        assert "door is a button that is pressed" in response.message
        pressed.clear()
        probe.wait(lambda: not holders(probe), what="the button does not let go")
        recover(probe)
    finally:
        ended.set()
        heart.join()
    probe.wait_for_fault("estop")
    assert "heartbeat is lost" in probe.trigger("reset_estop").message
    assert probe.call(ReleaseEstop, "release_estop", ReleaseEstop.Request(holder="door")).success
    assert probe.trigger("reset_estop").success


def holders(probe) -> set[str]:
    """Who holds the e-stop, as the driver reports."""
    return set(probe.newest("driver_status").estop_holders)


def test_an_estop_in_every_lifecycle_state(stack, probe):
    for command, state in (
        (ManageStack.Request.PAUSE, "inactive"),
        (ManageStack.Request.SHUTDOWN, "unconfigured"),
    ):
        assert probe.manage(command).success
        assert probe.lifecycle_state("tendon_driver") == state
        assert probe.trigger("estop").success
        probe.wait(lambda: "estop" in probe.faults())
        response = probe.manage(ManageStack.Request.STARTUP)
        assert not response.success
        assert "estop" in response.message  # and the refusal reports why
        assert "estop" in probe.faults()
        recover(probe)


def test_a_driver_that_is_brought_down_while_others_have_their_turns_waits_for_none(stack, probe):
    """The thread that brings it down is the one in which the others would answer."""
    stack.run(lambda: stack.driver.loop.pace.run_for(30.0))
    cycles = len(probe.received["tendon_states"])
    probe.wait_real(lambda: len(probe.received["tendon_states"]) > cycles + 20)
    stack.run(stack.driver.trigger_deactivate)
    assert stack.driver.state == "inactive"
    assert stack.driver.loop.running, "the cycles ended"
    stack.run(stack.driver.trigger_activate)
    assert stack.driver.state == "active"


def test_only_known_faults_can_be_injected(stack, probe):
    response = probe.inject("gremlins")
    assert not response.success
    assert "freeze_sensor" in response.message
    assert not probe.inject("freeze_sensor", tendon=77).success
    assert stack.driver.faults == ()
