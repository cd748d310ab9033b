# SPDX-License-Identifier: Apache-2.0
import math

import numpy as np
import pytest
from rod_oracle import integrated_poses
from rod_robots import load_robot, shapes, uneven, with_basis

from continuum_robot.errors import ParameterError, ReachError
from continuum_robot.geometry.arcs import backbone_poses
from continuum_robot.rod.rod import Rod


@pytest.fixture(scope="module")
def two(two_segment):
    return Rod(two_segment)


@pytest.mark.parametrize(("orders", "tolerance"), [((0, 0), 1e-11), ((2, 0), 1e-6), ((3, 4), 1e-6)])
def test_poses_solve_the_rod_equations(orders, tolerance):
    robot = with_basis(load_robot("two_segment"), orders)
    rod = Rod(robot)
    places = np.array([0.03, 0.11, 0.2])
    for c, _ in shapes(robot, 3, 4):
        for index in (0, 1):
            expected = integrated_poses(robot, c, index, places)
            np.testing.assert_allclose(rod.poses(c, 0.2 * index + places), expected, atol=tolerance)


@pytest.mark.parametrize("name", ["two_segment", "rucker", "mixed_routing"])
def test_the_tips_of_many_are_those_of_each(name):
    robot = load_robot(name)
    rod = Rod(robot)
    c = np.array([one for one, _ in shapes(robot, 5, 4)])
    found = rod.tip_steps.tips(c)
    expected = [rod.poses(one, [robot.length_m])[0, :3, 3] for one in c]
    np.testing.assert_allclose(found, expected, atol=1e-13)
    alone = [rod.tip_steps.tips(one[None])[0] for one in c]
    np.testing.assert_array_equal(found, alone, "the number of robots changes no bit")


def test_bending_past_half_a_turn_is_exact(two):
    """3.6 rad on the distal segment: the largest bending of muhmann's trajectory."""
    phi, theta = np.array([0.4, -2.0]), np.array([2.5, 3.6])
    c = np.ravel([theta / 0.2 * -np.sin(phi), theta / 0.2 * np.cos(phi)], order="F")
    places = np.linspace(0, 0.4, 9)
    expected = backbone_poses(phi, theta, np.array([0.2, 0.2]), places)
    np.testing.assert_allclose(two.poses(c, places), expected, atol=1e-13)


def test_straight_is_exact(two):
    poses = two.poses(np.zeros(4), [0.0, 0.1, 0.4])
    np.testing.assert_array_equal(poses[:, :3, :3], np.broadcast_to(np.eye(3), (3, 3, 3)))
    np.testing.assert_allclose(poses[:, :3, 3], [[0, 0, 0], [0, 0, 0.1], [0, 0, 0.4]], atol=1e-16)


def test_bending_towards_x_is_positive_curvature_about_y(two):
    tip = two.poses([0, 1.0, 0, 0], [0.4])[0]
    assert tip[0, 3] > 0.01
    assert tip[1, 3] == 0


@pytest.mark.parametrize("orders", [(0, 0, 0), (1, 0, 2)])
@pytest.mark.parametrize("scale", [0.0, 1e-7, 1.0])
def test_body_jacobian_against_central_differences(orders, scale):
    robot = with_basis(uneven(), orders)
    rod = Rod(robot, nodes=16)
    for c, _ in shapes(robot, 5, 3):
        point = scale * c
        for s in (0.05, 0.23, robot.length_m):
            pose = rod.poses(point, [s])[0]
            columns = []
            for k in range(rod.n):
                step = np.zeros(rod.n)
                step[k] = 1e-4
                change = (rod.poses(point + step, [s])[0] - rod.poses(point - step, [s])[0]) / 2e-4
                turn = pose[:3, :3].T @ change[:3, :3]
                columns.append([*(pose[:3, :3].T @ change[:3, 3]), turn[2, 1], turn[0, 2], turn[1, 0]])
            np.testing.assert_allclose(rod.jacobian(point, s), np.array(columns).T, atol=2e-9)


def test_arc_lengths_outside_the_robot_are_refused(two):
    for s in (-1e-3, 0.401, math.nan):
        with pytest.raises(ParameterError, match=r"arc_lengths_m = .*arc lengths in \[0, 0\.4\] m"):
            two.poses(np.zeros(4), [s])


def test_bending_beyond_the_reach_is_refused(two):
    two.poses([0, 2 * math.pi / 0.2, 0, 0], [0.4])
    with pytest.raises(ReachError, match="segment 2"):
        two.poses([0, 0, 400.0, 0], [0.4])
    with pytest.raises(ParameterError, match="finite"):
        two.poses([math.nan, 0, 0, 0], [0.4])
