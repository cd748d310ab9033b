# SPDX-License-Identifier: Apache-2.0
"""Rods with strains of other families: the same space gives the same rod, pieces are a chain of short segments."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from continuum_robot.robot.basis import Basis
from continuum_robot.robot.loading import load_robot
from continuum_robot.rod.description import RodDescription
from continuum_robot.rod.loads import PointWrench
from continuum_robot.rod.rod import Rod

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
