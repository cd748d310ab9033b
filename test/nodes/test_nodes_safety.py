# SPDX-License-Identifier: Apache-2.0
"""Every way into the safe state, over ROS: ramped, latched, named in /diagnostics, and recovered without a restart."""

from __future__ import annotations

import contextlib
import math
import threading

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")

from continuum_robot.msg import EstopButton, TendonCommands
from continuum_robot.srv import ManageStack, ReleaseEstop
from rclpy.node import Node
from ros_probe import PATIENT, PATIENT_CONTROLLER, Probe, patient_robot, pause
from std_msgs.msg import Bool

from continuum_robot.nodes import qos
from continuum_robot.nodes.composition import ComposedStack
from continuum_robot.nodes.diagnostics import values_of
from continuum_robot.nodes.stack_options import StackOptions
from continuum_robot.robot.loading import load_robot

pytestmark = [pytest.mark.ros, pytest.mark.real_time]

ROBOT = load_robot("opencr_five_tendon")
SAFE_N = ROBOT.limits.safe_n


@pytest.fixture(scope="module")
def stack(domain):
    # With a controller on a topic, others can be heard there too.
    driver = {"rate_hz": 250.0, "estop_button_timeout_s": 2.0, **PATIENT}
    parameters = {"tendon_driver": driver, "clarke_controller": PATIENT_CONTROLLER}
    options = StackOptions(robot=patient_robot(), visualize=False, controller="topic", parameters=parameters)
    with ComposedStack(options) as stack:
        stack.wait_until_up(120.0)
        yield stack


@pytest.fixture(scope="module")
def shared_probe(stack):
    with Probe() as probe:
        probe.listen_to_stack()
        probe.wait_for_message("tendon_states")
        probe.wait_for_message("stack_status")
        yield probe


@pytest.fixture
def probe(shared_probe):
    """The stack is up before each test, and every test recovers it in the same process."""
    probe = shared_probe
    if probe.stack_state() != "up":
        recover(probe)
    probe.wait(lambda: probe.driver_state() == "active")
    yield probe
    probe.inject("")
    recover(probe)


def recover(probe: Probe) -> None:
    response = probe.manage(ManageStack.Request.RESET)
    assert response.success, response.message
    probe.wait(lambda: probe.stack_state() == "up" and probe.driver_state() == "active")
    assert probe.faults() == []
    before = probe.newest("tendon_states").sequence
    probe.wait(lambda: probe.newest("tendon_commands").sequence > before, what="nobody commands after the recovery")


def check_safe_state(probe: Probe, fault: str) -> None:
    """Latched, named in three places, tensions at the safe value, commands ignored."""
    probe.wait_for_fault(fault)
    probe.wait(lambda: any(fault in f for f in probe.newest("stack_status").faults), what="not in stack_status")
    assert probe.newest("stack_status").last_fault
    probe.wait(lambda: fault in probe.health("/tendon_driver: driver"), what="not named in /diagnostics")
    assert probe.diagnostics["/tendon_driver: driver"].level == b"\x02"
    probe.wait(
        lambda: np.allclose(probe.newest("tendon_states").commanded_tension, SAFE_N, atol=1e-9),
        what="the tensions did not reach the safe value",
    )
    pause(0.3)
    assert fault in probe.faults()  # it latches
    np.testing.assert_allclose(probe.newest("tendon_states").commanded_tension, SAFE_N, atol=1e-9)
    assert not probe.transition("tendon_driver", "activate")  # from active there is no such transition


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


def test_a_command_with_nan(stack, probe):
    assert probe.transition("clarke_controller", "deactivate")
    message = TendonCommands(tension=[math.nan] * ROBOT.tendon_count)
    for _ in range(2000):
        message.sequence = probe.newest("tendon_states").sequence
        probe.publish(TendonCommands, "tendon_commands", message)
        pause(0.002)
        if probe.faults():
            break
    probe.stop_publishing("tendon_commands")
    check_safe_state(probe, "command_not_finite")


def test_a_command_of_the_wrong_size(stack, probe):
    assert probe.transition("clarke_controller", "deactivate")
    for _ in range(2000):
        sequence = probe.newest("tendon_states").sequence
        probe.publish(TendonCommands, "tendon_commands", TendonCommands(tension=[1.0, 1.0], sequence=sequence))
        pause(0.002)
        if probe.faults():
            break
    probe.stop_publishing("tendon_commands")
    check_safe_state(probe, "command_wrong_size")


def test_a_frozen_sensor(stack, probe):
    assert probe.trigger("reference_source/restart").success
    pause(1.2)  # let it move along its trajectory
    assert probe.inject("freeze_sensor", tendon=0).success
    check_safe_state(probe, "frozen_reading")


def test_a_reading_that_is_nan(stack, probe):
    assert probe.inject("nan_reading", tendon=2).success
    probe.wait_for_fault("reading_not_finite")
    assert math.isnan(probe.wait_for_message("tendon_states").displacement[2])
    # The driver does not recover while the cause is there, and says so.
    response = probe.trigger("reset_estop")
    assert not response.success
    assert "NaN" in response.message
    assert probe.inject("").success
    pause(0.1)
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
        assert "/probe says true on the topic estop" in response.message
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
    """Who holds the e-stop, as the driver says."""
    return set(filter(None, values_of(probe.newest("driver_status"))["estop_holders"].split(", ")))


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
        assert "estop" in response.message  # and the refusal says why
        assert "estop" in probe.faults()
        recover(probe)


def test_two_writers(stack, probe):
    for _ in range(2000):
        sequence = probe.newest("tendon_states").sequence
        message = TendonCommands(tension=[1.0] * ROBOT.tendon_count, sequence=sequence)
        probe.publish(TendonCommands, "tendon_commands", message)
        pause(0.004)
        if probe.faults():
            break
    probe.stop_publishing("tendon_commands")
    check_safe_state(probe, "two_writers")


def command(probe, tension_n):
    """Publish once, without a sequence number, as a script does."""
    message = TendonCommands(tension=[tension_n] * ROBOT.tendon_count)
    probe.publish(TendonCommands, "tendon_commands", message)
    pause(0.004)


def test_the_first_writer_has_the_commands_without_sequence_numbers_too(stack, probe):
    """A second one is refused from its first message on, named, and stops the driver."""

    def obeyed(writer, tension_n):
        command(writer, tension_n)
        return bool(probe.faults()) or np.allclose(probe.newest("tendon_states").commanded_tension, tension_n)

    def fight(first, second, done):
        probe.received["tendon_states"].clear()
        probe.wait(lambda: command(first, 5.0) or command(second, 19.0) or done())
        assert np.nanmax([m.commanded_tension for m in list(probe.received["tendon_states"])]) <= 5.0

    # Tensions that nobody controls: a loop over topics rings where the machine is busy.
    assert probe.set_parameter("tendon_driver", "second_writer", "refuse").successful
    with Probe() as other:
        # Both are heard before the time without commands begins: on a busy machine that takes seconds.
        for writer in (other, probe):
            command(writer, 5.0)
        assert probe.transition("clarke_controller", "deactivate")
        # The controller is silent: half of the command timeout later its commands are whose that writes.
        probe.wait(lambda: obeyed(other, 5.0), what="silence did not give the commands back")
        claim = stack.driver._commands.owner.claim
        before = claim.refused
        fight(other, probe, lambda: claim.refused > before + 50)
        assert probe.faults() == []
        # Who leaves gives them back at once.
        other.stop_publishing("tendon_commands")
        probe.wait(lambda: obeyed(probe, 4.0), what="the commands of who left were not given back")
        assert probe.faults() == []
        assert probe.set_parameter("tendon_driver", "second_writer", "fault").successful
        probe.wait(lambda: obeyed(probe, 5.0))
        fight(probe, other, probe.faults)
        other.stop_publishing("tendon_commands")
    probe.stop_publishing("tendon_commands")
    check_safe_state(probe, "two_writers")
    words = "probe wrote tendon_commands too: refused"
    probe.wait(lambda: words in probe.health("/tendon_driver: round_trip"), what=words)


def test_only_known_faults_can_be_injected(stack, probe):
    response = probe.inject("gremlins")
    assert not response.success
    assert "freeze_sensor" in response.message
    assert not probe.inject("freeze_sensor", tendon=77).success
    assert stack.driver.faults == ()


def test_an_old_command_is_not_obeyed(stack, probe):
    """A command that answers a state of long ago does not keep the driver content."""
    assert probe.transition("clarke_controller", "deactivate")
    old = probe.newest("tendon_states").sequence
    for _ in range(4000):
        message = TendonCommands(tension=[5.0] * ROBOT.tendon_count, sequence=old)
        probe.publish(TendonCommands, "tendon_commands", message)
        pause(0.005)
        if probe.faults():
            break
    probe.stop_publishing("tendon_commands")
    check_safe_state(probe, "command_timeout")
