# SPDX-License-Identifier: Apache-2.0
"""The examples of controllers in plain ROS 2 nodes command a robot, whenever they are started."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")

from continuum_robot.msg import TendonStates
from continuum_robot.srv import ManageStack
from rcl_interfaces.msg import Log
from ros_probe import PATIENT, Probe, patient_robot
from sensor_msgs.msg import JointState

from continuum_robot.nodes.composition import ComposedStack
from continuum_robot.nodes.stack.options import StackOptions

pytestmark = [pytest.mark.ros, pytest.mark.real_time]

EXAMPLES = Path(__file__).parents[2] / "examples"
WRITERS = {"12_ros2_controller": "my_controller", "14_ros2_control": "joint_commands"}


@pytest.fixture(params=list(WRITERS))
def example(request) -> str:
    return request.param


@pytest.fixture
def controller(domain: int, example: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, str(EXAMPLES / f"{example}.py")])
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


def test_the_tendons_get_torque_with_the_first_command(domain, request, example):
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
        assert running.driver._commands.owner.writer == WRITERS[example]
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
        probe.listen(JointState, "joint_states")
        joints = probe.wait_for_message("joint_states")

        def same_cycle() -> list[TendonStates]:
            stamp = joints.header.stamp
            return [state for state in list(probe.received["tendon_states"]) if state.header.stamp == stamp]

        probe.wait(same_cycle, 10.0, "no states of the cycle of joint_states")
        (states,) = same_cycle()
        assert tuple(joints.name) == running.driver.load_robot().tendon_names
        assert (joints.position, joints.velocity, joints.effort) == (
            states.displacement,
            states.velocity,
            states.tension,
        )


def test_joints_that_are_not_the_robots_tendons_are_named_and_no_command(domain):
    with stack() as running, Probe() as probe:
        probe.listen_to_stack()
        probe.listen(Log, "/rosout")
        names = list(running.driver.load_robot().tendon_names)
        given = [{"name": names}]

        def write(*, until):
            probe.publish(JointState, "joint_commands", JointState(**given[0]))
            probe.pause(0.01)
            return until()

        # As of a joint_state_broadcaster: names without efforts. The tendons get torque, and the fault latches.
        probe.wait(lambda: write(until=lambda: running.driver.faults == ("command_wrong_size",)), 90.0)
        assert any("joint_commands has 0 values of effort" in log.msg for log in probe.received["/rosout"])
        given[0] = {"name": names[1:], "effort": [4.0] * (len(names) - 1)}
        assert not running.driver._commands._of_joints(JointState(**given[0]))
        turned = JointState(name=names[::-1], effort=[float(index) for index in range(len(names))])
        assert running.driver._commands._of_joints(turned) == tuple(map(float, reversed(range(len(names)))))


def test_late_commands_are_judged_by_the_timeout_and_not_by_the_gains_of_another_controller():
    limits_s = 0.5 * 0.1
    for controller, expected in (("none", limits_s), ("topic", None), ("clarke", None)):
        found = StackOptions(controller=controller).parameters_of("tendon_driver").get("safety.late_latency_s")
        assert found == expected
    assert StackOptions(controller="none").parameters_of("supervisor")["await_commands"]
    assert not StackOptions(controller="none", clock="lockstep").parameters_of("supervisor")["await_commands"]
