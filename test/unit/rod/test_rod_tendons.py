# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from rod_oracle import integrated_poses
from rod_robots import load_robot, shapes, uneven, with_basis

from continuum_robot.robot.coordinates import clarke_manifold
from continuum_robot.rod.rod import Rod
from continuum_robot.rod.tendons import string_matrix, tendon_matrix


@pytest.fixture(scope="module", params=[(0, 0, 0), (2, 0, 1)], ids=["constant", "chebyshev"])
def robot(request):
    return with_basis(uneven(), request.param)


def measured_lengths(robot, c, paths):
    """Length of offset curves by chords between integrated frames; ``paths`` = (radius, angle, end of the path)."""
    totals, start = np.zeros(len(paths)), 0.0
    for segment, length in enumerate(one.length_m for one in robot.segments):
        ends = np.array([min(max(end - start, 0.0), length) for _, _, end in paths])
        for end in set(ends) - {0.0}:
            poses = integrated_poses(robot, c, segment, sorted({*np.linspace(0, end, 401), length}))[:401]
            for path in np.flatnonzero(ends == end):
                radius, angle, _ = paths[path]
                points = poses @ [radius * np.cos(angle), radius * np.sin(angle), 0, 1]
                chords, coarse = (np.linalg.norm(np.diff(points[::k], axis=0), axis=1).sum() for k in (1, 2))
                totals[path] += chords + (chords - coarse) / 3  # Richardson: chords err as h^2
        start += length
    return totals


def test_displacement_is_what_the_tendon_path_loses(robot):
    ends = np.cumsum([segment.length_m for segment in robot.segments])
    paths = [
        (segment.tendons.pitch_radius_m, angle, end)
        for segment, end in zip(robot.segments, ends, strict=True)
        for angle in segment.tendons.angles_rad
    ]
    for c, _ in shapes(robot, 21, 2):
        straight = np.array([end for _, _, end in paths])
        expected = straight - measured_lengths(robot, c, paths)
        np.testing.assert_allclose(Rod(robot).displacement(c), expected, atol=5e-9)


def test_string_extension_is_what_the_string_path_loses(robot):
    paths = [(string.pitch_radius_m, string.angle_rad, string.anchor_m) for string in robot.strings]
    for c, _ in shapes(robot, 22, 2):
        expected = [string.anchor_m for string in robot.strings] - measured_lengths(robot, c, paths)
        np.testing.assert_allclose(string_matrix(robot) @ c, expected, atol=5e-9)


def test_displacement_is_linear_with_the_gradient_everywhere(robot):
    (c, c_rate), *_ = shapes(robot, 23, 1)
    rod = Rod(robot)
    change = rod.displacement(c + c_rate) - rod.displacement(c)
    np.testing.assert_allclose(rod.displacement_gradient(c) @ c_rate, change, atol=1e-12)
    np.testing.assert_allclose(rod.displacement_gradient(c), tendon_matrix(robot), atol=1e-15)


def test_tendon_on_the_bending_side_is_pulled_in():
    """q_j = r_d theta cos(psi_j - phi), positive towards phi."""
    robot = load_robot("opencr_five_tendon")
    theta, phi = 0.9, 0.7
    segment = robot.segments[0]
    c = theta / segment.length_m * np.array([-np.sin(phi), np.cos(phi)])
    expected = segment.tendons.pitch_radius_m * theta * np.cos(segment.tendons.angles_rad - phi)
    np.testing.assert_allclose(Rod(robot).displacement(c), expected, atol=1e-15)


def test_displacements_lie_on_the_clarke_manifold(robot):
    manifold = clarke_manifold(robot)
    (c, _), *_ = shapes(robot, 24, 1)
    displacement = Rod(robot).displacement(c)
    np.testing.assert_allclose(manifold.displacement(manifold.clarke(displacement)), displacement, atol=1e-13)


def test_no_strings_is_an_empty_array(two_segment):
    assert string_matrix(two_segment).shape == (0, 4)
