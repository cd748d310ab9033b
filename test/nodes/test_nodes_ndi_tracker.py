# SPDX-License-Identifier: Apache-2.0
"""The tip tracker's node on hardware: a simulated NDI tracker behind a pseudo-terminal, over DDS."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")
pytest.importorskip("ndicapy", reason="ndicapi is not installed")

from emulated_ndi import SimulatedNdiTracker
from geometry_msgs.msg import PoseWithCovarianceStamped
from robot_files import robot_file
from ros_probe import Probe

from continuum_robot.nodes.base.diagnostics import values_of
from continuum_robot.nodes.base.spinning import Spinner
from continuum_robot.nodes.stack.options import StackOptions
from continuum_robot.nodes.tip_tracker import TipTracker
from continuum_robot.nodes.topics import conversions

pytestmark = [pytest.mark.ros, pytest.mark.real_time]

TIP = np.eye(4)
TIP[:3, 3] = 0.03, -0.02, 0.19
SIGMA_M = 3e-4


@pytest.fixture(scope="module")
def simulated():
    made = SimulatedNdiTracker(lambda: TIP)
    yield made
    made.close()


@pytest.fixture(scope="module")
def file(simulated, tmp_path_factory):
    tracker = {"kind": "ndi_serial", "port": simulated.port, "sigma_m": SIGMA_M}
    return robot_file(tmp_path_factory.mktemp("tracker"), {"hardware.tracker": tracker})


@pytest.fixture(scope="module")
def probe(context, file):
    node = TipTracker(context=context, overrides={"robot": file, "use_fake_hardware": False, "rate_hz": 60.0})
    spinner = Spinner([node], context)
    spinner.start()
    with Probe() as probe:
        probe.listen_to_stack()
        probe.listen(PoseWithCovarianceStamped, "tracked_pose_with_covariance")
        spinner.run(node.trigger_configure)
        assert node.state == "inactive", node.last_error
        spinner.run(node.trigger_activate)
        yield probe
    spinner.stop()
    node.destroy_node()


def missed(probe):
    status = probe.diagnostics.get("/tip_tracker: tracker")
    return 0.0 if status is None else float(values_of(status).get("missed", 0.0))


def test_poses_come_in_the_base_frame_with_their_covariance(probe):
    probe.wait(lambda: len(probe.received["tracked_pose_with_covariance"]) > 10)
    newest = probe.newest("tracked_pose_with_covariance")
    np.testing.assert_allclose(conversions.position(newest.pose.pose.position), TIP[:3, 3], atol=2e-5)
    assert newest.header.frame_id == "base"
    assert newest.pose.covariance[0] == pytest.approx(SIGMA_M**2)


def test_out_of_sight_nothing_comes_and_it_is_counted(probe, simulated):
    simulated.faults.add("missing")
    probe.pause(0.3)
    probe.received["tracked_pose_with_covariance"].clear()
    probe.wait(lambda: missed(probe) > 5)
    assert not probe.received["tracked_pose_with_covariance"]
    simulated.faults.clear()
    probe.wait(lambda: probe.received["tracked_pose_with_covariance"])


def test_the_stack_has_the_node_where_the_file_names_a_tracker(file):
    def names(robot, **given):
        return StackOptions(robot=robot, simulated=False, **given).node_names

    assert "tip_tracker" in names(file, tracker=True)
    assert "tip_tracker" not in names(file)
    assert "tip_tracker" not in names("opencr_five_tendon", tracker=True)
