# SPDX-License-Identifier: Apache-2.0
"""Two robots side by side in one domain do not hear each other; two of the same name are refused."""

from __future__ import annotations

import signal
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")

from nav_msgs.msg import Path as PathMessage
from ros_probe import PATIENT, PATIENT_CONTROLLER, Probe, patient_robot, pause, wait_for
from tf2_msgs.msg import TFMessage
from visualization_msgs.msg import MarkerArray

pytestmark = [pytest.mark.ros, pytest.mark.real_time]


def program(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "continuum_robot.nodes.composition", "--ros-args", *arguments]


# Three stacks share the machine here, and none of these tests is about a late command or about control: gains as low as
# these are stable at any delay.
GAINS = {"p": 500.0, "i": 0.0, "d": 0.0}
UNHURRIED = {
    **PATIENT,
    **PATIENT_CONTROLLER,
    "tendon_driver:rate_hz": 200.0,
    "reference_source:reference.kind": "hold",
    **{f"gains.{segment}.{name}": v for segment in ("segment_1", "proximal", "distal") for name, v in GAINS.items()},
}
LEFT = ["-r", "__ns:=/left", "-p", f"robot:={patient_robot()}", "-p", "prefix:=left_"]
RIGHT = ["-r", "__ns:=/lab/right", "-p", f"robot:={patient_robot('two_segment')}", "-p", "prefix:=right_"]


@pytest.fixture(scope="module")
def two(domain, tmp_path_factory):
    """A process each: what one does cannot delay the other."""
    log = (tmp_path_factory.mktemp("two") / "log").open("wb")
    patient = [word for name, value in UNHURRIED.items() for word in ("-p", f"{name}:={value}")]
    commands = (program(*LEFT, *patient), program(*RIGHT, *patient))
    processes = [subprocess.Popen(command, stdout=log, stderr=log) for command in commands]
    with Probe("left") as left, Probe("lab/right") as right:
        try:
            for probe in (left, right):
                probe.listen_to_stack()
                probe.wait(lambda probe=probe: probe.stack_state() == "up", 180.0, "did not come up")
            yield left, right
        finally:
            for process in processes:
                process.send_signal(signal.SIGINT)
            codes = [process.wait(60.0) for process in processes]
            log.close()
    assert codes == [0, 0]


def described(probe) -> str:
    """What the stack last said of itself."""
    said = [
        (m.state, list(m.faults), dict(zip(m.node_names, m.node_states, strict=True)))
        for m in probe.received["stack_status"]
    ]
    last = probe.newest("stack_status").last_fault
    return f"{said[-3:]}, driver {probe.driver_state()} {probe.faults()}, last fault {last}"


def assert_commanded(probe) -> None:
    before = len(probe.received["tendon_commands"])
    goes_on = wait_for(lambda: len(probe.received["tendon_commands"]) > before + 20, 30.0)
    assert goes_on, described(probe)


def test_two_robots_do_not_mix(two):
    left, right = two
    left.bring_up()
    right.bring_up()
    assert len(left.wait_for_message("tendon_states").displacement) == 5
    assert len(right.wait_for_message("tendon_states").displacement) == 10
    left.wait(lambda: left.driver_state() == "active" and right.driver_state() == "active")
    assert left.trigger("estop").success
    left.wait(lambda: left.driver_state() == "safe")
    pause(0.5)
    assert_commanded(right)
    assert {len(m.tension) for m in left.received["tendon_commands"]} <= {5}
    assert {len(m.tension) for m in right.received["tendon_commands"]} == {10}
    assert right.faults() == []
    # Only conventional names are absolute.
    names = [name for name, _ in left.node.get_topic_names_and_types()]
    allowed = ("/left/", "/lab/right/", "/diagnostics", "/tf", "/rosout", "/parameter_events")
    assert [name for name in names if not name.startswith(allowed)] == []


def test_frames_path_and_markers_carry_the_prefix(two):
    _, probe = two
    probe.bring_up()
    probe.listen(TFMessage, "/tf")
    probe.listen(PathMessage, "backbone")
    probe.listen(MarkerArray, "markers")
    path = probe.wait_for_message("backbone")
    markers = probe.wait_for_message("markers")
    desired = {"left_tip", "right_tip", "right_seg1_1", "right_seg2_4"}
    probe.wait(lambda: desired <= {t.child_frame_id for m in probe.received["/tf"] for t in m.transforms})
    drawn = [t for m in list(probe.received["/tf"]) for t in m.transforms]
    frames = {t.child_frame_id: t for t in drawn if t.header.stamp == path.header.stamp}
    assert frames["right_tip"].header.frame_id == "right_base"
    tip, end = frames["right_tip"].transform.translation, path.poses[-1].pose.position
    np.testing.assert_allclose([tip.x, tip.y, tip.z], [end.x, end.y, end.z], atol=0.02)
    points = np.array([[p.pose.position.x, p.pose.position.y, p.pose.position.z] for p in path.poses])
    length = np.linalg.norm(np.diff(points, axis=0), axis=1).sum()
    assert length == pytest.approx(0.4, rel=0.01)
    kinds = {marker.ns.rsplit("/", 1)[-1] for marker in markers.markers}
    assert kinds == {"backbone", "disks", "tendons", "tension", "state", "contact"}
    text = next(m.text for m in markers.markers if m.ns.endswith("state"))
    assert "simulated" in text
    assert {m.header.frame_id for m in markers.markers} == {"right_base"}


def test_a_second_stack_of_the_same_name_is_refused_and_the_first_goes_on(two):
    _, right = two
    right.bring_up()
    command = program(*RIGHT, "-p", "visualize:=false")
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 1
    assert "namespace" in done.stderr
    assert "Traceback" not in done.stderr
    assert right.faults() == []
    right.wait(lambda: right.stack_state() == "up", 30.0, described(right))  # the last word was the refused one's
    assert_commanded(right)
