# SPDX-License-Identifier: Apache-2.0
import math

import casadi as ca
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from continuum_robot.rod.exponential import exponential, stumpff, stumpff_around, tangent, tangent_coefficients

REACH_RAD = 2 * math.pi


def exact_stumpff(angle):
    """c_1, c_2, c_3 by alternating series with exact factorials for small angles, by definition for large ones."""
    if angle < 0.5:
        return [
            math.fsum((-1) ** k * angle ** (2 * k) / math.factorial(2 * k + index) for k in range(12))
            for index in (1, 2, 3)
        ]
    return [
        math.sin(angle) / angle,
        2 * math.sin(angle / 2) ** 2 / angle**2,
        (angle - math.sin(angle)) / angle**3,
    ]


@given(angle=st.floats(0, REACH_RAD))
@settings(deadline=None)
def test_stumpff_functions_are_right_to_double_precision_up_to_the_reach(angle):
    np.testing.assert_allclose(stumpff(angle**2, REACH_RAD), exact_stumpff(angle), rtol=0, atol=1e-14)


@given(angle=st.floats(0, 1.6))
@settings(deadline=None)
def test_stumpff_functions_of_a_short_reach(angle):
    np.testing.assert_allclose(stumpff(angle**2, 1.6), exact_stumpff(angle), rtol=0, atol=5e-16)


def test_functions_around_a_symbol_have_the_same_value_and_derivatives():
    c = ca.SX.sym("c", 2)
    plain = ca.vertcat(*stumpff(ca.dot(c, c), 6.0))
    here = ca.SX.sym("here")
    short = ca.vertcat(*stumpff_around(ca.dot(c, c), here, 6.0))

    def derivatives(value):
        first = ca.jacobian(value, c)
        return [value, first, ca.jacobian(first, c)]

    long_way = ca.Function("f", [c], derivatives(plain))
    short_way = ca.Function("f", [c], ca.substitute(derivatives(short), [here], [ca.dot(c, c)]))
    for point in ([0, 0], [1e-9, -1e-8], [0.3, 0.7], [-3.0, 5.0]):
        for one, other in zip(long_way(point), short_way(point), strict=True):
            np.testing.assert_allclose(np.array(one), np.array(other), atol=1e-12)


@pytest.mark.parametrize("sign", [1, -1])
def test_the_tangent_of_the_exponential_is_its_derivative(sign):
    """The closed form, and its own derivative, against those of the rotation matrix and the position."""
    omega, rate, here = ca.SX.sym("omega", 6), ca.SX.sym("rate", 6), ca.SX.sym("here")
    square = ca.sumsqr(omega[:3])
    turn, shift = exponential(omega, stumpff(square, 3.0))
    spin = ca.jtimes(turn, omega, rate) @ turn.T
    velocity = ca.jtimes(shift, omega, rate)
    if sign > 0:
        expected = ca.vertcat(ca.inv_skew(spin), velocity - ca.cross(ca.inv_skew(spin), shift))
    else:
        expected = ca.vertcat(turn.T @ ca.inv_skew(spin), turn.T @ velocity)
    found = tangent(omega, tangent_coefficients(square, here, 3.0), sign) @ rate
    by_omega = ca.substitute([found, ca.jacobian(found, omega)], [here], [square])
    functions = [
        ca.Function("f", [omega, rate], list(values)) for values in (by_omega, [expected, ca.jacobian(expected, omega)])
    ]
    rng = np.random.default_rng(2)
    for size in (0.0, 1e-7, 0.3, 1.2):
        point = size * rng.normal(size=6)
        for one, other in zip(*(f(point, [1, -2, 3, 0.5, 4, -1]) for f in functions), strict=True):
            np.testing.assert_allclose(np.array(one), np.array(other), atol=1e-12)
