# SPDX-License-Identifier: Apache-2.0
"""Rods with two tendons a segment, which bend in one plane, and rods without disks."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from continuum_robot.control.references import reference_columns
from continuum_robot.errors import RobotFileError
from continuum_robot.estimation.contact.settings import contact_channels
from continuum_robot.estimation.shape import ShapeEstimator
from continuum_robot.models.rod import RodDrawing, RodRobotModel
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.segments.backbone import Disks
from continuum_robot.robot.segments.routing import HelicalRouting
from continuum_robot.rod.rod import Rod
from continuum_robot.rod.tendons import coefficients_from_clarke, controlled_manifold

PAIR = load_robot(str(Path(__file__).with_name("planar_pair.yaml")))
STRIP = PAIR.segments[0]


def changed(robot, *tendons, **fields):
    """Segments with these tendons' fields one after the other."""
    segments = tuple(
        dataclasses.replace(STRIP, name=f"strip_{k}", tendons=dataclasses.replace(STRIP.tendons, **own))
        for k, own in enumerate(tendons)
    )
    return dataclasses.replace(robot, segments=segments, control=None, reference=None, **fields)


def test_a_pair_has_one_coordinate_that_bends_in_its_plane():
    assert (PAIR.coordinate_count, PAIR.tendon_count, PAIR.coefficient_count) == (1, 2, 2)
    assert PAIR.traits.coordinate_names == ("q of strip",)
    assert "in their plane alone" in PAIR.traits.without_tip_control
    assert not PAIR.traits.without_clarke
    assert not PAIR.traits.without_compiled_cycle
    assert any("Across the plane it is not controlled" in line for line in RodRobotModel(PAIR).summary().lines)
    kappa_x, kappa_y = coefficients_from_clarke(PAIR) @ [0.007]  # as much as a bending of 1 rad
    assert (kappa_x, kappa_y) == pytest.approx((0.0, 5.0))


@pytest.mark.parametrize("from_base", [True, False])
def test_displacements_of_pairs_in_several_planes_follow_from_their_coordinates(from_base):
    robot = changed(
        PAIR,
        {"angle_offset_rad": 0.4},
        {"pitch_radius_m": 0.005, "angle_offset_rad": 1.9, "from_base": from_base},
        {"pitch_radius_m": 0.003, "angle_offset_rad": -0.7},
    )
    manifold, rod = controlled_manifold(robot), Rod(robot)
    assert manifold.coordinate_count == 3
    np.testing.assert_allclose(manifold.clarke_matrix @ manifold.displacement_matrix, np.eye(3), atol=1e-14)
    bending = np.array([0.3, -0.5, 0.8])  # rad, each in the plane of the segment's tendons
    angles = np.array([0.4, 1.9, -0.7])
    c = np.column_stack([-np.sin(angles), np.cos(angles)]) * bending[:, None] / STRIP.length_m
    coordinates = bending * [0.007, 0.005, 0.003]
    displacement = rod.displacement(c.ravel())
    np.testing.assert_allclose(manifold.displacement_matrix @ coordinates, displacement, atol=1e-15)
    np.testing.assert_allclose(manifold.inconsistency_m(displacement), 0.0, atol=1e-15)


def test_a_pair_bends_in_its_plane_by_its_tensions():
    rod = Rod(dataclasses.replace(PAIR, gravity_m_per_s2=(0.0, 0.0, 0.0)))
    c = rod.equilibrium(np.array([5.0, 3.0])).c
    assert c == pytest.approx([0.0, 0.007 * 2.0 / STRIP.backbone.bending_stiffnesses_nm2[1]], rel=1e-9, abs=1e-9)


def test_the_shape_of_a_pair_is_estimated_by_statics():
    tension, rod = np.array([5.0, 3.0]), Rod(PAIR)
    c = rod.equilibrium(tension).c
    spooled = rod.displacement(c) + tension / PAIR.tendon_stiffness_n_per_m
    found = ShapeEstimator(PAIR).update(spooled, np.zeros(2), tension=tension)
    assert found.coefficients == pytest.approx(c, abs=0.01)


def test_a_contact_of_a_pair_shows_in_one_channel():
    channels = contact_channels(PAIR)
    assert channels.count == 1
    # Of constant curvature: F l^2 / 2 = r T l.
    assert channels.balanced_tip_force_n == pytest.approx(2 * 0.007 * (20.0 - 1.5) / STRIP.length_m)


@pytest.mark.parametrize(
    ("tendons", "key", "expected"),
    [
        (({}, {"count": 3}), "segments[0].tendons.count", "in every segment or in none"),
        (({"count": 1},), "segments[0].tendons.count", "2 that bend the segment in one plane"),
        (({"routing": HelicalRouting(turns=1.0)},), "segments[0].tendons.routing", "straight for 2 tendons"),
    ],
)
def test_what_two_tendons_cannot_do_is_refused_with_its_key(tendons, key, expected):
    with pytest.raises(RobotFileError, match=expected) as caught:
        changed(PAIR, *tendons)
    assert caught.value.key == key


@pytest.mark.parametrize(("count", "names"), [(1, ("q_re_1_m",)), (3, ("q_re_1_m", "q_im_1_m", "q_re_2_m"))])
def test_each_coordinate_has_a_column(count, names):
    assert reference_columns(count) == names


def bare(name, **disks):
    robot = load_robot(name)
    segments = tuple(
        dataclasses.replace(one, disks=Disks(radius_m=one.disks.radius_m, **disks)) for one in robot.segments
    )
    return dataclasses.replace(robot, segments=segments)


@pytest.mark.parametrize("mass_kg", [None, 0.01])
def test_a_rod_without_disks_has_the_mass_of_its_backbone(mass_kg):
    robot = bare("opencr_five_tendon", count=0, mass_kg=mass_kg)
    light = bare("opencr_five_tendon", count=10, mass_kg=0.0)
    c = np.array([3.0, -2.0])
    masses = [Rod(one).terms(c, 0 * c).mass for one in (robot, light)]
    np.testing.assert_allclose(masses[0], masses[1], rtol=1e-12)


def test_tendons_of_a_rod_without_disks_are_drawn_along_its_backbone():
    robot = bare("two_segment", count=0)
    assert robot.disk_arc_lengths_m.size == 0
    geometry = RodDrawing(robot).geometry(np.full(4, 2.0))
    assert len(geometry.disks) == 0
    assert all(len(path) > 10 for path in geometry.tendons)
