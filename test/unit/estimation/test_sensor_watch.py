# SPDX-License-Identifier: Apache-2.0
"""Broken sensors of the capstan-driven segment: never a wrong shape without a word."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from continuum_robot.errors import ParameterError
from continuum_robot.estimation.differentiation import FilteredDerivative
from continuum_robot.estimation.sensor_watch import SensorWatch, StandstillWatch, WatchSettings
from continuum_robot.estimation.shape import ShapeEstimator
from continuum_robot.robot.loading import load_robot
from continuum_robot.rod.tendons import string_matrix, tendon_matrix
from continuum_robot.simulation.devices.sensors import StringEncoderModel, StringEncoderSettings

DT = 0.005
ROBOT = load_robot("vanderbilt_segment")
MATRIX = np.vstack([tendon_matrix(ROBOT), string_matrix(ROBOT)])
TENDONS, STRINGS = ROBOT.tendon_count, len(ROBOT.strings)
# What a shape may be wrong by before the watch has to speak, as the largest error of a place along strings and tendons.
TOLERATED_M = 4e-3


class Motion:
    """A smooth motion of all coefficients, the higher orders less, with the encoders' errors."""

    def __init__(self, seed):
        rng = np.random.default_rng(seed)
        order = np.arange(6) // 2
        self.size = rng.uniform(0.3, 1.0, 6) * np.array([2.4, 0.5, 0.15])[order]
        self.frequency_hz = rng.uniform(0.03, 0.25, 6)
        self.phase = rng.uniform(0, 2 * np.pi, 6)
        self.encoder = StringEncoderModel(STRINGS, StringEncoderSettings(), rng)
        self.rng = rng

    def c(self, t):
        return self.size * np.sin(2 * np.pi * self.frequency_hz * t + self.phase)

    def readings(self, t):
        truth = MATRIX @ self.c(t)
        tendons = truth[:TENDONS] + 5e-6 * self.rng.standard_normal(TENDONS)
        return np.concatenate([tendons, self.encoder.read(truth[TENDONS:])])


def make(**options):
    return ShapeEstimator(ROBOT, watch=WatchSettings(**options))


def run(estimator, motion, corrupt, duration_s, start_s=0.0):
    """Estimates along a motion whose readings ``corrupt`` changes."""
    previous = None
    for k in range(round(duration_s / DT)):
        t = start_s + k * DT
        previous = corrupt(t, motion.readings(t), previous)
        estimate = estimator.update(previous[:TENDONS], None, previous[TENDONS:], DT)
        yield t, estimate


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=6)
def test_a_sound_robot_is_never_called_unobservable(seed):
    estimator, motion = make(), Motion(seed)
    for t, estimate in run(estimator, motion, lambda _t, y, _p: y, 4.0):
        assert not estimate.broken, (t, estimate.broken)
        assert not estimate.is_unobservable
        assert np.abs(MATRIX @ (estimate.coefficients - motion.c(t))).max() < 1e-3


def fault_of(kind, sensor, size_m, start_s):
    def corrupt(t, readings, previous):
        if t >= start_s:
            if kind == "nan":
                readings[sensor] = np.nan
            elif kind == "frozen" and previous is not None:
                readings[sensor] = previous[sensor]
            elif kind == "snapped":
                readings[sensor] += size_m * min(1.0, 1 / 3 + (t - start_s) / 0.02)  # the reel pulls it in
        return readings

    return corrupt


@given(
    seed=st.integers(0, 2**32 - 1),
    kind=st.sampled_from(["nan", "frozen", "snapped"]),
    string=st.integers(0, STRINGS - 1),
    size_m=st.one_of(st.floats(0.03, 0.1), st.floats(-0.1, -0.03)),
)
@example(seed=100, kind="frozen", string=0, size_m=0.03)
def test_a_wrong_string_never_makes_a_wrong_shape_silently(seed, kind, string, size_m):
    """The four strings and two capstans make a square set: without one of them something cannot be seen."""
    estimator, motion = make(), Motion(seed)
    corrupt = fault_of(kind, TENDONS + string, size_m, 1.0)
    for t, estimate in run(estimator, motion, corrupt, 3.5):
        if estimate.is_unobservable:
            wrong = np.isfinite(estimate.coefficients)
            assert not wrong.all()
            assert np.isinf(np.diag(estimate.covariance)[~wrong]).all()
            assert np.isnan(estimate.coefficient_rates[~wrong]).all()
            assert np.isnan(estimate.tip).all()
        else:
            miss_m = np.abs(MATRIX @ (estimate.coefficients - motion.c(t))).max()
            assert miss_m < TOLERATED_M, (kind, t, miss_m, estimate.broken)
    if kind != "frozen":
        assert estimate.is_unobservable
        assert estimate.broken
        assert f"string_{string + 1}" in estimate.unobservable[0]


@pytest.mark.parametrize("sensor", range(TENDONS + STRINGS))
def test_a_jump_is_blamed_on_the_sensor_that_jumped_and_stays_blamed(sensor):
    estimator, motion = make(), Motion(3)
    name = estimator.sensor_names[sensor]

    def corrupt(t, readings, _previous):
        readings[sensor] += 0.02 * (1.0 < t < 1.2)
        return readings

    for t, estimate in run(estimator, motion, corrupt, 2.0):
        if t > 1.01:
            assert estimate.broken[0].startswith(f"{name} jumped")
            assert len(estimate.broken) == 1
            assert estimate.is_unobservable == (sensor >= TENDONS)  # of two opposite tendons one is enough
    estimator.reset()
    assert not next(run(estimator, motion, lambda _t, y, _p: y, DT))[1].broken


@pytest.mark.parametrize("string", range(STRINGS))
def test_a_frozen_string_is_found_while_the_robot_moves(string):
    estimator = make()
    motion = Motion(3)
    motion.size = np.array([2.0, 1.5, 0.2, 0.3, 0.05, 0.05])
    motion.frequency_hz = np.full(6, 0.2)
    *_, (_, estimate) = run(estimator, motion, fault_of("frozen", TENDONS + string, 0.0, 1.0), 4.0)
    assert estimate.broken[0].startswith(f"string_{string + 1} frozen")
    assert len(estimate.broken) == 1
    assert "(frozen)" in estimate.unobservable[0]


def test_a_string_that_stands_still_while_others_move_is_a_suspect_until_it_changes():
    watch = StandstillWatch(["one", "two"], moved_m=1e-4)
    assert watch.update([0.0, 0.0], [0.0]) == ()
    assert watch.update([0.0, 9e-5], [0.0]) == ()
    assert watch.update([0.0, 2e-4], [0.0]) == ("one",)
    assert watch.update([1e-6, 3e-4], [0.0]) == ()
    assert watch.update([1e-6, 3e-4], [2e-4]) == ("one", "two")
    assert watch.update([math.nan, 3e-4], [math.nan]) == ()  # what is not known is no suspect, nor evidence
    watch.reset()
    assert watch.update([1e-6, 3e-4], [9.0]) == ()
    with pytest.raises(ParameterError, match="2 readings"):
        watch.update([0.0], [0.0])


@pytest.mark.parametrize("string", range(STRINGS))
def test_a_frozen_string_is_a_suspect_long_before_it_is_proved_frozen(string):
    estimator, motion = make(), Motion(3)
    watch = StandstillWatch([f"string_{k + 1}" for k in range(STRINGS)], 1e-4)
    moved_m, suspected = [], []
    corrupt = fault_of("frozen", TENDONS + string, 0.0, 1.0)
    previous = None
    for k in range(400):
        t = k * DT
        previous = corrupt(t, motion.readings(t), previous)
        health = estimator.update(previous[:TENDONS], None, previous[TENDONS:], DT)
        if health.broken:
            break
        named = watch.update(previous[TENDONS:], previous[:TENDONS])
        if t > 1.0:
            moved_m.append(abs(MATRIX[TENDONS + string] @ (motion.c(t) - motion.c(1.0))))
            suspected.append(f"string_{string + 1}" in named)
    first = suspected.index(True)
    assert all(suspected[first:])
    assert moved_m[first] < 2.7e-4  # the largest error of a sound encoder


def test_the_names_say_what_is_not_seen_and_why():
    estimator, motion = make(unknown_s=0.05), Motion(3)
    corrupt = fault_of("nan", TENDONS, 0.0, 0.5)
    estimates = [estimate for _, estimate in run(estimator, motion, corrupt, 1.0)]
    first, last = estimates[101], estimates[-1]
    assert "distal.kappa_x1" in first.unobservable[0]
    assert "string_1 (no reading now)" in first.unobservable[0]
    assert not first.broken
    assert last.broken[0].startswith("string_1 unknown")
    assert "string_1 (unknown)" in last.unobservable[0]


def test_a_gap_heals_where_the_reading_fits_afterwards_and_not_where_it_does_not():
    for offset_m, broken in ((0.0, False), (0.03, True)):
        estimator, motion = make(), Motion(4)

        def corrupt(t, readings, _previous, offset_m=offset_m):
            if t >= 1.0:
                readings[TENDONS + 2] = np.nan if t < 1.04 else readings[TENDONS + 2] + offset_m
            return readings

        *_, (_, estimate) = run(estimator, motion, corrupt, 1.5)
        assert bool(estimate.broken) == broken
        assert estimate.is_unobservable == broken


def test_a_robot_at_rest_may_show_the_same_reading_for_ever():
    estimator, readings = make(), np.zeros(TENDONS + STRINGS)
    for _ in range(2000):
        estimate = estimator.update(readings[:TENDONS], None, readings[TENDONS:], DT)
    assert not estimate.broken


def test_without_a_watch_only_nan_makes_unobservable():
    estimator, motion = ShapeEstimator(ROBOT), Motion(5)
    readings = motion.readings(0.0)
    assert estimator.fit.needs_strings
    assert not estimator.update(readings[:TENDONS], None, readings[TENDONS:], DT).is_unobservable
    lost = estimator.update(readings[:TENDONS], None, None, DT)
    assert lost.is_unobservable
    assert lost.sensor_count == TENDONS
    assert np.isnan(lost.coefficients).all()  # a tendon's path mixes orders: none of them is seen alone
    assert np.isnan(lost.coefficient_rates).all()


def test_all_sensors_lost_is_unobservable_not_an_error():
    estimator = make()
    nothing = estimator.update(np.full(TENDONS, np.nan), None, np.full(STRINGS, np.inf), DT)
    assert nothing.sensor_count == 0
    assert np.isnan(nothing.coefficients).all()
    assert np.isnan(nothing.residual_m)
    assert nothing.is_unobservable


def test_a_set_of_strings_that_cannot_see_is_refused_by_name():
    strings = tuple(
        dataclasses.replace(string, angle_rad=0.0, name=f"s{index}") for index, string in enumerate(ROBOT.strings)
    )
    with pytest.raises(ParameterError, match=r"distal\.kappa_x"):
        ShapeEstimator(dataclasses.replace(ROBOT, strings=strings))


def test_rates_come_from_the_kalman_filter_with_their_covariance():
    motion, derivative = Motion(8), FilteredDerivative(0.01)
    found = []
    for t, estimate in run(ShapeEstimator(ROBOT), motion, lambda _t, y, _p: y, 4.0):
        rate = (motion.c(t + 1e-6) - motion.c(t - 1e-6)) / 2e-6
        found.append([estimate.coefficient_rates - rate, derivative.update(estimate.coefficients, DT) - rate])
    assert estimate.motion is not None
    filtered, differentiated = np.sqrt(np.mean(np.square(found[400:]), axis=0))
    assert (filtered < differentiated).all()


@pytest.mark.parametrize(("readings", "dt"), [(np.zeros(3), DT), (np.zeros(8), -1.0), (np.zeros(8), np.nan)])
def test_nonsense_is_refused(readings, dt):
    watch = SensorWatch(
        MATRIX, [str(k) for k in range(8)], list("abcdef"), coefficient_scale=np.ones(6), coefficient_orders=np.zeros(6)
    )
    with pytest.raises(ParameterError):
        watch.update(readings, dt)
