# SPDX-License-Identifier: Apache-2.0
"""Predictive control of the tip over DDS, in lock-step: round a post, held by nobody but the plan."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")

from continuum_robot.msg import TipState
from continuum_robot.srv import TakeReference
from geometry_msgs.msg import Point, PointStamped
from nav_msgs.msg import Path as PathMessage
from ros_probe import lockstep_stack
from std_msgs.msg import String

from continuum_robot.control.tip.inverse import TipKinematics
from continuum_robot.geometry.obstacles import least_distance
from continuum_robot.nodes.topics import conversions
from continuum_robot.robot.coordinates import coordinate_scale_m
from continuum_robot.robot.file.shipped_files import shipped_file
from continuum_robot.robot.loading import load_robot
from continuum_robot.rod.rod import Rod
from continuum_robot.rod.tendons import coefficients_from_clarke
from continuum_robot.simulation.mujoco.world import load_world

pytestmark = [pytest.mark.ros]

ROBOT = load_robot("opencr_five_tendon")
SIDES = 0.8 * coordinate_scale_m(ROBOT) * np.array([[1, -1], [1, 1]]) / np.sqrt(2)
TARGETS = [TipKinematics(ROBOT).place(side)[0] for side in SIDES]
POINTS_M = ROBOT.length_m * np.arange(1, 21) / 20
WORLD = shipped_file("worlds/post.yaml")
POST = load_world(WORLD).convex()


@pytest.fixture(scope="module")
def probe(domain):
    topics = ((TipState, "tip_state"), (String, "reference_writer"), (PathMessage, "predicted_path"))
    parameters = {"predictive_tip": {"world": str(WORLD)}}
    with lockstep_stack(ROBOT.name, *topics, predictive=True, parameters=parameters) as (_, probe):
        probe.pause(1.0)
        yield probe


def aim(probe, target):
    probe.received["tip_state"].clear()
    probe.publish(PointStamped, "predictive_target", PointStamped(point=Point(x=target[0], y=target[1], z=target[2])))


def wait_for_state(probe, *states):
    def came():
        return any(message.state in states for message in probe.received["tip_state"])

    try:
        probe.wait(came)
    except AssertionError:
        pytest.fail(
            f"none of {states}, but {[(m.state, m.message, m.error) for m in probe.received['tip_state']][::10]}"
        )
    return next(message for message in probe.received["tip_state"] if message.state in states)


def test_it_goes_to_one_side_and_round_the_post_to_the_other(probe):
    for target in TARGETS:
        aim(probe, target)
        state = wait_for_state(probe, "reached", "refused", "stopped")
        assert state.state == "reached", state.message
        np.testing.assert_allclose(conversions.position(state.target), target)
        assert state.error <= 0.002
    assert probe.newest("reference_writer").data == "predictive_tip"
    assert len(probe.newest("predicted_path").poses) > 10
    rod, shape = Rod(ROBOT), coefficients_from_clarke(ROBOT)
    for message in probe.received["clarke_state"][::20]:
        poses = rod.poses(shape @ conversions.vector(message.position), POINTS_M)
        away = least_distance(POST, poses[:, :3, 3])[0].min() - ROBOT.segments[0].disks.radius_m
        assert away > 0, "the robot as measured is in the post"
    assert probe.faults() == []


def test_what_it_cannot_do_is_refused(probe):
    aim(probe, [np.nan, 0.0, 0.1])
    assert "finite" in wait_for_state(probe, "refused").message
    message = PointStamped(point=Point(x=0.05, y=0.0, z=0.1))
    message.header.frame_id = "moon"
    probe.received["tip_state"].clear()
    probe.publish(PointStamped, "predictive_target", message)
    assert "moon" in wait_for_state(probe, "refused").message


def test_another_writer_of_the_reference_ends_the_motion(probe):
    aim(probe, TARGETS[0])
    wait_for_state(probe, "moving")
    assert probe.call(TakeReference, "reference_source/take", TakeReference.Request(writer="reference_source")).success
    assert "reference_source" in wait_for_state(probe, "stopped").message
    probe.pause(0.5)
    before = len(probe.received["clarke_reference"])
    probe.pause(0.2)
    sequence = [m for m in probe.received["clarke_reference"][before:] if np.any(conversions.vector(m.velocity))]
    assert sequence == [], "the reference rests"
    assert probe.faults() == []


def test_an_estop_ends_the_motion(probe):
    aim(probe, TARGETS[0])
    wait_for_state(probe, "moving")
    probe.press_estop(True)
    probe.wait_for_fault("estop")
    assert "driver" in wait_for_state(probe, "stopped").message
    aim(probe, TARGETS[1])
    assert "active driver" in wait_for_state(probe, "refused").message
    probe.press_estop(False)
