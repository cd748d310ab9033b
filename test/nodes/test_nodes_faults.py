# SPDX-License-Identifier: Apache-2.0
"""Faults that only exist between processes: the devices' truth says that the tendons are let go."""

from __future__ import annotations

import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")

from continuum_robot.app.fault_processes import run_campaign
from continuum_robot.experiments.fault_campaign.judgement import passive_tension_n
from continuum_robot.experiments.fault_campaign.kind import SAFE
from continuum_robot.experiments.fault_campaign.kinds import kinds_by_name
from continuum_robot.robot.loading import load_robot

pytestmark = [pytest.mark.ros]

ROBOT = load_robot("opencr_five_tendon")
LIMITS = ROBOT.limits


KINDS = kinds_by_name("controller_killed,driver_killed")


@pytest.fixture(scope="module")
def records(domain):
    return {record.fault: record for record in run_campaign("opencr_five_tendon", KINDS, 1)}


@pytest.mark.parametrize("name", [kind.name for kind in KINDS])
def test_a_killed_node_leaves_no_tension_and_can_be_started_again(records, name):
    record = records[name]
    assert record.reaction == SAFE, record.problems
    assert record.tension_peak_n <= LIMITS.maximum_n
    assert record.detected_by
    assert record.recovered_without_restart, record.problems


def test_the_motor_boards_let_go_by_themselves_when_the_driver_is_killed(records):
    assert records["driver_killed"].tension_left_n <= LIMITS.safe_n + passive_tension_n(ROBOT)
