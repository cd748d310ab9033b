# SPDX-License-Identifier: Apache-2.0
"""Wrench, thresholds and place of a contact: closed forms against independent oracles."""

import math
from functools import lru_cache

import numpy as np
import pytest
from contact_oracles import PlainPlaces, next_sensitivity, noise_covariance
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from continuum_robot.errors import ParameterError
from continuum_robot.estimation.contact.error_budget import BudgetAlgebra, ResidualSensitivity
from continuum_robot.estimation.contact.free_motion import NoiseFloor
from continuum_robot.estimation.contact.location import ContactLocator, LocationAlgebra, LocationSettings
from continuum_robot.estimation.contact.observers import MomentumObserver
from continuum_robot.estimation.contact.wrench import CONTACT_TYPES, WrenchEstimator, constraint_of, free_directions
from continuum_robot.robot.loading import load_robot
from continuum_robot.rod.contact.functions import ContactFunctions
from continuum_robot.rod.rod import Rod

SEEDS = st.integers(0, 10**6)


def spd(generator, size, scale=1.0):
    root = generator.normal(size=(size, size))
    return scale * (root @ root.T + 0.1 * np.eye(size))


# --- wrench


@given(SEEDS, st.sampled_from(sorted(CONTACT_TYPES)))
def test_minimum_norm_solution_against_the_optimality_conditions(seed, contact_type):
    """johnston (60): the KKT system of min w^T W w subject to J^T w = r, A w = 0, for a residual that can be met."""
    generator = np.random.default_rng(seed)
    size = 2  # fewer coefficients than components, so that the norm decides
    jacobian, weight = generator.normal(size=(6, size)), generator.uniform(0.2, 5, 6)
    A = constraint_of(contact_type)
    found = WrenchEstimator(contact_type, weight).estimate(residual := generator.normal(size=size), jacobian)
    equations = np.vstack([jacobian.T, A])
    system = np.block([[np.diag(weight), equations.T], [equations, np.zeros((len(equations),) * 2)]])
    right = np.concatenate([np.zeros(6), residual, np.zeros(len(A))])
    np.testing.assert_allclose(found.wrench, np.linalg.lstsq(system, right, rcond=None)[0][:6], atol=1e-7)
    np.testing.assert_allclose(A @ found.wrench, 0, atol=1e-12)


@given(SEEDS)
def test_least_squares_in_the_metric_of_the_noise(seed):
    generator = np.random.default_rng(seed)
    jacobian, residual = generator.normal(size=(6, 6)), generator.normal(size=6)
    covariance = spd(generator, 6, 1e-4)
    found = WrenchEstimator("point").estimate(residual, jacobian, covariance)
    B, information = jacobian[:2].T, np.linalg.inv(covariance)
    expected = np.linalg.inv(B.T @ information @ B)
    np.testing.assert_allclose(found.wrench[:2], expected @ B.T @ information @ residual, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(found.covariance[:2, :2], expected, rtol=1e-6)
    assert list(found.sensed) == [True, True, False, False, False, False]
    assert list(found.assumed_zero) == [False, False, True, True, True, True]
    assert found.degrees_of_freedom == 4

    def cost(y):
        miss = residual - B @ y
        return miss @ information @ miss

    assert found.chi_square == pytest.approx(minimize(cost, np.zeros(2)).fun, rel=1e-6)


def test_covariance_is_that_of_repeated_estimates():
    generator = np.random.default_rng(4)
    jacobian, covariance, truth = (
        generator.normal(size=(6, 5)),
        spd(generator, 5, 0.01),
        np.array([3.0, -2, 0, 0, 0, 0]),
    )
    estimator = WrenchEstimator("point")
    noise = generator.multivariate_normal(np.zeros(5), covariance, size=4000)
    found = np.array([estimator.estimate(jacobian.T @ truth + e, jacobian, covariance).wrench[:2] for e in noise])
    np.testing.assert_allclose(found.mean(axis=0), truth[:2], atol=0.02)
    spread = estimator.estimate(jacobian.T @ truth, jacobian, covariance).covariance[:2, :2]
    np.testing.assert_allclose(np.cov(found.T), spread, rtol=0.15, atol=0.05 * spread.max())


def jacobian_at(robot, c, place_m):
    """Body Jacobian at an arc length, (6, n)."""
    rod = Rod(robot, stations_m=[place_m])
    return rod.terms(c, np.zeros(rod.n)).jacobian[int(np.argmin(np.abs(rod.arrays.bodies_m - place_m)))]


def test_what_cannot_be_sensed_is_reported_and_not_guessed():
    """A straight rod does not feel forces along itself, nor moments about itself."""
    jacobian = jacobian_at(load_robot("vanderbilt_segment"), np.zeros(6), 0.3)
    wrench = np.array([4.0, -3, 20, 0, 0, 5])
    found = WrenchEstimator("soft_finger").estimate(jacobian.T @ wrench, jacobian, np.eye(6) * 1e-6)
    np.testing.assert_allclose(found.wrench, [4, -3, 0, 0, 0, 0], atol=1e-6)
    assert list(found.sensed) == [True, True, False, False, False, False]
    assert list(found.assumed_zero) == [False, False, False, True, True, False]
    assert found.rank == 2


def test_weak_directions_are_decided_by_the_noise():
    jacobian = np.zeros((6, 2))
    jacobian[0, 0], jacobian[1, 1] = 1.0, 1e-3
    quiet = WrenchEstimator("point").estimate([1.0, 1e-3], jacobian, np.eye(2) * 1e-8)
    loud = WrenchEstimator("point").estimate([1.0, 1e-3], jacobian, np.eye(2) * 1e-2)
    assert quiet.rank == 2
    assert quiet.sensed[1]
    assert loud.rank == 1
    assert not loud.sensed[1]
    assert loud.wrench[1] == 0


def test_a_constraint_may_be_any_matrix():
    slanted = np.array([[1.0, 1, 0, 0, 0, 0], *np.eye(6)[2:]])
    directions = free_directions(slanted)
    np.testing.assert_allclose(np.abs(directions[:2, 0]), math.sqrt(0.5))
    found = WrenchEstimator(slanted).estimate([2.0, -2.0], np.eye(6)[:, :2])
    np.testing.assert_allclose(found.wrench[:2], [2, -2])
    assert free_directions(np.zeros((0, 6))).shape == (6, 6)


@pytest.mark.parametrize("bad", [np.eye(6), np.random.default_rng(1).normal(size=(9, 6))])
def test_a_contact_type_that_leaves_nothing_is_refused(bad):
    with pytest.raises(ParameterError, match="leaves a component"):
        WrenchEstimator(bad)


def test_unusable_arguments_are_refused():
    with pytest.raises(ParameterError, match="contact_type"):
        WrenchEstimator("handshake")
    with pytest.raises(ParameterError, match="constraint"):
        WrenchEstimator(np.ones(5))
    with pytest.raises(ParameterError, match="weight"):
        WrenchEstimator("point", [1, 1, 0, 1, 1, 1])
    with pytest.raises(ParameterError, match="plausible"):
        WrenchEstimator("point", plausible=0)
    with pytest.raises(ParameterError, match="covariance"):
        WrenchEstimator("point").estimate([1.0, 0], np.ones((6, 2)), -np.eye(2))


def test_an_unknown_residual_gives_an_unknown_wrench():
    found = WrenchEstimator("point").estimate([math.nan, 0], np.ones((6, 2)), np.eye(2))
    assert np.isnan(found.wrench).all()
    assert not found.sensed.any()


# --- thresholds


def budget_of(sensitivity, momentum, force, dt, noise=None):
    """Carries a sensitivity on by the budget, and gives the covariance of the residual's noise."""
    n = sensitivity.gain.size
    spread = np.zeros((2 * n, 2 * n)) if noise is None else noise
    of_noise, nothing = np.array([0.0, 0.0, 0.0, 0.0, 1.0]), np.zeros((1, n))
    budget, (matrix,) = algebra_of(n).budget(
        "gmo", of_noise, nothing, force[:, :n], None, np.zeros(n), *sensitivity.before(dt), momentum, force,
        spread[:n, :n], spread[n:, n:],
    )  # fmt: skip
    sensitivity.take(matrix, momentum, force)
    return budget


@lru_cache
def algebra_of(n):
    return BudgetAlgebra(1e-9 * np.eye(n), 1)


@given(SEEDS)
def test_sensitivity_follows_the_observer(seed):
    """dr/dx Delta x is what a constant error makes of the observer; the first momentum counts, as in johnston (65)."""
    generator = np.random.default_rng(seed)
    gain, dt, error = generator.uniform(1, 60, 3), 0.002, generator.normal(size=6)
    sensitivity, observer = ResidualSensitivity(gain), MomentumObserver(gain, 7)
    for k in range(60):
        momentum, force = generator.normal(size=(2, 3, 6))
        if k == 0:
            start = gain * (momentum @ error)
        residual = observer.update(momentum @ error, force @ error, dt)
        plain = next_sensitivity(sensitivity, momentum, force, dt)
        budget_of(sensitivity, momentum, force, dt)
        np.testing.assert_allclose(sensitivity.matrix, plain, atol=1e-9)
        expected = residual + start / (1 + gain * dt) ** k
        np.testing.assert_allclose(sensitivity.matrix @ error, expected, atol=1e-8)
    sensitivity.reset()
    assert not sensitivity.matrix.any()


def test_a_constant_error_of_the_shape_ends_up_as_an_elastic_force():
    sensitivity = ResidualSensitivity([20.0, 20.0])
    stiffness = np.array([[2.0, 0.5], [0.5, 1.0]])
    momentum, force = np.zeros((2, 4)), np.hstack([-stiffness, np.zeros((2, 2))])
    for _ in range(2000):
        budget_of(sensitivity, momentum, force, 1e-3)
    np.testing.assert_allclose(sensitivity.matrix, np.hstack([stiffness, np.zeros((2, 2))]), atol=1e-9)


def test_noise_of_a_settled_observer():
    generator = np.random.default_rng(12)
    gain, dt = np.array([5.0, 40.0]), 0.004
    momentum, force = generator.normal(size=(2, 2, 4)) * np.array([[[1.0]], [[30.0]]])
    spread = spd(generator, 4)
    spread[:2, 2:] = spread[2:, :2] = 0.0  # of shape and rates, each on its own
    errors = generator.multivariate_normal(np.zeros(4), spread, size=60000)
    observer = MomentumObserver(gain, 0)
    found = np.array([observer.update(momentum @ error, force @ error, dt) for error in errors])[2000:]
    expected = noise_covariance(gain, dt, momentum, force, spread)
    np.testing.assert_allclose(np.cov(found.T), expected, rtol=0.1, atol=0.05 * expected.max())
    budget = budget_of(ResidualSensitivity(gain), momentum, force, dt, spread)
    np.testing.assert_allclose(budget.covariance, expected, rtol=1e-9)


def test_noise_floor_is_learnt_with_a_margin():
    floor = NoiseFloor(2, 1.5)
    for residual in ([0.1, -0.2], [np.nan, 0.1], [-0.3, np.inf]):
        floor.learn(residual)
    np.testing.assert_allclose(floor.bound, [0.45, 0.3])
    with pytest.raises(ParameterError, match="margin"):
        NoiseFloor(2, 0.5)


def test_free_motion_gives_shares_covariance_and_evidence():
    """Residuals that are made of two forces by known shares and of noise, with rare large errors along a direction."""
    generator, directions = np.random.default_rng(5), np.array([[0.0, 0.0, 1.0]])
    floor, spread = NoiseFloor(3, 1.2, directions), np.diag([0.1, 0.02, 0.01])
    left = []
    for k in range(2000):
        forces = np.array([[math.sin(0.01 * k), math.cos(0.02 * k), 0.0], [0.0, 1.0, 2.0]])
        error = spread @ generator.normal(size=3) + directions[0] * (0.5 if k % 400 == 0 else 0.0)
        left.append(error)
        floor.learn(error + 0.7 * forces[0] - 0.3 * forces[1], forces)
    floor.learn([np.nan, 0, 0], forces)
    found = floor.free_motion([1.0, 1.0])
    np.testing.assert_allclose(found.fractions, [0.7, -0.3], atol=0.01)
    np.testing.assert_allclose(np.sqrt(np.diag(found.covariance)[:2]), [0.1, 0.02], rtol=0.05)
    assert 0.5 <= math.sqrt(found.covariance[2, 2]) <= 0.56  # the largest error, not the mean
    np.testing.assert_allclose(found.information @ found.covariance, np.eye(3), atol=1e-9)
    evidence = [error @ found.information @ error for error in left]
    assert found.evidence == pytest.approx(1.44 * max(evidence), rel=0.05)
    np.testing.assert_allclose(found.bound, 1.2 * np.abs(left).max(axis=0), rtol=0.1)
    assert NoiseFloor(3).free_motion() is None


def test_sensitivity_needs_positive_gains():
    with pytest.raises(ParameterError, match="gain"):
        ResidualSensitivity([1.0, 0.0])


# --- place


@given(SEEDS, st.integers(1, 6))
def test_the_likelihood_of_places_is_that_of_numpy_for_any_number_of_directions(seed, free):
    generator, size, count = np.random.default_rng(seed), 8, 6
    places, cells, segment = np.linspace(0.05, 0.3, count), np.full(count, 0.05), np.array([0, 0, 0, 1, 1, 1])
    given_ = {
        "B": generator.normal(size=(count, free * size)),
        "residual": generator.normal(size=size),
        "information": spd(generator, size),
        "prior": 1e-3,
        "before": generator.normal(size=count),
        "fraction": 0.3,
    }
    arguments = (size, free, places, cells, segment)
    found = LocationAlgebra(*arguments).location_evidence(**given_)
    for one, other in zip(found, PlainPlaces(*arguments).location_evidence(**given_), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-9)


SHAPES = {
    "vanderbilt_segment": [1.5, -0.8, -0.6, 0.4, 0.1, -0.2],
    "vanderbilt_two_segment": [1.0, 0.7, -0.4, 0.3, 0.1, 0.0, -0.9, 1.2, 0.5, -0.3, 0.0, 0.1],
}


@pytest.fixture(scope="module", params=sorted(SHAPES))
def bent(request):
    robot, c = load_robot(request.param), np.array(SHAPES[request.param])
    functions = ContactFunctions(robot)
    return robot, functions, c, functions(c, np.zeros(c.size)).jacobians


NOISE_NM2 = 2e-3


def residual_at(robot, c, place_m, force):
    return jacobian_at(robot, c, place_m)[:2].T @ np.asarray(force, dtype=float)


@pytest.mark.parametrize("fraction", [0.45, 0.62, 0.8, 0.97])
def test_the_place_is_found_without_noise(bent, fraction):
    robot, functions, c, jacobians = bent
    length_m = robot.length_m
    locator = ContactLocator(functions, free_directions(constraint_of("point")), LocationSettings(memory_s=0))
    residual = residual_at(robot, c, fraction * length_m, [9.0, -6.0])
    found = locator.update(jacobians, residual, np.eye(c.size) * NOISE_NM2**2, 0.01)
    assert found.observable, found.reason
    assert found.arc_length_m == pytest.approx(fraction * length_m, abs=0.01 * length_m)
    assert found.interval_m[0] <= fraction * length_m <= found.interval_m[1]
    assert found.segment == int(np.searchsorted(np.append(robot.segment_starts_m[1:], 9), fraction * length_m))
    at = locator.jacobian_at(jacobians, 0.5 * length_m)
    np.testing.assert_allclose(at, jacobian_at(robot, c, 0.5 * length_m), atol=1e-3 * length_m)


def test_the_interval_holds_the_place_as_often_as_it_says(bent):
    robot, functions, c, jacobians = bent
    length_m, generator, held, errors = robot.length_m, np.random.default_rng(3), 0, []
    locator = ContactLocator(functions, np.eye(6)[:, :2], LocationSettings(memory_s=0))
    for _ in range(200):
        place = generator.uniform(0.5, 0.95) * length_m
        residual = residual_at(robot, c, place, generator.uniform(6, 15, 2))
        residual = residual + NOISE_NM2 * generator.normal(size=c.size)
        found = locator.update(jacobians, residual, np.eye(c.size) * NOISE_NM2**2, 0.01)
        held += bool(found.interval_m[0] <= place <= found.interval_m[1])
        errors.append((found.best_m - place) / max(found.sigma_m, 1e-9) if found.observable else 0)
    assert 0.8 < held / 200 <= 1.0
    assert np.std(errors) < 1.5


def test_a_distal_contact_is_not_taken_for_a_proximal_one(bent):
    """johnston section 13.5: the proximal coefficients feel it too, but the whole robot is compared at once."""
    robot, functions, c, jacobians = bent
    if len(robot.segments) == 1:
        return
    locator = ContactLocator(functions, np.eye(6)[:, :2])
    start_m = float(robot.segment_starts_m[1])
    noise = np.eye(c.size) * NOISE_NM2**2
    distal = locator.update(jacobians, residual_at(robot, c, start_m + 0.21, [12.0, 5]), noise, 0.01)
    assert distal.segment == 1
    assert distal.segment_probability[1] > 0.99
    locator.reset()
    proximal = locator.update(jacobians, residual_at(robot, c, 0.25, [12.0, 5]), noise, 0.01)
    assert proximal.segment == 0
    assert proximal.segment_probability[0] > 0.99


def test_what_the_data_does_not_decide_is_said(bent):
    robot, functions, c, jacobians = bent
    locator = ContactLocator(functions, np.eye(6)[:, :2], LocationSettings(memory_s=0))
    noise = np.eye(c.size) * NOISE_NM2**2
    nothing = locator.update(jacobians, np.zeros(c.size), noise, 0.01)
    assert not nothing.observable
    assert "noise" in nothing.reason
    assert math.isnan(nothing.arc_length_m)
    weak = locator.update(jacobians, residual_at(robot, c, 0.15, [0.6, 0.3]), noise, 0.01)
    assert not weak.observable or weak.interval_m[0] <= 0.15 <= weak.interval_m[1]
    blurred = locator.update(jacobians, residual_at(robot, c, 0.25, [3.0, 2.0]), noise * 3000, 0.01)
    assert not blurred.observable
    broken = locator.update(jacobians, np.full(c.size, np.nan), noise, 0.01)
    assert not broken.observable
    with pytest.raises(ParameterError, match="covariance"):
        locator.update(jacobians, np.zeros(c.size), np.zeros((c.size,) * 2), 0.01)


def test_constant_curvature_cannot_tell_a_place():
    functions = ContactFunctions(load_robot("opencr_five_tendon"))
    locator = ContactLocator(functions, np.eye(6)[:, :2])
    jacobians = functions([1.0, 2.0], [0.0, 0.0]).jacobians
    found = locator.update(jacobians, np.array([0.3, 0.1]), np.eye(2) * 1e-8, 0.01)
    assert not found.observable
    assert "2 coefficients" in found.reason


def test_averaging_quietens_the_place(bent):
    robot, functions, c, jacobians = bent
    generator, place = np.random.default_rng(8), 0.8 * robot.length_m
    spread = {}
    for memory_s in (0.0, 0.5):
        locator, found = ContactLocator(functions, np.eye(6)[:, :2], LocationSettings(memory_s=memory_s)), []
        for _ in range(60):
            noise = 3 * NOISE_NM2 * generator.normal(size=c.size)
            residual = residual_at(robot, c, place, [10.0, 4.0]) + noise
            found.append(locator.update(jacobians, residual, np.eye(c.size) * (3 * NOISE_NM2) ** 2, 0.01).best_m)
        spread[memory_s] = float(np.std(found[20:]))
    assert spread[0.5] < 0.6 * spread[0.0]


def test_a_locator_needs_something_to_look_for(bent):
    with pytest.raises(ParameterError, match="directions"):
        ContactLocator(bent[1], np.zeros((6, 0)))
