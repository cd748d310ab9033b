# SPDX-License-Identifier: Apache-2.0
"""Faults that only exist between processes: the devices' truth reports that the tendons are let go."""

from __future__ import annotations

import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")

from robot_files import robot_values, written

from continuum_robot.app.campaign.processes import run_campaign
from continuum_robot.experiments.fault_campaign.judgement import passive_tension_n
from continuum_robot.experiments.fault_campaign.kind import SAFE
from continuum_robot.experiments.fault_campaign.kinds import kinds_by_name
from continuum_robot.robot.loading import load_robot

pytestmark = [pytest.mark.ros, pytest.mark.real_time]

ROBOT = load_robot("opencr_five_tendon")
LIMITS = ROBOT.limits


# A controller that is killed: test_nodes_fallback.py.
KINDS = kinds_by_name("driver_killed")


@pytest.fixture(scope="module")
def records(domain, tmp_path_factory):
    """What the faults did to a robot whose driver and boards wait longer: a busy machine is late."""
    data = robot_values({"limits.command_timeout_s": 0.8, "limits.reading_timeout_s": 0.6})
    data["hardware"]["tendon_actuators"] |= {
        "receive_timeout_ms": 1000,
        "silent_after_s": 1.0,
        "current_mismatch_time_s": 2.0,
    }
    file = written(data, tmp_path_factory.mktemp("robot"), "opencr_five_tendon")
    return {record.fault: record for record in run_campaign(file, KINDS, 1)}


@pytest.mark.parametrize("name", [kind.name for kind in KINDS])
def test_a_killed_node_leaves_no_tension_and_can_be_started_again(records, name):
    record = records[name]
    assert record.reaction == SAFE, record.problems
    assert record.tension_peak_n <= LIMITS.maximum_n
    assert record.detected_by
    assert record.recovered_without_restart, record.problems


def test_the_motor_boards_let_go_by_themselves_when_the_driver_is_killed(records):
    assert records["driver_killed"].tension_left_n <= LIMITS.safe_n + passive_tension_n(ROBOT)
