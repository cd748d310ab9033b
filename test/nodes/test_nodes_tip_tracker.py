# SPDX-License-Identifier: Apache-2.0
"""A tracker of the tip over DDS, in lock-step: a robot that is not as its file states brings its tip to targets."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")

from continuum_robot.msg import Shape, TipState
from geometry_msgs.msg import Point, PointStamped, PoseStamped, PoseWithCovarianceStamped
from robot_files import robot_values, written
from ros_probe import lockstep_stack

from continuum_robot.nodes.base.diagnostics import values_of
from continuum_robot.nodes.topics import conversions

pytestmark = [pytest.mark.ros]

ROBOT = "opencr_five_tendon"
LONGER_RADIUS = 1.05
"""Of the simulated robot's tendons: it bends a twentieth less than the estimator thinks."""
TARGET_M = np.array([0.06, 0.03, 0.17])
"""Near the sphere-like surface that the tip reaches."""


@pytest.fixture(scope="module")
def probe(domain, tmp_path_factory):
    values = robot_values({}, ROBOT)
    values["segments"][0]["tendons"]["pitch_radius_m"] *= LONGER_RADIUS
    other = written(values, tmp_path_factory.mktemp("other"), ROBOT)
    topics = (
        (Shape, "shape"),
        (TipState, "tip_state"),
        (PoseWithCovarianceStamped, "tracked_pose_with_covariance"),
    )
    options = {"controller": "tip", "tracker": True, "parameters": {"simulator": {"robot": other}}}
    with lockstep_stack(ROBOT, *topics, start_motion=True, **options) as (_, probe):
        yield probe


def true_tips(probe):
    """What the tracker saw, which is the truth but for a tenth of a millimetre."""
    return np.array(
        [conversions.position(m.pose.pose.position) for m in probe.received["tracked_pose_with_covariance"]]
    )


def go_to(probe, place):
    probe.received["tip_state"].clear()
    probe.publish(PointStamped, "tip_target", PointStamped(point=Point(**dict(zip("xyz", place, strict=True)))))
    probe.wait(lambda: any(m.state == "reached" for m in probe.received["tip_state"]))
    probe.pause(2.0)
    return conversions.position(probe.newest("tip_state").goal)


def estimator_values(probe):
    return values_of(probe.diagnostics["/shape_estimator: estimator"])


def test_the_true_tip_comes_to_the_target(probe):
    probe.wait(lambda: probe.received["tracked_pose_with_covariance"])
    goal = go_to(probe, TARGET_M)
    assert np.linalg.norm(true_tips(probe)[-30:].mean(axis=0) - goal) < 5e-4
    # Diagnostics come by the clock on the wall.
    probe.wait(lambda: int(estimator_values(probe)["tracker_poses_used"]) > 50)
    assert float(estimator_values(probe)["tracker_age_s"]) < 0.05
    assert probe.faults() == []


def test_what_was_learned_stays_through_an_outage(probe):
    assert probe.set_parameter("tip_tracker", "lost", 1.0)
    probe.pause(0.2)
    probe.received["tracked_pose_with_covariance"].clear()
    goal = go_to(probe, TARGET_M * [0.8, 1.1, 1.0])
    assert not probe.received["tracked_pose_with_covariance"]
    probe.wait(lambda: float(estimator_values(probe)["tracker_age_s"]) > 1.0)
    probe.set_parameter("tip_tracker", "lost", 0.0)
    probe.wait(lambda: probe.received["tracked_pose_with_covariance"])
    # Without a tracker it would be 3 mm; this is the first pose after the outage.
    assert np.linalg.norm(true_tips(probe)[0] - goal) < 2e-3
    assert probe.faults() == []


def test_poses_that_are_of_no_use_are_refused_and_said(probe):
    go_to(probe, TARGET_M)  # at rest: nothing is left of the outage to be corrected
    stranger = PoseStamped()
    stranger.header.frame_id = "camera"
    probe.publish(PoseStamped, "tracked_pose", stranger)
    probe.wait(lambda: "'camera'" in probe.diagnostics["/shape_estimator: estimator"].message)
    refused = int(estimator_values(probe)["tracker_poses_refused"])
    old = PoseStamped()
    old.header.frame_id = "base"
    probe.publish(PoseStamped, "tracked_pose", old)
    probe.wait(lambda: int(estimator_values(probe)["tracker_poses_refused"]) > refused)
    before = conversions.position(probe.newest("shape").tip.position)
    probe.pause(0.5)
    assert np.linalg.norm(conversions.position(probe.newest("shape").tip.position) - before) < 2e-3  # of 0.2 m
