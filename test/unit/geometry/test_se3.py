# SPDX-License-Identifier: Apache-2.0
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.linalg import expm

from continuum_robot.geometry import se3, so3

COORDINATES = arrays(float, 3, elements=st.floats(-1, 1))


@st.composite
def twists(draw):
    angular = draw(COORDINATES)
    norm = np.linalg.norm(angular)
    angular = angular / norm if norm > 1e-3 else np.array([1.0, 0.0, 0.0])
    angle = draw(st.sampled_from([0.0, 1e-9, 1e-4, 0.3, 1.0, 3.1, np.pi - 1e-8]))
    return np.concatenate([draw(COORDINATES), angle * angular])


@given(a=twists())
def test_exp_is_the_matrix_exponential(a):
    np.testing.assert_allclose(se3.exp(a), expm(se3.hat(a)), atol=1e-13)


@given(a=twists())
def test_log_inverts_exp(a):
    np.testing.assert_allclose(se3.log(se3.exp(a)), a, atol=1e-13)
    np.testing.assert_array_equal(se3.vee(se3.hat(a)), a)


@given(a=twists(), b=twists(), point=COORDINATES)
def test_group_axioms(a, b, point):
    A, B = se3.exp(a), se3.exp(b)
    np.testing.assert_allclose(A @ se3.inverse(A), np.eye(4), atol=1e-13)
    np.testing.assert_allclose(se3.inverse(A @ B), se3.inverse(B) @ se3.inverse(A), atol=1e-13)
    np.testing.assert_allclose(se3.apply(A @ B, point), se3.apply(A, se3.apply(B, point)), atol=1e-13)
    np.testing.assert_allclose(se3.adjoint(A @ B), se3.adjoint(A) @ se3.adjoint(B), atol=1e-12)


@given(a=twists(), b=twists())
def test_adjoint_moves_twists_between_frames(a, b):
    A = se3.exp(a)
    np.testing.assert_allclose(se3.hat(se3.adjoint(A) @ b), A @ se3.hat(b) @ se3.inverse(A), atol=1e-12)


@given(a=twists(), b=twists(), wrench=arrays(float, 6, elements=st.floats(-1, 1)))
def test_transposed_adjoint_keeps_the_power_of_a_wrench(a, b, wrench):
    A = se3.exp(a)
    np.testing.assert_allclose((se3.adjoint(A).T @ wrench) @ b, wrench @ (se3.adjoint(A) @ b), atol=1e-12)
    # A force at the tip, 1 m along x, turns the base by its lever: force and moment in the order (force, moment).
    pushed = se3.adjoint(se3.inverse(se3.transform(np.eye(3), [1.0, 0.0, 0.0]))).T @ np.array([0, 1.0, 0, 0, 0, 0])
    np.testing.assert_allclose(pushed, [0, 1, 0, 0, 0, 1], atol=1e-15)


def test_batches_broadcast():
    twist = np.random.default_rng(2).normal(size=(3, 1, 6))
    points = np.random.default_rng(3).normal(size=(5, 3))
    poses = se3.exp(twist)
    moved = se3.apply(poses, points)
    assert moved.shape == (3, 5, 3)
    np.testing.assert_allclose(moved[1, 2], se3.apply(se3.exp(twist[1, 0]), points[2]), atol=1e-15)
    np.testing.assert_allclose(se3.inverse(poses)[2, 0], np.linalg.inv(poses[2, 0]), atol=1e-14)
    assert se3.adjoint(poses).shape == (3, 1, 6, 6)
    assert se3.transform(so3.exp(twist[..., 3:]), points).shape == (3, 5, 4, 4)
