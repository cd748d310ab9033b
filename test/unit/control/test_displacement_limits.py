# SPDX-License-Identifier: Apache-2.0
"""Limits on displacements: never beyond range, speed or acceleration; and what they leave alone."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from continuum_robot.control.displacement_limits import LIMITED_ACCELERATION, DisplacementLimiter
from continuum_robot.control.limits import LIMITED_MAXIMUM, LIMITED_MINIMUM, LIMITED_NOT_FINITE, LIMITED_RATE
from continuum_robot.geometry.clarke import ClarkeManifold
from continuum_robot.robot.actuation import DisplacementLimits

LIMITS = DisplacementLimits(
    maximum_n=20.0,
    maximum_displacement_m=0.02,
    speed_m_per_s=0.05,
    acceleration_m_per_s2=1.0,
    pay_out_m=0.002,
    pay_out_speed_m_per_s=0.02,
)
DT = 0.005
N = 3


def limiter(at_m=0.0, **changes):
    made = DisplacementLimiter(dataclasses.replace(LIMITS, **changes), N)
    made.reset(np.zeros(N) + at_m)
    return made


def stepped(made, targets, dt=DT):
    found = [made.command.copy()]
    for target in targets:
        made.step(np.asarray(target, dtype=float), dt)
        found.append(made.command.copy())
    return np.array(found)


TARGETS = st.lists(
    st.tuples(st.lists(st.floats(-0.05, 0.05), min_size=N, max_size=N), st.integers(1, 25)), min_size=1, max_size=12
)


@given(
    targets=TARGETS,
    start=st.lists(st.floats(-0.02, 0.02), min_size=N, max_size=N),
    dt=st.sampled_from([0.001, 0.0025, 0.005, 0.01]),
    acceleration=st.sampled_from([0.2, 1.0, 20.0]),
)
def test_no_command_leaves_range_speed_or_acceleration(targets, start, dt, acceleration):
    made = limiter(start, acceleration_m_per_s2=acceleration)
    commands = stepped(made, [target for target, times in targets for _ in range(times)], dt)
    assert np.abs(commands).max() <= LIMITS.maximum_displacement_m * (1 + 1e-9)
    velocity = np.diff(commands, axis=0) / dt
    assert np.abs(velocity).max() <= LIMITS.speed_m_per_s * (1 + 1e-6)
    change = np.diff(np.vstack([np.zeros(N), velocity]), axis=0) / dt
    assert np.abs(change).max() <= acceleration * (1 + 1e-6)


@given(targets=TARGETS, steps=st.lists(st.sampled_from([0.001, 0.004, 0.005, 0.015]), min_size=300, max_size=300))
def test_the_range_holds_for_cycles_of_any_length(targets, steps):
    made, times = limiter(), iter(steps)
    for target, count in targets:
        for _, dt in zip(range(count), times, strict=False):
            made.step(np.array(target), dt)
            assert np.abs(made.command).max() <= LIMITS.maximum_displacement_m * (1 + 1e-9)


@given(targets=TARGETS, end=st.lists(st.floats(-0.02, 0.02), min_size=N, max_size=N))
def test_a_target_is_reached_and_kept_whatever_was_before(targets, end):
    made = limiter()
    stepped(made, [target for target, times in targets for _ in range(times)])
    commands = stepped(made, [end] * 600)
    np.testing.assert_allclose(commands[-1], end, atol=1e-9)
    np.testing.assert_allclose(commands[-20], end, atol=1e-9)
    assert not made.limited.any()


@given(end=st.lists(st.floats(-0.02, 0.02), min_size=N, max_size=N))
def test_a_step_goes_straight_there_and_never_beyond(end):
    commands = stepped(limiter(0.001), [end] * 600)
    way = np.asarray(end) - 0.001
    farthest = np.abs(way).max()
    if farthest < 1e-9:
        return
    j = int(np.argmax(np.abs(way)))
    fraction = (commands[:, j] - 0.001) / way[j]
    assert (np.diff(fraction) >= -1e-9).all()
    assert fraction.max() <= 1 + 1e-9
    np.testing.assert_allclose(commands, 0.001 + np.outer(fraction, way), atol=1e-9)


def test_a_step_takes_about_as_long_as_a_trapezoid():
    way, speed, acceleration = 0.02, LIMITS.speed_m_per_s, LIMITS.acceleration_m_per_s2
    commands = stepped(limiter(), [[way, 0, 0]] * 300)
    arrived = int(np.argmax(np.abs(commands[:, 0] - way) < 1e-5))
    assert arrived * DT == pytest.approx(way / speed + speed / acceleration, abs=6 * DT)


def test_a_motion_within_the_limits_passes_bit_by_bit_nearly():
    times = DT * np.arange(400)
    targets = 0.005 * (1 - np.cos(2 * np.pi * times))[:, None] * [1.0, -0.5, 0.3]
    made = limiter()
    for target in targets:
        made.step(target, DT)
        np.testing.assert_allclose(made.command, target, atol=1e-12)
        assert not made.limited.any()


def test_out_of_range_the_clarke_direction_is_kept():
    manifold = ClarkeManifold((3,), (0.008,))
    desired = manifold.displacement(np.array([0.03, 0.02]))
    made = limiter()
    commands = stepped(made, [desired] * 600)
    found, wanted = manifold.clarke(commands[-1]), manifold.clarke(desired)
    assert found[0] / found[1] == pytest.approx(wanted[0] / wanted[1])
    assert np.abs(commands[-1]).max() == pytest.approx(LIMITS.maximum_displacement_m)


def test_what_limits_is_named():
    made = limiter()
    made.step(np.array([np.nan, 0.0, 0.0]), DT)
    assert list(made.limited) == [LIMITED_NOT_FINITE, 0, 0]
    assert made.command[0] == 0.0
    made.step(np.array([0.05, 0.0, 0.0]), DT)
    assert made.limited[0] == LIMITED_MAXIMUM | LIMITED_RATE | LIMITED_ACCELERATION
    made = limiter()
    made.step(np.array([-0.05, 0.0, 0.0]), DT)
    assert made.limited[0] == LIMITED_MINIMUM | LIMITED_RATE | LIMITED_ACCELERATION
    stepped(made, [[-0.02, 0, 0]] * 20)
    assert made.limited[0] == LIMITED_RATE


def test_braking_ends_at_rest_within_range_and_acceleration():
    made = limiter()
    stepped(made, [[0.02, -0.01, 0.004]] * 40)
    before, velocity = made.command.copy(), made.velocity.copy()
    found = [before]
    for _ in range(40):
        made.brake(DT)
        found.append(made.command.copy())
    speeds = np.vstack([velocity, np.diff(found, axis=0) / DT])
    assert np.abs(np.diff(speeds, axis=0)).max() <= LIMITS.acceleration_m_per_s2 * DT * (1 + 1e-9)
    np.testing.assert_array_equal(speeds[-1], 0.0)
    assert np.abs(found).max() <= LIMITS.maximum_displacement_m


def test_no_time_changes_nothing():
    made = limiter(0.001)
    made.step(np.full(N, 0.002), 0.0)
    np.testing.assert_array_equal(made.command, 0.001)
    assert (made.limited == LIMITED_RATE).all()
