# SPDX-License-Identifier: Apache-2.0
import math

import casadi as ca
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rod_oracle import integrated_poses
from rod_robots import load_robot, shapes, uneven, with_basis

from continuum_robot.errors import ParameterError
from continuum_robot.geometry.arcs import backbone_poses
from continuum_robot.rod.dynamics import RodDynamics
from continuum_robot.rod.exponential import exponential, stumpff, stumpff_around, tangent, tangent_coefficients
from continuum_robot.rod.moving_chain import CONSTANT_REACH_RAD, SegmentSteps


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


@given(angle=st.floats(0, CONSTANT_REACH_RAD))
@settings(deadline=None)
def test_stumpff_functions_are_right_to_double_precision_up_to_the_reach(angle):
    np.testing.assert_allclose(stumpff(angle**2, CONSTANT_REACH_RAD), exact_stumpff(angle), rtol=0, atol=1e-14)


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


@pytest.mark.parametrize(("orders", "tolerance"), [((0, 0), 1e-11), ((2, 0), 1e-6), ((3, 4), 1e-6)])
def test_poses_solve_the_rod_equations(orders, tolerance):
    robot = with_basis(load_robot("two_segment"), orders)
    dynamics = RodDynamics(robot, compile="never")
    places = np.array([0.03, 0.11, 0.2])
    for c, _ in shapes(robot, 3, 4):
        for index in (0, 1):
            expected = integrated_poses(robot, c, index, places)
            np.testing.assert_allclose(dynamics.poses(c, 0.2 * index + places), expected, atol=tolerance)


def test_steps_are_of_sixth_order():
    robot = with_basis(load_robot("two_segment"), 3, 1)
    segment = robot.segments[0]
    c = np.array([3.0, -5.0, 4.0, 6.0, -3.0, 2.0, 2.0, 4.0])
    exact = integrated_poses(robot, c, 0, [segment.length_m])[0]
    own = ca.SX.sym("c", len(c))
    steps = SegmentSteps(segment, own)
    errors = []
    for count in (4, 8, 16):
        pose = np.eye(4)
        for frame in steps.frames(segment.length_m * np.arange(1, count + 1) / count):
            step = np.eye(4)
            rotation, position = ca.Function("frame", [own], list(frame))(c)
            step[:3, :3], step[:3, 3] = np.array(rotation), np.array(position).ravel()
            pose = pose @ step
        errors.append(np.abs(pose - exact).max())
    assert errors[0] / errors[1] > 40
    assert errors[1] / errors[2] > 50


def test_bending_past_half_a_turn_is_exact(virtual):
    """3.6 rad on the distal segment: the largest bending of muhmann's trajectory."""
    phi, theta = np.array([0.4, -2.0]), np.array([2.5, 3.6])
    c = np.ravel([theta / 0.2 * -np.sin(phi), theta / 0.2 * np.cos(phi)], order="F")
    places = np.linspace(0, 0.4, 9)
    expected = backbone_poses(phi, theta, np.array([0.2, 0.2]), places)
    np.testing.assert_allclose(virtual.poses(c, places), expected, atol=1e-13)


def test_straight_is_exact(virtual):
    poses = virtual.poses(np.zeros(4), [0.0, 0.1, 0.4])
    np.testing.assert_array_equal(poses[:, :3, :3], np.broadcast_to(np.eye(3), (3, 3, 3)))
    np.testing.assert_allclose(poses[:, :3, 3], [[0, 0, 0], [0, 0, 0.1], [0, 0, 0.4]], atol=1e-16)


def test_bending_towards_x_is_positive_curvature_about_y(virtual):
    tip = virtual.poses([0, 1.0, 0, 0], 0.4)[0]
    assert tip[0, 3] > 0.01
    assert tip[1, 3] == 0


@pytest.mark.parametrize("orders", [(0, 0, 0), (1, 0, 2)])
@pytest.mark.parametrize("scale", [0.0, 1e-7, 1.0])
def test_body_jacobian_against_central_differences(orders, scale):
    robot = with_basis(uneven(), orders)
    dynamics = RodDynamics(robot, compile="never")
    for c, _ in shapes(robot, 5, 3):
        point = scale * c
        for s in (0.05, 0.23, robot.length_m):
            pose = dynamics.poses(point, s)[0]
            columns = []
            for k in range(dynamics.size):
                step = np.zeros(dynamics.size)
                step[k] = 1e-4
                change = (dynamics.poses(point + step, s)[0] - dynamics.poses(point - step, s)[0]) / 2e-4
                turn = pose[:3, :3].T @ change[:3, :3]
                columns.append([*(pose[:3, :3].T @ change[:3, 3]), turn[2, 1], turn[0, 2], turn[1, 0]])
            np.testing.assert_allclose(dynamics.body_jacobian(point, s), np.array(columns).T, atol=2e-9)


def test_arc_lengths_outside_the_robot_are_refused(virtual):
    for s in (-1e-3, 0.401, math.nan):
        with pytest.raises(ParameterError, match=r"s = .*arc lengths in \[0, 0\.4\] m"):
            virtual.poses(np.zeros(4), s)


def test_bending_beyond_the_reach_is_refused(virtual):
    virtual.check_reach([0, 2 * math.pi / 0.2, 0, 0])
    with pytest.raises(ParameterError, match="bending angle of distal"):
        virtual.check_reach([0, 0, 40.0, 0])
    with pytest.raises(ParameterError, match="bending angle of proximal"):
        virtual.check_reach([math.nan, 0, 0, 0])
