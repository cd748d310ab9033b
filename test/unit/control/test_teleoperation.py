# SPDX-License-Identifier: Apache-2.0
"""Teleoperation: rate and range bounds hold whatever a person does, and nothing moves without the switch."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from continuum_robot.control.motion import motion_limits
from continuum_robot.control.teleoperation import Teleoperation, axes_of_coordinates, clarke_range, tip_range
from continuum_robot.errors import ParameterError
from continuum_robot.robot.loading import load_robot

ROBOT = load_robot("two_segment")
LIMITS = motion_limits(ROBOT)
RANGE = clarke_range(ROBOT)
AXES = st.lists(st.one_of(st.floats(-1.5, 1.5), st.floats()), min_size=4, max_size=4)
DT_S = 0.01


def fresh() -> Teleoperation:
    return Teleoperation(LIMITS, np.zeros(4), RANGE)


@given(st.lists(st.tuples(AXES, st.booleans(), st.integers(1, 100), st.floats(-1, 2)), min_size=1, max_size=5))
def test_speed_acceleration_and_range_hold_for_any_input(inputs):
    teleoperation = fresh()
    before = teleoperation.reference
    for axes, held, steps, speed in inputs:
        for _ in range(steps):
            step = teleoperation.update(axes, held, DT_S, speed)
            now = step.reference
            assert np.all(np.isfinite(now.position))
            assert np.all(RANGE.slopes @ now.position <= RANGE.ends + 1e-12)
            assert np.linalg.norm(now.velocity) <= LIMITS.speed_m_per_s * (1 + 1e-9)
            change = np.linalg.norm(now.velocity - before.velocity)
            assert change <= LIMITS.acceleration_m_per_s2 * DT_S * (1 + 1e-9)
            assert step.ignored == tuple(np.flatnonzero(~np.isfinite(axes)))
            before = now


@given(AXES, st.integers(1, 200))
def test_released_it_comes_to_rest_within_the_deceleration_and_stays(axes, steps):
    teleoperation = fresh()
    for _ in range(steps):
        teleoperation.update(axes, True, DT_S)
    speed = float(np.linalg.norm(teleoperation.reference.velocity))
    for _ in range(int(np.ceil(speed / (LIMITS.acceleration_m_per_s2 * DT_S) + 1e-9))):
        last = teleoperation.update(axes, False, DT_S)
    last = teleoperation.update(axes, False, DT_S)
    assert not last.moving
    position = last.reference.position
    for _ in range(20):
        np.testing.assert_array_equal(teleoperation.update(axes, False, DT_S).reference.position, position)


def test_never_held_it_never_moves():
    teleoperation = fresh()
    for _ in range(100):
        assert not teleoperation.update([1.0, -1.0, 1.0, 1.0], False, DT_S).reference.position.any()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_an_axis_without_a_number_counts_as_zero_and_is_told(bad):
    one, other = fresh(), fresh()
    for _ in range(50):
        reported = one.update([bad, 1.0, 0.0, 0.0], True, DT_S)
        clean = other.update([0.0, 1.0, 0.0, 0.0], True, DT_S)
    assert reported.ignored == (0,)
    assert clean.ignored == ()
    np.testing.assert_array_equal(reported.reference.position, clean.reference.position)


def test_full_deflection_reaches_the_end_of_the_range_and_slides_along_it():
    teleoperation = fresh()
    for _ in range(2000):
        step = teleoperation.update([1.0, 0.0, 0.0, 0.0], True, DT_S)
    assert step.at_range
    assert np.max(RANGE.slopes @ step.reference.position / RANGE.ends) > 0.97
    side = step.reference.position[3]
    for _ in range(100):
        step = teleoperation.update([1.0, 0.0, 0.0, 1.0], True, DT_S)
    assert abs(step.reference.position[3] - side) > 1e-3


def test_a_stick_at_rest_that_does_not_return_to_zero_moves_nothing():
    teleoperation = fresh()
    for _ in range(50):
        assert not teleoperation.update([0.09, -0.09, 0.05, 0.0], True, DT_S).reference.position.any()


def test_axes_go_to_the_chosen_segment_or_straight_to_a_mechanism():
    np.testing.assert_array_equal(axes_of_coordinates([0.1, 0.2, 0.3], 4, 1), [0, 0, 0.1, 0.2])
    np.testing.assert_array_equal(axes_of_coordinates([0.1, 0.2, 0.3], 4, 2), [0.1, 0.2, 0, 0])
    np.testing.assert_array_equal(axes_of_coordinates([0.1, 0.2, 0.3], 3, 5), [0.1, 0.2, 0.3])
    np.testing.assert_array_equal(axes_of_coordinates([0.1, 0.2, 0.3], 1, 0), [0.1])
    np.testing.assert_array_equal(axes_of_coordinates([0.1, 0.2, 0.3], 5, 2), [0, 0, 0, 0, 0.1])


def test_wrong_use_is_refused():
    with pytest.raises(ParameterError, match="axes"):
        fresh().update([0.0], True, DT_S)
    with pytest.raises(ParameterError, match="deadzone"):
        Teleoperation(LIMITS, np.zeros(4), RANGE, deadzone=1.0)
    assert tip_range(ROBOT).holds(np.array([0.0, 0.0, ROBOT.length_m]))
