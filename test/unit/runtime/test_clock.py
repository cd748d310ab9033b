# SPDX-License-Identifier: Apache-2.0
"""Clocks: a step of the wall clock changes stamps and no age; simulated time does not run backwards."""

from __future__ import annotations

import time

import pytest

from continuum_robot.errors import ParameterError
from continuum_robot.runtime.clock import START_NS, RealClock, SteppedClock


def test_a_step_of_the_wall_clock_changes_no_age(monkeypatch):
    clock, wall_ns = RealClock(), time.time_ns
    before_s, before_ns = clock.monotonic_s(), clock.monotonic_ns()
    monkeypatch.setattr(time, "time_ns", lambda: wall_ns() - 3600 * 10**9)
    assert 0 <= clock.monotonic_s() - before_s < 60
    assert 0 <= clock.monotonic_ns() - before_ns < 60e9
    assert clock.now_ns() < wall_ns() - 3599 * 10**9


def test_the_stamp_of_an_instant_lies_as_far_back_as_the_instant():
    clock = RealClock()
    now_ns = clock.now_ns()
    assert now_ns - clock.stamp_ns(clock.monotonic_s() - 2.0) == pytest.approx(2e9, abs=1e9)


def test_simulated_time_is_what_was_set():
    clock = SteppedClock()
    assert clock.now_ns() == clock.monotonic_ns() == START_NS
    clock.set_ns(1_234_567_891)
    assert clock.monotonic_s() == 1.234567891
    assert clock.stamp_ns(clock.monotonic_s()) == clock.now_ns() == 1_234_567_891


def test_simulated_time_does_not_run_backwards():
    clock = SteppedClock()
    clock.set_ns(START_NS)
    with pytest.raises(ParameterError, match="backwards"):
        clock.set_ns(START_NS - 1)
