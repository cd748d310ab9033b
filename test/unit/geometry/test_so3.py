# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.spatial.transform import Rotation

from continuum_robot.geometry import so3

SCALES = st.sampled_from([0.0, 1e-12, 1e-9, 1e-7, 1e-4, 1e-2, 0.49, 0.51, 1.0, 2.0, np.pi - 1e-4, np.pi - 1e-9])


@st.composite
def rotation_vectors(draw):
    direction = draw(arrays(float, 3, elements=st.floats(-1, 1)))
    norm = np.linalg.norm(direction)
    unit = direction / norm if norm > 1e-3 else np.array([0.0, 0.0, 1.0])
    return draw(SCALES) * unit


@given(a=rotation_vectors(), b=arrays(float, 3, elements=st.floats(-5, 5)))
def test_hat_is_the_cross_product_and_vee_its_inverse(a, b):
    np.testing.assert_allclose(so3.hat(a) @ b, np.cross(a, b), atol=1e-12)
    np.testing.assert_array_equal(so3.vee(so3.hat(a)), a)


@given(a=rotation_vectors())
def test_exp_agrees_with_scipy(a):
    np.testing.assert_allclose(so3.exp(a), Rotation.from_rotvec(a).as_matrix(), atol=5e-15)


@given(a=rotation_vectors())
def test_log_inverts_exp_to_rounding_near_the_identity_and_near_a_half_turn(a):
    angle = np.linalg.norm(a)
    np.testing.assert_allclose(so3.log(so3.exp(a)), a, atol=4e-16 + 4e-15 * angle)


@given(a=rotation_vectors(), b=rotation_vectors())
def test_group_axioms(a, b):
    A, B = so3.exp(a), so3.exp(b)
    np.testing.assert_allclose(A @ so3.exp(-a), np.eye(3), atol=1e-14)
    np.testing.assert_allclose(so3.exp(so3.log(A @ B)), A @ B, atol=1e-14)
    np.testing.assert_allclose(A @ so3.hat(b) @ A.T, so3.hat(A @ b), atol=1e-14)
    assert np.linalg.det(A) == pytest.approx(1, abs=1e-14)


@pytest.mark.parametrize("axis", [[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, -1, 0], [-1, 2, 3]])
def test_log_of_exact_half_turns(axis):
    axis = np.array(axis) / np.linalg.norm(axis)
    R = 2 * np.outer(axis, axis) - np.eye(3)
    vector = so3.log(R)
    assert np.linalg.norm(vector) == pytest.approx(np.pi)
    np.testing.assert_allclose(so3.exp(vector), R, atol=1e-14)


@given(a=rotation_vectors(), direction=arrays(float, 3, elements=st.floats(-1, 1)))
def test_left_jacobian_against_central_differences(a, direction):
    h = 1e-5
    plus, minus = so3.exp(a + h * direction), so3.exp(a - h * direction)
    spin = so3.vee((plus - minus) / (2 * h) @ so3.exp(a).T)
    np.testing.assert_allclose(so3.left_jacobian(a) @ direction, spin, atol=1e-9)


@given(a=rotation_vectors())
def test_left_jacobian_inverse(a):
    np.testing.assert_allclose(so3.left_jacobian(a) @ so3.left_jacobian_inverse(a), np.eye(3), atol=1e-13)


def test_series_and_closed_form_meet():
    below, above = (np.array([0.3, -0.2, 0.1]) / np.sqrt(0.14) * angle for angle in (0.5 - 1e-15, 0.5))
    np.testing.assert_allclose(so3.left_jacobian(below), so3.left_jacobian(above), atol=1e-14)
    np.testing.assert_allclose(so3.left_jacobian_inverse(below), so3.left_jacobian_inverse(above), atol=1e-14)


@given(a=rotation_vectors())
def test_quaternions_are_w_first_and_agree_with_scipy(a):
    R = so3.exp(a)
    quaternion = so3.quaternion_from_matrix(R)
    assert quaternion[0] >= 0
    assert np.linalg.norm(quaternion) == pytest.approx(1)
    expected = np.roll(Rotation.from_rotvec(a).as_quat(), 1)
    if expected @ quaternion < 0:
        expected = -expected
    np.testing.assert_allclose(quaternion, expected, atol=1e-14)
    np.testing.assert_allclose(so3.matrix_from_quaternion(quaternion), R, atol=1e-14)
    np.testing.assert_allclose(so3.matrix_from_quaternion(-2 * quaternion), R, atol=1e-14)


def test_batches_are_computed_one_by_one():
    vectors = np.random.default_rng(1).normal(size=(2, 4, 3)) * np.array([1e-8, 1e-3, 1, 2])[:, None]
    for function in (so3.hat, so3.exp, so3.left_jacobian, so3.left_jacobian_inverse):
        single = np.array([[function(vector) for vector in row] for row in vectors])
        np.testing.assert_array_equal(function(vectors), single)
    rotations = so3.exp(vectors)
    for function in (so3.log, so3.vee):
        single = np.array([[function(matrix) for matrix in row] for row in rotations])
        np.testing.assert_allclose(function(rotations), single, atol=1e-15)


def test_a_quaternion_has_the_same_bits_alone_and_in_a_batch():
    rotations = np.concatenate([so3.exp(np.random.default_rng(1).normal(size=(100, 3))), so3.exp(np.pi * np.eye(3))])
    single = np.array([so3.quaternion_from_matrix(rotation) for rotation in rotations])
    np.testing.assert_array_equal(so3.quaternion_from_matrix(rotations), single)


def test_unknown_stays_unknown():
    assert np.isnan(so3.exp([np.nan, 0, 0])).any()
    assert np.isnan(so3.log(np.full((3, 3), np.nan))).all()
