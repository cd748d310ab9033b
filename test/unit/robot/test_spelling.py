# SPDX-License-Identifier: Apache-2.0
"""A robot is what its functions are: the same strains and paths by other names are the same robot."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from robot_files import changed_robot, made, robot_values

from continuum_robot.errors import RobotFileError
from continuum_robot.estimation.observability import coefficient_names
from continuum_robot.identification.robot_file import _straighten
from continuum_robot.robot.basis import Basis
from continuum_robot.robot.file.shipped_files import shipped_robots
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.segments.routing import HelicalRouting, HolesRouting, PolynomialRouting, StraightRouting
from continuum_robot.robot.segments.tendons import String, Tendons
from continuum_robot.rod.description import RodDescription
from continuum_robot.rod.rod import Rod
from continuum_robot.rod.tendons import controlled_manifold
from continuum_robot.simulation.plant import Plant

RODS = [name for name in shipped_robots() if load_robot(name).segments]


def with_bases(robot, basis_of):
    segments = tuple(dataclasses.replace(one, basis=basis_of(one.basis)) for one in robot.segments)
    return dataclasses.replace(robot, segments=segments)


def respelt(basis, kind="chebyshev"):
    return Basis(kind=kind, bending_order=basis.order) if basis.bending_alone else basis


@pytest.mark.parametrize("name", RODS)
def test_each_shipped_robot_is_the_same_by_another_spelling_of_its_basis(name):
    robot = load_robot(name)
    other = with_bases(robot, respelt)
    assert other.traits == robot.traits
    assert coefficient_names(other) == coefficient_names(robot)
    c = 0.3 * np.cos(np.arange(robot.coefficient_count))
    one, two = Rod(robot), Rod(other)
    for value in ("displacement", "displacement_gradient"):
        np.testing.assert_array_equal(getattr(two, value)(c), getattr(one, value)(c))
        np.testing.assert_array_equal(getattr(two.strings, value)(c), getattr(one.strings, value)(c))
    terms = [rod.terms(c, 2 * c) for rod in (one, two)]
    for value in ("momentum", "force", "mass", "momentum_by_c", "force_by_c"):
        np.testing.assert_array_equal(getattr(terms[1], value), getattr(terms[0], value))
    mine, theirs = RodDescription.of_robot(robot), RodDescription.of_robot(other)
    np.testing.assert_array_equal(theirs.stiffness, mine.stiffness)
    np.testing.assert_array_equal(theirs.damping, mine.damping)
    np.testing.assert_array_equal(
        controlled_manifold(other).displacement_matrix, controlled_manifold(robot).displacement_matrix
    )


@pytest.mark.parametrize("kind", ["chebyshev", "legendre", "b_spline", "piecewise_constant"])
def test_constant_bending_moves_alike_by_any_name(kind):
    robot = load_robot("opencr_five_tendon")
    ends = []
    for one in (robot, with_bases(robot, lambda basis: respelt(basis, kind))):
        plant = Plant(one, actuation="ideal")
        plant.advance([8.0, 2.0, 3.0, 4.0, 5.0], 0.02)
        ends.append((type(plant._body), plant.c.tolist()))
    assert ends[0] == ends[1]


def test_other_functions_for_the_same_curvatures_are_the_same_kind_of_rod():
    robot = load_robot("vanderbilt_segment")
    other = with_bases(robot, lambda basis: Basis(kind="legendre", bending_order=basis.order))
    assert other.traits == robot.traits
    shown = [Rod(one) for one in (robot, other)]
    compliant = [rod.displacement_gradient(np.zeros(rod.n)) for rod in shown]
    compliance = [J @ np.linalg.solve(rod.arrays.stiffness, J.T) for J, rod in zip(compliant, shown, strict=True)]
    np.testing.assert_allclose(compliance[1], compliance[0], rtol=1e-12, atol=1e-16)


PARALLEL = {
    "a helix without turns": (HelicalRouting(turns=0.0), 0.009, 0.3),
    "polynomials of 0": (PolynomialRouting(angle_coefficients=(0.0, 0.0)), 0.009, 0.3),
    "holes at one angle": (HolesRouting(arc_lengths_m=(0.0, 0.1), angles_rad=(0.0, 0.0)), 0.009, 0.3),
    "holes aside": (HolesRouting(arc_lengths_m=(0.0, 0.1), angles_rad=(0.5, 0.5), radii_m=(0.008, 0.008)), 0.008, 0.8),
}


@pytest.mark.parametrize("name", PARALLEL)
def test_parallel_tendons_are_parallel_by_any_name(name):
    routing, radius_m, angle_rad = PARALLEL[name]
    tendons = Tendons(count=3, pitch_radius_m=0.009, angle_offset_rad=0.3, routing=routing)
    assert tendons == Tendons(count=3, pitch_radius_m=radius_m, angle_offset_rad=angle_rad)
    assert tendons.routing == StraightRouting()
    robot = load_robot("opencr_five_tendon")
    string = String(name="one", anchor_m=robot.length_m, pitch_radius_m=0.009, angle_rad=0.3, routing=routing)
    given = dataclasses.replace(
        robot, segments=(dataclasses.replace(robot.segments[0], tendons=tendons),), strings=(string,), hardware=None
    )
    assert not given.traits.without_clarke
    assert not given.traits.nonlinear_lengths
    rod, c = Rod(given), np.array([3.0, -2.0])
    x, y = radius_m * math.cos(angle_rad), radius_m * math.sin(angle_rad)
    extended = given.length_m * (c[1] * x - c[0] * y)
    assert rod.strings.displacement(c)[0] == pytest.approx(extended, rel=1e-12)
    assert rod.displacement(c)[0] == pytest.approx(extended, rel=1e-12)


def test_a_fitted_angle_is_written_beside_no_routing_that_would_turn_it_again():
    holes = {"kind": "holes", "arc_lengths_m": [0.0], "angles_rad": [0.5]}
    mapping = robot_values({"segments[0].tendons.routing": holes})
    robot = made(mapping)
    _straighten(mapping, robot)
    assert "routing" not in mapping["segments"][0]["tendons"]
    assert made(mapping).segments == robot.segments


def test_a_path_that_turns_more_often_than_any_tendon_is_refused():
    routing = {"kind": "polynomial", "angle_coefficients": [1.0e6]}
    with pytest.raises(RobotFileError, match="at most 100 times"):
        changed_robot({"segments[0].tendons.routing": routing}, "rucker_helical")
