# SPDX-License-Identifier: Apache-2.0
"""Two contacts at once: located where channels suffice, reported where they do not."""

from __future__ import annotations

import numpy as np
import pytest

from continuum_robot.estimation.contact.location import LEAST_GAIN, PairLocator
from continuum_robot.estimation.contact.monitor import PAIR_PERIOD_S, ContactMonitor
from continuum_robot.estimation.contact.wrench import WrenchEstimator
from continuum_robot.robot.loading import load_robot

DIRECTIONS = WrenchEstimator("point").directions
NOISE = 1e-3


@pytest.fixture(scope="module")
def two_segments():
    """A monitor of twelve channels that has seen a bent shape."""
    return seen("vanderbilt_two_segment")


@pytest.fixture(scope="module")
def one_segment():
    """A monitor of six channels that has seen a bent shape."""
    return seen("vanderbilt_segment")


def seen(name):
    robot = load_robot(name)
    monitor = ContactMonitor(robot, motors=True)
    c = 0.3 * np.random.default_rng(0).normal(size=monitor.coefficient_count)
    size = monitor.size
    estimate = monitor.update(c, 0 * c, 1e-8 * np.eye(size), 0.01, tension=np.full(robot.tendon_count, 20.0))
    return monitor, estimate


def residual(monitor, pushes, seed=1, noise=NOISE):
    """Of lateral forces at fractions of the length, with noise."""
    length_m, nodes = monitor.robot.length_m, monitor._jacobians
    total = noise * np.random.default_rng(seed).normal(size=monitor.size)
    for fraction, force in pushes:
        total = total + monitor.locator.jacobian_at(nodes, fraction * length_m)[:2].T @ np.array(force)
    return total


def found(monitor, pushes, seed=1, noise=NOISE):
    locator = PairLocator(monitor.locator, DIRECTIONS)
    information = np.eye(monitor.size) / noise**2
    return locator.update(monitor._jacobians, residual(monitor, pushes, seed, noise), information, 0.01)


@pytest.mark.parametrize(
    "pushes",
    [
        ((0.4, (-8.0, 0.0)), (1.0, (0.0, 4.0))),
        ((0.5, (5.0, 0.0)), (0.9, (5.0, 0.0))),
        ((0.2, (10.0, 0.0)), (0.5, (0.0, 10.0))),
        ((0.6, (0.0, 5.0)), (1.0, (0.0, -5.0))),
    ],
)
def test_two_segments_show_both_locations_and_forces(two_segments, pushes):
    monitor, _ = two_segments
    pair = found(monitor, pushes)
    assert pair.observable.all()
    assert not pair.reason
    fractions = pair.arc_lengths_m / monitor.robot.length_m
    assert fractions == pytest.approx([one for one, _ in pushes], abs=0.03)
    for force, (_, true) in zip(pair.forces_n, pushes, strict=True):
        assert force[:2] == pytest.approx(true, abs=1.2)
        assert force[2] == 0
    assert np.abs(pair.arc_lengths_m - [one * monitor.robot.length_m for one, _ in pushes]).max() < 3 * np.max(
        pair.deviations_m
    )


def test_the_deviations_cover_the_errors(two_segments):
    monitor, _ = two_segments
    pushes = ((0.45, (4.0, 3.0)), (0.95, (-3.0, 4.0)))
    scores = []
    for seed in range(20):
        pair = found(monitor, pushes, seed=seed)
        scores.append((pair.arc_lengths_m / monitor.robot.length_m - [0.45, 0.95]) / pair.deviations_m)
    scores = np.array(scores) * monitor.robot.length_m
    assert (np.abs(scores) < 2).mean() > 0.85


def test_one_contact_is_no_pair(two_segments):
    monitor, _ = two_segments
    pair = found(monitor, [(0.7, (5.0, 2.0))])
    assert pair.gain < LEAST_GAIN
    assert not pair.observable.any()
    assert "one contact explains" in pair.reason
    assert np.isnan(pair.forces_n).all()


def test_one_segment_reports_what_it_cannot_locate(one_segment):
    monitor, _ = one_segment
    pushes = [(0.2, (10.0, 0.0)), (0.5, (0.0, 10.0))]
    pairs = [found(monitor, pushes, seed, 3e-3) for seed in range(12)]
    hidden = [pair for pair in pairs if not pair.observable.all()]
    assert hidden
    for pair in hidden:
        assert pair.reason
        assert np.isnan(pair.forces_n[~pair.observable]).all()
        assert np.isnan(pair.deviations_m[~pair.observable]).all()
    true_m = monitor.robot.length_m * np.array([one for one, _ in pushes])
    scores = np.array([(pair.arc_lengths_m - true_m) / pair.deviations_m for pair in pairs])
    known = np.isfinite(scores)
    assert (np.abs(scores[known]) < 3).mean() > 0.9


def test_too_few_channels_are_reported():
    monitor, _ = seen("opencr_five_tendon")
    pair = PairLocator(monitor.locator, DIRECTIONS).update(monitor._jacobians, np.ones(2), np.eye(2), 0.01)
    assert "2 channels cannot determine two locations" in pair.reason


def test_the_monitor_computes_a_pair_where_there_are_several_only(two_segments):
    monitor, estimate = two_segments
    assert monitor.pair(estimate, False, 0.01) is None
    first = monitor.pair(estimate, True, 0.01)
    assert first is not None
    assert monitor.pair(estimate, True, 0.4 * PAIR_PERIOD_S) is first
    assert monitor.pair(estimate, True, PAIR_PERIOD_S) is not first
    assert monitor.pair(estimate, False, 0.01) is None
