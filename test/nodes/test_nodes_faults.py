# SPDX-License-Identifier: Apache-2.0
"""Faults that only exist between processes: the devices' truth reports that the tendons are let go."""

from __future__ import annotations

import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")

from faults.judge import passive_tension_n
from faults.kinds import KINDS as EVERY
from faults.kinds import SAFE, by_name
from faults.up import run_on_up
from robot_files import robot_values, written
from ros_probe import PATIENT_STACK, patient_on_wires

from continuum_robot.robot.loading import load_robot

pytestmark = [pytest.mark.ros, pytest.mark.real_time]

ROBOT = load_robot("opencr_five_tendon")
LIMITS = ROBOT.limits


# A controller that is killed: test_nodes_fallback.py.
KINDS = by_name(EVERY, "driver_killed")


@pytest.fixture(scope="module")
def records(domain, tmp_path_factory):
    """What the faults did to a robot whose driver is slow and whose boards wait longer: a busy machine is late."""
    data = patient_on_wires(robot_values())
    file = written(data, tmp_path_factory.mktemp("robot"), "opencr_five_tendon")
    return {record.fault: record for record in run_on_up(file, KINDS, 1, patience=PATIENT_STACK)}


@pytest.mark.parametrize("name", [kind.name for kind in KINDS])
def test_a_killed_node_leaves_no_tension_and_can_be_started_again(records, name):
    record = records[name]
    assert record.reaction == SAFE, record.problems
    assert record.tension_peak_n <= LIMITS.maximum_n
    assert record.detected_by
    assert record.recovered_without_restart, record.problems


def test_the_motor_boards_let_go_by_themselves_when_the_driver_is_killed(records):
    assert records["driver_killed"].tension_left_n <= LIMITS.safe_n + passive_tension_n(ROBOT)
