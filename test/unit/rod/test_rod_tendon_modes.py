# SPDX-License-Identifier: Apache-2.0
"""Coordinates of tendons on any path: the modes of the rod's compliance to them."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

from continuum_robot.errors import ParameterError
from continuum_robot.geometry.tendon_modes import TendonModes
from continuum_robot.robot.coordinates import clarke_manifold
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.segments.routing import HelicalRouting, StraightRouting
from continuum_robot.robot.segments.tendons import RoutedTendon
from continuum_robot.rod.rod import Rod
from continuum_robot.rod.tendons import coefficients_from_clarke, controlled_manifold

GENERAL = ("rucker", "rucker_helical", "mixed_routing")


def compliance(robot):
    """From tensions to displacements and to the tip along x and y, at the straight rod."""
    rod = Rod(robot)
    straight = np.zeros(rod.n)
    J = rod.displacement_gradient(straight)
    compliant = np.linalg.solve(rod.arrays.stiffness, J.T)
    return J @ compliant, rod.jacobian(straight, rod.length_m)[:2] @ compliant


def with_tendons(robot, *tendons):
    """The rod with routed tendons alone: (angle, radius, end) each."""
    (segment,) = robot.segments
    return robot.changed(
        segments=(replace(segment, tendons=replace(segment.tendons, count=0, routing=StraightRouting())),),
        routed_tendons=tuple(
            RoutedTendon(name=f"tendon {k}", end_m=end, pitch_radius_m=radius, angle_rad=angle)
            for k, (angle, radius, end) in enumerate(tendons)
        ),
        actuators=None,
        limits=None,
        control=None,
        reference=None,
        hardware=None,
    )


@pytest.mark.parametrize("name", GENERAL)
def test_modes_are_forced_both_ways_and_told_from_all_tendons(name):
    robot = load_robot(name)
    modes = controlled_manifold(robot)
    assert modes.coordinate_count == robot.coordinate_count == 2 * len(robot.segments)
    assert modes.tendon_count == robot.tendon_count == len(robot.tendon_names)
    np.testing.assert_allclose(
        modes.clarke_matrix @ modes.displacement_matrix, np.eye(modes.coordinate_count), atol=1e-12
    )
    assert modes.shift_direction.min() > 0
    np.testing.assert_allclose(modes.displacement_matrix.T @ modes.shift_direction, 0, atol=1e-12)
    # A pair of unit length moves the tendon that it moves most by as much.
    for pair in np.split(modes.displacement_matrix, modes.segment_count, axis=1):
        assert np.linalg.norm(pair, axis=1).max() == pytest.approx(1.0)


@pytest.mark.parametrize("name", GENERAL)
def test_a_shape_of_a_coordinate_has_it_and_no_other_at_least_energy(name):
    robot = load_robot(name)
    rod, manifold, shape = Rod(robot), controlled_manifold(robot), coefficients_from_clarke(robot)
    onto = manifold.clarke_matrix @ rod.displacement_gradient(np.zeros(rod.n))
    np.testing.assert_allclose(onto @ shape, np.eye(manifold.coordinate_count), atol=1e-9)
    desired = 1e-3 * np.arange(1, manifold.coordinate_count + 1)
    scale = 1 / rod.scale
    found = minimize(
        lambda y: 0.5 * (scale * y) @ rod.arrays.stiffness @ (scale * y),
        scale * 0,
        jac=lambda y: scale * (rod.arrays.stiffness @ (scale * y)),
        constraints={
            "type": "eq",
            "fun": lambda y: 1e3 * (onto @ (scale * y) - desired),
            "jac": lambda _y: 1e3 * onto * scale,
        },
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-16},
    )
    energy = 0.5 * (shape @ desired) @ rod.arrays.stiffness @ (shape @ desired)
    assert found.fun == pytest.approx(energy, rel=1e-4)


@pytest.mark.parametrize("name", ["opencr_five_tendon", "vanderbilt_segment"])
def test_on_one_segment_with_parallel_tendons_they_are_the_clarke_coordinates(name):
    robot = load_robot(name)
    modes = TendonModes(*compliance(robot), 2)
    expected = clarke_manifold(robot)
    np.testing.assert_allclose(modes.displacement_matrix, expected.displacement_matrix, atol=1e-9)
    np.testing.assert_allclose(modes.clarke_matrix, expected.clarke_matrix, atol=1e-9)
    np.testing.assert_allclose(modes.shift_direction, expected.shift_direction, atol=1e-9)


def test_on_two_segments_they_span_the_clarke_manifold():
    robot = load_robot("two_segment")
    modes, expected = TendonModes(*compliance(robot), 4), clarke_manifold(robot)
    np.testing.assert_allclose(
        modes.displacement_matrix @ modes.clarke_matrix,
        expected.displacement_matrix @ expected.clarke_matrix,
        atol=1e-9,
    )


def test_unequal_angles_radii_and_ends_are_controlled_too():
    rod = load_robot("rucker_helical")
    robot = with_tendons(rod, (0.2, 0.008, 0.242), (1.9, 0.006, 0.242), (3.6, 0.007, 0.2), (4.9, 0.008, 0.15))
    modes = controlled_manifold(robot)
    assert robot.traits.without_clarke == "0 tendons around backbone"
    assert modes.shift_direction.min() > 0.05
    np.testing.assert_allclose(modes.displacement_matrix.T @ modes.shift_direction, 0, atol=1e-12)


def test_tendons_on_one_side_are_refused_with_what_is_missing():
    rod = load_robot("rucker_helical")
    with pytest.raises(ParameterError, match="one way only") as refused:
        controlled_manifold(with_tendons(rod, (0.0, 0.008, 0.242), (0.5, 0.008, 0.242), (1.0, 0.008, 0.242)))
    assert "tendons of rucker_helical" in str(refused.value)


def test_two_antagonists_bend_in_one_plane_only():
    rod = load_robot("rucker_helical")
    with pytest.raises(ParameterError, match="1 directions of displacement") as refused:
        controlled_manifold(with_tendons(rod, (0.0, 0.008, 0.242), (np.pi, 0.008, 0.242)))
    assert "too stiff" in str(refused.value) or "one way only" in str(refused.value)


def test_a_full_turn_of_a_helix_bends_no_constant_curvature():
    """All that is left of four helical tendons are S-shapes; their common pull, which twists, goes one way only."""
    robot = load_robot("rucker_helical")
    (segment,) = robot.segments
    assert isinstance(segment.tendons.routing, HelicalRouting)
    modes = controlled_manifold(robot)
    np.testing.assert_allclose(modes.displacement_matrix.sum(axis=0), 0, atol=1e-9)
    np.testing.assert_allclose(modes.shift_direction, 1, atol=1e-9)
