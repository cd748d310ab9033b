# SPDX-License-Identifier: Apache-2.0
"""Tendons at angles of their own keep Clarke coordinates, whose definition is that of even ones."""

import dataclasses

import numpy as np
import pytest
from curvature import clarke_from_curvature
from hypothesis import assume, given
from hypothesis import strategies as st

from continuum_robot.control.tendon_forces import distribute
from continuum_robot.errors import ParameterError, RobotFileError
from continuum_robot.geometry.clarke import ClarkeManifold, ClarkeTransform
from continuum_robot.robot.coordinates import clarke_manifold
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.segments.routing import HelicalRouting
from continuum_robot.rod import Rod

ANGLES = (0.0, 1.4, 2.9, 4.9)


def uneven(angles=ANGLES, **changes):
    robot = load_robot("two_segment")
    first, second = robot.segments
    more = {"count": len(angles), "angle_offset_rad": 0.0, "uneven_angles_rad": tuple(angles), **changes}
    tendons = dataclasses.replace(second.tendons, **more)
    return robot.changed(segments=(first, dataclasses.replace(second, tendons=tendons)))


@st.composite
def surrounding(draw):
    gaps = np.array(draw(st.lists(st.floats(0.2, 1.0), min_size=3, max_size=8)))
    gaps *= 2 * np.pi / gaps.sum()
    assume(gaps.max() < 0.9 * np.pi)
    return tuple(draw(st.floats(-3, 3)) + np.cumsum(gaps))


@given(angles=surrounding(), other=surrounding(), seed=st.integers(0, 1000))
def test_any_tendons_that_surround_the_backbone_have_clarke_coordinates(angles, other, seed):
    manifold = ClarkeManifold(
        [len(angles), len(other)], [0.008, 0.006], [0.0, 0.0], uneven_angles_rad=[angles, other]
    )
    clarke, radius = np.random.default_rng(seed).uniform(-0.02, 0.02, (2, 2)), manifold.pitch_radii_m
    bend = clarke / radius[:, None]  # of each segment about both axes
    expected = [
        radius[i] * (np.outer(np.cos(psi), bend[: i + 1, 0]) + np.outer(np.sin(psi), bend[: i + 1, 1])).sum(axis=1)
        for i, psi in enumerate((np.array(angles), np.array(other)))
    ]
    displacement = manifold.displacement(clarke.ravel())
    np.testing.assert_allclose(displacement, np.concatenate(expected), atol=1e-15)
    np.testing.assert_allclose(manifold.clarke(displacement), clarke.ravel(), atol=1e-14)
    np.testing.assert_allclose(
        manifold.clarke_matrix, np.linalg.pinv(manifold.displacement_matrix), atol=1e-11
    )
    assert manifold.shift_direction.min() > 0
    for rows in manifold.tendon_slices:  # nothing is forced by these tensions of any one segment
        common = np.zeros(manifold.tendon_count)
        common[rows] = manifold.shift_direction[rows]
        np.testing.assert_allclose(manifold.generalized_force(common), 0.0, atol=1e-12)
    force = np.random.default_rng(seed + 1).uniform(-30, 30, 4)
    for strategy in ("shift", "least_sum"):
        tension = distribute(strategy, force, manifold, 2.0)
        assert tension.min() >= 2.0 - 1e-9
        np.testing.assert_allclose(manifold.generalized_force(tension), force, atol=1e-8)
    with pytest.raises(ParameterError, match="evenly"):
        distribute("redistribute", force, manifold)


def test_even_angles_are_even_however_they_are_spelled():
    angles = 0.3 + 2 * np.pi * np.arange(5) / 5
    spelled = uneven(angles)
    plain = uneven((), angle_offset_rad=0.3, count=5)
    assert spelled.segments[1].tendons.even
    np.testing.assert_array_equal(spelled.segments[1].tendons.angles_rad, plain.segments[1].tendons.angles_rad)
    np.testing.assert_array_equal(clarke_manifold(spelled).clarke_matrix, clarke_manifold(plain).clarke_matrix)
    assert ClarkeTransform(3).even
    one = ClarkeTransform(4, uneven_angles_rad=np.pi / 2 * np.arange(4))
    np.testing.assert_allclose(one.matrix, ClarkeTransform(4).matrix, atol=1e-15)
    np.testing.assert_allclose(one.shift_direction, 1.0, atol=1e-12)


@pytest.mark.parametrize("angles", [ANGLES, tuple(np.pi / 2 * np.arange(4) + 0.2)])
def test_an_offset_turns_them_all(angles):
    """What a fit finds as angle_offset_rad is written beside them."""
    turned = uneven(angles, angle_offset_rad=0.1).segments[1].tendons
    np.testing.assert_allclose(turned.angles_rad, 0.1 + np.array(angles), atol=1e-15)
    again = dataclasses.replace(turned, angle_offset_rad=-0.3)
    np.testing.assert_allclose(again.angles_rad, -0.3 + np.array(angles), atol=1e-15)


def test_the_rods_tendons_shorten_as_the_coordinates_say():
    robot = uneven()
    assert robot.traits.without_clarke == ""
    manifold, rod = clarke_manifold(robot), Rod(robot)
    by_clarke = -rod.lengths(np.zeros(4)).gradient @ np.linalg.inv(clarke_from_curvature(robot))
    np.testing.assert_allclose(by_clarke, manifold.displacement_matrix, atol=1e-12)
    turned = uneven(routing=HelicalRouting(turns=0.0))
    assert turned.segments[1].tendons == robot.segments[1].tendons


@pytest.mark.parametrize(
    ("angles", "words"),
    [
        ((0.0, 1.0, 2.0), "half a turn"),
        ((0.0, 2.0, 2.0), "a different angle"),
        ((0.0, 2.5), "half a turn"),
    ],
)
def test_angles_that_cannot_bend_it_are_refused(angles, words):
    with pytest.raises(RobotFileError, match=words) as caught:
        uneven(angles)
    assert "uneven_angles_rad" in caught.value.key


def test_angles_and_what_contradicts_them_are_refused():
    tendons = load_robot("two_segment").segments[0].tendons
    with pytest.raises(RobotFileError):
        dataclasses.replace(tendons, uneven_angles_rad=ANGLES)
    segment = load_robot("vanderbilt_segment").segments[0]
    with pytest.raises(RobotFileError, match="capstans"):
        dataclasses.replace(
            segment,
            tendons=dataclasses.replace(segment.tendons, angle_offset_rad=0.0, uneven_angles_rad=ANGLES),
        )
    with pytest.raises(ParameterError, match="180 degrees"):
        ClarkeTransform(3, uneven_angles_rad=(0.0, 1.0, 2.0))
