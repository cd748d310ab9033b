# SPDX-License-Identifier: Apache-2.0
"""What programs see that know no message of this package: tip, wrench of a contact, and frames."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")

from continuum_robot.msg import Contact, DriverStatus, Shape, TendonStates
from geometry_msgs.msg import PoseStamped, WrenchStamped
from ros_probe import Probe

from continuum_robot.geometry import se3, so3
from continuum_robot.nodes.topics import conversions, qos
from continuum_robot.nodes.topics.common_topics import CommonTopics
from continuum_robot.nodes.topics.driver_status import CONTROLLERS, FAULT_CODES, STATES, STOPS

pytestmark = [pytest.mark.ros]

ENDS = {"left": np.array([0.007, 0.0, 0.0]), "right": np.array([-0.007, 0.0, 0.0])}


@pytest.fixture(scope="module")
def probe(domain):
    with Probe() as probe:
        for kind, topic in ((PoseStamped, "tip_pose"), (WrenchStamped, "contact_wrench")):
            probe.listen(kind, topic, qos.visualization())
        yield probe


@pytest.fixture
def topics(probe):
    topics = CommonTopics(probe.node)
    topics.prepare(ENDS, "lab_")
    probe.wait(lambda: topics.desired)
    return topics


def one_after(probe, topic, publish):
    """What comes, and what was given back for tf: frame and parent of each."""
    probe.received[topic].clear()
    transforms = publish()
    probe.wait(lambda: len(probe.received[topic]) > 0, what=f"nothing on {topic}")
    return probe.newest(topic), {t.child_frame_id: t for t in transforms or []}


def test_the_ends_of_tendons_leave_the_base_where_they_are_pulled_in(topics):
    states = TendonStates(sequence=7, displacement=[0.002, -0.001])
    states.header.stamp.sec = 5
    frames = {t.child_frame_id: t for t in topics.tendon_frames(states)}
    assert {frame.header.stamp.sec for frame in frames.values()} == {5}
    assert {frame.header.frame_id for frame in frames.values()} == {"lab_base"}
    left, right = (frames[name].transform.translation for name in ("lab_left", "lab_right"))
    assert (left.x, left.z, right.x, right.z) == pytest.approx((0.007, -0.002, -0.007, 0.001))
    assert topics.tendon_frames(states) == []  # once each


def test_a_tendon_that_is_unknown_has_no_frame(topics):
    assert topics.tendon_frames(TendonStates(sequence=8, displacement=[np.nan, 0.0])) == []


def test_the_tip_is_in_the_base_frame(topics, probe):
    pose = se3.transform(so3.exp([0.0, 1.0, 0.0]), [0.05, 0.0, 0.18])
    shape = Shape(sequence=1, tip=conversions.pose_message(pose))
    tip, _ = one_after(probe, "tip_pose", lambda: topics.publish_tip(shape))
    assert tip.header.frame_id == "lab_base"
    np.testing.assert_allclose(conversions.pose_matrix(tip.pose), pose, atol=1e-12)


def test_the_wrench_is_given_where_it_acts_zero_without_a_contact_and_unknown_where_nothing_can_be_said(topics, probe):
    pose = se3.transform(so3.exp([0.0, 0.5, 0.0]), [0.03, 0.0, 0.1])
    wrench = [2.0, np.nan, 0.0, 0.0, 0.1, np.nan]
    contact = Contact(sequence=1, in_contact=True, wrench=wrench, pose=conversions.pose_message(pose))
    message, frames = one_after(probe, "contact_wrench", lambda: topics.publish_contact(contact))
    force, torque = message.wrench.force, message.wrench.torque
    np.testing.assert_array_equal([force.x, force.y, force.z, torque.x, torque.y, torque.z], wrench)
    assert message.header.frame_id == "lab_contact"
    place = frames["lab_contact"]
    assert place.header.frame_id == "lab_base"
    assert place.transform.translation.z == pytest.approx(0.1)

    message, frames = one_after(probe, "contact_wrench", lambda: topics.publish_contact(Contact(sequence=2)))
    assert (message.header.frame_id, message.wrench.force.x) == ("lab_tip", 0.0)
    assert not frames
    invalid = Contact(sequence=3, invalid_reason="no shape")
    message, frames = one_after(probe, "contact_wrench", lambda: topics.publish_contact(invalid))
    assert np.isnan(message.wrench.force.x)
    assert not frames


@pytest.mark.parametrize(
    ("names", "prefix"), [(STATES, ""), (CONTROLLERS, "CONTROLLER_"), (STOPS, "STOP_"), (FAULT_CODES, "FAULT_")]
)
def test_names_and_constants_of_the_drivers_status_agree(names, prefix):
    for code, name in enumerate(names):
        assert getattr(DriverStatus, prefix + (name or "none").upper()) == code
