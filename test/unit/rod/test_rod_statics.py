# SPDX-License-Identifier: Apache-2.0
import dataclasses

import numpy as np
import pytest
from bending_statics import equilibrium
from hypothesis import given, settings
from hypothesis import strategies as st
from rod_robots import load_robot, shapes, uneven, with_basis

from continuum_robot.errors import ConvergenceError, ParameterError
from continuum_robot.robot.coordinates import clarke_from_curvature, clarke_manifold
from continuum_robot.rod.dynamics import RodDynamics
from continuum_robot.rod.feedforward import clarke_feedforward
from continuum_robot.rod.model import RodModel
from continuum_robot.rod.rod import Rod
from continuum_robot.rod.tendon_modes import coefficients_from_clarke


@given(tension=st.lists(st.floats(0, 2.5), min_size=10, max_size=10))
@settings(deadline=None, max_examples=30)
def test_nothing_accelerates_in_equilibrium(virtual, tension):
    found = equilibrium(virtual, tension)
    assert found.residual < 1e-9
    force = virtual.inverse_dynamics(found.c, np.zeros(4), np.zeros(4))
    np.testing.assert_allclose(force, virtual.displacement_jacobian().T @ tension, atol=1e-9)


def test_without_gravity_one_tendon_bends_by_r_tension_over_stiffness():
    robot = dataclasses.replace(load_robot("opencr_five_tendon"), gravity_m_per_s2=(0.0, 0.0, 0.0))
    segment = robot.segments[0]
    found = equilibrium(RodDynamics(robot, compile="never"), [2.0, 0, 0, 0, 0])
    curvature = 2.0 * segment.tendons.pitch_radius_m / segment.backbone.bending_stiffness_nm2
    np.testing.assert_allclose(found.c, [0, curvature], atol=1e-9)
    assert found.stable


def test_parallel_tendons_bend_chebyshev_segments_by_constant_curvature():
    """Without side loads the exact strain of each segment is constant."""
    straight_load = (0.0, 0.0, 0.0)
    constant = dataclasses.replace(load_robot("two_segment"), gravity_m_per_s2=straight_load)
    tension = np.array([1.0, 0, 0.5, 0, 0, 0, 1.5, 0, 0, 0.2])
    low = equilibrium(RodDynamics(constant, compile="never"), tension).c
    high = equilibrium(RodDynamics(with_basis(constant, (1, 0)), compile="never"), tension).c
    np.testing.assert_allclose(high[[0, 1, 4, 5]], low, atol=1e-7)
    np.testing.assert_allclose(high[2:4], 0, atol=1e-7)


def test_a_robot_on_its_head_buckles():
    upward = dataclasses.replace(load_robot("two_segment"), gravity_m_per_s2=(0.0, 0.0, -9.81))
    dynamics = RodDynamics(upward, compile="never")
    straight = equilibrium(dynamics, np.zeros(10))
    assert not straight.stable
    np.testing.assert_array_equal(straight.c, 0)
    fallen = equilibrium(dynamics, np.zeros(10), start=[0.1, 0.2, 0.0, 0.0])
    assert fallen.stable
    assert fallen.energy_j < straight.energy_j
    assert equilibrium(RodDynamics(load_robot("two_segment"), compile="never"), np.zeros(10)).stable


def test_a_generalised_load_is_held(virtual):
    c = np.array([3.0, -4.0, 5.0, 2.0])
    load = virtual.inverse_dynamics(c, np.zeros(4), np.zeros(4))
    np.testing.assert_allclose(equilibrium(virtual, np.zeros(10), load).c, c, atol=1e-6)


@given(tension=st.lists(st.floats(0, 2.5), min_size=10, max_size=10))
@settings(deadline=None, max_examples=30)
def test_the_statics_of_any_strain_are_those_of_bending_where_that_is_all(virtual, tension):
    """Two formulations: the Lagrangian of bending, and the chain of Magnus steps with tendon paths."""
    general = Rod(virtual.robot).equilibrium(tension, settle=False)
    np.testing.assert_allclose(general.c, equilibrium(virtual, tension, start=general.c).c, atol=1e-6)


def test_a_load_without_equilibrium_within_reach_is_an_error(virtual):
    tension = np.zeros(10)
    tension[[0, 5]] = 500.0
    with pytest.raises((ConvergenceError, ParameterError), match=r"bending angle|equilibrium"):
        equilibrium(virtual, tension)


def test_feedforward_holds_the_robot(virtual):
    """Elastic force plus gravity in Clarke coordinates, mapped by the tendons, give no acceleration."""
    robot = virtual.robot
    forces = clarke_feedforward(robot)
    to_clarke = clarke_from_curvature(robot)
    manifold = clarke_manifold(robot)
    for c, _ in shapes(robot, 31, 3):
        elastic, gravity = forces(to_clarke @ c)
        np.testing.assert_allclose(to_clarke.T @ elastic, virtual.elastic_force(c), atol=1e-12)
        np.testing.assert_allclose(to_clarke.T @ gravity, virtual.gravity_force(c), atol=1e-12)
        tension = np.linalg.lstsq(manifold.displacement_matrix.T, elastic + gravity, rcond=None)[0]
        acceleration = virtual.forward_dynamics(c, np.zeros(4), tension)
        np.testing.assert_allclose(acceleration, 0, atol=1e-7)


def test_stiffness_in_clarke_coordinates():
    """K_M of muhmann (25): E I / (l r_d^2) on the diagonal, from (19) with (7)."""
    robot = load_robot("two_segment")
    forces = clarke_feedforward(robot)
    segment = robot.segments[0]
    expected = segment.backbone.bending_stiffness_nm2 / segment.length_m / segment.tendons.pitch_radius_m**2
    np.testing.assert_allclose(forces(np.array([0.01, 0, 0, 0]))[0], [0.01 * expected, 0, 0, 0], atol=1e-12)


@pytest.mark.parametrize("orders", [(0, 0, 0), (2, 1, 0)])
def test_coefficients_from_clarke_have_these_clarke_coordinates(orders):
    model = RodModel(with_basis(uneven(), orders))
    shape = coefficients_from_clarke(model.robot)
    clarke = clarke_manifold(model.robot).clarke_matrix @ model.tendon_matrix @ shape
    np.testing.assert_allclose(clarke, np.eye(6), atol=1e-12)
    constant = RodModel(uneven())
    np.testing.assert_allclose(
        model.tendon_matrix @ shape, constant.tendon_matrix @ coefficients_from_clarke(constant.robot), atol=1e-12
    )
