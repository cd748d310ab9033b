# SPDX-License-Identifier: Apache-2.0
import dataclasses

import numpy as np
import pytest
from curvature import clarke_from_curvature

from continuum_robot.errors import ParameterError
from continuum_robot.geometry import so3
from continuum_robot.geometry.arcs import backbone_poses
from continuum_robot.geometry.clarke import arc_from_clarke
from continuum_robot.robot.coordinates import (
    clarke_manifold,
    tendon_manifold,
)
from continuum_robot.robot.file.shipped_files import shipped_robots
from continuum_robot.robot.loading import load_robot
from continuum_robot.rod.tendons import coefficients_from_clarke


def mixed_robot():
    robot = load_robot("two_segment")
    first, second = robot.segments
    second = dataclasses.replace(
        second,
        length_m=0.15,
        tendons=dataclasses.replace(second.tendons, count=4, pitch_radius_m=0.005, angle_offset_rad=0.3),
    )
    return dataclasses.replace(robot, segments=(first, second))


@pytest.mark.parametrize("name", [name for name in shipped_robots() if not load_robot(name).traits.without_clarke])
def test_manifold_has_the_layout_of_the_file(name):
    robot = load_robot(name)
    manifold = clarke_manifold(robot)
    assert manifold.tendon_count == robot.tendon_count
    assert manifold.coordinate_count == robot.coordinate_count
    if robot.segments:
        assert manifold.tendon_slices == robot.tendon_slices
    # A mechanism may have groups of drives, whose forces are shifted for each group by itself.
    drives = [index for rows in manifold.tendon_slices for index in range(robot.tendon_count)[rows]]
    assert drives == list(range(robot.tendon_count))
    for transform, segment in zip(manifold.transforms, robot.segments, strict=True):
        np.testing.assert_allclose(transform.angles_rad, segment.tendons.angles_rad)


@pytest.mark.parametrize("name", ["opencr_five_tendon", "two_segment", "ftdcr_v4"])
def test_the_coordinates_of_constant_curvature_are_those_of_the_rods_tendons(name):
    robot = load_robot(name)
    found = coefficients_from_clarke(robot) @ clarke_from_curvature(robot)
    np.testing.assert_allclose(found, np.eye(robot.coordinate_count), atol=1e-13)


def test_routed_tendons_have_no_clarke_coordinates():
    robot = load_robot("rucker_helical")
    assert "helical tendons of backbone" in robot.traits.without_clarke
    with pytest.raises(ParameterError, match="evenly around"):
        clarke_manifold(robot)
    alone = tendon_manifold(robot)
    displacement = np.array([1e-3, -2e-3, 5e-3, 0.0])
    assert alone.tendon_count == 4
    assert alone.inconsistency_m(displacement) == pytest.approx([0.0])
    np.testing.assert_allclose(alone.displacement(alone.clarke(displacement)), displacement)
    np.testing.assert_allclose(alone.generalized_force(displacement), displacement)


def test_bending_towards_x_is_a_positive_curvature_about_y():
    robot = load_robot("opencr_five_tendon")
    curvature = coefficients_from_clarke(robot) @ [0.007, 0.0]
    np.testing.assert_allclose(curvature, [0.0, 5.0], atol=1e-12)  # theta = 1 rad over 0.2 m
    curvature = coefficients_from_clarke(robot) @ [0.0, 0.007]
    np.testing.assert_allclose(curvature, [-5.0, 0.0], atol=1e-12)


def test_curvature_and_arc_parameters_bend_the_same_way():
    robot = mixed_robot()
    clarke = np.array([0.004, -0.007, -0.003, 0.008])
    lengths = np.array([segment.length_m for segment in robot.segments])
    radii = np.array([segment.tendons.pitch_radius_m for segment in robot.segments])
    phi, theta = arc_from_clarke(clarke.reshape(2, 2), radii)
    tip = backbone_poses(phi, theta, lengths, [lengths.sum()])[0]
    curvature = (coefficients_from_clarke(robot) @ clarke).reshape(2, 2)
    turns = [so3.exp(length * np.array([*u, 0.0])) for length, u in zip(lengths, curvature, strict=True)]
    np.testing.assert_allclose(tip[:3, :3], turns[0] @ turns[1], atol=1e-14)


def test_displacement_is_what_the_tendon_path_gets_shorter():
    """Length of each tendon's path, measured point by point along the bent backbone, against the manifold."""
    robot = mixed_robot()
    clarke = np.array([0.004, -0.007, -0.003, 0.008])
    lengths = np.array([segment.length_m for segment in robot.segments])
    radii = np.array([segment.tendons.pitch_radius_m for segment in robot.segments])
    phi, theta = arc_from_clarke(clarke.reshape(2, 2), radii)
    ends = np.cumsum(lengths)
    expected = []
    for segment, end in zip(robot.segments, ends, strict=True):
        poses = backbone_poses(phi, theta, lengths, np.linspace(0, end, 4001))
        for angle in segment.tendons.angles_rad:
            hole = segment.tendons.pitch_radius_m * np.array([np.cos(angle), np.sin(angle), 0.0])
            path = poses[:, :3, :3] @ hole + poses[:, :3, 3]
            expected.append(end - np.linalg.norm(np.diff(path, axis=0), axis=1).sum())
    np.testing.assert_allclose(clarke_manifold(robot).displacement(clarke), expected, atol=1e-8)
