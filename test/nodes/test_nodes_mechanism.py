# SPDX-License-Identifier: Apache-2.0
"""The whole stack with a robot that is a mechanism: link frames, markers, and a closed loop over DDS."""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")

pytestmark = [pytest.mark.ros]

ROBOT = "rolling_five_link"


def test_frames_of_all_links_come_on_tf(probe):
    desired = {"link_2", "link_3", "link_4", "link_5", "tip"}
    probe.wait(lambda: desired <= probe.frames().keys(), 30.0)
    frames = probe.frames()
    assert {transform.header.frame_id for transform in frames.values()} == {"base"}
    place, turn = frames["tip"].transform.translation, frames["tip"].transform.rotation
    assert 0.02 < place.z < 0.09
    assert place.y == pytest.approx(0.0)
    assert np.hypot(turn.y, turn.w) == pytest.approx(1.0)


def test_links_and_tendons_are_drawn(probe):
    markers = probe.wait_for_message("markers").markers
    kinds = {marker.ns.rsplit("/", 1)[-1]: marker for marker in markers}
    assert kinds.keys() == {"links", "tendons", "tension", "state"}
    assert len(kinds["links"].points) == len(kinds["links"].colors) > 100
    assert len(kinds["tendons"].points) == 2 * 2 * 9
    assert ROBOT in kinds["state"].text
    assert len(probe.wait_for_message("backbone").poses) == 6


def test_the_links_of_the_description_stand_on_tf(probe):
    described = ElementTree.fromstring(probe.received["robot_description"][-1].data)
    links = {link.get("name") for link in described.iter("link")}
    probe.wait(lambda: links <= {"base"} | probe.frames().keys())
    assert {transform.header.frame_id for transform in probe.frames().values()} <= links
    assert probe.get_parameter("robot_visualizer", "robot_description") == probe.received["robot_description"][-1].data


def test_the_loop_is_closed_on_one_coordinate(probe):
    probe.wait(lambda: len(probe.received["clarke_reference"]) > 300, 30.0)
    state, desired = probe.received["clarke_state"][-1], probe.received["clarke_reference"][-1]
    assert len(state.position) == len(desired.position) == 1
    assert abs(state.position[0] - desired.position[0]) < 2e-3
    shape = probe.received["shape"][-1]
    assert len(shape.coefficients) == 4
    assert shape.residual < 1e-4
    assert shape.problem == ""


def test_no_fault_latched(stack):
    assert stack.status().state == "up"
    assert list(stack.status().faults) == []
