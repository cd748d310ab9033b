# SPDX-License-Identifier: Apache-2.0
"""What others command that is not to be obeyed, over ROS: the safe state, named and recovered from.

In real time: in lock-step nobody else may write.
"""

from __future__ import annotations

import contextlib
import math
import threading

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")

from continuum_robot.msg import TendonCommands
from continuum_robot.srv import TakeCommands
from ros_probe import Probe, listening_probe, patient_stack, pause
from ros_safe_state import ROBOT, check_safe_state, recovered

pytestmark = [pytest.mark.ros, pytest.mark.real_time]


@pytest.fixture(scope="module")
def stack(domain):
    with patient_stack(controller="topic") as stack:
        yield stack


@pytest.fixture(scope="module")
def shared_probe(stack):
    with listening_probe() as probe:
        yield probe


@pytest.fixture
def probe(shared_probe):
    with recovered(shared_probe):
        yield shared_probe


def write_until_a_fault(probe, tension_n, period_s, sequence=None, most=2000):
    """Publish commands that answer the newest state, or always the one of a sequence number."""
    for _ in range(most):
        answered = probe.newest("tendon_states").sequence if sequence is None else sequence
        message = TendonCommands(tension=tension_n, sequence=answered, writer="probe")
        probe.publish(TendonCommands, "tendon_commands", message)
        pause(period_s)
        if probe.faults():
            break
    probe.stop_publishing("tendon_commands")


def test_a_command_with_nan(stack, probe):
    assert probe.transition("clarke_controller", "deactivate")
    write_until_a_fault(probe, [math.nan] * ROBOT.tendon_count, 0.002)
    check_safe_state(probe, "command_not_finite")


def test_a_command_of_the_wrong_size(stack, probe):
    assert probe.transition("clarke_controller", "deactivate")
    write_until_a_fault(probe, [1.0, 1.0], 0.002)
    check_safe_state(probe, "command_wrong_size")


def test_two_writers(stack, probe):
    write_until_a_fault(probe, [1.0] * ROBOT.tendon_count, 0.004)
    check_safe_state(probe, "two_writers")


def command(probe, tension_n, writer=""):
    """Publish once, without a sequence number, as a script does."""
    message = TendonCommands(writer=writer or f"probe {id(probe)}", tension=[tension_n] * ROBOT.tendon_count)
    probe.publish(TendonCommands, "tendon_commands", message)
    pause(0.004)


def commanded(probe, tension_n):
    """Whether such a tension is commanded, or a fault there."""
    return bool(probe.faults()) or np.allclose(probe.newest("tendon_states").commanded_tension, tension_n)


@contextlib.contextmanager
def written_meanwhile(writer, tension_n, name=""):
    """Another thread publishes again and again."""
    ended = threading.Event()

    def write():
        while not ended.is_set():
            command(writer, tension_n, name)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def test_the_first_writer_has_the_commands_without_sequence_numbers_too(stack, probe):
    """A second one is refused from its first message on, named, and stops the driver."""

    def obeyed(writer, tension_n):
        command(writer, tension_n)
        return commanded(probe, tension_n)

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
        # The controller is silent: half of the command timeout later its commands are whose that writes. That a busy
        # machine takes longer to answer than the whole of it must not count.
        with written_meanwhile(other, 5.0):
            assert probe.transition("clarke_controller", "deactivate")
            probe.wait(lambda: commanded(probe, 5.0), what="silence did not give the commands back")
        owner = stack.driver._commands.owner
        before = owner.refused
        fight(other, probe, lambda: owner.refused > before + 50)
        assert probe.faults() == []
        # Who leaves has given them back before they time out.
        other.stop_publishing("tendon_commands")
        probe.wait(lambda: obeyed(probe, 4.0), what="the commands of who left were not given back")
        assert probe.faults() == []
        assert probe.set_parameter("tendon_driver", "second_writer", "fault").successful
        probe.wait(lambda: obeyed(probe, 5.0))
        fight(probe, other, probe.faults)
        other.stop_publishing("tendon_commands")
    probe.stop_publishing("tendon_commands")
    check_safe_state(probe, "two_writers")
    words = f"probe {id(other)} wrote tendon_commands too: refused"
    probe.wait(lambda: words in probe.health("/tendon_driver: round_trip"), what=words)


def test_the_name_of_the_owner_gives_nobody_else_the_commands(stack, probe):
    """What the service gave to a name is the first program's that writes under it, until that is silent."""
    owner, name = stack.driver._commands.owner, "mine"
    assert probe.set_parameter("tendon_driver", "second_writer", "refuse").successful
    with Probe() as other:
        for writer in (other, probe):
            command(writer, 5.0)
        assert probe.transition("clarke_controller", "deactivate")
        assert probe.call(TakeCommands, "take_commands", TakeCommands.Request(writer=name)).success
        probe.wait(lambda: command(probe, 5.0, name) or commanded(probe, 5.0), what="who took them is not obeyed")
        probe.received["tendon_states"].clear()
        refused = owner.refused
        probe.wait(lambda: command(probe, 5.0, name) or command(other, 19.0, name) or owner.refused > refused + 10)
        assert owner.named == f"another program that calls itself {name}"
        assert np.nanmax([m.commanded_tension for m in list(probe.received["tendon_states"])]) <= 5.0
        assert probe.faults() == []
        # Who has the name and dies is followed by the next that writes under it.
        with written_meanwhile(other, 4.0, name):
            probe.wait(lambda: commanded(probe, 4.0), what="the commands of who is silent were not given back")
        assert probe.faults() == []
    probe.stop_publishing("tendon_commands")
    assert probe.set_parameter("tendon_driver", "second_writer", "fault").successful
    check_safe_state(probe, "command_timeout")


def test_an_old_command_is_not_obeyed(stack, probe):
    """A command that answers a state of long ago does not keep the driver content."""
    assert probe.transition("clarke_controller", "deactivate")
    old = probe.newest("tendon_states").sequence
    write_until_a_fault(probe, [5.0] * ROBOT.tendon_count, 0.005, sequence=old, most=4000)
    check_safe_state(probe, "command_timeout")
