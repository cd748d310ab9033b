# SPDX-License-Identifier: Apache-2.0
"""The contact monitor learns its floor from free motion over DDS, in lock-step: action, services, record, refusals."""

from __future__ import annotations

import math

import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")

from action_msgs.msg import GoalStatus
from continuum_robot.action import LearnFloor
from ros_contact import touched_stack
from ros_goal import Goal

from continuum_robot.estimation.contact.settings import default_settings
from continuum_robot.identification.procedures.record import floor_path, load_floor
from continuum_robot.robot.loading import load_robot

pytestmark = [pytest.mark.ros, pytest.mark.long]

ROBOT = load_robot("vanderbilt_segment")
ACTION = "contact_monitor/learn_floor"
TOUCHED_S = 10.0
SCHEDULE = f"""
contacts:
  - {{name: hand, kind: push, disk: 6, force_n: [30.0, 0.0, 0.0], frame: base, start_s: {TOUCHED_S}, end_s: 1000.0}}
"""


def stack_with(folder, **options):
    parameters = {
        "tendon_driver": {"rate_hz": 500.0},
        "contact_monitor": {
            "input_timeout_s": 3.0,
            "calibration_folder": str(folder / "records"),
            **options.pop("monitor"),
        },
    }
    return touched_stack(ROBOT.name, SCHEDULE, folder, parameters, **options)


def floor_of(stack):
    return stack.nodes["contact_monitor"].component.monitor.floor


def test_a_floor_is_learnt_by_the_action_stored_and_refused_when_something_touches(domain, tmp_path):
    with stack_with(tmp_path, monitor={"free_motion": "stored"}) as (stack, probe):
        monitor = stack.nodes["contact_monitor"].component
        probe.wait(probe.moving, 20.0, "the motion did not start")
        assert floor_of(stack) is None
        short = Goal(probe, LearnFloor, ACTION, duration=0.5)
        probe.wait_real(short._done.is_set, 20.0, "a bad goal was not refused")
        status, result = short.result()
        assert status == GoalStatus.STATUS_ABORTED
        assert "refused: duration = 0.5 -- expected a number in [2, 600]" in result.message
        probe.wait(lambda: not monitor.unable_to_learn(), 20.0, "the monitor does not settle")
        goal = Goal(probe, LearnFloor, ACTION, duration=4.0)
        probe.wait(lambda: goal.feedback and goal.feedback[-1].progress > 0.3, 20.0, "no progress")
        second = Goal(probe, LearnFloor, ACTION, duration=4.0)
        probe.wait_real(second._done.is_set, 20.0, "a second learning was not refused")
        assert "learns already" in second.result()[1].message
        assert "it learns from free motion" in probe.trigger("contact_monitor/tare").message
        probe.wait(goal._done.is_set, 20.0, "the learning does not end")
        status, result = goal.result()
        assert (status, result.success) == (GoalStatus.STATUS_SUCCEEDED, True), result.message
        assert {one.state for one in goal.feedback} <= {"", "clear", "settling"}
        path = floor_path(ROBOT, "gmo", tmp_path / "records" / "simulated")
        assert result.file == str(path)
        assert result.message.startswith("learnt from 4 s, tendons moved by up to ")
        record = load_floor(ROBOT, default_settings(ROBOT), "dynamics, seed 1", path)
        assert record.floor.bound == pytest.approx(floor_of(stack).bound)
        assert 0.1 < result.least_tip_force < 10.0
        # Each in the pose of its time; what is learnt raises thresholds only.
        assert result.least_tip_force >= 0.9 * result.least_tip_force_before
        # Who asks only for a missing one gets that answer, and what touches ends another learning.
        kept = Goal(probe, LearnFloor, ACTION, duration=4.0, only_if_missing=True)
        probe.wait_real(kept._done.is_set, 20.0, "no answer")
        assert kept.result()[1].message == "a floor is in use already"
        touched = Goal(probe, LearnFloor, ACTION, duration=60.0)
        probe.wait(touched._done.is_set, 40.0, "the touch does not end the learning")
        status, result = touched.result()
        assert status == GoalStatus.STATUS_ABORTED
        assert result.message.startswith("something touches the robot")
        assert math.isnan(result.least_tip_force)
        assert record.floor.bound == pytest.approx(floor_of(stack).bound)
        refused = probe.trigger("contact_monitor/learn")
        assert not refused.success
        assert "Free the robot" in refused.message
        # The record is read where the node is configured, until it is forgotten.
        assert probe.transition("contact_monitor", "deactivate")
        assert probe.transition("contact_monitor", "cleanup")
        assert probe.transition("contact_monitor", "configure")
        assert record.floor.bound == pytest.approx(floor_of(stack).bound)
        assert probe.trigger("contact_monitor/forget_floor").success
        assert floor_of(stack) is None
        assert not path.exists()


def test_a_floor_is_learnt_from_the_first_motion_and_a_goal_can_be_cancelled(domain, tmp_path):
    with stack_with(tmp_path, monitor={"free_motion": "at_start", "learn_s": 2.0}) as (stack, probe):
        probe.wait(lambda: floor_of(stack) is not None, 30.0, "nothing was learnt from the first motion")
        probe.wait(
            lambda: "learnt from 2 s" in stack.nodes["contact_monitor"].component.floor.newest_report,
            20.0,
            "nothing is reported",
        )
        assert not (tmp_path / "records").exists()
        goal = Goal(probe, LearnFloor, ACTION, duration=60.0)
        probe.wait(lambda: goal.feedback and goal.feedback[-1].progress > 0, 20.0, "no progress")
        goal.cancel()
        probe.wait(goal._done.is_set, 20.0, "it is not cancelled")
        assert goal.result()[0] == GoalStatus.STATUS_CANCELED
        assert floor_of(stack) is not None
