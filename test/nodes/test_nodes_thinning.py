# SPDX-License-Identifier: Apache-2.0
"""At most one message a period, on the beat, with grace for jitter."""

import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")

from hypothesis import given
from hypothesis import strategies as st

from continuum_robot.nodes.topics.thinning import Thinning


def due(times, period_ns, grace=0.0):
    thinning = Thinning(grace)
    thinning.period_ns = period_ns
    return [now_ns for now_ns in times if thinning.due(now_ns)]


def test_every_tenth_of_an_even_stream():
    assert due(range(0, 1000, 10), 100) == list(range(0, 1000, 100))


def test_jitter_moves_no_later_beat():
    assert due([0, 99, 103, 199, 204, 300], 100) == [0, 103, 204, 300]
    assert due([0, 40, 60, 103, 199, 300], 100, grace=0.5) == [0, 60, 199, 300]


def test_what_a_gap_left_out_is_not_made_up_for():
    assert due([0, 1000, 1010, 1099, 1100], 100) == [0, 1000, 1100]


@given(st.lists(st.integers(0, 10**6), min_size=1).map(sorted), st.integers(1, 10**4))
def test_never_more_than_one_a_period_and_never_silent(times, period_ns):
    found = due(times, period_ns)
    assert len(found) <= (times[-1] - times[0]) // period_ns + 2
    assert found[0] == times[0]
    assert all(now_ns - max(f for f in found if f <= now_ns) < 2 * period_ns for now_ns in times)
