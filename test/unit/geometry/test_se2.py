# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import expm

from continuum_robot.geometry import se2

number = st.floats(-3.0, 3.0)
twists = st.tuples(st.sampled_from([0.0, 1e-9, 1e-5, 1e-3, 1.0, 3.1]), number, number, number).map(
    lambda drawn: drawn[0] * np.array([np.tanh(drawn[1]), drawn[2], drawn[3]])
)
vectors = st.tuples(number, number, number).map(np.array)


@settings(deadline=None)
@given(twists, twists)
def test_group_axioms(a, b):
    first, second = se2.exp(a), se2.exp(b)
    np.testing.assert_allclose(se2.inverse(first) @ first, np.eye(3), atol=1e-14)
    np.testing.assert_allclose(se2.inverse(first @ second), se2.inverse(second) @ se2.inverse(first), atol=1e-13)
    np.testing.assert_allclose(se2.adjoint(first @ second), se2.adjoint(first) @ se2.adjoint(second), atol=1e-12)
    np.testing.assert_allclose(
        se2.wrench_adjoint(first @ second), se2.wrench_adjoint(first) @ se2.wrench_adjoint(second), atol=1e-12
    )


@settings(deadline=None)
@given(twists)
def test_exp_is_the_matrix_exponential_and_log_its_inverse(twist):
    np.testing.assert_allclose(se2.exp(twist), expm(se2.hat(twist)), atol=1e-12)
    np.testing.assert_allclose(se2.log(se2.exp(twist)), twist, atol=1e-11)
    np.testing.assert_allclose(se2.vee(se2.hat(twist)), twist)


@settings(deadline=None)
@given(twists, vectors)
def test_adjoint_moves_twists_and_its_inverse_transpose_wrenches(pose_twist, vector):
    pose = se2.exp(pose_twist)
    np.testing.assert_allclose(  # ha (6)
        se2.hat(se2.adjoint(pose) @ vector), pose @ se2.hat(vector) @ se2.inverse(pose), atol=1e-12
    )
    np.testing.assert_allclose(se2.wrench_adjoint(pose), np.linalg.inv(se2.adjoint(pose)).T, atol=1e-12)


@settings(deadline=None)
@given(twists, vectors)
def test_wrench_adjoint_changes_along_a_twist_as_ha_8(pose_twist, twist):
    pose, h = se2.exp(pose_twist), 1e-6
    slope = (se2.wrench_adjoint(pose @ se2.exp(h * twist)) - se2.wrench_adjoint(pose @ se2.exp(-h * twist))) / (2 * h)
    np.testing.assert_allclose(slope, se2.wrench_adjoint(pose) @ se2.small_wrench_adjoint(twist), atol=1e-7)


def test_batches_give_what_single_ones_give():
    generator = np.random.default_rng(3)
    twists = generator.normal(size=(4, 5, 3))
    poses = se2.exp(twists)
    for function in (se2.inverse, se2.adjoint, se2.wrench_adjoint, se2.log):
        np.testing.assert_allclose(function(poses)[2, 3], function(poses[2, 3]))


def test_a_force_beside_the_origin_turns_counter_clockwise():
    moment, fx, fy = se2.wrench_adjoint(se2.transform(np.pi / 2, [2.0, 0.0])) @ [0.0, 3.0, 0.0]
    assert (moment, fx, fy) == pytest.approx((6.0, 0.0, 3.0))
