# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from continuum_robot.drivers.device_clock import DeviceClock, wrapped_difference


@given(st.integers(0, 2**32 - 1), st.integers(-(2**31), 2**31 - 1))
def test_a_difference_of_counters_that_wrap(start: int, step: int) -> None:
    assert wrapped_difference((start + step) % 2**32, start) == step
    as_signed = (start + 2**31) % 2**32 - 2**31
    assert wrapped_difference(start + step, as_signed) == step


def arrivals(
    drift: float, seconds: float, *, start_us: int = 0, rate_hz: float = 1000.0, seed: int = 1
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """True sampling times on the host's clock, device times, and arrivals after a line with a tail of delays."""
    rng = np.random.default_rng(seed)
    true_s = 50.0 + np.arange(int(seconds * rate_hz)) / rate_hz
    device_us = (start_us + np.round((true_s - 50.0) * (1 + drift) * 1e6)).astype(np.int64) % 2**32
    delay_s = 2e-4 + rng.exponential(2e-3, true_s.size)
    return true_s, device_us, np.maximum.accumulate(true_s + delay_s)


@pytest.mark.parametrize("drift", [0.0, 1e-4, -1e-4])
def test_stamps_are_near_the_truth_however_late_frames_come(drift: float) -> None:
    clock = DeviceClock()
    true_s, device_us, arrival_s = arrivals(drift, 30.0)
    stamps = np.array([clock.update(int(t), a) for t, a in zip(device_us, arrival_s, strict=True)])
    assert (stamps <= arrival_s).all()
    settled = true_s > true_s[0] + 5.0
    # 0.2 ms is the least delay of the line, which nobody can see; the arrivals themselves are 2 ms off.
    error_s = stamps[settled] - true_s[settled]
    assert np.abs(error_s).max() < 5e-4
    assert np.abs(arrival_s[settled] - true_s[settled]).mean() > 2e-3
    assert clock.drift == pytest.approx(-drift, abs=3e-5)


@pytest.mark.parametrize("drift", [5e-3, -5e-3, -2e-3, 9e-3])
def test_the_clock_of_a_ceramic_resonator_is_followed_and_named(drift: float) -> None:
    """As of an Arduino Uno or Mega: without this, ages grow to 76 ms at 0.5 %, and the device looks silent for ever."""
    clock = DeviceClock()
    true_s, device_us, arrival_s = arrivals(drift, 30.0)
    stamps = np.array([clock.update(int(t), a) for t, a in zip(device_us, arrival_s, strict=True)])
    assert (arrival_s - stamps).max() < 0.05 + 0.03, "never so late that its frames look stale for long"
    settled = true_s > true_s[0] + 6.0
    assert np.abs(stamps[settled] - true_s[settled]).max() < 1e-3
    assert clock.drift == pytest.approx(-drift / (1 + drift), rel=0.02)
    assert clock.followed
    word = "fast" if drift > 0 else "slow"
    assert clock.problem == f"its clock runs {abs(drift):.2%} {word}: a quartz stays within 0.02%"


def test_a_clock_that_is_farther_off_than_it_follows_says_so() -> None:
    clock = DeviceClock()
    _, device_us, arrival_s = arrivals(-0.03, 10.0)
    for t, a in zip(device_us, arrival_s, strict=True):
        clock.update(int(t), a)
    assert not clock.followed
    assert re.fullmatch(r"its clock runs (2\.9|3\.0).% slow, more than the 1.00% .*ages.* allow for", clock.problem)


@pytest.mark.parametrize("drift", [0.0, 1e-4, -1e-4])
def test_a_second_in_which_all_comes_late_is_no_drift(drift: float) -> None:
    clock = DeviceClock()
    true_s, device_us, arrival_s = arrivals(drift, 20.0)
    late = (true_s > 58.0) & (true_s < 60.0)
    arrival_s = np.maximum.accumulate(arrival_s + 0.1 * late)
    stamps = np.array([clock.update(int(t), a) for t, a in zip(device_us, arrival_s, strict=True)])
    settled = true_s > 56.0
    assert np.abs(stamps[settled] - true_s[settled]).max() < 5e-3
    assert clock.problem == ""


def test_the_device_time_wraps() -> None:
    clock = DeviceClock()
    true_s, device_us, arrival_s = arrivals(0.0, 4.0, start_us=2**32 - 2_000_000)
    assert device_us[-1] < device_us[0]
    stamps = np.array([clock.update(int(t), a) for t, a in zip(device_us, arrival_s, strict=True)])
    assert np.abs(stamps[2000:] - true_s[2000:]).max() < 5e-4


def test_a_burst_after_a_stall_of_the_host_keeps_its_times() -> None:
    clock = DeviceClock()
    for tick in range(3000):
        clock.update(tick * 1000, tick * 1e-3 + 1e-4)
    stamps = [clock.update(tick * 1000, 3.6) for tick in range(3000, 3500)]
    assert stamps == pytest.approx([tick * 1e-3 + 1e-4 for tick in range(3000, 3500)], abs=1e-5)


def test_it_begins_anew() -> None:
    clock = DeviceClock()
    clock.update(5_000_000, 10.0)
    clock.reset()
    assert clock.update(0, 99.0) == 99.0
