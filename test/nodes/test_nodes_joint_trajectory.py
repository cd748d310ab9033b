# SPDX-License-Identifier: Apache-2.0
"""Goals of follow_joint_trajectory in a stack in lock-step. control_msgs is not on PyPI: its messages are stand-ins."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")

from ros_probe import lockstep_stack

from continuum_robot.nodes.base.waiting import Waiting
from continuum_robot.nodes.reference.trajectory_action import TrajectoryGoals, installed_action
from continuum_robot.nodes.topics import conversions
from continuum_robot.robot.loading import load_robot
from continuum_robot.rod.tendons import controlled_manifold

pytestmark = [pytest.mark.ros]

ROBOT = load_robot("two_segment")
JOINTS = ["q_re_1", "q_im_1", "q_re_2", "q_im_2"]
GOAL = [4e-3, -2e-3, 1e-3, 3e-3]


def stamp(seconds):
    whole = int(seconds)
    return SimpleNamespace(sec=whole, nanosec=round((seconds - whole) * 1e9))


def joint_point():
    return SimpleNamespace(positions=[], velocities=[])


ACTION = SimpleNamespace(
    Result=lambda: SimpleNamespace(error_code=None, error_string=""),
    Feedback=lambda: SimpleNamespace(
        header=SimpleNamespace(stamp=stamp(0.0)),
        joint_names=[],
        desired=joint_point(),
        actual=joint_point(),
        error=joint_point(),
    ),
)


class Goal:
    """What rclpy hands to a server, with what was done with it."""

    def __init__(self, joints, points, tolerances=(), longer_s=1.0):
        messages = [
            SimpleNamespace(time_from_start=stamp(time_s), positions=list(position), velocities=[])
            for time_s, position in points
        ]
        self.request = SimpleNamespace(
            trajectory=SimpleNamespace(joint_names=joints, points=messages),
            goal_tolerance=[SimpleNamespace(name=name, position=position) for name, position in tolerances],
            goal_time_tolerance=stamp(longer_s),
        )
        self.is_cancel_requested = False
        self.feedback, self.ended = [], ""

    def publish_feedback(self, feedback):
        self.feedback.append(feedback)

    def succeed(self):
        self.ended = "succeeded"

    def abort(self):
        self.ended = "aborted"

    def canceled(self):
        self.ended = "canceled"


@pytest.fixture(scope="module")
def stack(domain):
    with lockstep_stack(ROBOT.name) as (stack, probe):
        probe.pause(1.5)
        yield stack, probe


@pytest.fixture(scope="module")
def goals(stack):
    node = stack[0].nodes["reference_source"]
    return stack[0].run(lambda: TrajectoryGoals(Waiting(node, 0.01), node.component, node.clock, ACTION))


def follow(stack, goals, goal, during=lambda: None):
    """Have a goal executed by the node's executor; its result."""
    composed, probe = stack
    node = composed.nodes["reference_source"]
    future = composed.run(lambda: node.executor.create_task(goals.execute(goal)))
    probe.wait(lambda: future.done() or len(goal.feedback) > 3, 5.0)
    during()
    probe.wait(future.done, 20.0, "the goal does not end")
    return future.result()


def measured(probe):
    return np.array(conversions.vector(probe.newest("clarke_state").position))


def test_a_trajectory_of_the_coordinates_is_followed(stack, goals):
    goal = Goal(JOINTS, [(1.0, np.array(GOAL) / 3), (2.0, GOAL)], [(name, 5e-4) for name in JOINTS])
    result = follow(stack, goals, goal)
    assert (goal.ended, result.error_code, result.error_string) == ("succeeded", 0, "")
    np.testing.assert_allclose(measured(stack[1]), GOAL, atol=5e-4)
    newest = goal.feedback[-1]
    np.testing.assert_allclose(newest.desired.positions, GOAL, atol=1e-12)
    np.testing.assert_allclose(newest.error.positions, np.subtract(GOAL, newest.actual.positions), atol=1e-12)
    assert newest.joint_names == JOINTS


def test_a_trajectory_of_the_tendons_is_followed(stack, goals):
    there = controlled_manifold(ROBOT).displacement_matrix @ (np.array(GOAL) / 2)
    goal = Goal(list(ROBOT.tendon_names), [(1.5, there)])
    result = follow(stack, goals, goal)
    assert (goal.ended, result.error_code) == ("succeeded", 0)
    stack[1].pause(0.5)
    np.testing.assert_allclose(measured(stack[1]), np.array(GOAL) / 2, atol=5e-4)


def test_a_cancelled_goal_comes_to_rest(stack, goals):
    goal = Goal(JOINTS, [(60.0, [0.0] * 4)])

    def cancel():
        goal.is_cancel_requested = True

    result = follow(stack, goals, goal, cancel)
    assert goal.ended == "canceled"
    assert "comes to rest" in result.error_string
    stack[1].wait(lambda: stack[1].newest("stack_status").holding)


def test_another_motion_takes_its_place(stack, goals):
    composed, _ = stack
    goal = Goal(JOINTS, [(60.0, [0.0] * 4)])
    source = composed.nodes["reference_source"].component
    result = follow(stack, goals, goal, lambda: composed.run(source.end_trajectory))
    assert goal.ended == "aborted"
    assert "another motion" in result.error_string


def test_what_cannot_be_followed_is_refused_and_nothing_moves(stack, goals):
    before = measured(stack[1])
    goal = Goal(JOINTS[:2], [(1.0, [0.0, 0.0])])
    result = follow(stack, goals, goal)
    assert (goal.ended, result.error_code) == ("aborted", -1)
    assert "joint_names" in result.error_string
    stack[1].pause(0.5)
    np.testing.assert_allclose(measured(stack[1]), before, atol=2e-4)
    assert stack[1].faults() == []


def test_without_the_messages_it_is_not_served(stack):
    names = {name for name, _ in stack[1].node.get_service_names_and_types()}
    served = any("follow_joint_trajectory" in name for name in names)
    assert served == (installed_action() is not None)
