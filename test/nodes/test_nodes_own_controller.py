# SPDX-License-Identifier: Apache-2.0
"""The example of a controller in a plain ROS 2 node commands a robot, whenever it is started."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")

from continuum_robot.srv import ManageStack
from ros_probe import PATIENT, Probe, patient_robot

from continuum_robot.nodes.composition import ComposedStack
from continuum_robot.nodes.stack.options import StackOptions

pytestmark = [pytest.mark.ros, pytest.mark.real_time]

EXAMPLE = Path(__file__).parents[2] / "examples" / "12_ros2_controller.py"


@pytest.fixture
def controller(domain: int) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, str(EXAMPLE)])
    yield process
    process.terminate()
    try:
        process.wait(30.0)
    except subprocess.TimeoutExpired:  # the middleware may hang at a program's end, which is not tested here
        process.kill()
        process.wait()


def stack() -> ComposedStack:
    parameters = {"tendon_driver": {"rate_hz": 250.0, **PATIENT}}
    options = StackOptions(robot=patient_robot(), controller="none", visualize=False, parameters=parameters)
    return ComposedStack(options)


def test_the_tendons_get_torque_with_the_first_command(domain, request):
    """And a start after a fault waits for commands again."""
    with stack() as running, Probe() as probe:
        probe.listen_to_stack()
        probe.wait(lambda: running.supervisor.awaits_commands, 60.0, "it does not wait")
        probe.wait(lambda: len(probe.received["tendon_states"]) > 50, 30.0, "no states to answer")
        assert not running.driver.powered
        assert probe.stack_state() == "starting"
        process = request.getfixturevalue("controller")
        probe.wait(lambda: probe.stack_state() == "up", 60.0, "it does not come up")
        probe.wait(lambda: max(probe.newest("tendon_states").commanded_tension) > 4.5, 30.0, "it is not obeyed")
        assert running.driver.faults == ()
        process.terminate()
        probe.wait(lambda: running.driver.faults == ("command_timeout",), 30.0, "its end is no fault")
        probe.manage(ManageStack.Request.PAUSE, 60.0)
        probe.wait(lambda: not running.driver.powered, 30.0)


def test_a_controller_that_writes_before_the_activation_is_obeyed(domain, controller):
    with stack() as running, Probe() as probe:
        probe.listen_to_stack()
        running.wait_until_up(90.0)
        probe.wait(lambda: max(probe.newest("tendon_states").commanded_tension) > 4.5, 30.0, "it is not obeyed")
        assert running.driver.faults == ()


def test_late_commands_are_judged_by_the_timeout_and_not_by_the_gains_of_another_controller():
    limits_s = 0.5 * 0.1
    for controller, expected in (("none", limits_s), ("topic", None), ("clarke", None)):
        found = StackOptions(controller=controller).parameters_of("tendon_driver").get("safety.late_latency_s")
        assert found == expected
    assert StackOptions(controller="none").parameters_of("supervisor")["await_commands"]
    assert not StackOptions(controller="none", clock="lockstep").parameters_of("supervisor")["await_commands"]
