# SPDX-License-Identifier: Apache-2.0
"""Shape of a robot with helical tendons from their displacements: the statics' own answer, slack, unknown tendons."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from continuum_robot.errors import ParameterError
from continuum_robot.estimation.mechanism_shape import make_shape_estimator
from continuum_robot.estimation.sensor_watch import WatchSettings
from continuum_robot.estimation.strain_shape import StrainShapeEstimator
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.tendons import String
from continuum_robot.rod.strain_statics import equilibrium

ROBOT = load_robot("rucker_helical")
REST = np.zeros(ROBOT.tendon_count)
TENSION = np.array([2.0, 0.5, 0.7, 0.5])


def wound(estimator: StrainShapeEstimator, tension: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients at tensions, and how far the spools have to turn for them."""
    c = equilibrium(estimator.rod, tension).c
    return c, estimator.rod.tendon_displacement(c) + tension / ROBOT.simulation.tendon_stiffness_n_per_m


def test_it_finds_the_equilibrium_that_made_the_displacements():
    estimator = make_shape_estimator(ROBOT, WatchSettings())
    assert isinstance(estimator, StrainShapeEstimator)
    c, displacement = wound(estimator, TENSION)
    found = estimator.update(displacement, REST)
    assert found.coefficients == pytest.approx(c, abs=1e-4 * np.abs(c).max())
    assert found.tip == pytest.approx(estimator.rod.poses(c, [ROBOT.length_m])[0], abs=1e-6)
    assert found.sensor_count == 4
    assert not found.is_blind


def test_rates_and_covariance_are_the_slope_by_the_displacements():
    estimator = StrainShapeEstimator(ROBOT)
    _, displacement = wound(estimator, TENSION)
    velocity, step = np.array([0.01, -0.02, 0.005, 0.0]), 1e-3
    found = estimator.update(displacement, velocity)
    ends = [estimator.update(displacement + share * step * velocity, REST).coefficients for share in (1, -1)]
    slope = (ends[0] - ends[1]) / (2 * step)
    assert found.coefficient_rates == pytest.approx(slope, abs=1e-3 * np.abs(slope).max())
    assert np.linalg.eigvalsh(found.covariance)[-1] > 0
    assert found.covariance == pytest.approx(found.covariance.T)


def test_a_slack_tendon_tells_nothing_but_that_it_is_slack():
    estimator = StrainShapeEstimator(ROBOT)
    c, displacement = wound(estimator, np.array([2.0, 0.0, 0.0, 0.0]))
    displacement[1:] -= 5e-3
    assert estimator.update(displacement, REST).coefficients == pytest.approx(c, abs=1e-4 * np.abs(c).max())


def test_strings_measure_how_far_it_is_off():
    string = String(name="s", start_m=0.0, anchor_m=ROBOT.length_m, pitch_radius_m=0.008, angle_rad=0.3)
    estimator = StrainShapeEstimator(replace(ROBOT, strings=(string,)))
    c, displacement = wound(estimator, TENSION)
    extension = estimator.rod.string_extension(c)
    assert estimator.update(displacement, REST, extension).residual_m == pytest.approx(0.0, abs=1e-6)
    assert estimator.update(displacement, REST, extension + 1e-3).residual_m == pytest.approx(1e-3, rel=1e-2)


def test_an_unknown_tendon_makes_it_blind_and_it_recovers():
    estimator = StrainShapeEstimator(ROBOT)
    c, displacement = wound(estimator, TENSION)
    blind = estimator.update(np.array([np.nan, *displacement[1:]]), REST)
    assert blind.is_blind
    assert np.isnan(blind.coefficients).all()
    assert np.isnan(blind.tip).all()
    assert estimator.update(displacement, REST).coefficients == pytest.approx(c, abs=1e-4 * np.abs(c).max())
    with pytest.raises(ParameterError, match="displacement"):
        estimator.update(displacement[:2], REST)
