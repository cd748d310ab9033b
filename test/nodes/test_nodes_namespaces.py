# SPDX-License-Identifier: Apache-2.0
"""Two robots side by side in one domain do not hear each other; two of the same name are refused."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")

from nav_msgs.msg import Path as PathMessage
from ros_probe import PATIENT, Probe, pause
from tf2_msgs.msg import TFMessage
from visualization_msgs.msg import MarkerArray

from continuum_robot.nodes.composition import ComposedStack, StackOptions

pytestmark = [pytest.mark.ros]

SLOW = {"tendon_driver": {"rate_hz": 250.0, **PATIENT}}


@pytest.fixture(scope="module")
def two(domain):
    left = StackOptions(namespace="left", prefix="left_", visualize=True, parameters=SLOW)
    right = StackOptions(robot="two_segment", namespace="/lab/right", prefix="right_", visualize=True, parameters=SLOW)
    with ComposedStack(left) as first, ComposedStack(right) as second:
        first.wait_until_up(60.0)
        second.wait_until_up(60.0)
        yield first, second


def test_two_robots_do_not_mix(two):
    with Probe("left") as left, Probe("lab/right") as right:
        left.listen_to_stack()
        right.listen_to_stack()
        assert len(left.wait_for_message("tendon_states").displacement) == 5
        assert len(right.wait_for_message("tendon_states").displacement) == 10
        left.wait(lambda: left.driver_state() == "active" and right.driver_state() == "active")
        assert left.trigger("estop").success
        left.wait(lambda: left.driver_state() == "safe")
        pause(0.5)
        assert right.driver_state() == "active"
        assert {len(m.tension) for m in left.received["tendon_commands"]} <= {5}
        assert {len(m.tension) for m in right.received["tendon_commands"]} == {10}
        assert two[1].status().faults == []
        # Only conventional names are absolute.
        names = [name for name, _ in left.node.get_topic_names_and_types()]
        allowed = ("/left/", "/lab/right/", "/diagnostics", "/tf", "/rosout", "/parameter_events")
        assert [name for name in names if not name.startswith(allowed)] == []


def test_frames_path_and_markers_carry_the_prefix(two):
    with Probe("lab/right") as probe:
        probe.listen(TFMessage, "/tf")
        probe.listen(PathMessage, "backbone")
        probe.listen(MarkerArray, "markers")
        path = probe.wait_for_message("backbone")
        markers = probe.wait_for_message("markers")
        wanted = {"left_tip", "right_tip", "right_seg1_1", "right_seg2_4"}
        probe.wait(lambda: wanted <= {t.child_frame_id for m in probe.received["/tf"] for t in m.transforms})
    frames = {t.child_frame_id: t for m in list(probe.received["/tf"]) for t in m.transforms}
    assert frames["right_tip"].header.frame_id == "right_base"
    tip, end = frames["right_tip"].transform.translation, path.poses[-1].pose.position
    np.testing.assert_allclose([tip.x, tip.y, tip.z], [end.x, end.y, end.z], atol=0.02)
    points = np.array([[p.pose.position.x, p.pose.position.y, p.pose.position.z] for p in path.poses])
    length = np.linalg.norm(np.diff(points, axis=0), axis=1).sum()
    assert length == pytest.approx(0.4, rel=0.01)
    kinds = {marker.ns.rsplit("/", 1)[-1] for marker in markers.markers}
    assert kinds == {"backbone", "disks", "tendons", "state"}
    text = next(m.text for m in markers.markers if m.ns.endswith("state"))
    assert "simulated" in text
    assert {m.header.frame_id for m in markers.markers} == {"right_base"}


def test_a_second_stack_of_the_same_name_is_refused_and_the_first_goes_on(two):
    command = [sys.executable, "-m", "continuum_robot.nodes.composition", "--ros-args", "-r", "__ns:=/lab/right"]
    command += ["-p", "robot:=two_segment", "-p", "visualize:=false"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "namespace" in done.stderr
    assert "Traceback" not in done.stderr
    assert two[1].driver.faults == ()
    assert two[1].status().state == "up"
