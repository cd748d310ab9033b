# SPDX-License-Identifier: Apache-2.0
"""Lock-step without messages: the order of timers, and whose turn it is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from continuum_robot.errors import ParameterError
from continuum_robot.runtime.clock import START_NS, SteppedClock
from continuum_robot.runtime.turns import NEVER_NS, SteppedTimers, Turns


def test_timers_fire_in_the_order_of_due_times_then_of_creation():
    clock, fired = SteppedClock(), []
    timers = SteppedTimers(clock, list)
    for name, period_s in (("b", 0.002), ("a", 0.001), ("c", 0.002)):
        timers.create(lambda name=name: fired.append(name)).start(period_s)
    assert timers.next_due_ns == START_NS + 1_000_000
    timers.fire(START_NS + 2_000_000)
    # The earlier one first, once though it was due twice.
    assert fired == ["a", "b", "c"]
    assert timers.next_due_ns == START_NS + 3_000_000


@given(st.integers(1, 10**7), st.lists(st.integers(0, 10**8), min_size=1, max_size=20))
def test_a_timer_stays_on_its_grid_and_skips_what_was_missed(period_ns, steps):
    clock, fired = SteppedClock(), []
    timers = SteppedTimers(clock, list)
    timers.create(lambda: fired.append(clock.monotonic_ns())).start(period_ns * 1e-9)
    now_ns = START_NS
    for step in steps:
        now_ns += step
        clock.set_ns(now_ns)
        timers.fire(now_ns)
        assert now_ns < timers.next_due_ns <= now_ns + period_ns
        assert (timers.next_due_ns - START_NS) % period_ns == 0
    assert len(fired) == len(set(fired))


def test_a_timer_that_its_callback_stops_is_not_due_any_more():
    clock, changes = SteppedClock(), []
    timers = SteppedTimers(clock, lambda: changes.append(1))
    timer = timers.create(lambda: timer.cancel())  # noqa: PLW0108 - it has no name yet
    timer.start(0.001)
    timers.fire(START_NS + 5_000_000)
    assert timers.next_due_ns == NEVER_NS
    assert len(changes) == 2


def test_a_period_below_a_nanosecond_is_refused():
    with pytest.raises(ParameterError, match="period_s"):
        SteppedTimers(SteppedClock(), list).create(list).start(0.0)


def test_it_is_the_turn_of_those_with_news_or_a_timer_that_is_due():
    turns = Turns(["estimator", "source"])
    estimator, source = turns.members.values()
    turns.note("estimator", {"/shape": 0}, ("/states",), NEVER_NS)
    turns.note("source", {}, (), 5)
    assert not turns.is_due(estimator, 4)
    assert not turns.is_due(source, 4)
    assert turns.is_due(source, 5)
    turns.count("/states")
    assert turns.is_due(estimator, 4)
    assert turns.unheard(estimator) == ["/states"]
    turns.give(estimator)
    assert not turns.is_due(estimator, 4)


def test_what_participants_publish_is_counted_once_and_over_restarts():
    turns = Turns(["one", "two"])
    for name, count in (("one", 3), ("one", 3), ("one", 4), ("two", 2), ("one", 1), ("stranger", 7)):
        turns.note(name, {"/topic": count}, (), NEVER_NS)
    assert turns.totals == {"/topic": 7}
    assert all(member.here for member in turns.members.values())
