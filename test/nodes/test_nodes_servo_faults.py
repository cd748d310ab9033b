# SPDX-License-Identifier: Apache-2.0
"""Servos that hold displacements on a simulated serial bus: what the campaign breaks in processes, in one process."""

from __future__ import annotations

import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")

from faults.kinds import SERVOS, by_name
from faults.up import run_on_up

pytestmark = [pytest.mark.ros]

ROBOT = "three_segment_servo"
OPTIONS = {"simulation_level": "wire", "contact": False}


def test_a_robot_whose_bus_was_unplugged_comes_up_by_a_reset(probe):
    probe.wait(probe.moving, 20.0, "no motion is started")
    assert probe.inject("servo.unplugged").success
    probe.wait_for_fault("device_fault", 20.0)
    assert probe.inject("").success
    probe.bring_up()
    probe.wait(probe.moving, 20.0, "no motion is started")
    assert probe.faults() == []


@pytest.mark.long
def test_faults_of_the_bus_end_safe_in_the_processes_of_up(domain):
    names = "bus_silent,bus_unplugged,bus_other_baud,bus_says_nothing,bus_watchdog,bus_corrupted_frames"
    kinds = by_name(SERVOS, names)
    records = list(run_on_up(ROBOT, kinds))
    assert {record.fault: record.problems for record in records} == {kind.name: () for kind in kinds}
