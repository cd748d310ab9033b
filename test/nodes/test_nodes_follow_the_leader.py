# SPDX-License-Identifier: Apache-2.0
"""A plan of the body along a path, as the experiment writes it, played by the stack in lock-step."""

from __future__ import annotations

import tempfile
from pathlib import Path as File

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")

from continuum_robot.msg import Shape
from robot_files import robot_file
from ros_probe import Probe
from scipy.interpolate import CubicSpline
from sensor_msgs.msg import JointState
from std_srvs.srv import Trigger

from continuum_robot.control.follow_the_leader import FollowTheLeader
from continuum_robot.control.tip.staged import StagedKinematics
from continuum_robot.nodes.topics import conversions, qos
from continuum_robot.robot.base_stage import AXES
from continuum_robot.robot.loading import load_robot
from validation.follow_the_leader import LeaderSettings, two_bends, write_plan

pytestmark = [pytest.mark.ros]

SPEED_M_PER_S = 0.018
SHORT = LeaderSettings(length_m=0.06, curvature_per_m=12.0, speed_m_per_s=SPEED_M_PER_S)
PLAIN = load_robot("three_segment_servo_stage").changed(simulation=load_robot("two_segment").simulation)
PATH = two_bends(StagedKinematics(PLAIN).place(np.zeros(8))[0], SHORT)
LEADER = FollowTheLeader(PLAIN, PATH)
_FOLDER = tempfile.TemporaryDirectory(prefix="follow_the_leader_")


def planned() -> CubicSpline:
    ways = np.linspace(0.0, PATH.length_m, 13)
    return CubicSpline(ways, LEADER.plan(ways))


def stack_file() -> str:
    folder = File(_FOLDER.name)
    write_plan(str(folder / "plan.csv"), planned(), PATH.length_m, SPEED_M_PER_S)
    changes = {"reference": {"kind": "csv", "file": "plan.csv"}, "simulation.truth": "none"}
    return robot_file(folder, changes, "three_segment_servo_stage")


ROBOT = stack_file()
OPTIONS = {"visualize": False, "start_motion": False, "controller": "clarke"}


@pytest.fixture(scope="module")
def listening(probe: Probe) -> Probe:
    probe.listen(Shape, "simulated_shape")
    probe.listen(JointState, "base_stage/state")
    return probe


def restart(probe: Probe) -> Trigger.Response:
    return probe.call(Trigger, "reference_source/restart", Trigger.Request())


def test_the_body_lies_on_the_path_all_the_way(listening: Probe):
    listening.pause(0.3)
    answer = restart(listening)
    assert answer.success, answer.message
    listening.received["simulated_shape"].clear()
    listening.received["base_stage/state"].clear()
    listening.pause(1.5 * PATH.length_m / SPEED_M_PER_S + 1.0)
    shapes = list(listening.received["simulated_shape"])
    stage = list(listening.received["base_stage/state"])
    at_s = [conversions.stamp_ns(message.header.stamp) * 1e-9 for message in stage]
    places = np.array([message.position for message in stage])
    assert places[-1] == pytest.approx(planned()(PATH.length_m)[-2:], abs=2e-3)
    errors = []
    for message in shapes[::10]:
        stamp_s = conversions.stamp_ns(message.header.stamp) * 1e-9
        position = [np.interp(stamp_s, at_s, places[:, axis]) for axis in range(2)]
        body = LEADER.body(np.array([0.0] * 6 + position), np.array(message.coefficients))
        errors.append(PATH.distance_m(body))
    rms_m = float(np.sqrt(np.mean(np.square(errors))))
    assert rms_m < 2e-3
    assert not listening.faults()


def test_it_does_not_begin_where_the_stage_is_not(listening: Probe):
    """It has come to the end of the plan, and would begin far from there; others may bring it back."""
    answer = restart(listening)
    assert not answer.success
    assert "the stage is at" in answer.message
    home = JointState(name=list(AXES), position=[0.0, 0.0])
    for _ in range(25):
        listening.publish(JointState, "base_stage/command", home, qos.latched())
        listening.pause(0.2)
    assert restart(listening).success
