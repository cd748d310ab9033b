# SPDX-License-Identifier: Apache-2.0
"""A policy in the running stack: it brings the tip to a target, and the law takes over where it fails."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")

from continuum_robot.msg import ClarkeState, TipState
from continuum_robot.srv import ManageStack
from geometry_msgs.msg import Point, PointStamped
from robot_files import robot_file
from ros_probe import lockstep_stack

from continuum_robot.nodes.topics import qos

pytestmark = [pytest.mark.ros]

fails = False


def reach(seen):
    """Three millimetres in the direction of the target; a string once it fails."""
    return "nothing" if fails else np.sign(seen["tip_target"][:2]) * 0.003 + 0 * seen["tip_pose.position"][:2]


def test_a_policy_follows_targets_of_the_tip_until_it_fails(domain, tmp_path):
    global fails  # noqa: PLW0603  # the stack is in this process
    policy = {
        "function": f"{__name__}:reach", "observations": ["tip_target", "tip_pose.position"], "action": "clarke",
    }  # fmt: skip
    file = robot_file(tmp_path, {"control.policy": policy})
    with lockstep_stack(file, (ClarkeState, "clarke_state"), (TipState, "tip_state")) as (stack, probe):
        policy = stack.nodes["clarke_controller"]._policy

        def bent():
            return np.array(probe.newest("clarke_state").position)

        probe.pause(0.2)
        assert not policy.acts
        target = PointStamped(point=Point(x=0.05, y=0.05, z=0.17))
        probe.publish(PointStamped, "tip_target", target, qos.command_publisher())
        probe.wait(lambda: policy.acts, 30.0, "it does not act")
        probe.wait(lambda: np.abs(bent() - 0.003).max() < 1e-4, 10.0, "it does not bend the robot")
        fails = True
        probe.wait(lambda: policy.failure, 10.0, "its failure is not seen")
        probe.wait(lambda: "the policy failed" in probe.health("/clarke_controller: controller"))
        # The reference source goes on to the target, and now the robot follows.
        probe.wait(lambda: probe.newest("tip_state").state == TipState.REACHED, 20.0, "the law does not take over")
        assert np.abs(bent() - 0.003).max() > 5e-4
        assert stack.driver.faults == ()
        fails = False
        assert probe.manage(ManageStack.Request.RESET, 60.0).success
        probe.wait_real(lambda: probe.stack_state() == "up" and probe.driver_state() == "active", 60.0)
        probe.pause(0.2)
        assert not stack.nodes["clarke_controller"]._policy.failure
