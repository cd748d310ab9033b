# SPDX-License-Identifier: Apache-2.0
"""Shape estimation: exact without noise, best and honest with it, and clear about what it cannot see."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from continuum_robot.errors import ParameterError
from continuum_robot.estimation.observability import coefficient_names
from continuum_robot.estimation.shape import ShapeEstimator
from continuum_robot.estimation.shape_estimate import ShapeSettings
from continuum_robot.robot.basis import Basis
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.segments.tendons import String
from continuum_robot.rod.rod import Rod
from continuum_robot.rod.tendons import string_matrix

DT = 1e-3


def curved(order):
    """The five-tendon robot with Chebyshev bending, and strings that end along it so that all is seen."""
    robot = load_robot("opencr_five_tendon")
    segments = tuple(
        dataclasses.replace(one, basis=Basis(kind="chebyshev_bending", order=order)) for one in robot.segments
    )
    strings = tuple(
        String(name=f"s{k}{axis}", anchor_m=0.2 * (k + 1) / (order + 1), pitch_radius_m=0.008, angle_rad=angle)
        for k in range(order + 1)
        for axis, angle in (("x", 0.1), ("y", 1.8))
    )
    return dataclasses.replace(robot, segments=segments, strings=strings)


ROBOTS = {
    "opencr_five_tendon": load_robot("opencr_five_tendon"),
    "two_segment": load_robot("two_segment"),
    "bare_rod": load_robot(Path(__file__).parents[2] / "robots/bare_rod.yaml"),
    "chebyshev": curved(2),
}
ESTIMATORS = {name: ShapeEstimator(robot) for name, robot in ROBOTS.items()}
RODS = {name: Rod(robot) for name, robot in ROBOTS.items()}
each = pytest.mark.parametrize("name", ROBOTS)


def readings(name, c):
    rod = RODS[name]
    return rod.displacement(c), string_matrix(ROBOTS[name]) @ c


@each
@given(seed=st.integers(0, 2**32 - 1))
def test_readings_of_the_model_give_its_coefficients_back(name, seed):
    rng = np.random.default_rng(seed)
    rod, estimator = RODS[name], ESTIMATORS[name]
    c, rate = rng.normal(size=(2, rod.n)) * 3
    q, strings = readings(name, c)
    estimate = estimator.update(q, rod.displacement(rate), strings, DT)
    np.testing.assert_allclose(estimate.coefficients, c, atol=1e-9)
    assert estimate.residual_m < 1e-12
    assert estimate.sensor_count == q.size + strings.size
    np.testing.assert_allclose(estimate.tip, rod.poses(c, [ROBOTS[name].length_m])[0], atol=1e-10)
    if name != "chebyshev":  # there the tendons alone do not see all rates
        np.testing.assert_allclose(estimate.coefficient_rates, rate, atol=1e-9)


@each
def test_the_covariance_is_that_of_the_estimates(name):
    rng = np.random.default_rng(4)
    rod, estimator = RODS[name], ESTIMATORS[name]
    c = rng.normal(size=rod.n)
    q, strings = readings(name, c)
    sigma_q, sigma_s = estimator.settings.tendon_sigma_m, estimator.settings.string_sigma_m
    estimates = [
        estimator.update(
            q + sigma_q * rng.standard_normal(q.size), None, strings + sigma_s * rng.standard_normal(strings.size), DT
        )
        for _ in range(3000)
    ]
    misses = np.array([estimate.coefficients - c for estimate in estimates])
    covariance = estimates[0].covariance
    np.testing.assert_allclose(covariance, covariance.T, rtol=1e-9, atol=1e-12)
    scale = np.linalg.inv(np.linalg.cholesky(covariance))
    np.testing.assert_allclose(np.cov(scale @ misses.T), np.eye(rod.n), atol=0.1)


def test_better_sensors_weigh_more():
    robot = ROBOTS["opencr_five_tendon"]
    c = np.array([1.0, -2.0])
    q, strings = readings("opencr_five_tendon", c)
    results = []
    for sigma_m in (1e-6, 1e-2):
        estimator = ShapeEstimator(robot, ShapeSettings(string_sigma_m=sigma_m))
        results.append(np.abs(estimator.update(q * 1.1, None, strings, DT).coefficients - c).max())
    assert results[0] < 1e-3 < results[1]


@each
def test_the_residual_is_what_the_model_does_not_explain(name):
    rod, estimator = RODS[name], ESTIMATORS[name]
    q, strings = readings(name, np.ones(rod.n))
    common = estimator.update(q + 1e-3, None, strings, DT)  # a common displacement of all tendons bends nothing
    assert common.residual_m > 5e-4


@pytest.mark.parametrize("name", ["opencr_five_tendon", "two_segment"])
def test_unknown_sensors_are_left_out(name):
    rod, estimator = RODS[name], ESTIMATORS[name]
    c = np.linspace(-1, 2, rod.n)
    q, strings = readings(name, c)
    velocity = rod.displacement(2 * c)
    q[1], velocity[2] = np.nan, np.nan
    estimate = estimator.update(q, velocity, None, DT)
    np.testing.assert_allclose(estimate.coefficients, c, atol=1e-9)
    np.testing.assert_allclose(estimate.coefficient_rates, 2 * c, atol=1e-9)
    assert estimate.sensor_count == q.size - 1
    complete = estimator.update(*readings(name, c)[:1], None, strings, DT)
    assert np.all(np.diag(complete.covariance) <= np.diag(estimate.covariance))


def test_coefficients_that_nothing_sees_are_named():
    robot = dataclasses.replace(curved(1), strings=())
    with pytest.raises(ParameterError) as caught:
        ShapeEstimator(robot)
    assert "segment_1.kappa_x1" in str(caught.value)
    assert "segment_1.kappa_y1" in str(caught.value)
    assert "segment_1.kappa_x0" not in str(caught.value)  # the tendons see that one


def test_too_few_sensors_left_are_named_too_and_forgiven_later():
    estimator, c = ESTIMATORS["two_segment"], np.array([1.0, 2.0, -1.0, 0.5])
    q, _ = readings("two_segment", c)
    broken = q.copy()
    broken[6:] = np.nan
    estimate = estimator.update(broken, None, None, DT)
    assert "distal" in estimate.unobservable[0]
    assert np.isnan(estimate.coefficients[2:]).all()
    assert np.isinf(np.diag(estimate.covariance)[2:]).all()
    assert np.isnan(estimate.tip).all()
    np.testing.assert_allclose(estimate.coefficients[:2], c[:2], atol=1e-9)  # the others are still seen
    complete = estimator.update(q, None, None, DT)
    np.testing.assert_allclose(complete.coefficients, c, atol=1e-9)
    assert not complete.is_unobservable


def test_rates_that_no_velocity_gives_come_from_the_change():
    rod = RODS["chebyshev"]
    estimator = ShapeEstimator(ROBOTS["chebyshev"])
    slope = np.linspace(1, 2, rod.n)
    for k in range(1, 200):
        q, strings = readings("chebyshev", slope * k * DT)
        estimate = estimator.update(q, rod.displacement(slope), strings, DT)
    np.testing.assert_allclose(estimate.coefficient_rates, slope, rtol=5e-3)


def test_names_follow_the_order_of_the_coefficients():
    names = coefficient_names(ROBOTS["chebyshev"])
    assert names[:3] == ["segment_1.kappa_x0", "segment_1.kappa_y0", "segment_1.kappa_x1"]
    for name, robot in ROBOTS.items():
        assert len(coefficient_names(robot)) == RODS[name].n


@pytest.mark.parametrize(("tendons", "velocities", "strings"), [(4, 5, 2), (5, 4, 2), (5, 5, 3), (5, 5, 0)])
def test_wrong_shapes_are_refused(tendons, velocities, strings):
    with pytest.raises(ParameterError):
        ESTIMATORS["opencr_five_tendon"].update(np.zeros(tendons), np.zeros(velocities), np.zeros(strings), DT)
