# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from continuum_robot.control.tendon_forces import distribute, initial_tension
from continuum_robot.errors import ParameterError
from continuum_robot.geometry.clarke import ClarkeManifold
from continuum_robot.robot.control_settings import TENDON_FORCE_STRATEGIES

COUNTS = range(3, 13)


@st.composite
def problems(draw):
    m = draw(st.integers(1, 4))
    manifold = ClarkeManifold(
        draw(st.lists(st.integers(3, 12), min_size=m, max_size=m)),
        draw(st.lists(st.floats(0.003, 0.02), min_size=m, max_size=m)),
        draw(st.lists(st.floats(-6, 6), min_size=m, max_size=m)),
    )
    force = np.array(draw(st.lists(st.floats(-30, 30), min_size=2 * m, max_size=2 * m)))
    return manifold, force


def scale(tension):
    return 1e-12 * (1 + np.abs(tension).max())


@given(problem=problems())
def test_initial_tensions_make_the_force_with_the_least_effort(problem):
    manifold, force = problem
    tension = initial_tension(force, manifold)
    bound = 100 * scale(tension)
    np.testing.assert_allclose(manifold.generalized_force(tension), force, atol=bound)
    least = np.linalg.lstsq(manifold.displacement_matrix.T, force, rcond=None)[0]
    np.testing.assert_allclose(tension, least, atol=1e-8 * (1 + np.abs(tension).max()))
    for rows in manifold.tendon_slices:
        assert abs(tension[rows].sum()) <= bound


@pytest.mark.parametrize("n", COUNTS)
def test_one_segment_is_the_papers_formula(n):
    manifold = ClarkeManifold([n], [0.007], [0.4])
    force = np.array([3.0, -1.5])
    expected = 2 / n * manifold.transforms[0].inverse @ force  # muhmann (26)
    np.testing.assert_allclose(initial_tension(force, manifold), expected, atol=1e-14)


def test_proximal_segment_carries_what_the_distal_tendons_pull():
    """From the tip to the base by hand: w_2 = tau_2, then w_1 = tau_1 - r_2 / r_1 w_2."""
    manifold = ClarkeManifold([5, 4], [0.008, 0.006], [0.1, 0.7])
    force = np.array([1.0, 2.0, 3.0, -4.0])
    distal = force[2:]
    proximal = force[:2] - 0.006 / 0.008 * distal
    expected = np.concatenate(
        [2 / 5 * manifold.transforms[0].inverse @ proximal, 2 / 4 * manifold.transforms[1].inverse @ distal]
    )
    np.testing.assert_allclose(initial_tension(force, manifold), expected, atol=1e-14)


@given(problem=problems(), pretension=st.floats(0, 20), strategy=st.sampled_from(["shift", "redistribute"]))
def test_shift_and_redistribute_keep_the_force_and_the_pretension(problem, pretension, strategy):
    manifold, force = problem
    tension = distribute(strategy, force, manifold, pretension)
    np.testing.assert_allclose(manifold.generalized_force(tension), force, atol=1000 * scale(tension))
    assert np.all(tension >= pretension)


@pytest.mark.parametrize("strategy", TENDON_FORCE_STRATEGIES)
@pytest.mark.parametrize("n", COUNTS)
def test_every_count_of_tendons_and_every_direction(strategy, n):
    manifold = ClarkeManifold([n], [0.007], [-0.3])
    # Directions between the tendons, along them, and opposite to them, a rounding error to either side included.
    along = np.repeat(manifold.transforms[0].angles_rad, 3) + np.tile([-1e-15, 0, 1e-15], n)
    for angle in np.concatenate([np.linspace(0, 2 * np.pi, 73), along, along + np.pi]):
        force = 5 * np.array([np.cos(angle), np.sin(angle)])
        tension = distribute(strategy, force, manifold, 0.5)
        assert np.all(tension >= 0.5)
        if strategy != "clip":
            np.testing.assert_allclose(manifold.generalized_force(tension), force, atol=1e-12)


@given(problem=problems(), pretension=st.floats(0, 20))
def test_shift_leaves_one_tendon_of_each_segment_at_the_pretension(problem, pretension):
    manifold, force = problem
    tension = distribute("shift", force, manifold, pretension)
    for rows in manifold.tendon_slices:
        assert tension[rows].min() == pretension


@given(problem=problems())
def test_redistribute_pulls_the_two_tendons_beside_the_direction(problem):
    manifold, force = problem
    tension = distribute("redistribute", force, manifold)
    initial = initial_tension(force, manifold)
    for rows, transform in zip(manifold.tendon_slices, manifold.transforms, strict=True):
        own = tension[rows]
        pulling = np.flatnonzero(own)
        assert len(pulling) <= 2
        needed = transform.inverse.T @ initial[rows]
        if np.hypot(*needed) < 1e-9:
            continue
        angle = np.arctan2(needed[1], needed[0])
        away = np.abs((transform.angles_rad[pulling] - angle + np.pi) % (2 * np.pi) - np.pi)
        assert np.all(away <= 2 * np.pi / transform.count + 1e-9)


@given(problem=problems())
def test_redistribute_needs_the_least_sum_of_tensions(problem):
    """Of all tensions >= 0 that make the force: by linear programming over each segment."""
    manifold, force = problem
    tension = distribute("redistribute", force, manifold)
    initial = initial_tension(force, manifold)
    for rows, transform in zip(manifold.tendon_slices, manifold.transforms, strict=True):
        needed = transform.inverse.T @ initial[rows]
        best = linprog(np.ones(transform.count), A_eq=transform.inverse.T, b_eq=needed)
        assert tension[rows].sum() == pytest.approx(best.fun, rel=1e-6, abs=1e-6)


@given(problem=problems(), pretension=st.floats(0, 5))
def test_clip_cuts_negative_tensions_and_nothing_else(problem, pretension):
    manifold, force = problem
    initial = initial_tension(force, manifold)
    np.testing.assert_array_equal(
        distribute("clip", force, manifold, pretension), np.where(initial < 0, 0, initial) + pretension
    )


def test_clip_alters_the_force_where_shift_does_not():
    manifold = ClarkeManifold([4], [0.007])
    force = np.array([4.0, 0.0])
    np.testing.assert_allclose(manifold.generalized_force(distribute("clip", force, manifold)), [2, 0], atol=1e-14)
    np.testing.assert_allclose(manifold.generalized_force(distribute("shift", force, manifold)), force, atol=1e-14)


@pytest.mark.parametrize("strategy", TENDON_FORCE_STRATEGIES)
def test_no_force_is_pretension_alone(strategy):
    manifold = ClarkeManifold([5, 3], [0.007, 0.006])
    np.testing.assert_allclose(distribute(strategy, np.zeros(4), manifold, 1.5), 1.5)


@pytest.mark.parametrize("strategy", TENDON_FORCE_STRATEGIES)
def test_an_unknown_force_gives_no_number(strategy):
    manifold = ClarkeManifold([5], [0.007])
    assert np.isnan(distribute(strategy, np.array([np.nan, 1.0]), manifold, 1.0)).all()


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (("push", np.zeros(2)), "strategy"),
        (("shift", np.zeros(4)), "generalized_force"),
        (("shift", np.zeros(2), -1.0), "pretension_n"),
        (("shift", np.zeros(2), np.nan), "pretension_n"),
    ],
)
def test_impossible_arguments_are_refused(arguments, name):
    strategy, force, *pretension = arguments
    with pytest.raises(ParameterError) as caught:
        distribute(strategy, force, ClarkeManifold([5], [0.007]), *pretension)
    assert caught.value.name == name


# --- least sum


@st.composite
def spanning(draw):
    """Tendons that can force two or four coordinates both ways, with one null vector or more."""
    coordinates = draw(st.sampled_from([2, 4]))
    count = draw(st.integers(coordinates + 1, coordinates + 4))
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    pulls = rng.normal(size=(count, coordinates))
    weights = rng.uniform(0.2, 1.0, count - 1)
    pulls[-1] = -(weights @ pulls[:-1])  # positive tensions that force nothing: weights, 1
    force = np.array(draw(st.lists(st.floats(-20, 20), min_size=coordinates, max_size=coordinates)))
    return general(pulls), force


def general(pulls):
    """A manifold of tendons with these rows in D."""
    manifold = ClarkeManifold([3], [0.01])
    null = linprog(
        np.zeros(len(pulls)), A_eq=pulls.T, b_eq=np.zeros(pulls.shape[1]), bounds=[(0.01, None)] * len(pulls)
    ).x
    manifold.transforms, manifold.tendon_slices = (), (slice(0, len(pulls)),)
    manifold.tendon_count, manifold.coordinate_count = pulls.shape
    manifold.displacement_matrix, manifold.clarke_matrix = pulls, np.linalg.pinv(pulls)
    manifold.shift_direction = null
    return manifold


@given(problem=spanning(), pretension=st.floats(0, 5))
def test_least_sum_is_the_optimum_of_the_linear_program(problem, pretension):
    manifold, force = problem
    tension = distribute("least_sum", force, manifold, pretension)
    D = manifold.displacement_matrix
    np.testing.assert_allclose(D.T @ tension, force, atol=1e-8 * (1 + np.abs(tension).max()))
    assert tension.min() >= pretension
    best = linprog(np.ones(len(D)), A_eq=D.T, b_eq=force, bounds=[(pretension, None)] * len(D))
    assert tension.sum() == pytest.approx(best.fun, rel=1e-5, abs=1e-7)


@given(problem=spanning(), pretension=st.floats(0, 5))
def test_general_shift_keeps_force_and_pretension_with_one_tendon_at_it(problem, pretension):
    manifold, force = problem
    tension = distribute("shift", force, manifold, pretension)
    np.testing.assert_allclose(manifold.displacement_matrix.T @ tension, force, atol=1e-8 * (1 + np.abs(tension).max()))
    assert tension.min() == pytest.approx(pretension, abs=1e-9 * (1 + tension.max()))
    assert tension.min() >= pretension
    assert tension.sum() >= distribute("least_sum", force, manifold, pretension).sum() * (1 - 1e-5) - 1e-9


@pytest.mark.parametrize("n", COUNTS)
def test_on_one_segment_least_sum_is_redistribution(n):
    """Of evenly spaced tendons the two beside the direction make a force with the least sum, muhmann III-B."""
    manifold = ClarkeManifold([n], [0.007], [0.3])
    for angle in np.linspace(0.01, 2 * np.pi, 41):
        force = 3 * np.array([np.cos(angle), np.sin(angle)])
        np.testing.assert_allclose(
            distribute("least_sum", force, manifold, 0.5), distribute("redistribute", force, manifold, 0.5), atol=1e-6
        )


def test_with_three_tendons_a_segment_least_sum_is_the_papers_shift():
    """One null vector a segment leaves nothing to choose: muhmann (28)."""
    manifold = ClarkeManifold([3, 3], [0.008, 0.006], [0.1, 0.7])
    for force in np.random.default_rng(3).normal(scale=5, size=(50, 4)):
        np.testing.assert_allclose(
            distribute("least_sum", force, manifold, 0.5), distribute("shift", force, manifold, 0.5), atol=1e-9
        )


def test_least_sum_of_many_tendons_is_refused_with_a_remedy():
    with pytest.raises(ParameterError, match="shift: of 48 tendons"):
        distribute("least_sum", np.zeros(8), ClarkeManifold([12] * 4, [0.01] * 4), 0.5)


def test_clip_is_refused_where_a_common_tension_is_a_force():
    manifold = general(np.array([[1.0, 0.0], [0.0, 1.0], [-0.5, -0.4]]))
    with pytest.raises(ParameterError, match="common tension"):
        distribute("clip", np.zeros(2), manifold, 0.5)


def test_least_sum_of_an_unknown_force_is_unknown():
    manifold = ClarkeManifold([4], [0.01])
    assert np.isnan(distribute("least_sum", np.array([np.nan, 1.0]), manifold, 0.5)).all()
