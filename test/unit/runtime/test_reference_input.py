# SPDX-License-Identifier: Apache-2.0
"""What the controller follows between references: extrapolation, holding, blending."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from continuum_robot.control.references import ClarkeReference, blend
from continuum_robot.runtime.cycle.reference_input import EXTRAPOLATION_S, REST_S, ReferenceInput

HERE = np.array([0.003, -0.002])


def moving(time_s: float) -> ClarkeReference:
    """A sine and a cosine of 1 Hz, starting at ``HERE``."""
    w = 2 * np.pi
    sine, cosine = np.sin(w * time_s), np.cos(w * time_s)
    return ClarkeReference(
        HERE + 0.01 * np.array([sine, 1 - cosine]),
        0.01 * w * np.array([cosine, sine]),
        0.01 * w**2 * np.array([-sine, cosine]),
    )


def test_without_references_it_holds_where_it_started():
    reference = ReferenceInput(2)
    reference.start(HERE)
    np.testing.assert_array_equal(reference.at(5.0).position, HERE)
    np.testing.assert_array_equal(reference.at(5.0).velocity, 0)


def test_between_references_at_250_hz_the_error_is_below_a_micrometre():
    reference = ReferenceInput(2)
    reference.start(HERE)
    errors = []
    for index in range(1000):
        time_s = index * 1e-3
        if index % 4 == 0:
            assert reference.receive(moving(time_s), time_s)
        errors.append(np.abs(reference.at(time_s).position - moving(time_s).position).max())
    assert max(errors) < 1e-6


def test_after_20_ms_it_comes_to_rest_without_a_jump_in_place_or_velocity():
    reference = ReferenceInput(2)
    reference.start(HERE)
    reference.receive(moving(0.0), 0.0)
    step_s = 1e-4
    samples = [reference.at(k * step_s) for k in range(3000)]
    positions = np.array([sample.position for sample in samples])
    velocities = np.array([sample.velocity for sample in samples])
    # The acceleration ends at 20 ms and at rest, so the mean of two velocities is exact but for those steps.
    np.testing.assert_allclose(np.diff(positions, axis=0), step_s * (velocities[1:] + velocities[:-1]) / 2, atol=1e-8)
    last = reference.at(EXTRAPOLATION_S - 1e-12)
    at_rest = reference.at(EXTRAPOLATION_S + REST_S)
    np.testing.assert_allclose(at_rest.position, last.position + last.velocity * REST_S / 2, atol=1e-9)
    for time_s in (EXTRAPOLATION_S + REST_S, 4.0):
        now = reference.at(time_s)
        np.testing.assert_array_equal(now.position, at_rest.position)
        np.testing.assert_allclose([now.velocity, now.acceleration], 0, atol=1e-12)


def test_a_gap_of_a_busy_machine_leaves_it_little_behind():
    reference = ReferenceInput(2)
    reference.start(HERE)
    slow_hz = 0.2

    def slow(time_s):
        fast = moving(slow_hz * time_s)
        return ClarkeReference(fast.position, slow_hz * fast.velocity, slow_hz**2 * fast.acceleration)

    reference.receive(slow(0.0), 0.0)
    reference.step(0.0)
    speed = np.abs(slow(0.0).velocity).max()
    assert np.abs(reference.at(0.06).position - slow(0.06).position).max() < 0.06 * speed / 10


def test_a_reference_that_was_never_followed_does_not_move_it():
    reference = ReferenceInput(2)
    reference.start(HERE)
    reference.receive(moving(0.0), 0.0)
    np.testing.assert_array_equal(reference.at(0.5).position, HERE)
    np.testing.assert_array_equal(reference.at(0.5).velocity, 0)


def test_a_reference_that_starts_elsewhere_is_blended_in_without_a_jump():
    reference = ReferenceInput(2, blend_s=0.5)
    reference.start(HERE)
    far = ClarkeReference.at_rest(HERE + 0.01)
    positions, velocities = [], []
    for index in range(1000):
        time_s = index * 1e-3
        if index % 4 == 0:
            reference.receive(far, time_s)
        now = reference.at(time_s)
        positions.append(now.position)
        velocities.append(now.velocity)
    np.testing.assert_allclose(positions[0], HERE)
    np.testing.assert_allclose(positions[-1], far.position)
    np.testing.assert_allclose(np.diff(positions, axis=0)[10:450] / 1e-3, velocities[10:450], atol=2e-3)
    assert np.abs(np.diff(positions, axis=0)).max() < 1e-4


@pytest.mark.parametrize("bad", [[np.nan, 0.0], [np.inf, 0.0], [0.0], [0.0, 0.0, 0.0]])
def test_a_bad_reference_is_refused_and_counted(bad):
    reference = ReferenceInput(2)
    reference.start(HERE)
    position = np.array(bad)
    assert not reference.receive(ClarkeReference(position, np.zeros(2), np.zeros(2)), 0.0)
    assert reference.refused == 1
    np.testing.assert_array_equal(reference.at(0.0).position, HERE)


@given(st.floats(0.01, 0.99), st.floats(0.1, 5.0))
def test_the_blend_is_consistent_with_its_derivatives(x, duration_s):
    step_s = 1e-5 * duration_s
    time_s = x * duration_s

    def at(t_s):
        return blend(-HERE, moving(t_s), t_s / duration_s, duration_s)

    before, now, after = at(time_s - step_s), at(time_s), at(time_s + step_s)
    scale = 0.01 * (2 * np.pi + 10 / duration_s) ** 2
    np.testing.assert_allclose((after.position - before.position) / (2 * step_s), now.velocity, atol=1e-5 * scale)
    np.testing.assert_allclose((after.velocity - before.velocity) / (2 * step_s), now.acceleration, atol=1e-3 * scale)


LARGEST_JUMP_M = 0.005


def jumpy() -> ReferenceInput:
    reference = ReferenceInput(2, blend_s=0.5, largest_jump_m=LARGEST_JUMP_M)
    reference.start(HERE)
    reference.receive(ClarkeReference.at_rest(HERE), 0.0)
    reference.at(0.0)
    return reference


def streamed(reference: ReferenceInput, way, begin_s: float, duration_s: float) -> np.ndarray:
    """Positions at 1 kHz while references come at 100 Hz."""
    found = []
    for k in range(round(duration_s * 1000)):
        time_s = begin_s + k * 1e-3
        if k % 10 == 0:
            reference.receive(way(time_s), time_s)
        found.append(np.array(reference.at(time_s).position))
    return np.array(found)


def test_a_reference_that_jumps_is_blended_in_once_and_counted():
    reference = jumpy()
    there = HERE + np.array([0.03, 0.0])
    found = streamed(reference, lambda _t: ClarkeReference.at_rest(there), 0.01, 0.7)
    assert reference.jumps == 1
    np.testing.assert_allclose(found[0], HERE, atol=1e-5)
    assert np.abs(np.diff(found, axis=0)).max() < 1e-3 * 1.9 * 0.03 / 0.5  # the quintic's greatest speed
    np.testing.assert_allclose(found[-1], there, atol=1e-12)


def test_one_that_jumps_back_while_it_is_blended_in_leaves_from_where_it_is():
    reference = jumpy()
    there = HERE + np.array([0.03, 0.0])
    first = streamed(reference, lambda _t: ClarkeReference.at_rest(there), 0.01, 0.25)
    second = streamed(reference, lambda _t: ClarkeReference.at_rest(HERE), 0.26, 0.7)
    assert reference.jumps == 2
    assert np.abs(np.diff(np.concatenate([first, second]), axis=0)).max() < 2e-4
    np.testing.assert_allclose(second[-1], HERE, atol=1e-12)


def test_a_small_step_and_a_fast_motion_are_followed_at_once():
    reference = jumpy()
    step = HERE + np.array([0.9 * LARGEST_JUMP_M, 0.0])
    assert np.array_equal(streamed(reference, lambda _t: ClarkeReference.at_rest(step), 0.01, 0.02)[0], step)
    reference = jumpy()
    found = streamed(reference, lambda t: moving(t - 0.01), 0.01, 2.0)
    assert reference.jumps == 0
    assert np.abs(found[500] - moving(0.5).position).max() < 1e-5


def test_after_a_gap_it_counts_from_where_the_reference_came_to_rest():
    reference = jumpy()
    streamed(reference, lambda t: moving(t - 0.01), 0.01, 0.3)
    rested = np.array(reference.at(2.0).position)
    reference.receive(ClarkeReference.at_rest(rested + np.array([0.9 * LARGEST_JUMP_M, 0.0])), 2.0)
    reference.at(2.0)
    assert reference.jumps == 0
    reference.receive(ClarkeReference.at_rest(rested + np.array([3 * LARGEST_JUMP_M, 0.0])), 2.01)
    reference.at(2.01)
    assert reference.jumps == 1
