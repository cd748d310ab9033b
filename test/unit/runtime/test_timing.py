# SPDX-License-Identifier: Apache-2.0
"""Statistics of loops and round trips, without ROS and without measuring real time."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from continuum_robot.runtime.round_trips import RoundTripStatistics
from continuum_robot.runtime.timing import Histogram, LoopStatistics

MS = 1_000_000


@given(st.lists(st.integers(0, 19_000_000), min_size=1, max_size=300), st.floats(0.01, 1.0))
def test_quantiles_are_right_to_a_bin(times_ns, fraction):
    histogram = Histogram(bin_us=5.0)
    for time_ns in times_ns:
        histogram.add(time_ns)
    exact_us = np.quantile(times_ns, fraction, method="inverted_cdf") * 1e-3
    assert exact_us - 1e-9 <= histogram.quantile_us(fraction) <= exact_us + 5.0 + 1e-9
    assert histogram.maximum_us == pytest.approx(max(times_ns) * 1e-3)
    assert histogram.mean_us == pytest.approx(np.mean(times_ns) * 1e-3)
    assert histogram.deviation_us == pytest.approx(np.std(times_ns) * 1e-3, rel=1e-4, abs=0.05)


def test_an_empty_histogram_knows_nothing():
    histogram = Histogram()
    values = (histogram.mean_us, histogram.deviation_us, histogram.quantile_us(0.5), histogram.maximum_us)
    assert all(math.isnan(value) for value in values)


def test_times_beyond_the_limit_keep_their_maximum():
    histogram = Histogram(bin_us=5.0, limit_us=100.0)
    histogram.add(3_000_000)
    assert histogram.quantile_us(0.99) == 3000.0


def test_loop_statistics_count_cycles_and_missed_deadlines():
    statistics = LoopStatistics()
    starts_ms = [10, 11, 12, 15, 16]  # the deadlines 13 and 14 passed without a cycle
    for before, start in zip([9, *starts_ms], starts_ms, strict=False):
        statistics.begin(start * MS, max(0, start - before - 1))
        statistics.end(start * MS + MS // 4)
    report = statistics.report()
    assert (report.cycles, report.missed) == (5, 2)
    assert report.missed_percent == pytest.approx(100 * 2 / 7)
    assert report.duration_s == pytest.approx(6e-3)
    assert report.rate_hz == pytest.approx(4 / 6e-3)
    assert report.period_max_us == pytest.approx(3000)
    assert report.execution_mean_us == pytest.approx(250)


def test_a_reset_starts_the_loop_statistics_over():
    statistics = LoopStatistics()
    for start in (1, 2, 9):
        statistics.begin(start * MS, 0)
        statistics.end(start * MS)
    statistics.reset()
    statistics.begin(20 * MS, 11)
    statistics.end(20 * MS)
    report = statistics.report()
    assert (report.cycles, report.missed, report.duration_s) == (1, 0, 0.0)


def test_round_trips_match_commands_with_states():
    trips = RoundTripStatistics(period_s=1e-3)
    for sequence in range(1, 6):
        trips.published(sequence, sequence * MS)
    assert trips.received(3, 3 * MS + 400_000) == 400_000
    assert trips.received(4, 6 * MS) == 2 * MS  # more than a period: late
    assert trips.received(0, 7 * MS) is None
    assert trips.received(99, 7 * MS) is None
    report = trips.report()
    assert (report.states, report.commands, report.late) == (5, 2, 1)
    assert (report.unsequenced, report.unknown) == (1, 1)
    assert report.maximum_us == pytest.approx(2000)


def test_a_state_long_ago_is_unknown():
    trips = RoundTripStatistics(period_s=1e-3, memory=8)
    for sequence in range(1, 20):
        trips.published(sequence, sequence * MS)
    assert trips.received(3, 20 * MS) is None
    assert trips.received(19, 20 * MS) == MS
