# SPDX-License-Identifier: Apache-2.0
"""What holds a robot, of the feed-forward and in closed form."""

import dataclasses

import numpy as np
import pytest
from curvature import clarke_from_curvature
from hypothesis import given
from hypothesis import strategies as st
from rod_robots import load_robot, shapes, uneven, with_basis

from continuum_robot.robot.coordinates import clarke_manifold
from continuum_robot.rod.holding_force import clarke_feedforward
from continuum_robot.rod.rod import Rod
from continuum_robot.rod.tendons import coefficients_from_clarke, tendon_matrix

TWO = Rod(load_robot("two_segment"))


@given(tension=st.lists(st.floats(0, 2.5), min_size=10, max_size=10))
def test_nothing_accelerates_in_equilibrium(tension):
    c, still = TWO.equilibrium(tension, settle=False).c, np.zeros(4)
    acceleration = TWO.acceleration(c, still, TWO.displacement_gradient(c).T @ tension)
    np.testing.assert_allclose(TWO.terms(c, still).mass @ acceleration, 0, atol=1e-9)


def test_without_gravity_one_tendon_bends_by_r_tension_over_stiffness():
    robot = dataclasses.replace(load_robot("opencr_five_tendon"), gravity_m_per_s2=(0.0, 0.0, 0.0))
    segment = robot.segments[0]
    found = Rod(robot).equilibrium([2.0, 0, 0, 0, 0])
    curvature = 2.0 * segment.tendons.pitch_radius_m / segment.backbone.bending_stiffness_nm2
    np.testing.assert_allclose(found.c, [0, curvature], atol=1e-9)
    assert found.stable


def test_parallel_tendons_bend_chebyshev_segments_by_constant_curvature():
    """Without side loads the exact strain of each segment is constant."""
    straight_load = (0.0, 0.0, 0.0)
    constant = dataclasses.replace(load_robot("two_segment"), gravity_m_per_s2=straight_load)
    tension = np.array([1.0, 0, 0.5, 0, 0, 0, 1.5, 0, 0, 0.2])
    low, high = (Rod(one).equilibrium(tension).c for one in (constant, with_basis(constant, (1, 0))))
    np.testing.assert_allclose(high[[0, 1, 4, 5]], low, atol=1e-7)
    np.testing.assert_allclose(high[2:4], 0, atol=1e-7)


def test_a_robot_on_its_head_buckles():
    upward = dataclasses.replace(load_robot("two_segment"), gravity_m_per_s2=(0.0, 0.0, -9.81))
    straight = Rod(upward).equilibrium(settle=False)
    assert not straight.stable
    np.testing.assert_allclose(straight.c, 0, atol=1e-12)
    fallen = Rod(upward).equilibrium(start=[0.1, 0.2, 0.0, 0.0])
    assert fallen.stable
    assert fallen.energy_j < straight.energy_j
    assert TWO.equilibrium().stable


def test_feedforward_holds_the_robot(two_segment):
    """Elastic force plus gravity in Clarke coordinates, mapped by the tendons, give no acceleration."""
    forces = clarke_feedforward(two_segment)
    to_clarke = clarke_from_curvature(two_segment)
    manifold = clarke_manifold(two_segment)
    for c, _ in shapes(two_segment, 31, 3):
        still = np.zeros(4)
        elastic, gravity = forces(to_clarke @ c)
        np.testing.assert_allclose(to_clarke.T @ elastic, TWO.arrays.stiffness @ c, atol=1e-12)
        np.testing.assert_allclose(to_clarke.T @ gravity, -TWO.terms(c, still).force, atol=1e-12)
        tension = np.linalg.lstsq(manifold.displacement_matrix.T, elastic + gravity, rcond=None)[0]
        acceleration = TWO.acceleration(c, still, TWO.displacement_gradient(c).T @ tension)
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
    robot, constant = with_basis(uneven(), orders), uneven()
    shape, lever = coefficients_from_clarke(robot), tendon_matrix(robot)
    np.testing.assert_allclose(clarke_manifold(robot).clarke_matrix @ lever @ shape, np.eye(6), atol=1e-12)
    expected = tendon_matrix(constant) @ coefficients_from_clarke(constant)
    np.testing.assert_allclose(lever @ shape, expected, atol=1e-12)
