# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from continuum_robot.errors import ParameterError
from continuum_robot.geometry.clarke import ClarkeManifold, ClarkeTransform, arc_from_clarke, clarke_from_arc

COUNTS = st.integers(3, 12)
OFFSETS = st.floats(-6, 6)
LENGTHS = st.floats(-0.1, 0.1)


@st.composite
def manifolds(draw):
    m = draw(st.integers(1, 4))
    return ClarkeManifold(
        draw(st.lists(COUNTS, min_size=m, max_size=m)),
        draw(st.lists(st.floats(1e-3, 0.05), min_size=m, max_size=m)),
        draw(st.lists(OFFSETS, min_size=m, max_size=m)),
    )


def test_the_matrices_of_the_paper_for_four_tendons():
    transform = ClarkeTransform(4)
    np.testing.assert_allclose(transform.matrix, 0.5 * np.array([[1, 0, -1, 0], [0, 1, 0, -1]]), atol=1e-15)
    np.testing.assert_allclose(transform.inverse, [[1, 0], [0, 1], [-1, 0], [0, -1]], atol=1e-15)


@given(n=COUNTS, offset=OFFSETS, clarke=arrays(float, (3, 2), elements=LENGTHS))
def test_one_segment_round_trips_and_obeys_the_tendon_constraint(n, offset, clarke):
    transform = ClarkeTransform(n, offset)
    np.testing.assert_allclose(transform.matrix @ transform.inverse, np.eye(2), atol=1e-14)
    displacement = transform.backward(clarke)
    assert displacement.shape == (3, n)
    np.testing.assert_allclose(displacement.sum(axis=-1), 0, atol=1e-14)  # muhmann (1)
    np.testing.assert_allclose(transform.forward(displacement), clarke, atol=1e-15)
    np.testing.assert_allclose(transform.forward(displacement + 0.3), clarke, atol=1e-14)


@given(n=COUNTS, offset=OFFSETS, phi=st.floats(-3.1, 3.1), theta=st.floats(1e-6, 7.0), radius=st.floats(1e-3, 0.1))
def test_arc_parameters_round_trip_past_a_half_turn_of_bending(n, offset, phi, theta, radius):
    clarke = clarke_from_arc(phi, theta, radius)
    found_phi, found_theta = arc_from_clarke(clarke, radius)
    assert found_phi == pytest.approx(phi, abs=1e-9)
    assert found_theta == pytest.approx(theta, rel=1e-12)
    transform = ClarkeTransform(n, offset)
    expected = radius * theta * np.cos(transform.angles_rad - phi)  # the project's sign of a displacement
    np.testing.assert_allclose(transform.backward(clarke), expected, atol=1e-14)


def test_the_largest_amplitude_of_the_paper_bends_past_pi():
    phi, theta = arc_from_clarke([0.0, 0.025], 0.007)
    assert theta == pytest.approx(3.571, abs=1e-3)
    assert phi == pytest.approx(np.pi / 2)


def test_straight_has_no_bending_and_arcs_come_in_batches():
    phi, theta = arc_from_clarke(np.zeros((4, 2, 2)), np.array([0.007, 0.005]))
    assert phi.shape == theta.shape == (4, 2)
    assert not phi.any()
    assert not theta.any()
    np.testing.assert_allclose(clarke_from_arc(0.4, -0.3, 0.01), clarke_from_arc(0.4 + np.pi, 0.3, 0.01), atol=1e-17)


@given(manifold=manifolds(), seed=st.integers(0, 1000))
def test_displacements_sum_over_the_segments_that_a_tendon_runs_through(manifold, seed):
    clarke = np.random.default_rng(seed).uniform(-0.02, 0.02, manifold.coordinate_count)
    expected = []
    for i, transform in enumerate(manifold.transforms):
        # In arc parameters, and one by one: the path at radius r_i around a bend theta is r_i theta cos(..) shorter.
        total = np.zeros(transform.count)
        for k in range(i + 1):
            phi, theta = arc_from_clarke(clarke[2 * k : 2 * k + 2], manifold.pitch_radii_m[k])
            total += manifold.pitch_radii_m[i] * theta * np.cos(transform.angles_rad - phi)
        expected.append(total)
    np.testing.assert_allclose(manifold.displacement(clarke), np.concatenate(expected), atol=1e-14, rtol=1e-11)


@given(manifold=manifolds(), seed=st.integers(0, 1000))
def test_manifold_round_trip_is_the_least_squares_fit(manifold, seed):
    rng = np.random.default_rng(seed)
    clarke = rng.uniform(-0.02, 0.02, (5, manifold.coordinate_count))
    np.testing.assert_allclose(manifold.clarke(manifold.displacement(clarke)), clarke, atol=1e-12)
    scale = np.abs(manifold.clarke_matrix).max()
    np.testing.assert_allclose(
        manifold.clarke_matrix, np.linalg.pinv(manifold.displacement_matrix, rcond=1e-13), atol=1e-9 * scale
    )


@given(manifold=manifolds(), seed=st.integers(0, 1000))
def test_generalized_force_does_the_work_of_the_tensions(manifold, seed):
    rng = np.random.default_rng(seed)
    tension = rng.uniform(0, 20, manifold.tendon_count)
    rate = rng.uniform(-1, 1, manifold.coordinate_count)
    power = tension @ manifold.displacement(rate)
    assert manifold.generalized_force(tension) @ rate == pytest.approx(power, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("n", range(3, 13))
def test_generalized_force_of_one_segment_is_the_papers(n):
    tension = np.random.default_rng(n).uniform(0, 20, n)
    manifold = ClarkeManifold([n], [0.007], [0.2])
    expected = n / 2 * manifold.transforms[0].matrix @ tension  # muhmann (27)
    np.testing.assert_allclose(manifold.generalized_force(tension), expected, atol=1e-12)


@given(manifold=manifolds(), seed=st.integers(0, 1000))
def test_a_common_tension_of_a_segment_makes_no_generalized_force(manifold, seed):
    common = np.random.default_rng(seed).uniform(0, 10, manifold.segment_count)
    tension = np.concatenate(
        [np.full(one.count, value) for one, value in zip(manifold.transforms, common, strict=True)]
    )
    bound = 1e-12 * max(1, np.abs(manifold.displacement_matrix).max())
    np.testing.assert_allclose(manifold.generalized_force(tension), 0, atol=bound)


def test_inconsistency_is_the_distance_to_the_manifold_of_each_segment():
    manifold = ClarkeManifold([5, 4], [0.007, 0.006], [0.0, 0.3])
    displacement = manifold.displacement([0.003, -0.002, 0.001, 0.004])
    np.testing.assert_allclose(manifold.inconsistency_m(displacement), 0, atol=1e-16)
    slack = displacement.copy()
    slack[:5] += 0.001  # a common displacement is wholly off the manifold
    np.testing.assert_allclose(manifold.inconsistency_m(slack), [0.001, 0], atol=1e-15)
    jumped = displacement.copy()
    jumped[6] += 0.01
    fit = manifold.displacement(manifold.clarke(jumped))
    expected = [np.sqrt(np.mean((jumped - fit)[:5] ** 2)), np.sqrt(np.mean((jumped - fit)[5:] ** 2))]
    np.testing.assert_allclose(manifold.inconsistency_m(jumped), expected, atol=1e-15)
    assert manifold.inconsistency_m(np.stack([slack, jumped])).shape == (2, 2)


def test_unknown_displacement_leaves_its_coordinates_unknown():
    manifold = ClarkeManifold([3, 3], [0.007, 0.007])
    displacement = np.zeros(6)
    displacement[1] = np.nan
    assert np.isnan(manifold.clarke(displacement)).all()  # the distal segment builds on the proximal one
    displacement = np.zeros(6)
    displacement[4] = np.nan
    np.testing.assert_array_equal(np.isnan(ClarkeTransform(3).forward(displacement[3:])), [True, True])


def test_matrices_cannot_be_written_into():
    manifold = ClarkeManifold([3], [0.007])
    for array in (manifold.displacement_matrix, manifold.clarke_matrix, manifold.transforms[0].matrix):
        with pytest.raises(ValueError, match="read-only"):
            array[0, 0] = 1.0


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (([2], [0.007]), "count"),
        (([5], [0.0]), "pitch_radii_m"),
        (([5], [np.nan]), "pitch_radii_m"),
        (([5, 5], [0.007]), "counts, pitch_radii_m, angle_offsets_rad"),
        (([5], [0.007], [0.0, 1.0]), "counts, pitch_radii_m, angle_offsets_rad"),
        (([], []), "counts, pitch_radii_m, angle_offsets_rad"),
        (([5], [0.007], [np.inf]), "angle_offset_rad"),
    ],
)
def test_impossible_layouts_are_refused(arguments, name):
    with pytest.raises(ParameterError) as caught:
        ClarkeManifold(*arguments)
    assert caught.value.name == name
