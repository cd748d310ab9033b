# SPDX-License-Identifier: Apache-2.0
"""Simulated string encoders: the stated errors, multi-turn counts, and the same numbers for the same seed."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from continuum_robot.errors import ParameterError
from continuum_robot.robot.loading import load_robot
from continuum_robot.simulation.devices.plant_link import StringSample
from continuum_robot.simulation.devices.sensors import (
    SimulatedStringEncoders,
    StringEncoderModel,
    StringEncoderSettings,
)

SETTINGS = StringEncoderSettings()


def over_the_stroke(count, samples=6000, stroke_m=SETTINGS.stroke_m):
    return np.linspace(-stroke_m / 2, stroke_m / 2, samples)[:, None] * np.ones(count)


@given(seed=st.integers(0, 2**32 - 1))
def test_mean_and_largest_error_are_the_papers(seed):
    model = StringEncoderModel(3, SETTINGS, np.random.default_rng(seed))
    truth = over_the_stroke(3)
    error = np.abs(model.read(truth) - truth)
    np.testing.assert_allclose(error.mean(axis=0), 1.0e-4, rtol=0.03)
    assert (error.max(axis=0) < 2.8e-4).all()
    assert (error.max(axis=0) > 2.3e-4).all()


def test_most_of_the_error_is_smooth_and_home_is_right():
    model = StringEncoderModel(4, SETTINGS, np.random.default_rng(1))
    truth = over_the_stroke(4)
    systematic = model.systematic_error(truth)
    np.testing.assert_allclose(model.systematic_error(np.zeros(4)), 0.0, atol=1e-15)
    assert np.abs(np.diff(systematic, axis=0) / np.diff(truth, axis=0)).max() < 0.06
    rest = model.read(truth) - truth - systematic
    expected = np.hypot(SETTINGS.noise_m, SETTINGS.resolution_m / np.sqrt(12))
    np.testing.assert_allclose(rest.std(axis=0), expected, rtol=0.1)


def test_counts_go_on_over_turns():
    quiet = StringEncoderSettings(mean_error_m=0.0, noise_m=0.0)
    model = StringEncoderModel(1, quiet, np.random.default_rng(0))
    turn_m = 2 * np.pi * quiet.drum_radius_m
    assert quiet.resolution_m == pytest.approx(12.27e-6, rel=1e-3)
    for turns in (-2, -1, 0, 1, 2):
        assert model.counts(np.array([turns * turn_m]))[0] == 4096 * turns
    assert 0.06 / turn_m > 1  # the stroke needs that


def test_the_same_seed_gives_the_same_readings():
    truth = over_the_stroke(2, 50)
    first, second, other = (
        StringEncoderModel(2, SETTINGS, np.random.default_rng(seed)).read(truth) for seed in (7, 7, 8)
    )
    np.testing.assert_array_equal(first, second)
    assert np.abs(first - other).max() > 1e-5


@pytest.mark.parametrize("change", [{"largest_error_m": 1.1e-4}, {"largest_error_m": 2e-3}])
def test_errors_that_do_not_fit_together_are_refused(change):
    with pytest.raises(ParameterError, match="largest_error_m"):
        StringEncoderModel(1, dataclasses.replace(SETTINGS, **change), np.random.default_rng(0))


class Still:
    """A source of strings at rest."""

    def __init__(self, extension_m):
        self.extension_m, self.time_s = np.array(extension_m), 0.0

    def open(self):
        pass

    def read(self):
        self.time_s += 0.01
        return StringSample(self.time_s, self.extension_m)

    def close(self):
        pass


def test_a_robot_file_with_systematic_errors_gets_them():
    robot = load_robot("opencr_five_tendon")
    simulation = dataclasses.replace(
        robot.simulation, string_mean_error_m=1e-4, string_largest_error_m=2.7e-4, string_resolution_m=1.2272e-5
    )
    source = Still([0.03, -0.02])
    encoders = SimulatedStringEncoders(dataclasses.replace(robot, simulation=simulation), source)
    encoders.open()
    read = np.array([encoders.read(0.01 * (k + 1)).extension_m for k in range(200)])
    lasting = np.abs(read.mean(axis=0) - source.extension_m)
    assert (lasting > 1e-6).all()
    assert (lasting < 2.7e-4).all()
    np.testing.assert_allclose(np.round(read / 1.2272e-5), read / 1.2272e-5, atol=1e-6)
