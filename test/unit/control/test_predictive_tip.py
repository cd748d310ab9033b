# SPDX-License-Identifier: Apache-2.0
"""Predictive control of the tip: it goes round a post, keeps its limits, and holds where it has no plan."""

from __future__ import annotations

import numpy as np
import pytest

from continuum_robot.control.motion import motion_limits
from continuum_robot.control.tip.inverse import TipKinematics
from continuum_robot.control.tip.predictive import PredictiveSettings, PredictiveTip
from continuum_robot.errors import ParameterError
from continuum_robot.geometry.obstacles import ConvexObstacle, least_distance
from continuum_robot.robot.coordinates import coordinate_scale_m
from continuum_robot.robot.file.shipped_files import shipped_file
from continuum_robot.robot.loading import load_robot
from continuum_robot.rod.rod import Rod
from continuum_robot.rod.tendons import coefficients_from_clarke
from continuum_robot.simulation.mujoco.world import load_world

ROBOT = load_robot("opencr_five_tendon")
POST = load_world(shipped_file("worlds/post.yaml")).convex()
KINEMATICS, LIMITS = TipKinematics(ROBOT), motion_limits(ROBOT)
SIDES = 0.8 * coordinate_scale_m(ROBOT) * np.array([[1, -1], [1, 1]]) / np.sqrt(2)
TARGET = KINEMATICS.place(SIDES[1])[0]
PERIOD_S = 0.02
POINTS_M = ROBOT.length_m * np.arange(1, 41) / 40


@pytest.fixture(scope="module")
def control():
    return PredictiveTip(ROBOT, POST)


@pytest.fixture(autouse=True)
def _at_the_start(control):
    control.reset(SIDES[0])


def clearance_m(clarke, obstacles=POST):
    rod = Rod(ROBOT)
    poses = rod.poses(coefficients_from_clarke(ROBOT) @ clarke, POINTS_M)
    return float(least_distance(obstacles, poses[:, :3, 3])[0].min()) - ROBOT.segments[0].disks.radius_m


def run(control, duration_s, tip=lambda _clarke: None):
    outputs, here = [], SIDES[0]
    for _ in range(round(duration_s / PERIOD_S)):
        outputs.append(control.update(tip(here), here, PERIOD_S))
        here = outputs[-1].reference.position
    return outputs


def test_the_way_straight_there_is_blocked():
    assert min(clearance_m(SIDES[0] + x * (SIDES[1] - SIDES[0])) for x in np.linspace(0, 1, 50)) < -0.01


def test_it_goes_round_and_arrives_within_all_limits(control):
    found = control.set_target(TARGET)
    assert found.distance_m < 1e-3
    assert found.clearance_m > control.settings.clearance_m - 5e-4
    outputs = run(control, 6.0)
    positions = np.array([output.reference.position for output in outputs])
    velocities = np.array([output.reference.velocity for output in outputs])
    accelerations = np.array([output.reference.acceleration for output in outputs])
    # Between the stages of a plan, and between its points of the backbone, half of the clearance goes.
    assert min(map(clearance_m, positions)) > control.settings.clearance_m / 2 - 5e-4
    assert np.linalg.norm(velocities, axis=1).max() <= LIMITS.speed_m_per_s * (1 + 1e-6)
    assert np.linalg.norm(accelerations, axis=1).max() <= LIMITS.acceleration_m_per_s2 * (1 + 1e-6)
    # The reference is one motion: what it shows as its velocity is how it moves.
    np.testing.assert_allclose(np.diff(positions, axis=0) / PERIOD_S, (velocities[1:] + velocities[:-1]) / 2, atol=1e-3)
    assert outputs[-1].error_m < 5e-4
    assert not any(output.holding for output in outputs)
    assert max(output.limit_use for output in outputs) <= control.settings.limit_fraction + 1e-6


def test_a_model_that_is_off_is_corrected_where_the_tip_is_measured(control):
    control.set_target(TARGET)
    shift = np.array([0.004, -0.003, 0.0])
    run(control, 8.0, lambda clarke: KINEMATICS.place(clarke)[0] + shift)
    tip = KINEMATICS.place(control.update(None, None, PERIOD_S).reference.position)[0] + shift
    jacobian = KINEMATICS.place(SIDES[1])[1]
    miss = TARGET - tip
    along = jacobian @ np.linalg.pinv(jacobian) @ miss  # a segment reaches a surface only
    assert np.linalg.norm(along) < 5e-4
    np.testing.assert_allclose(control.bias_m, shift, atol=1e-4)


@pytest.mark.parametrize("known", [True, False])
def test_a_robot_that_limits_keep_back_teaches_no_error_of_the_model(control, known):
    control.set_target(KINEMATICS.place(1.2 * SIDES[0])[0])
    stuck = SIDES[0]
    for _ in range(50):
        output = control.update(KINEMATICS.place(stuck)[0], stuck if known else None, PERIOD_S)
    assert np.linalg.norm(output.reference.position - stuck) > 1e-3
    assert np.linalg.norm(control.bias_m) < 1e-9


def test_what_the_loads_of_servos_get_wrong_is_no_error_of_the_model():
    robot = load_robot("three_segment_servo")
    control, kinematics = PredictiveTip(robot), TipKinematics(robot)
    place = np.array([4e-3, 1e-3, -2e-3, 2e-3, 1e-3, 1e-3])
    control.reset(place)
    true = kinematics.place(place)[0] + [2e-3, 0.0, 1e-3]
    for _ in range(200):
        control.update(true, place - 2.5e-4, PERIOD_S)
    np.testing.assert_allclose(control.bias_m, [2e-3, 0.0, 1e-3], atol=1e-5)


def test_a_target_inside_the_post_is_not_reached_and_nothing_is_touched(control):
    control.set_target(POST[0].position_m)
    positions = [output.reference.position for output in run(control, 3.0)]
    assert min(map(clearance_m, positions)) > 0.0


def test_without_a_target_it_rests(control):
    output = control.update(None, None, PERIOD_S)
    assert output.holding
    assert output.reason == "no target"
    np.testing.assert_array_equal(output.reference.position, SIDES[0])


def test_without_a_plan_it_brakes_and_holds(control, monkeypatch):
    control.set_target(TARGET)
    moving = run(control, 0.6)[-1].reference
    assert np.linalg.norm(moving.velocity) > 0.5 * LIMITS.speed_m_per_s
    monkeypatch.setattr(control._problem, "solve", lambda *_given: None)
    resting_m = None
    outputs = []
    for _ in range(60):
        outputs.append(control.update(None, None, PERIOD_S))
        resting_m = control.resting_m if outputs[-1].holding and resting_m is None else resting_m
    holding = [output for output in outputs if output.holding]
    assert "found no plan 3 times in a row" in holding[0].reason
    speeds = np.linalg.norm([output.reference.velocity for output in holding], axis=1)
    assert np.all(np.diff(speeds) <= 1e-12)
    assert speeds[-1] == 0.0
    rate = np.abs(np.diff(speeds)).max() / PERIOD_S
    assert rate <= LIMITS.acceleration_m_per_s2 * (1 + 1e-6)
    np.testing.assert_allclose(holding[-1].reference.position, resting_m, atol=1e-9)
    assert min(clearance_m(output.reference.position) for output in outputs) > 0.0
    monkeypatch.undo()
    assert not any(output.holding for output in run(control, 0.2)), "it goes on once there are plans"


def test_an_obstacle_that_the_plan_would_meet_stops_it(control):
    control.set_target(TARGET)
    run(control, 0.6)
    other = PredictiveTip(ROBOT, [ConvexObstacle("sphere", (0.03,), TARGET, np.eye(3))])
    other.reset(control.resting_m)
    found = other.set_target(TARGET)
    assert found.distance_m > 0.02
    positions = [output.reference.position for output in run(other, 2.0)]
    assert min(clearance_m(q, other.obstacles) for q in positions) > 0.0


def test_two_segments_plan_too():
    robot = load_robot("two_segment")
    scale = coordinate_scale_m(robot)
    target = TipKinematics(robot).place(0.5 * scale * np.array([1, 0, 1, 0]))[0]
    control = PredictiveTip(robot, settings=PredictiveSettings(stages=8, horizon_s=3.0))
    control.reset(np.zeros(4))
    assert control.set_target(target).distance_m < 2e-3
    for _ in range(300):
        output = control.update(None, None, PERIOD_S)
    assert output.error_m < 2e-3
    assert np.isinf(output.clearance_m)


def test_bad_input_is_refused(control):
    with pytest.raises(ParameterError, match="target"):
        control.set_target([0.0, np.nan, 0.1])
    with pytest.raises(ParameterError, match="dt"):
        control.update(None, None, 0.0)
    with pytest.raises(ParameterError, match="box, cylinder"):
        ConvexObstacle("mesh", (), np.zeros(3), np.eye(3))
