# SPDX-License-Identifier: Apache-2.0
"""Limited motion: within its limits whatever is asked for, straight, without overshoot, and it arrives."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from continuum_robot.control.motion import Halt, LimitedMotion, MotionLimits, motion_limits
from continuum_robot.control.references import RestToRest
from continuum_robot.errors import ParameterError
from continuum_robot.robot.control_settings import ReferenceSettings
from continuum_robot.robot.loading import load_robot

LIMITS = MotionLimits(0.02, 0.05)
POINT = st.lists(st.floats(-0.03, 0.03), min_size=2, max_size=2).map(np.array)
STEP_S = st.floats(0.001, 0.05)


@given(st.lists(st.tuples(POINT, st.integers(1, 30)), min_size=1, max_size=8), STEP_S)
def test_speed_and_acceleration_stay_within_the_limits_for_targets_that_jump(targets, dt):
    motion = LimitedMotion(LIMITS, np.zeros(2))
    before = motion.reference
    for target, steps in targets:
        for _ in range(steps):
            now = motion.towards(target, dt)
            change = now.velocity - before.velocity
            assert np.linalg.norm(now.velocity) <= LIMITS.speed_m_per_s * (1 + 1e-9)
            assert np.linalg.norm(change) <= LIMITS.acceleration_m_per_s2 * dt * (1 + 1e-9)
            np.testing.assert_allclose(now.position, before.position + now.velocity * dt, atol=1e-15)
            np.testing.assert_allclose(now.acceleration, change / dt, atol=1e-9)
            before = now


@given(POINT, POINT, STEP_S)
def test_from_rest_it_goes_straight_to_the_target_and_stops_there(start, target, dt):
    motion = LimitedMotion(LIMITS, start)
    way = target - start
    length = float(np.linalg.norm(way))
    done = 0.0
    steps = int(np.ceil((length / LIMITS.speed_m_per_s + 2.0) / dt)) + 5
    for _ in range(steps):
        now = motion.towards(target, dt)
        along = float((now.position - start) @ way) / length if length > 1e-12 else 0.0
        assert along <= length * (1 + 1e-9) + 1e-15
        assert along >= done - 1e-12
        assert np.linalg.norm(now.position - start) <= length + 1e-12
        done = along
    np.testing.assert_allclose(motion.reference.position, target, atol=1e-12)
    motion.towards(target, dt)
    assert np.linalg.norm(motion.reference.velocity) < 1e-9


def test_what_is_not_finite_is_refused_and_changes_nothing():
    motion = LimitedMotion(LIMITS, [0.001, 0.0])
    for bad in (np.array([np.nan, 0.0]), np.array([np.inf, 0.0]), np.zeros(3)):
        with pytest.raises(ParameterError):
            motion.towards(bad, 0.01)
    with pytest.raises(ParameterError, match="dt"):
        motion.towards(np.zeros(2), 0.0)
    np.testing.assert_array_equal(motion.reference.position, [0.001, 0.0])


@given(POINT, POINT)
def test_the_planned_duration_is_the_shortest_that_keeps_the_limits(start, end):
    duration_s = LIMITS.move_s(start, end)
    if duration_s < 1e-6:
        return
    times_s = np.linspace(0.0, duration_s, 401)
    references = [RestToRest(start, end, duration_s).at(float(t)) for t in times_s]
    speed = max(np.linalg.norm(one.velocity) for one in references) / LIMITS.speed_m_per_s
    acceleration = max(np.linalg.norm(one.acceleration) for one in references) / LIMITS.acceleration_m_per_s2
    assert max(speed, acceleration) == pytest.approx(1.0, rel=1e-3)


@given(POINT, POINT)
def test_a_halt_begins_as_it_moves_decelerates_evenly_and_rests(position, velocity):
    halt = Halt(position, velocity, 0.05)
    np.testing.assert_allclose(halt.at(0.0).position, position, atol=1e-15)
    if halt.duration_s > 1e-3:
        np.testing.assert_allclose(halt.at(0.0).velocity, velocity)
        middle = halt.duration_s / 3
        step_s = 1e-4 * halt.duration_s
        rate = (halt.at(middle + step_s).position - halt.at(middle - step_s).position) / (2 * step_s)
        np.testing.assert_allclose(rate, halt.at(middle).velocity, atol=1e-9)
        assert np.linalg.norm(halt.at(middle).acceleration) == pytest.approx(0.05)
    np.testing.assert_allclose(halt.at(halt.duration_s).position, halt.at(halt.duration_s + 9).position, atol=1e-15)
    assert not halt.at(halt.duration_s + 1e-9).velocity.any()


def test_limits_come_from_the_robot_file_or_from_its_range():
    robot = load_robot("opencr_five_tendon")
    derived = motion_limits(robot)
    assert derived.speed_m_per_s == pytest.approx(robot.limits.maximum_displacement_m / 2.0)
    reported = ReferenceSettings(kind="hold", amplitude_m=(0.0, 0.0), speed_m_per_s=0.003, acceleration_m_per_s2=0.04)
    assert motion_limits(robot.changed(reference=reported)) == MotionLimits(0.003, 0.04)
    with pytest.raises(ParameterError, match="limits"):
        motion_limits(load_robot("ftdcr_v4").changed(limits=None))


def test_many_points_move_as_each_by_itself() -> None:
    limits, rng = MotionLimits(0.01, 0.02), np.random.default_rng(1)
    start, goals = rng.uniform(-0.01, 0.01, (2, 5, 3))
    goals[0] = start[0]
    many, each = LimitedMotion(limits, start), [LimitedMotion(limits, one) for one in start]
    for _ in range(30):
        found = many.towards(goals, 0.02)
        alone = [one.towards(goal, 0.02) for one, goal in zip(each, goals, strict=True)]
        np.testing.assert_array_equal(found.position, [one.position for one in alone])
        np.testing.assert_array_equal(found.velocity, [one.velocity for one in alone])
    assert not found.velocity[0].any()
