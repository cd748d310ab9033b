# SPDX-License-Identifier: Apache-2.0
"""The whole stack with equilibrium modulation: macro and micro motion over DDS, frames and markers."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")

from continuum_robot.models.making import robot_model
from continuum_robot.robot.loading import load_robot

pytestmark = [pytest.mark.ros]

ROBOT = "crem_segment"


def test_bend_and_insertion_arrive(probe):
    robot = load_robot(ROBOT)
    desired = np.array(robot.reference.amplitude_m)

    def arrived():
        states = probe.received["clarke_state"]
        return bool(states) and np.abs(np.array(states[-1].position) - desired).max() < 2e-5

    probe.wait(arrived, 40.0)
    shape = probe.received["shape"][-1]
    np.testing.assert_allclose(shape.coefficients, desired, atol=5e-5)
    assert shape.problem == ""
    place = robot_model(robot).drawing().frames(np.array(shape.coefficients))[-1][:3, 3]
    np.testing.assert_allclose([shape.tip.position.x, shape.tip.position.y, shape.tip.position.z], place, atol=1e-9)


def test_the_end_of_the_insertion_and_the_tip_are_on_tf(probe):
    probe.wait(lambda: {"modulation_end", "tip"} <= probe.frames().keys(), 30.0)
    frames = probe.frames()
    assert {transform.header.frame_id for transform in frames.values()} == {"base"}
    assert frames["tip"].transform.translation.z > frames["modulation_end"].transform.translation.z


def test_backbones_are_drawn_and_no_fault_latched(stack, probe):
    kinds = {marker.ns.rsplit("/", 1)[-1]: marker for marker in probe.wait_for_message("markers").markers}
    assert len(kinds["links"].points) > 6 * 40  # the disks' rims
    assert len(kinds["tendons"].points) > 5 * 20
    assert stack.status().state == "up"
    assert list(stack.status().faults) == []
