# SPDX-License-Identifier: Apache-2.0
"""Tendon lengths and loads of the general rod: derivatives, closed forms, agreement with the bending model."""

from __future__ import annotations

import math

import numpy as np
import pytest
from strain_rods import LENGTH_M, basis, cantilever, crooked_rod, derivative, path, some_coefficients, rest

from continuum_robot.errors import ParameterError
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.segments.routing import HelicalRouting, HolesRouting, PolynomialRouting
from continuum_robot.rod.dynamics import RodDynamics
from continuum_robot.rod.loads import DistributedLoad, PointWrench
from continuum_robot.rod.strain.loaded_chain import LoadedChain
from continuum_robot.rod.strain.problem import StaticProblem
from continuum_robot.rod.rod import Rod

TENSION = np.array([1.0, 2.0, 0.5, 3.0])
LOADS = (
    PointWrench(s_m=0.4, force_n=(1.0, 2.0, 3.0), moment_nm=(0.1, 0.2, 0.3)),
    PointWrench(s_m=0.5, force_n=(1, 2, 3), moment_nm=(0.1, 0.2, 0.3), frame="body", offset_m=(0.01, 0.02, 0.1)),
    DistributedLoad(force_n_per_m=lambda s: (s, 1.0, 0.0), moment_n=(0.1, 0, 0), start_m=0.1, end_m=0.45, frame="body"),
)


@pytest.mark.parametrize("turn", [0.01, 1.0, 3.0])
def test_lengths_have_their_gradient_and_hessian(turn):
    rod = crooked_rod()
    c = some_coefficients(rod, 1, turn)
    lengths, jacobian, gradient, hessian = rod.tendons.weighted(c, TENSION)
    np.testing.assert_allclose(lengths, rod.tendons.lengths(c), rtol=1e-14)
    np.testing.assert_allclose(jacobian, derivative(rod.tendons.lengths, c), atol=1e-12)
    np.testing.assert_allclose(gradient, TENSION @ jacobian, atol=1e-14)
    exact = derivative(lambda x: rod.tendons.weighted(x, TENSION)[2], c)
    np.testing.assert_allclose(hessian, exact, atol=1e-10 * np.abs(exact).max())


@pytest.mark.parametrize("turn", [0.01, 1.0, 3.0])
def test_loads_have_their_gradient_and_stiffness(turn):
    rod = crooked_rod()
    c = some_coefficients(rod, 2, turn)
    every = LoadedChain(rod, [*rod.weight, *LOADS])
    terms = every.terms(c)
    exact = -derivative(lambda x: every.terms(x).force, c)
    np.testing.assert_allclose(terms.stiffness, exact, atol=1e-9 * np.abs(exact).max())
    weight = LoadedChain(rod, rod.weight)
    terms = weight.terms(c)
    np.testing.assert_allclose(terms.force, -derivative(lambda x: weight.terms(x).potential_j, c), atol=1e-11)
    np.testing.assert_allclose(terms.stiffness, terms.stiffness.T, atol=1e-12)
    assert weight.conservative
    assert not every.conservative


def test_length_of_a_helix():
    rod = cantilever(basis(0), (path(HelicalRouting(turns=2.0)),))
    rate = 2 * math.pi * 2.0 / LENGTH_M * 0.008
    np.testing.assert_allclose(rod.tendon_lengths(np.zeros(6)), LENGTH_M * math.sqrt(1 + rate**2), rtol=1e-12)
    # Torsion that unwinds it makes it straight.
    unspooled = np.array([0, 0, -2 * math.pi * 2.0 / LENGTH_M, 0, 0, 0])
    np.testing.assert_allclose(rod.tendon_lengths(unspooled), LENGTH_M, rtol=1e-12)


def test_a_straight_tendon_on_a_twisted_rod_is_a_helix():
    rod = cantilever(basis(0), (path(),))
    np.testing.assert_allclose(
        rod.tendon_lengths([0, 0, 12.0, 0, 0, 0.1]), LENGTH_M * math.hypot(1.1, 12.0 * 0.008), rtol=1e-13
    )


def test_length_through_holes_is_a_sum_of_chords():
    holes = HolesRouting(arc_lengths_m=(0.05, 0.10, 0.20), angles_rad=(0.0, 0.8, 0.2), radii_m=(0.008, 0.006, 0.007))
    rod = cantilever(basis(0), (path(holes, 0.4),))
    angles, radii = 0.4 + np.array(holes.angles_rad), np.array(holes.radii_m)
    points = np.stack([radii * np.cos(angles), radii * np.sin(angles), np.array(holes.arc_lengths_m)], axis=1)
    expected = 0.05 + np.linalg.norm(np.diff(points, axis=0), axis=1).sum() + LENGTH_M - 0.20
    np.testing.assert_allclose(rod.tendon_lengths(np.zeros(6)), expected, rtol=1e-13)


def test_the_polynomial_path_is_that_of_equation_28():
    routing = PolynomialRouting(angle_coefficients=(6.0, 320.0, -2849.0, 5887.0))
    s = np.linspace(0, 0.242, 9)
    angle = 5887 * s**4 - 2849 * s**3 + 320 * s**2 + 6 * s
    x, y, x_slope, y_slope = path(routing, end_m=0.242).at(s)
    np.testing.assert_allclose([x, y], [0.008 * np.cos(angle), 0.008 * np.sin(angle)], atol=1e-15)
    step = 1e-7
    for slope, place in ((x_slope, 0), (y_slope, 1)):
        ahead, behind = (path(routing, end_m=0.242).at(s + d)[place] for d in (step, -step))
        np.testing.assert_allclose(slope, (ahead - behind) / (2 * step), atol=1e-8)


# Both at once: segments in a row, and a basis of higher order.
BOTH = pytest.param("vanderbilt_two_segment", marks=pytest.mark.long)


@pytest.mark.parametrize("name", ["two_segment", "vanderbilt_segment", BOTH])
def test_energies_of_a_robot_that_bends_alone_are_those_of_its_dynamics(name):
    robot = load_robot(name)
    bending = RodDynamics(robot, compile="never", rotational_energy=True, actuator_inertia=False)
    rod = Rod(robot, nodes=12)
    c = np.random.default_rng(5).normal(size=rod.n)
    energy, gradient, hessian = StaticProblem(rod).terms(c, np.zeros(rod.tendon_count))
    expected = bending.potential(c)
    at_rest = StaticProblem(rod).terms(np.zeros(rod.n), np.zeros(rod.tendon_count))[0]
    np.testing.assert_allclose(
        energy - at_rest, expected[0] - bending.potential(np.zeros(rod.n))[0], atol=1e-7 * abs(expected[0]) + 1e-9
    )
    np.testing.assert_allclose(gradient, expected[1], atol=5e-6 * np.abs(expected[1]).max())
    np.testing.assert_allclose(hessian, expected[2], atol=5e-6 * np.abs(expected[2]).max())
    np.testing.assert_allclose(rod.displacement_gradient(c), bending.displacement_gradient(), atol=1e-15)
    np.testing.assert_allclose(rod.displacement(c), bending.displacement(c), atol=1e-15)
    np.testing.assert_allclose(rod.strings.displacement(c), bending.strings.displacement(c), atol=1e-15)
    np.testing.assert_allclose(rod.strings.displacement_gradient(c), bending.symbolic.string_matrix, atol=1e-15)
    mass = bending.mass_matrix(c)
    np.testing.assert_allclose(rod.mass_matrix(c), mass, atol=5e-6 * np.abs(mass).max())


def test_a_distributed_load_is_the_sum_of_its_parts():
    rod = crooked_rod()
    c = some_coefficients(rod, 6)
    whole = LoadedChain(rod, [DistributedLoad(force_n_per_m=(1.0, -2.0, 0.5), start_m=0.05, end_m=0.42)]).terms(c)
    count = 400
    width = 0.37 / count
    parts = [
        PointWrench(s_m=0.05 + (k + 0.5) * width, force_n=(1.0 * width, -2.0 * width, 0.5 * width))
        for k in range(count)
    ]
    np.testing.assert_allclose(whole.force, LoadedChain(rod, parts).terms(c).force, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(whole.wrench[:, 3:].sum(axis=0), [0.37, -0.74, 0.185])


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: PointWrench(s_m=0.1, frame="world"),
        lambda: PointWrench(s_m=0.1, force_n=(1.0, math.nan, 0.0)),
        lambda: PointWrench(s_m=0.1, moment_nm=(1.0, 2.0)),
        lambda: DistributedLoad(force_n_per_m=(math.inf, 0, 0)),
        lambda: LoadedChain(crooked_rod(), [DistributedLoad(start_m=0.3, end_m=0.1)]),
        lambda: LoadedChain(crooked_rod(), [DistributedLoad(end_m=0.6)]),
        lambda: LoadedChain(crooked_rod(), [PointWrench(s_m=0.6, force_n=(1.0, 0, 0))]),
        lambda: cantilever(basis(0), (path(end_m=0.3),)),
        lambda: StrainRod([]),
    ],
)
def test_wrong_loads_and_paths_are_refused(wrong):
    with pytest.raises(ParameterError):
        wrong()
