# SPDX-License-Identifier: Apache-2.0
"""A robot that lies on a stage, in lock-step: commands, limits and faults of the stage, gravity that turns with it, and
a tip target beyond the robot.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")

from continuum_robot.msg import Shape, TipState
from continuum_robot.srv import ManageStack
from diagnostic_msgs.msg import DiagnosticStatus
from geometry_msgs.msg import Point, PointStamped
from robot_files import robot_file
from ros_probe import Probe
from sensor_msgs.msg import JointState

from continuum_robot.nodes.base.diagnostics import values_of
from continuum_robot.nodes.topics import conversions, qos
from continuum_robot.robot.base_stage import AXES
from continuum_robot.robot.loading import load_robot

pytestmark = [pytest.mark.ros]

LYING = {"gravity_m_per_s2": [-9.81, 0.0, 0.0], "simulation.truth": "none", "tendon_stiffness_n_per_m": 5000.0}
_FOLDER = tempfile.TemporaryDirectory(prefix="lying_robot_")
ROBOT = robot_file(Path(_FOLDER.name), LYING, "three_segment_servo_stage")
OPTIONS = {"visualize": False, "start_motion": False, "controller": "clarke"}
STAGE = load_robot(ROBOT).base_stage
TIP_M = 5e-3
"""The simulated robot has friction that its file does not have."""


@pytest.fixture(scope="module")
def listening(probe: Probe) -> Probe:
    for kind, topic in ((JointState, "base_stage/state"), (TipState, "tip_state"), (Shape, "simulated_shape")):
        probe.listen(kind, topic)
    probe.listen(Shape, "shape")
    probe.listen(DiagnosticStatus, "base_stage/status", qos.latched())
    return probe


def command(probe: Probe, position: tuple[float, float], duration_s: float) -> None:
    """Say the same place for some time."""
    for _ in range(round(duration_s / 0.2)):
        message = JointState(name=list(AXES), position=[float(value) for value in position])
        probe.publish(JointState, "base_stage/command", message, qos.latched())
        probe.pause(0.2)


def here(probe: Probe) -> np.ndarray:
    return np.array(probe.wait_for_message("base_stage/state").position)


def reset(probe: Probe) -> None:
    assert probe.manage(ManageStack.Request.RESET).success
    probe.wait_real(lambda: probe.stack_state() == "up" and probe.driver_state() == "active")


def test_it_moves_within_its_limits_and_holds_without_commands(listening: Probe):
    command(listening, (0.05, -0.2), 0.8)
    listening.pause(0.9)
    heard = list(listening.received["base_stage/state"])
    times = np.array([conversions.stamp_ns(message.header.stamp) * 1e-9 for message in heard])
    moved, step = np.array([message.position for message in heard]), np.diff(times)[:, None]
    speed = np.diff(moved, axis=0) / step
    assert (np.abs(speed).max(axis=0) <= STAGE.speed * (1 + 1e-6)).all()
    assert (np.abs(np.diff(speed, axis=0) / step[1:]).max(axis=0) <= STAGE.acceleration * (1 + 1e-3)).all()
    assert 0.01 < moved[-1, 0] < 0.03  # it was told for 0.8 s, and the last was old half a second later
    assert moved[-1, 1] == pytest.approx(-0.2, abs=1e-6)
    assert np.ptp(moved[-10:], axis=0) == pytest.approx(0, abs=1e-9)
    base = listening.frames()["base"]
    assert base.header.frame_id == "stage"
    assert base.transform.translation.z == pytest.approx(moved[-1, 0], abs=1e-6)
    assert base.transform.rotation.z == pytest.approx(np.sin(-0.1), abs=1e-6)


def test_an_estop_and_a_fault_hold_it_until_a_reset(listening: Probe):
    command(listening, (0.1, 0.0), 0.2)
    listening.press_estop(True)
    listening.wait_for_fault("estop")
    listening.pause(0.2)
    before = here(listening)
    command(listening, (0.1, 0.0), 0.4)
    listening.press_estop(False)
    assert here(listening) == pytest.approx(before, abs=1e-9)
    reset(listening)
    listening.pause(0.3)
    assert here(listening) == pytest.approx(before, abs=1e-9)
    command(listening, (0.31, 0.0), 0.2)
    listening.wait_real(lambda: "out_of_range" in values_of(listening.newest("base_stage/status"))["faults"])
    listening.publish(PointStamped, "tip_target", PointStamped(point=Point(z=0.3)))
    listening.wait(lambda: bool(listening.received["tip_state"]))
    assert listening.newest("tip_state").state == "refused"
    assert "out_of_range" in listening.newest("tip_state").message
    command(listening, (0.1, 0.0), 0.4)
    assert here(listening) == pytest.approx(before, abs=1e-9)
    reset(listening)
    listening.wait_real(lambda: listening.newest("base_stage/status").level == DiagnosticStatus.OK)


def bend(probe: Probe, topic: str) -> np.ndarray:
    """Mean curvature about x and y along the rod, from the shapes of 0.5 s, 1/m."""
    probe.received[topic].clear()
    probe.pause(0.5)
    c = np.mean([message.coefficients for message in probe.received[topic]], axis=0)
    return c.reshape(-1, 2).mean(axis=0)


def test_the_robot_keeps_its_shape_while_gravity_turns_with_it(listening: Probe):
    """Its soft tendons give way to the weight: by 0.02 /m where the controller took gravity for still."""
    command(listening, (0.0, 0.0), 0.4)
    before = bend(listening, "simulated_shape")
    command(listening, (0.0, 1.5), 4.5)
    assert here(listening)[1] == pytest.approx(1.5, abs=2e-3)
    after = bend(listening, "simulated_shape")
    assert after == pytest.approx(before, abs=5e-3)
    assert bend(listening, "shape") == pytest.approx(after, abs=1e-2)
    assert not listening.faults()


def test_a_tip_target_beyond_the_robot_is_reached_with_the_stage(listening: Probe):
    listening.pause(0.3)
    target = np.array([0.03, -0.02, 0.36])  # the robot is 0.3 m long
    message = PointStamped(point=conversions.point_message(target))
    message.header.frame_id = "stage"
    listening.publish(PointStamped, "tip_target", message)

    def off_m() -> float:
        return float(np.linalg.norm(conversions.position(listening.newest("tip_state").tip) - target))

    listening.received["tip_state"].clear()
    listening.wait(lambda: bool(listening.received["tip_state"]) and off_m() < TIP_M)
    assert 0.05 < here(listening)[0] < 0.08
    assert not listening.faults()
