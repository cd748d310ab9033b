# SPDX-License-Identifier: Apache-2.0
"""Paths by arc length, tip and stage together, and a body that lies where the tip has been."""

from __future__ import annotations

import numpy as np
import pytest

from continuum_robot.control.follow_the_leader import FollowTheLeader, Path
from continuum_robot.control.tip.control import TipControl
from continuum_robot.errors import ParameterError
from continuum_robot.robot.loading import load_robot

ROBOT = load_robot("three_segment_servo_stage")
CONTROL = TipControl(ROBOT)
COUNT = ROBOT.coordinate_count + 2
TIP_M = ROBOT.length_m * np.array([0.0, 0.0, 1.0])
RADIUS_M = 0.15
ASIDE = np.array([0.0, 1.0, 0.0])


def circle(angle_rad=1.0, places=30):
    """From the straight robot's tip on, along z first."""
    angle = np.linspace(0.0, angle_rad, places)
    return TIP_M + RADIUS_M * np.stack([1 - np.cos(angle), 0 * angle, np.sin(angle)], axis=1)


def test_a_path_knows_its_length_and_what_is_how_far_from_it():
    path = Path(circle())
    assert path.length_m == pytest.approx(RADIUS_M, rel=1e-5)
    ways = np.array([-0.2, 0.0, 0.05, 0.1])
    exact = np.where(ways < 0, 0.0, RADIUS_M * (1 - np.cos(ways / RADIUS_M)))
    assert path.at(ways)[:, 0] == pytest.approx(exact, abs=3e-6)
    assert path.at(ways)[0] == pytest.approx(TIP_M - [0, 0, 0.2], abs=1e-4)
    aside = path.at(ways) + 0.003 * ASIDE
    assert path.distance_m(aside) == pytest.approx(0.003, abs=1e-6)


@pytest.mark.parametrize("places", [circle()[:3], np.zeros((5, 3)), np.full((5, 3), np.nan), circle()[:, :2]])
def test_what_is_no_path_is_refused(places):
    with pytest.raises(ParameterError, match="points_m"):
        Path(places)


def test_a_path_elsewhere_and_long_steps_are_refused():
    with pytest.raises(ParameterError, match="begins at the tip"):
        FollowTheLeader(ROBOT, Path(circle() + 0.01 * ASIDE))
    with pytest.raises(ParameterError, match="ways_m"):
        FollowTheLeader(ROBOT, Path(circle())).plan([0.0, 0.1])


def test_a_straight_path_is_followed_by_the_stage_alone():
    path = Path(TIP_M + np.linspace(0.0, 0.1, 6)[:, None] * [0.0, 0.0, 1.0])
    plan = FollowTheLeader(ROBOT, path).plan([0.0, 0.005, 0.01])
    assert plan[:, -2] == pytest.approx([0.0, 0.005, 0.01], abs=1e-6)
    assert plan[:, :-2] == pytest.approx(0.0, abs=1e-7)


def test_its_slope_is_that_of_its_error():
    leader, rng = FollowTheLeader(ROBOT, Path(circle())), np.random.default_rng(1)
    at = np.append(3e-3 * rng.standard_normal(COUNT - 2), [0.05, 0.2])
    wanted, scale = leader._path.at(0.05 - ROBOT.length_m + leader.stations_m), CONTROL.kinematics.scale
    steps = 1e-5 * np.diag(scale)
    ends = [[leader._error(at + sign * row, at, wanted)[0] for sign in (1, -1)] for row in steps]
    slopes = np.array([(first - second) / 2e-5 for first, second in ends]).T
    assert leader._error(at, at, wanted)[1] == pytest.approx(-slopes, abs=1e-6)


def test_the_body_lies_on_the_path_where_that_of_tip_control_does_not():
    path = Path(circle())
    leader, ways = FollowTheLeader(ROBOT, path), np.linspace(0.0, 0.1, 21)
    plan = leader.plan(ways)
    alone = leader.plan(ways, lambda way, before: CONTROL.solve(path.at(way)[0], before, search=False).clarke)
    rms_m = [np.sqrt(np.mean([path.distance_m(leader.body(x)) ** 2 for x in rows])) for rows in (plan, alone)]
    assert rms_m[0] < 2e-3
    assert rms_m[1] > 4 * rms_m[0]
    tips = np.array([CONTROL.kinematics.place(x)[0] for x in plan])
    assert path.distance_m(tips).max() < 1e-3
    low, high = ROBOT.base_stage.ranges.T
    assert ((plan[:, -2:] >= low - 1e-9) & (plan[:, -2:] <= high + 1e-9)).all()


# --- the tip's control with the stage as further coordinates


def test_the_tip_moves_with_the_stage_as_its_jacobian_says():
    at = np.append(3e-3 * np.random.default_rng(2).standard_normal(COUNT - 2), [0.1, 0.4])
    place, slope = CONTROL.kinematics.place(at)
    assert CONTROL.kinematics.pose(at)[:3, 3] == pytest.approx(place)
    ends = [[CONTROL.kinematics.place(at + sign * row)[0] for sign in (1, -1)] for row in 1e-6 * np.eye(COUNT)]
    assert slope == pytest.approx(np.array([(a - b) / 2e-6 for a, b in ends]).T, abs=1e-6)


@pytest.mark.parametrize(
    ("target", "moves", "limited"),
    [((0.05, 0.02, 0.27), False, ()), ((0.1, 0.05, 0.4), True, ()), ((0.02, 0.0, 0.7), True, ("stage",))],
)
def test_the_stage_moves_where_the_tendons_do_not_reach(target, moves, limited):
    solution = CONTROL.solve(target, search=False)
    assert (solution.clarke[-2] > 0.01) == moves
    assert solution.limited_by == limited
    assert solution.reachable == (not limited)
    if moves:
        assert not TipControl(ROBOT.changed(base_stage=None)).solve(target, search=False).reachable


def test_a_path_is_followed_by_the_tendons_where_the_stage_is_at_its_end():
    control, bent = TipControl(ROBOT), np.array([4e-3, 0.0] * 3 + [0.0, 0.0])
    control.reset(bent)
    here = control.kinematics.place(bent)[0]
    for k in range(200):  # back, where the stage cannot go
        place = here - [0.0, 0.0, 1e-4 * (k + 1)]
        outcome = control.follow(place, [0.0, 0.0, -0.01], None, None, 0.01)
    assert control.kinematics.place(outcome.reference.position)[0] == pytest.approx(place, abs=1e-3)
    assert outcome.reference.position[-2] >= -1e-9


def test_the_reference_keeps_to_the_speed_of_the_stage_and_arrives():
    control = TipControl(ROBOT)
    control.reset(np.zeros(COUNT))
    solution = control.set_target([0.02, 0.0, 0.33])
    rows = [control.update(None, None, 0.01).reference for _ in range(400)]
    assert max(abs(row.velocity[-2]) for row in rows) == pytest.approx(ROBOT.base_stage.speed[0])
    assert rows[-1].position == pytest.approx(solution.clarke)
    follower = TipControl(ROBOT)
    follower.reset(np.zeros(COUNT))
    for k in range(200):  # straight on, where no tendon moves a straight robot's tip
        outcome = follower.follow((1 + k * 1e-4 / ROBOT.length_m) * TIP_M, [0, 0, 0.01], None, None, 0.01)
    assert outcome.reference.position[-2] == pytest.approx(0.02, abs=2e-4)
