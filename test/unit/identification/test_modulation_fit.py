# SPDX-License-Identifier: Apache-2.0
"""Calibration of a moment error: recovered truths, covariances that hold, data that tell too little."""

from dataclasses import replace

import numpy as np
import pytest

from continuum_robot.errors import ConvergenceError, IdentifiabilityError, ParameterError
from continuum_robot.experiments.wang import algorithm_1
from continuum_robot.experiments.wang.algorithm_1 import fit_as_printed
from continuum_robot.geometry import so3
from continuum_robot.identification.modulation_fit import FitSettings, ModulationData, fit, fit_table
from continuum_robot.mechanisms.equilibrium_modulation.kinematics import jacobians
from continuum_robot.mechanisms.equilibrium_modulation.moment_error import LinearMomentError, TabledMomentError
from continuum_robot.mechanisms.equilibrium_modulation.segment import make_segment, modulation_of
from continuum_robot.robot.loading import load_robot

SEGMENT = make_segment(modulation_of(load_robot("crem_segment")))
TRUE = LinearMomentError(1.024e-4, 6.5e-3)
ALL = ("k_lambda0", "k_lambdaq", "k_lambda_theta")


def data(degrees=(15, 30, 45, 60, 75), count=60, noise_m=0.0, error=TRUE, seed=0, turned=False):
    rng = np.random.default_rng(seed)
    theta = np.repeat(np.deg2rad(degrees), count)
    depth = np.tile(np.linspace(0, 0.04, count), len(degrees))
    pose = jacobians(SEGMENT, theta, 0.4, depth, error).pose
    rotation = so3.exp(noise_m * 100 * rng.standard_normal((len(theta), 3))) @ pose[:, :3, :3]
    return ModulationData(
        theta_rad=theta,
        delta_rad=np.full(len(theta), 0.4),
        insertion_m=depth,
        position_m=pose[:, :3, 3] + noise_m * rng.standard_normal((len(theta), 3)),
        rotation=rotation if turned else None,
    )


@pytest.mark.parametrize("turned", [False, True])
def test_without_noise_the_truth_is_found(turned):
    found = fit(SEGMENT, data(turned=turned))
    np.testing.assert_allclose(found.moment_error.parameters[:2], TRUE.parameters[:2], rtol=1e-7)
    assert found.rmse_m < 1e-12
    assert found.iterations <= 10  # the last ones at rounding


def test_three_parameters_are_found_from_several_angles():
    true = replace(TRUE, k_lambda_theta=5e-5)
    found = fit(SEGMENT, data(error=true, turned=True), FitSettings(names=ALL))
    np.testing.assert_allclose(found.moment_error.parameters, true.parameters, rtol=1e-6)


def test_algorithm_1_takes_the_paper_s_way():
    """With exact data the error shrinks by 1 - eta a step, as in table 3: 4.22, 6.72, 9.06 of 10.3."""
    found = fit_as_printed(SEGMENT, data(degrees=(45,), count=382, noise_m=2e-6))
    final = found.history_k[-1, 0]
    fractions = found.history_k[[5, 10, 20, 30], 0] / final
    np.testing.assert_allclose(fractions, np.array([4.22, 6.72, 9.06, 9.88]) / 10.3, atol=0.01)
    assert 40 < found.iterations < 70
    assert found.history_k[0].tolist() == [0, 0, 0]
    # A whole step needs a few.
    assert fit_as_printed(SEGMENT, data(noise_m=2e-6), step=1.0).iterations < 6


def test_both_ways_end_at_the_same_minimum():
    noisy = data(noise_m=2e-6)
    a, b = fit_as_printed(SEGMENT, noisy), fit(SEGMENT, noisy)
    np.testing.assert_allclose(a.rmse_m, b.rmse_m, rtol=0.01)
    assert b.iterations < a.iterations / 5
    assert b.rmse_m <= a.rmse_m


def test_recovery_with_tracking_noise_and_its_covariance():
    errors = []
    for seed in range(30):
        found = fit(SEGMENT, data(noise_m=2e-6, seed=seed))
        errors.append((found.moment_error.parameters[:2] - TRUE.parameters[:2]) / found.standard_deviation)
    # Errors over their stated deviations: of unit variance, 30 x 2 of them.
    assert 0.6 < np.std(errors) < 1.5
    averaged = fit(SEGMENT, data(count=382, noise_m=2e-6 / np.sqrt(10)))
    np.testing.assert_allclose(averaged.moment_error.parameters[:2], TRUE.parameters[:2], rtol=0.03)


def test_samples_that_were_not_seen_do_not_count():
    whole = data()
    torn = np.array(whole.position_m)
    torn[::3, 1] = np.nan
    found = fit(SEGMENT, replace(whole, position_m=torn))
    assert found.samples == 200
    np.testing.assert_allclose(found.moment_error.parameters[:2], TRUE.parameters[:2], rtol=1e-7)


def test_a_table_over_theta_is_found():
    true = TabledMomentError((0.2, 0.8, 1.4), (1e-4, 2e-4, 1.5e-4), (0.006, 0.008, 0.004))
    degrees = np.rad2deg(true.theta_rad)
    table, fits = fit_table(SEGMENT, data(degrees=degrees, error=true))
    np.testing.assert_allclose(table.k_lambda0, true.k_lambda0, rtol=1e-6)
    np.testing.assert_allclose(table.k_lambdaq, true.k_lambdaq, rtol=1e-6)
    assert len(fits) == 3


@pytest.mark.parametrize(
    ("change", "names", "parameters", "words"),
    [
        ({"degrees": (45,)}, ALL, ("k_lambda0", "k_lambda_theta"), "bending angles"),
        ({"count": 1}, ("k_lambda0",), ("k_lambda0",), "inserted"),
        ({"degrees": (45,), "count": 1}, ALL, ALL, "inserted"),
    ],
)
def test_data_that_tell_too_little_name_the_parameter(change, names, parameters, words):
    for way in (fit, fit_as_printed):
        with pytest.raises(IdentifiabilityError, match=words) as caught:
            way(SEGMENT, data(**change), FitSettings(names=names))
        assert caught.value.parameters == parameters


def test_one_depth_cannot_tell_the_constant_part_from_that_by_insertion():
    several = data(degrees=(30, 60), count=40)
    same = replace(several, insertion_m=np.full(80, 0.02))
    with pytest.raises(IdentifiabilityError, match="1 depths") as caught:
        fit(SEGMENT, same)
    assert caught.value.parameters == ("k_lambda0", "k_lambdaq")


def test_data_that_do_not_fit_are_refused():
    good = data(count=5)
    with pytest.raises(ParameterError, match="insertion_m"):
        fit(SEGMENT, replace(good, insertion_m=np.zeros(3)))
    with pytest.raises(ParameterError, match="insertion_m"):
        fit(SEGMENT, replace(good, insertion_m=np.full(25, 0.05)))
    with pytest.raises(ParameterError, match="without NaN"):
        fit(SEGMENT, replace(good, position_m=np.full((25, 3), np.nan)))
    with pytest.raises(ParameterError, match="theta_rad"):
        fit_table(SEGMENT, data(degrees=(45,)))
    for wrong in ({"names": ("k",)}, {"names": ()}, {"position_std_m": -1.0}, {"orientation_std_rad": np.nan}):
        with pytest.raises(ParameterError, match=next(iter(wrong))):
            FitSettings(**wrong)
    with pytest.raises(ParameterError, match="step"):
        fit_as_printed(SEGMENT, good, step=0.0)


def test_an_objective_that_goes_on_changing_is_an_error(monkeypatch):
    monkeypatch.setattr(algorithm_1, "_MOST_ITERATIONS", 3)
    with pytest.raises(ConvergenceError, match="Algorithm 1"):
        fit_as_printed(SEGMENT, data(count=10, noise_m=2e-6))
