# SPDX-License-Identifier: Apache-2.0
"""Rods whose strains have bases of their own: frames, families, lengths of tendons, loads."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from strain_rods import LENGTH_M, basis, cantilever, crooked_rod, derivative, path, rest, some_coefficients

from continuum_robot.errors import ParameterError
from continuum_robot.geometry import se3
from continuum_robot.robot.basis import Basis
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.segments.routing import HelicalRouting, HolesRouting, PolynomialRouting
from continuum_robot.rod.description import RodDescription
from continuum_robot.rod.loads import DistributedLoad, PointWrench
from continuum_robot.rod.rod import Rod
from continuum_robot.rod.statics import Balance

# --- frames of the general rod: exact derivatives, known curves, order of convergence


def test_constant_strain_gives_one_exponential():
    rod = cantilever(basis(0))
    c = np.array([5.0, -3.0, 8.0, 0.05, -0.02, 0.1])
    twist = np.array([0.05, -0.02, 1.1, 5.0, -3.0, 8.0])
    for s in (0.0, 0.1, rod.length_m):
        np.testing.assert_allclose(rod.poses(c, s)[0], se3.exp(s * twist), atol=1e-14)


def test_error_falls_with_the_sixth_power_of_the_step():
    chosen = basis(4, shear_order=None, extension_order=None)
    c = some_coefficients(cantilever(chosen), 4, 2.0)
    exact = cantilever(chosen, nodes=48).poses(c, 0.25)[0]
    errors = [np.abs(cantilever(chosen, nodes=k).poses(c, 0.25)[0] - exact).max() for k in (8, 12, 16, 24)]
    assert errors[0] / errors[2] > 45
    assert errors[1] / errors[3] > 45
    assert errors[3] < 1e-6


def test_more_stations_hardly_move_the_frames():
    rod = crooked_rod()
    c = some_coefficients(rod, 5, 0.5)
    alone = rod.poses(c, [rod.length_m])[0]
    among = rod.poses(c, [*np.linspace(0, rod.length_m, 37), rod.length_m])[-1]
    np.testing.assert_allclose(alone, among, atol=1e-6)
    assert 1e-11 < rod.error_m(c) < 1e-6


def test_body_jacobian_moves_the_pose():
    rod = crooked_rod()
    c, step = some_coefficients(rod, 6), 1e-6
    jacobian = rod.jacobian(c, 0.33)
    pose = rod.poses(c, 0.33)[0]
    for index, unit in enumerate(np.eye(rod.n)):
        moved = rod.poses(c + step * unit, 0.33)[0]
        twist = se3.log(se3.inverse(pose) @ moved) / step
        np.testing.assert_allclose(twist, jacobian[:, index], atol=2e-6)


@pytest.mark.parametrize("s", [-0.01, 0.51, np.nan])
def test_places_off_the_rod_are_refused(s):
    rod = crooked_rod()
    with pytest.raises(ParameterError, match="arc_lengths_m"):
        rod.poses(np.zeros(rod.n), s)


@pytest.mark.parametrize("wrong", [[0.0], np.full(15, np.nan)])
def test_wrong_coefficients_are_refused(wrong):
    with pytest.raises(ParameterError, match="finite numbers"):
        crooked_rod().poses(wrong, 0.1)


@pytest.mark.parametrize("name", ["opencr_five_tendon", "vanderbilt_segment", "rucker"])
def test_bending_beyond_the_reach_of_the_frames_is_refused(name):
    rod = Rod(load_robot(name))
    length_m, straight = rod.description.segments[0].length_m, np.zeros(rod.n)
    for angle_rad in np.linspace(2.0, 60.0, 30):
        c = straight.copy()
        c[1] = angle_rad / length_m
        try:
            pose = rod.poses(c, [length_m])[0]
        except ParameterError:
            break
        np.testing.assert_allclose(pose[:3, :3] @ pose[:3, :3].T, np.eye(3), atol=1e-10)
        turned = [1 - np.cos(angle_rad), 0.0, np.sin(angle_rad)]
        np.testing.assert_allclose(pose[:3, 3], length_m / angle_rad * np.array(turned), atol=1e-10)
    else:
        pytest.fail("nothing was refused")
    assert angle_rad > 15
    for refuse in (lambda: rod.poses(c, [length_m]), lambda: rod.moved(c), lambda: rod.jacobian(c, length_m / 3)):
        with pytest.raises(ParameterError, match="bending and torsion of segment 1"):
            refuse()


def test_statics_that_bend_beyond_the_reach_are_refused():
    robot = load_robot("opencr_five_tendon")
    rod = Rod(robot).with_gravity([0.0, 0.0, 0.0])
    with pytest.raises(ParameterError, match="at most"):
        rest(rod, [45.0, 0.0, 0.0, 0.0, 0.0], start=[0.0, 400.0])


# --- rods with strains of other families: the same space gives the same rod, pieces are a chain of short segments


ROBOT = load_robot("rucker_helical")
TENSION_N = [3.0, 0.5, 1.0, 0.5]
PIECES = 4


def rod_of(basis: Basis, pieces: int = 1, nodes: int | None = None) -> Rod:
    """The helical robot with another basis, or cut into equal segments of it."""
    rod = RodDescription.of_robot(
        ROBOT.changed(segments=tuple(dataclasses.replace(one, basis=basis) for one in ROBOT.segments))
    )
    (segment,) = rod.segments
    part = dataclasses.replace(segment, length_m=segment.length_m / pieces)
    return Rod(dataclasses.replace(rod, segments=(part,) * pieces), nodes=nodes)


def basis_of(kind: str, order: int) -> Basis:
    return Basis(kind=kind, bending_order=order, torsion_order=order, extension_order=order)


def bent(rod: Rod) -> np.ndarray:
    """Places along the rod under tensions and a push beside a break."""
    push = PointWrench(s_m=0.4 * rod.length_m, force_n=(0.3, -0.2, 0.1))
    found = rod.loaded([push]).equilibrium(TENSION_N)
    return rod.poses(found.c, np.linspace(0.0, rod.length_m, 9))[:, :3, 3]


@pytest.mark.parametrize(("kind", "order"), [("legendre", 4), ("b_spline", 3), ("b_spline", 1)])
def test_functions_that_span_the_same_space_give_the_same_rod(kind, order):
    one, other = rod_of(basis_of("chebyshev", order)), rod_of(basis_of(kind, order))
    np.testing.assert_allclose(bent(one), bent(other), atol=1e-9)
    to_other = np.linalg.solve(samples(other), samples(one))
    c = np.random.default_rng(0).normal(0.0, 0.3, one.n)
    np.testing.assert_allclose(to_other.T @ mass(other, to_other @ c) @ to_other, mass(one, c), atol=1e-9)
    np.testing.assert_allclose(other.lengths(to_other @ c).length_m, one.lengths(c).length_m, atol=1e-12)


def mass(rod: Rod, c: np.ndarray) -> np.ndarray:
    return rod.terms(c, np.zeros(rod.n)).mass


def samples(rod: Rod) -> np.ndarray:
    """Strains by coefficients, at as many places as a strain has functions."""
    count = rod.description.segments[0].basis.highest_order + 1
    places = rod.length_m * (np.arange(count) + 0.5) / count
    at = rod.stations(places)
    strains = [at.strains(c) - at.strains(np.zeros(rod.n)) for c in np.eye(rod.n)]
    return np.array([strain[:, [0, 1, 2, 5]].ravel() for strain in strains]).T


def test_pieces_of_constant_strain_are_a_chain_of_segments():
    one = rod_of(basis_of("piecewise_constant", PIECES - 1), nodes=12)
    chain = rod_of(basis_of("chebyshev", 0), PIECES, nodes=12)
    np.testing.assert_allclose(bent(one), bent(chain), atol=1e-8)
    # There coefficients come piece by piece, here strain by strain.
    rows = np.array(one.description.segments[0].basis.rows)
    places = [np.flatnonzero(rows == row)[piece] for piece in range(PIECES) for row in (0, 1, 2, 5)]
    c = np.random.default_rng(1).normal(0.0, 0.3, one.n)
    np.testing.assert_allclose(mass(one, c)[np.ix_(places, places)], mass(chain, c[places]), atol=1e-10)
    np.testing.assert_allclose(one.lengths(c).length_m, chain.lengths(c[places]).length_m, atol=1e-10)
    np.testing.assert_allclose(one.arrays.stiffness[np.ix_(places, places)], chain.arrays.stiffness, rtol=1e-12)


@pytest.mark.parametrize("kind", ["legendre", "b_spline", "piecewise_constant"])
def test_derivatives_are_those_of_the_energies(kind):
    rod = rod_of(basis_of(kind, 5))
    c = np.random.default_rng(2).normal(0.0, 0.2, rod.n)
    step = 1e-6
    for j in (0, 3, rod.n - 1):
        e = step * np.eye(rod.n)[j]
        slope = (rod.lengths(c + e).length_m - rod.lengths(c - e).length_m) / (2 * step)
        np.testing.assert_allclose(-rod.displacement_gradient(c)[:, j], slope, atol=1e-8)
        moved = (rod.poses(c + e, [rod.length_m])[0, :3, 3] - rod.poses(c - e, [rod.length_m])[0, :3, 3]) / (2 * step)
        turn = rod.poses(c, [rod.length_m])[0, :3, :3]
        np.testing.assert_allclose(turn @ rod.jacobian(c, rod.length_m)[:3, j], moved, atol=1e-8)


# --- tendon lengths and loads of the general rod: derivatives, closed forms, agreement with the bending model


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
