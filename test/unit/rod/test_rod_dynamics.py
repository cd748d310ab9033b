# SPDX-License-Identifier: Apache-2.0
"""Properties of a rod's equations of motion."""

import numpy as np
import pytest
from curvature import clarke_from_curvature
from hypothesis import given
from hypothesis import strategies as st
from rod_robots import load_robot, shapes, uneven, with_basis

from continuum_robot.errors import ParameterError
from continuum_robot.rod.kernel import library as kernel
from continuum_robot.rod.kernel.call import KernelCall
from continuum_robot.rod.rod import Rod

VARIANTS = {
    "constant": lambda: load_robot("two_segment"),
    "heavy tendons": uneven,
    "chebyshev": lambda: with_basis(uneven(), (1, 0), 2),
}


@pytest.fixture(scope="module", params=sorted(VARIANTS))
def both(request):
    robot = VARIANTS[request.param]()
    return robot, Rod(robot, nodes=16)


def states(robot, count=3, bending_rad=2.0):
    """Random states, and the straight robot at rest and in motion."""
    drawn = list(shapes(robot, 7, count, bending_rad))
    return [*drawn, (0 * drawn[0][0], 0 * drawn[0][1]), (0 * drawn[1][0], drawn[1][1])]


def close(found, expected, relative):
    np.testing.assert_allclose(found, expected, rtol=0, atol=relative * max(float(np.abs(expected).max()), 1e-30))


def test_mass_matrix_is_symmetric_and_positive_definite(both):
    robot, rod = both

    @given(
        c=st.lists(st.floats(-1, 1), min_size=rod.n, max_size=rod.n),
        bending_rad=st.sampled_from([0.0, 1e-6, 1.0, 4.0]),
    )
    def check(c, bending_rad):
        scale = next(iter(shapes(robot, 0, 1, bending_rad)))[0]
        mass = rod.terms(np.array(c) * np.abs(scale), np.zeros(rod.n)).mass
        close(mass, mass.T, 1e-14)
        assert np.linalg.eigvalsh(mass)[0] > 1e-8 * np.linalg.eigvalsh(mass)[-1]

    check()


def inverse_dynamics(rod, c, c_rate, second):
    call = KernelCall(rod, "momentum", "force", "bias")
    for own, values in ((call.c, c), (call.rate, c_rate), (call.acceleration, second)):
        np.asarray(own)[:] = values
    call.call()
    return call


def test_the_call_of_the_cycle_is_the_terms_with_stiffness_and_damping(both, monkeypatch):
    """In memory of its own; without a library it is the form in NumPy."""
    robot, rod = both
    monkeypatch.setattr(kernel, "library", lambda: None)
    plain = Rod(robot, nodes=16)
    for c, c_rate in states(robot):
        second = np.linspace(-100, 200, rod.n)
        terms, arrays = rod.terms(c, c_rate, second), rod.arrays
        held = arrays.stiffness @ c + arrays.damping @ c_rate
        for one in (rod, plain):
            found = inverse_dynamics(one, c, c_rate, second)
            close(np.asarray(found.momentum), terms.momentum, 1e-12)
            close(np.asarray(found.force), terms.force - held, 1e-11)
            close(np.asarray(found.bias), terms.bias + held, 1e-11)
        rigid = KernelCall(rod, "bias", elastic=False)
        np.asarray(rigid.c)[:] = c
        rigid.call()
        close(np.asarray(rigid.bias), -rod.terms(c, 0 * c).force, 1e-12)
        assert not np.asarray(rigid.momentum).any()


def test_forward_undoes_inverse(both):
    robot, rod = both
    for c, c_rate in states(robot):
        second = np.linspace(300, -200, rod.n)
        close(rod.acceleration(c, c_rate, inverse_dynamics(rod, c, c_rate, second).bias), second, 1e-8)


def test_rate_of_kinetic_energy_is_the_power(both):
    """Of loads, weight, stiffness and damping."""
    robot, rod = both
    for c, c_rate in states(robot):
        load = np.linspace(-0.02, 0.03, rod.n)
        second, step = rod.acceleration(c, c_rate, load), 1e-5

        def kinetic(t, c=c, c_rate=c_rate, second=second):
            rate = c_rate + t * second
            return rod.terms(c + t * c_rate + t**2 / 2 * second, rate).momentum @ rate / 2

        weight = rod.terms(c, 0 * c).force
        power = c_rate @ (load + weight - rod.arrays.stiffness @ c - rod.arrays.damping @ c_rate)
        scale = sum(abs(c_rate @ force) for force in (load, weight, rod.arrays.stiffness @ c)) + 1e-3
        np.testing.assert_allclose((kinetic(step) - kinetic(-step)) / (2 * step), power, atol=3e-4 * scale)


def test_nothing_happens_at_the_straight_configuration(both):
    """Every term is finite at c = 0 and is reached smoothly: odd and even parts shrink as they should."""
    robot, rod = both
    c, c_rate = next(iter(shapes(robot, 9, 1)))
    for name in ("mass", "force", "bias", "momentum_by_c", "pose"):

        def function(c, name=name):
            return getattr(rod.terms(c, c_rate), name)

        middle = function(0 * c)
        assert np.all(np.isfinite(middle))
        size = max(np.abs(function(1e-3 * c)).max(), np.abs(middle).max())
        for step in (1e-2, 1e-4, 1e-6):
            second_difference = function(step * c) - 2 * middle + function(-step * c)
            np.testing.assert_allclose(second_difference, 0, atol=(10 * step**2 + 1e-13) * size)


def test_damping_in_clarke_coordinates_is_d_theta_over_squared_radius(two_segment):
    """D_M = d_theta / r_d^2 (muhmann prints d_theta below (25))."""
    from_clarke = np.linalg.inv(clarke_from_curvature(two_segment))
    damping = from_clarke.T @ Rod(two_segment).arrays.damping @ from_clarke
    expected = np.repeat([s.bending_damping_nms / s.tendons.pitch_radius_m**2 for s in two_segment.segments], 2)
    np.testing.assert_allclose(damping, np.diag(expected), rtol=1e-12, atol=1e-12)


def test_stiffness_in_arc_parameters_is_ei_over_length(two_segment):
    segment = two_segment.segments[0]
    theta = 0.7
    force = Rod(two_segment).arrays.stiffness @ [0, theta / segment.length_m, 0, 0]
    np.testing.assert_allclose(force[1] / segment.length_m, segment.backbone.bending_stiffness_nm2 / 0.2 * theta)


def test_chebyshev_with_higher_coefficients_zero_is_the_constant_basis():
    """The order only adds directions: the terms of the constant basis are those of its first coefficients."""
    low, high = Rod(uneven(), nodes=16), Rod(with_basis(uneven(), (2, 0, 1)), nodes=16)
    kept = [0, 1, 6, 7, 8, 9]
    c, c_rate = next(iter(shapes(uneven(), 11, 1)))
    wide, wide_rate = np.zeros(high.n), np.zeros(high.n)
    wide[kept], wide_rate[kept] = c, c_rate
    many, few = high.terms(wide, wide_rate), low.terms(c, c_rate)
    close(many.mass[np.ix_(kept, kept)], few.mass, 1e-9)
    close(many.force[kept], few.force, 1e-9)
    close(many.bias[kept], few.bias, 1e-9)
    close(high.displacement(wide), low.displacement(c), 1e-12)


def test_arguments_of_the_wrong_size_are_refused(two_segment):
    rod = Rod(two_segment)
    with pytest.raises(ParameterError, match="4 finite numbers"):
        rod.acceleration(np.zeros(3), np.zeros(4), np.zeros(4))
    with pytest.raises(ParameterError, match="force"):
        rod.acceleration(np.zeros(4), np.zeros(4), np.zeros(5))
