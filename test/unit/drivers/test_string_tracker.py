# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest
import string_board
from hypothesis import given
from hypothesis import strategies as st

from continuum_robot.drivers.string_encoder_serial.codec import CountsFrame, Status, status_word
from continuum_robot.drivers.string_encoder_serial.device import StringTracker
from continuum_robot.errors import ParameterError

ZEROED = status_word(Status.ZEROED, 1)


def frame(tick: int, counts: tuple[int, ...] = (0, 0, 0, 0), status: int = ZEROED) -> CountsFrame:
    c0, c1, c2, c3 = ((count + 2**31) % 2**32 - 2**31 for count in counts)
    return CountsFrame(tick % 2**16, tick * 1000 % 2**32, (c0, c1, c2, c3), status)


def tracker() -> StringTracker:
    return StringTracker(string_board.settings(), string_board.NAMES)


def test_counts_become_extensions_by_channel_radius_and_polarity() -> None:
    follower = tracker()
    follower.update([frame(1, (100, 7, -50, 9))], 1.0)
    reading = follower.reading(1.0)
    meter = string_board.METER_PER_COUNT
    # string_x turns channel 2 backwards on twice the radius, string_y channel 0.
    np.testing.assert_allclose(reading.extension_m, [50 * 2 * meter, 100 * meter], rtol=1e-12)
    assert reading.device_faults == ()


@given(
    st.integers(-(2**31), 2**31 - 1),
    st.lists(st.integers(-20, 20), min_size=1, max_size=50),
    st.integers(0, 2**16 - 1),
    st.integers(0, 2**32 - 1),
)
def test_counters_sequence_and_time_may_wrap(start: int, steps: list[int], sequence: int, time_us: int) -> None:
    follower = tracker()
    count = start
    follower.update([CountsFrame(sequence, time_us, frame(0, (count, 0, 0, 0)).counts, ZEROED)], 5.0)
    for index, step in enumerate(steps, 1):
        count += step
        wrapped = frame(0, (count, 0, 0, 0)).counts
        follower.update(
            [CountsFrame((sequence + index) % 2**16, (time_us + 1000 * index) % 2**32, wrapped, ZEROED)],
            5.0 + index * 1e-3,
        )
    reading = follower.reading(5.0 + len(steps) * 1e-3)
    assert reading.extension_m[1] == pytest.approx(count * string_board.METER_PER_COUNT, rel=1e-12)
    assert reading.stamp_s == pytest.approx(5.0 + len(steps) * 1e-3, abs=1e-9)
    assert (follower.lost, follower.late, follower.restarts) == (0, 0, 0)


def test_nothing_is_known_before_a_frame_and_before_a_zero() -> None:
    follower = tracker()
    nothing = follower.reading(3.0)
    assert np.isnan(nothing.extension_m).all()
    assert np.isinf(nothing.age_s).all()
    assert nothing.device_faults == ("board sends nothing",)
    follower.update([frame(1, (10, 10, 10, 10), 0)], 3.0)
    reading = follower.reading(3.0)
    assert np.isnan(reading.extension_m).all()
    assert reading.device_faults == ("no zero was set",)
    assert not follower.zeroed


def test_silence_makes_values_unknown_with_a_growing_age() -> None:
    follower = tracker()
    follower.update([frame(1)], 1.0)
    assert np.isfinite(follower.reading(1.04).extension_m).all()
    late = follower.reading(1.06)
    assert np.isnan(late.extension_m).all()
    np.testing.assert_allclose(late.age_s, 0.06)
    assert late.device_faults == ("board silent for more than 0.05 s",)


def test_lost_frames_are_counted_and_cost_nothing_else() -> None:
    follower = tracker()
    follower.update([frame(1), frame(2), frame(5, (30, 0, 0, 0)), frame(65541, (40, 0, 0, 0))], 1.0)
    # 65536 frames on, the number is the same again and counts as a repetition: one frame more.
    follower.update([frame(65542, (41, 0, 0, 0))], 1.0)
    assert follower.lost == 2
    assert follower.reading(1.0).extension_m[1] == pytest.approx(41 * string_board.METER_PER_COUNT)


def test_frames_that_come_twice_or_late_change_nothing() -> None:
    follower = tracker()
    follower.update([frame(3, (3, 0, 0, 0)), frame(2, (2, 0, 0, 0)), frame(3, (3, 0, 0, 0))], 1.0)
    assert follower.late == 2
    assert follower.restarts == 0
    assert follower.reading(1.0).extension_m[1] == pytest.approx(3 * string_board.METER_PER_COUNT)


@pytest.mark.parametrize(
    "after",
    [frame(1, status=int(Status.JUST_BOOTED)), frame(1, status=0), frame(4_000_000, status=0)],
    ids=["boot flag", "time back", "zero gone"],
)
def test_a_restart_of_the_board_loses_the_zero_and_is_no_motion(after: CountsFrame) -> None:
    follower = tracker()
    follower.update([frame(3_000_000, (5000, 0, 0, 0))], 1.0)
    follower.update([after], 2.0)
    reading = follower.reading(2.0)
    assert np.isnan(reading.extension_m).all()
    assert reading.device_faults == ("board started again: its zero is lost",)
    assert follower.restarts == 1
    assert reading.stamp_s == 2.0
    # The next zero ends it.
    follower.update([frame(4_000_002, (0, 0, 0, 0), ZEROED)], 2.001)
    assert follower.reading(2.001).device_faults == ()


def test_a_jump_makes_one_string_unknown_until_the_next_zero() -> None:
    follower = tracker()
    follower.update([frame(1), frame(2, (0, 0, 2000, 0)), frame(3, (0, 0, 2000, 0))], 1.0)
    reading = follower.reading(1.0)
    assert np.isnan(reading.extension_m[0])
    assert reading.extension_m[1] == 0
    assert reading.device_faults == ("string_x: position jumped",)
    follower.update([frame(4, status=status_word(Status.ZEROED, 2))], 1.001)
    assert follower.reading(1.001).device_faults == ()


def test_motion_over_lost_frames_is_no_jump() -> None:
    follower = tracker()
    # 5 m/s is the limit: 326 counts in a millisecond, 100 ms later a hundred times as many.
    follower.update([frame(1), frame(101, (30_000, 0, 0, 0))], 1.0)
    assert follower.reading(1.0).device_faults == ()
    follower.update([frame(102, (30_331, 0, 0, 0))], 1.001)
    assert follower.reading(1.001).device_faults == ("string_y: position jumped",)


@pytest.mark.parametrize(
    ("flag", "problem"),
    [(Status.MAGNET_FAULT_2, "magnet out of reach of its encoder"), (Status.JUMP_2, "position jumped")],
)
def test_what_the_board_reports_is_latched_too(flag: Status, problem: str) -> None:
    follower = tracker()
    follower.update([frame(1), frame(2, status=status_word(Status.ZEROED | flag, 1)), frame(3)], 1.0)
    reading = follower.reading(1.0)
    assert np.isnan(reading.extension_m[0])
    assert reading.device_faults == (f"string_x: {problem}",)


def test_channels_without_a_string_do_not_matter() -> None:
    follower = tracker()
    odd = status_word(Status.ZEROED | Status.MAGNET_FAULT_1 | Status.JUMP_3, 1)
    follower.update([frame(1, (0, 1, 0, 2), odd), frame(2, (0, 10**6, 0, -(10**6)), odd)], 1.0)
    assert follower.reading(1.0).device_faults == ()


def test_a_string_without_a_channel_is_refused() -> None:
    with pytest.raises(ParameterError, match="string_z"):
        StringTracker(string_board.settings(), ["string_x", "string_z"])


@given(
    st.lists(st.tuples(st.integers(0, 2**16 - 1), st.integers(0, 2**32 - 1), st.integers(0, 2**16 - 1)), max_size=40)
)
def test_no_sequence_of_frames_breaks_it(numbers: list[tuple[int, int, int]]) -> None:
    follower = tracker()
    for index, (sequence, time_us, status) in enumerate(numbers):
        follower.update([CountsFrame(sequence, time_us, (index, 0, 0, 0), status)], float(index))
        reading = follower.reading(float(index))
        assert reading.stamp_s <= index
        assert reading.extension_m.shape == reading.age_s.shape == (2,)
        assert not np.isnan(reading.age_s).any()
