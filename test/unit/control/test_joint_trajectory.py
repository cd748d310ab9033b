# SPDX-License-Identifier: Apache-2.0
"""Joint trajectories of Clarke coordinates and of tendons as references, and what is refused of them."""

from __future__ import annotations

import numpy as np
import pytest

from continuum_robot.control.joint_trajectory import TrajectoryPoint, clarke_joints, joint_trajectory
from continuum_robot.errors import ParameterError
from continuum_robot.robot.loading import load_robot
from continuum_robot.rod.tendons import controlled_manifold

ROBOT = load_robot("two_segment")
JOINTS = clarke_joints(ROBOT)
HERE = np.array([1e-3, 0.0, -1e-3, 2e-3])
GOAL = np.array([4e-3, -3e-3, 2e-3, 5e-3])


def test_it_passes_all_points_from_where_the_reference_is():
    middle = (HERE + GOAL) / 2 + 1e-3
    points = [TrajectoryPoint(1.0, middle), TrajectoryPoint(2.5, GOAL)]
    reference = joint_trajectory(ROBOT, JOINTS, points, HERE)
    assert reference.duration_s == 2.5
    for t_s, position in ((0.0, HERE), (1.0, middle), (2.5, GOAL), (9.0, GOAL)):
        np.testing.assert_allclose(reference.at(t_s).position, position, atol=1e-15)
    assert not reference.at(2.5).velocity.any()


def test_velocities_that_are_given_are_kept():
    speed = np.array([1e-3, 2e-3, -1e-3, 0.0])
    points = [TrajectoryPoint(1.0, GOAL, speed), TrajectoryPoint(2.0, HERE)]
    reference = joint_trajectory(ROBOT, JOINTS, points, HERE)
    np.testing.assert_allclose(reference.at(1.0 - 1e-9).velocity, speed, atol=1e-9)


def test_joints_may_come_in_any_order():
    order = [2, 0, 3, 1]
    points = [TrajectoryPoint(1.0, GOAL[order])]
    reference = joint_trajectory(ROBOT, [JOINTS[k] for k in order], points, HERE)
    np.testing.assert_allclose(reference.at(1.0).position, GOAL)


@pytest.mark.parametrize("name", ["two_segment", "rucker"])
def test_displacements_of_tendons_are_those_of_the_coordinates(name):
    robot = load_robot(name)
    manifold = controlled_manifold(robot)
    goal = 0.2 * robot.limits.maximum_displacement_m * np.linspace(0.3, 1.0, robot.coordinate_count)
    displacement = manifold.displacement_matrix @ goal
    points = [TrajectoryPoint(2.0, displacement)]
    reference = joint_trajectory(robot, robot.tendon_names, points, np.zeros(robot.coordinate_count))
    np.testing.assert_allclose(reference.at(2.0).position, goal, atol=1e-12)


POINT = TrajectoryPoint(1.0, GOAL)


@pytest.mark.parametrize(
    ("joints", "points", "words"),
    [
        (JOINTS[:3], [TrajectoryPoint(1.0, GOAL[:3])], "joint_names .* expected all of q_re_1, q_im_1"),
        (JOINTS, [], "points = 0 .* later than 0 s"),
        (JOINTS, [TrajectoryPoint(0.0, HERE)], "later than 0 s"),
        (JOINTS, [POINT, POINT], "increasing times"),
        (JOINTS, [TrajectoryPoint(np.nan, GOAL)], "increasing times"),
        (JOINTS, [TrajectoryPoint(1.0, GOAL[:3])], r"points\[0\].positions .* 4 finite values"),
        (JOINTS, [TrajectoryPoint(1.0, [np.nan] * 4)], "4 finite values"),
        (JOINTS, [TrajectoryPoint(1.0, GOAL, [1.0])], r"points\[0\].velocities"),
        (JOINTS, [TrajectoryPoint(0.0, GOAL), POINT], "within .* mm"),
        (JOINTS, [TrajectoryPoint(1.0, GOAL + 1.0)], "at most limits.maximum_displacement_m"),
        (ROBOT.tendon_names, [TrajectoryPoint(1.0, [3e-3] * ROBOT.tendon_count)], "off any Clarke coordinates"),
    ],
)
def test_what_cannot_be_followed_is_refused(joints, points, words):
    with pytest.raises(ParameterError, match=words):
        joint_trajectory(ROBOT, joints, points, HERE)
