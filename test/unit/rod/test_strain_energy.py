# SPDX-License-Identifier: Apache-2.0
"""Tendon lengths and loads of the general rod: derivatives, closed forms, agreement with the bending model."""

from __future__ import annotations

import math

import numpy as np
import pytest
from strain_rods import LENGTH_M, basis, cantilever, crooked_rod, derivative, path, some_coefficients

from continuum_robot.errors import ParameterError
from continuum_robot.robot.segments.routing import HelicalRouting, HolesRouting, PolynomialRouting
from continuum_robot.rod.description import RodDescription
from continuum_robot.rod.loads import DistributedLoad, PointWrench
from continuum_robot.rod.statics import Balance

TENSION = np.array([1.0, 2.0, 0.5, 3.0])
LOADS = (
    PointWrench(s_m=0.4, force_n=(1.0, 2.0, 3.0), moment_nm=(0.1, 0.2, 0.3)),
    PointWrench(s_m=0.5, force_n=(1, 2, 3), moment_nm=(0.1, 0.2, 0.3), frame="body", offset_m=(0.01, 0.02, 0.1)),
    DistributedLoad(force_n_per_m=lambda s: (s, 1.0, 0.0), moment_n=(0.1, 0, 0), start_m=0.1, end_m=0.45, frame="body"),
)


@pytest.mark.parametrize("turn", [0.01, 1.0, 3.0])
def test_tendons_and_loads_have_their_gradient_and_hessian(turn):
    rod = crooked_rod(loads=LOADS, nodes=24)
    c, plain = some_coefficients(rod, 1, turn), crooked_rod(nodes=24)
    lengths = rod.lengths(c)
    np.testing.assert_allclose(lengths.gradient, derivative(lambda x: rod.lengths(x).length_m, c), atol=1e-12)
    for one in (rod, plain):
        balance = Balance(one)
        state = balance.pulled(c, TENSION)

        def force(x, balance=balance):
            return balance.root @ balance.pulled(x, TENSION).force

        exact = derivative(force, c)
        np.testing.assert_allclose(state.own_hessian, exact, atol=1e-8 * np.abs(exact).max())
    slope = derivative(lambda x: balance.pulled(x, TENSION).energy, c)
    np.testing.assert_allclose(force(c), slope, atol=1e-8 * np.abs(slope).max())
    assert plain.conservative
    assert not rod.conservative


def test_length_of_a_helix():
    rod = cantilever(basis(0), (path(HelicalRouting(turns=2.0)),))
    rate = 2 * math.pi * 2.0 / LENGTH_M * 0.008
    np.testing.assert_allclose(rod.lengths(np.zeros(6)).length_m, LENGTH_M * math.sqrt(1 + rate**2), rtol=1e-12)
    # Torsion that unwinds it makes it straight.
    unspooled = np.array([0, 0, -2 * math.pi * 2.0 / LENGTH_M, 0, 0, 0])
    np.testing.assert_allclose(rod.lengths(unspooled).length_m, LENGTH_M, rtol=1e-12)


def test_a_straight_tendon_on_a_twisted_rod_is_a_helix():
    rod = cantilever(basis(0), (path(),))
    np.testing.assert_allclose(
        rod.lengths([0, 0, 12.0, 0, 0, 0.1]).length_m, LENGTH_M * math.hypot(1.1, 12.0 * 0.008), rtol=1e-13
    )


def test_length_through_holes_is_a_sum_of_chords():
    holes = HolesRouting(arc_lengths_m=(0.05, 0.10, 0.20), angles_rad=(0.0, 0.8, 0.2), radii_m=(0.008, 0.006, 0.007))
    rod = cantilever(basis(0), (path(holes, 0.4),))
    angles, radii = 0.4 + np.array(holes.angles_rad), np.array(holes.radii_m)
    points = np.stack([radii * np.cos(angles), radii * np.sin(angles), np.array(holes.arc_lengths_m)], axis=1)
    expected = 0.05 + np.linalg.norm(np.diff(points, axis=0), axis=1).sum() + LENGTH_M - 0.20
    np.testing.assert_allclose(rod.lengths(np.zeros(6)).length_m, expected, rtol=1e-13)


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


def test_a_distributed_load_is_the_sum_of_its_parts():
    load = DistributedLoad(force_n_per_m=(1.0, -2.0, 0.5), start_m=0.05, end_m=0.42)
    whole, plain = crooked_rod(loads=[load]), crooked_rod()
    c = some_coefficients(whole, 6)
    count = 400
    width = 0.37 / count
    parts = crooked_rod(
        loads=[
            PointWrench(s_m=0.05 + (k + 0.5) * width, force_n=(1.0 * width, -2.0 * width, 0.5 * width))
            for k in range(count)
        ]
    )
    still = np.zeros(whole.n)
    weight, summed, found = (rod.terms(c, still).force for rod in (plain, parts, whole))
    np.testing.assert_allclose(found - weight, summed - weight, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(whole.arrays.body[:, 13:16].sum(axis=0), [0.37, -0.74, 0.185])


def test_loads_change_at_their_places():
    first = PointWrench(s_m=0.3, force_n=(1.0, 0.0, 0.0), offset_m=(0.0, 0.01, 0.0))
    rod = crooked_rod(loads=[first, PointWrench(s_m=0.3, moment_nm=(0.1, 0.0, 0.0), frame="body")])
    second = PointWrench(s_m=0.3, force_n=(0.0, 2.0, 0.0), offset_m=(0.0, 0.01, 0.0))
    c, still = some_coefficients(rod, 7), np.zeros(rod.n)
    rod.load([second])
    np.testing.assert_allclose(rod.terms(c, still).force, crooked_rod(loads=[second]).terms(c, still).force, rtol=1e-6)
    with pytest.raises(ParameterError, match="loads"):
        rod.load([PointWrench(s_m=0.31, force_n=(1.0, 0.0, 0.0))])


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: PointWrench(s_m=0.1, frame="world"),
        lambda: PointWrench(s_m=0.1, force_n=(1.0, math.nan, 0.0)),
        lambda: PointWrench(s_m=0.1, moment_nm=(1.0, 2.0)),
        lambda: DistributedLoad(force_n_per_m=(math.inf, 0, 0)),
        lambda: crooked_rod(loads=[DistributedLoad(start_m=0.3, end_m=0.1)]),
        lambda: crooked_rod(loads=[DistributedLoad(end_m=0.6)]),
        lambda: crooked_rod(loads=[PointWrench(s_m=0.6, force_n=(1.0, 0, 0))]),
        lambda: cantilever(basis(0), (path(end_m=0.3),)),
        lambda: RodDescription(segments=()),
    ],
)
def test_wrong_loads_and_paths_are_refused(wrong):
    with pytest.raises(ParameterError):
        wrong()
