# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import solve_ivp
from scipy.spatial.transform import Rotation

from continuum_robot.errors import ParameterError
from continuum_robot.geometry import so3
from continuum_robot.geometry.arcs import arc_pose, backbone_poses
from continuum_robot.geometry.clarke import arc_from_clarke

PHI = st.floats(-7, 7)
THETA = st.one_of(st.floats(-7, 7), st.sampled_from([0.0, 1e-300, 1e-12, 1e-8, 1e-5, -1e-8, np.pi, 2 * np.pi]))


def integrated(phi, theta, length, s):
    """R' = R hat(u), p' = R e_z, by a solver that knows nothing of arcs."""
    u = theta / length * np.array([-np.sin(phi), np.cos(phi), 0.0])

    def rates(_, state):
        R = state[:9].reshape(3, 3)
        return np.concatenate([(R @ so3.hat(u)).ravel(), R[:, 2]])

    start = np.concatenate([np.eye(3).ravel(), np.zeros(3)])
    end = solve_ivp(rates, (0, s), start, rtol=1e-11, atol=1e-13, method="DOP853").y[:, -1]
    pose = np.eye(4)
    pose[:3, :3], pose[:3, 3] = end[:9].reshape(3, 3), end[9:]
    return pose


@given(phi=PHI, theta=THETA, fraction=st.floats(0.01, 1.0))
def test_an_arc_solves_the_kinematic_equation(phi, theta, fraction):
    length = 0.2
    np.testing.assert_allclose(
        arc_pose(phi, theta, length, fraction * length), integrated(phi, theta, length, fraction * length), atol=1e-9
    )


@given(phi=PHI, theta=THETA)
def test_rotation_of_the_tip_is_about_the_axis_across_the_bending_direction(phi, theta):
    expected = Rotation.from_rotvec(theta * np.array([-np.sin(phi), np.cos(phi), 0.0])).as_matrix()
    np.testing.assert_allclose(arc_pose(phi, theta, 0.3, 0.3)[:3, :3], expected, atol=1e-14)


def test_the_tip_moves_towards_phi():
    tip = arc_pose(0.7, 0.5, 0.2, 0.2)[:3, 3]
    assert np.arctan2(tip[1], tip[0]) == pytest.approx(0.7)
    np.testing.assert_allclose(arc_pose(0.0, np.pi, 1.0, 1.0)[:3, 3], [2 / np.pi, 0, 0], atol=1e-15)
    np.testing.assert_allclose(arc_pose(0.0, 2 * np.pi, 1.0, 1.0), np.eye(4), atol=1e-15)


@given(phi=PHI, theta=THETA)
def test_bending_backwards_is_bending_the_other_way(phi, theta):
    np.testing.assert_allclose(arc_pose(phi, -theta, 0.2, 0.2), arc_pose(phi + np.pi, theta, 0.2, 0.2), atol=1e-13)


def test_the_straight_segment_is_exact_and_nothing_jumps_there():
    straight = arc_pose(0.3, 0.0, 0.2, 0.15)
    expected = np.eye(4)
    expected[2, 3] = 0.15
    np.testing.assert_array_equal(straight, expected)
    # First order about straight, to its last digit: x = s^2 theta / (2 l).
    for theta in np.logspace(-15, -5, 41):
        tip = arc_pose(0.0, theta, 0.2, 0.2)
        assert tip[0, 3] == pytest.approx(0.1 * theta, rel=1e-10)
        assert tip[0, 2] == pytest.approx(theta, rel=1e-10)


def test_central_differences_stay_smooth_through_straight():
    thetas = np.linspace(-1e-3, 1e-3, 41)
    poses = arc_pose(0.4, thetas, 0.2, 0.2)
    second = np.diff(poses, 2, axis=0) / (thetas[1] - thetas[0]) ** 2
    # The second derivative itself is smooth: its change over the range is of first order in theta.
    assert np.abs(second - second.mean(axis=0)).max() < 2e-3


@given(seed=st.integers(0, 500), fraction=st.floats(0, 1))
def test_a_backbone_chains_its_segments(seed, fraction):
    rng = np.random.default_rng(seed)
    m = rng.integers(1, 5)
    phi, theta, lengths = rng.uniform(-4, 4, m), rng.uniform(-4, 4, m), rng.uniform(0.05, 0.3, m)
    s = fraction * lengths.sum()
    pose, left = np.eye(4), s
    for i in range(m):
        pose = pose @ arc_pose(phi[i], theta[i], lengths[i], min(left, lengths[i]))
        left = max(0.0, left - lengths[i])
    np.testing.assert_allclose(backbone_poses(phi, theta, lengths, [s])[0], pose, atol=1e-13)


def test_the_pose_is_continuous_at_a_junction():
    phi, theta, lengths = np.array([0.1, 2.0, -1.0]), np.array([1.0, -2.0, 0.0]), np.array([0.1, 0.2, 0.3])
    s = np.array([0.1 - 1e-12, 0.1, 0.1 + 1e-12, 0.3 - 1e-12, 0.3, 0.3 + 1e-12])
    poses = backbone_poses(phi, theta, lengths, s)
    np.testing.assert_allclose(poses[0], poses[2], atol=1e-10)
    np.testing.assert_allclose(poses[3], poses[5], atol=1e-10)
    assert backbone_poses(phi, theta, lengths, np.linspace(0, lengths.sum(), 200)).shape == (200, 4, 4)


def test_chord_lengths_sum_to_the_arc_length():
    poses = backbone_poses([0.3, -2.0], [3.6, -1.0], [0.2, 0.2], np.linspace(0, 0.4, 4001))
    assert np.linalg.norm(np.diff(poses[:, :3, 3], axis=0), axis=1).sum() == pytest.approx(0.4, abs=1e-6)


def test_the_tip_passes_smoothly_through_straight_in_clarke_coordinates():
    clarke = np.linspace(-1e-4, 1e-4, 21)[:, None] * np.array([0.6, 0.8])
    phi, theta = arc_from_clarke(clarke, 0.007)
    tips = arc_pose(phi, theta, 0.2, 0.2)
    # A kink at the straight shape would show in the third difference at the size of the first, 1e-3.
    np.testing.assert_allclose(np.diff(tips, 3, axis=0), 0, atol=1e-8)


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (([0.0], [1.0], [0.2], [0.21]), "s"),
        (([0.0], [1.0], [0.2], [-0.01]), "s"),
        (([0.0], [1.0], [0.2], [np.nan]), "s"),
        (([0.0, 1.0], [1.0], [0.2], [0.1]), "phi, theta, lengths"),
    ],
)
def test_impossible_arguments_are_refused(arguments, name):
    with pytest.raises(ParameterError) as caught:
        backbone_poses(*arguments)
    assert caught.value.name == name


def test_a_length_must_be_positive():
    with pytest.raises(ParameterError, match="length_m"):
        arc_pose(0.0, 1.0, [0.2, 0.0], 0.1)
