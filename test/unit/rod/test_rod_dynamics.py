# SPDX-License-Identifier: Apache-2.0
import casadi as ca
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rod_robots import load_robot, shapes, uneven, with_basis

from continuum_robot.errors import ParameterError
from continuum_robot.robot.coordinates import clarke_from_curvature
from continuum_robot.rod.dynamics import RodDynamics

VARIANTS = {
    "constant": lambda: RodDynamics(load_robot("two_segment"), compile="never"),
    "all_terms": lambda: RodDynamics(uneven(), rotational_energy=True, tendon_inertia=True, compile="never"),
    "chebyshev": lambda: RodDynamics(with_basis(uneven(), (1, 0), 2), rotational_energy=True, compile="never"),
}


@pytest.fixture(scope="module", params=sorted(VARIANTS))
def dynamics(request):
    return VARIANTS[request.param]()


def states(dynamics, count=3, bending_rad=2.0):
    """Random states, and the straight robot at rest and in motion."""
    drawn = list(shapes(dynamics.robot, 7, count, bending_rad))
    return [*drawn, (0 * drawn[0][0], 0 * drawn[0][1]), (0 * drawn[1][0], drawn[1][1])]


def central_difference(function, point, step):
    columns = []
    for k in range(len(point)):
        change = np.zeros(len(point))
        change[k] = step
        columns.append((np.asarray(function(point + change)) - np.asarray(function(point - change))) / (2 * step))
    return np.stack(columns, axis=-1)


def assert_close(found, expected, relative):
    scale = max(float(np.abs(expected).max()), 1e-30)
    np.testing.assert_allclose(found, expected, rtol=0, atol=relative * scale)


def test_mass_matrix_is_symmetric_and_positive_definite(dynamics):
    @given(
        c=st.lists(st.floats(-1, 1), min_size=dynamics.size, max_size=dynamics.size),
        bending_rad=st.sampled_from([0.0, 1e-6, 1.0, 4.0]),
    )
    @settings(deadline=None, max_examples=40)
    def check(c, bending_rad):
        scale = next(iter(shapes(dynamics.robot, 0, 1, bending_rad)))[0]
        mass = dynamics.mass_matrix(np.array(c) * np.abs(scale))
        np.testing.assert_array_equal(mass, mass.T)
        assert np.linalg.eigvalsh(mass)[0] > 1e-8 * np.linalg.eigvalsh(mass)[-1]

    check()


def test_rate_of_the_mass_matrix_minus_twice_coriolis_is_skew(dynamics):
    for c, c_rate in states(dynamics):
        step = 1e-4
        rate = (dynamics.mass_matrix(c + step * c_rate) - dynamics.mass_matrix(c - step * c_rate)) / (2 * step)
        skew = rate - 2 * dynamics.coriolis_matrix(c, c_rate)
        scale = max(np.abs(rate).max(), 1e-12 * np.abs(dynamics.mass_matrix(c)).max())
        np.testing.assert_allclose(skew + skew.T, 0, atol=2e-6 * scale)


def test_coriolis_matrix_and_force_agree(dynamics):
    for c, c_rate in states(dynamics):
        force = dynamics.coriolis_force(c, c_rate)
        assert_close(dynamics.coriolis_matrix(c, c_rate) @ c_rate, force, 1e-9)


def test_equations_are_euler_lagranges(dynamics):
    """d/dt dL/dc' - dL/dc by automatic differentiation of L alone, which knows nothing of the sums over stations."""
    n, model = dynamics.size, dynamics.symbolic
    c, rate, second = ca.SX.sym("c", n), ca.SX.sym("r", n), ca.SX.sym("a", n)
    lagrangian = model.lagrangian(c, rate)
    momentum = ca.gradient(lagrangian, rate)
    left = ca.jtimes(momentum, c, rate) + ca.jtimes(momentum, rate, second) - ca.gradient(lagrangian, c)
    oracle = ca.Function("oracle", [c, rate, second], [left])
    for point, velocity in states(dynamics):
        acceleration = np.linspace(-100, 200, n)
        expected = np.array(oracle(point, velocity, acceleration)).ravel() + model.damping @ velocity
        assert_close(dynamics.inverse_dynamics(point, velocity, acceleration), expected, 1e-10)


def test_terms_add_up_to_the_inverse_dynamics(dynamics):
    for c, c_rate in states(dynamics):
        acceleration = np.linspace(50, -20, dynamics.size)
        total = (
            dynamics.mass_matrix(c) @ acceleration
            + dynamics.coriolis_matrix(c, c_rate) @ c_rate
            + dynamics.gravity_force(c)
            + dynamics.elastic_force(c)
            + dynamics.damping_force(c, c_rate)
        )
        assert_close(dynamics.inverse_dynamics(c, c_rate, acceleration), total, 1e-11)


def test_forward_undoes_inverse(dynamics):
    for c, c_rate in states(dynamics):
        acceleration = np.linspace(300, -200, dynamics.size)
        force = dynamics.inverse_dynamics(c, c_rate, acceleration)
        tension = np.linspace(0, 3, dynamics.robot.tendon_count)
        tendons = dynamics.displacement_jacobian(c).T @ tension
        slack = np.zeros(dynamics.robot.tendon_count)
        assert_close(dynamics.forward_dynamics(c, c_rate, slack, force), acceleration, 1e-8)
        assert_close(dynamics.forward_dynamics(c, c_rate, tension, force - tendons), acceleration, 1e-8)


def test_derivatives_against_central_differences(dynamics):
    n, lagrangian, step = dynamics.size, dynamics.symbolic.lagrangian, 1e-3
    for c, c_rate in states(dynamics):
        by_c = central_difference(lambda x, v=c_rate: lagrangian(x, v), c, step).ravel()
        by_rate = central_difference(lambda v, x=c: lagrangian(x, v), c_rate, step).ravel()
        assert_close(dynamics.lagrangian_gradient(c, c_rate), by_c, 1e-5)
        assert_close(dynamics.momentum(c, c_rate), by_rate, 1e-5)
        value, gradient, hessian = dynamics.potential(c)
        assert np.isfinite(value)
        assert_close(gradient, central_difference(lambda x: dynamics.potential(x)[0], c, step).ravel(), 1e-6)
        assert_close(hessian, central_difference(lambda x: dynamics.potential(x)[1], c, step).reshape(n, n), 1e-6)
        gravity = central_difference(lambda x: dynamics.energies(x, 0 * x).gravity, c, step).ravel()
        assert_close(dynamics.gravity_force(c), gravity, 1e-6)


def test_power_balance(dynamics):
    """The rate of the total energy is the power of the loads less the dissipation."""
    for c, c_rate in states(dynamics):
        load = np.linspace(-0.02, 0.03, dynamics.size)
        acceleration = dynamics.forward_dynamics(c, c_rate, np.zeros(dynamics.robot.tendon_count), load)
        step = 1e-5

        def energy(t, c=c, c_rate=c_rate, acceleration=acceleration):
            return dynamics.energies(c + t * c_rate + t**2 / 2 * acceleration, c_rate + t * acceleration).total

        rate = (energy(step) - energy(-step)) / (2 * step)
        power = c_rate @ load - c_rate @ dynamics.damping_force(c, c_rate)
        scale = abs(c_rate @ load) + c_rate @ dynamics.damping_force(c, c_rate) + 1e-3
        np.testing.assert_allclose(rate, power, atol=3e-4 * scale)


def test_nothing_happens_at_the_straight_configuration(dynamics):
    """Every term is finite at c = 0 and is reached smoothly: odd and even parts shrink as they should."""
    c, c_rate = next(iter(shapes(dynamics.robot, 9, 1)))
    straight = 0 * c
    for function in (
        dynamics.mass_matrix,
        dynamics.gravity_force,
        lambda x: dynamics.coriolis_matrix(x, c_rate),
        lambda x: dynamics.poses(x, dynamics.robot.length_m),
    ):
        middle = function(straight)
        assert np.all(np.isfinite(middle))
        size = max(np.abs(function(1e-3 * c)).max(), np.abs(middle).max())
        for step in (1e-2, 1e-4, 1e-6):
            second_difference = function(step * c) - 2 * middle + function(-step * c)
            np.testing.assert_allclose(second_difference, 0, atol=(10 * step**2 + 1e-13) * size)


def test_damping_in_clarke_coordinates_is_d_theta_over_squared_radius(virtual):
    """D_M = d_theta / r_d^2 (muhmann prints d_theta below (25))."""
    robot = virtual.robot
    from_clarke = np.linalg.inv(clarke_from_curvature(robot))
    damping = from_clarke.T @ virtual.symbolic.damping @ from_clarke
    expected = np.repeat([s.bending_damping_nms / s.tendons.pitch_radius_m**2 for s in robot.segments], 2)
    np.testing.assert_allclose(damping, np.diag(expected), rtol=1e-12, atol=1e-12)


def test_stiffness_in_arc_parameters_is_ei_over_length(virtual):
    segment = virtual.robot.segments[0]
    theta = 0.7
    force = virtual.elastic_force([0, theta / segment.length_m, 0, 0])
    np.testing.assert_allclose(force[1] / segment.length_m, segment.backbone.bending_stiffness_nm2 / 0.2 * theta)


def test_chebyshev_with_higher_coefficients_zero_is_the_constant_basis():
    """The order only adds directions: the terms of the constant basis are those of its first coefficients."""
    low = RodDynamics(uneven(), rotational_energy=True, compile="never")
    high = RodDynamics(with_basis(uneven(), (2, 0, 1)), rotational_energy=True, compile="never")
    kept = [0, 1, 6, 7, 8, 9]
    c, c_rate = next(iter(shapes(low.robot, 11, 1)))
    wide, wide_rate = np.zeros(high.size), np.zeros(high.size)
    wide[kept], wide_rate[kept] = c, c_rate
    assert_close(high.mass_matrix(wide)[np.ix_(kept, kept)], low.mass_matrix(c), 1e-6)
    assert_close(high.gravity_force(wide)[kept], low.gravity_force(c), 1e-7)
    assert_close(high.coriolis_force(wide, wide_rate)[kept], low.coriolis_force(c, c_rate), 1e-6)
    assert_close(high.tendon_displacement(wide), low.tendon_displacement(c), 1e-13)


def test_arguments_of_the_wrong_size_are_refused(virtual):
    with pytest.raises(ParameterError, match=r"shapes of the arguments of forward_dynamics"):
        virtual.forward_dynamics(np.zeros(3), np.zeros(4), np.zeros(10))
    with pytest.raises(ParameterError, match=r"gravity_force"):
        virtual.gravity_force(np.zeros((2, 4)))
