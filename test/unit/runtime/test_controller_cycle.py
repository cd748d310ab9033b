# SPDX-License-Identifier: Apache-2.0
"""What the controller's cycle answers, what it skips, and when it restarts."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from cycle_cases import PERIOD_S, PLACE_M, TENSION_N, Loop, robot_with

from continuum_robot.control.clarke_controller import ClarkeController
from continuum_robot.errors import ParameterError
from continuum_robot.runtime.cycle.controller_cycle import ControllerCycle
from continuum_robot.runtime.cycle.foreign_controller import ForeignController
from continuum_robot.runtime.cycle.reference_input import ReferenceInput

SKIPPED = {
    "stale age": {"age_s": np.array([0.0, 0.0, 0.03, 0.0, 0.0])},
    "unknown age": {"age_s": np.array([0.0, np.nan, 0.0, 0.0, 0.0])},
    "unknown stamp": {"stamp_s": math.nan},
    "old stamp": {"stamp_s": 99.0},
    "unknown displacement": {"displacement_m": np.array([0.0, np.nan, 0.0, 0.0, 0.0])},
    "infinite displacement": {"displacement_m": np.array([np.inf, 0.0, 0.0, 0.0, 0.0])},
    "unknown velocity": {"velocity_m_per_s": np.full(5, np.nan)},
}


def test_it_starts_with_the_force_of_the_tensions_that_are_there():
    loop = Loop()
    assert loop.state()
    np.testing.assert_allclose(loop.force(), loop.manifold.generalized_force(TENSION_N), atol=1e-12)
    np.testing.assert_allclose(loop.cycle.clarke, PLACE_M, atol=1e-15)
    np.testing.assert_allclose(loop.reference.position, PLACE_M, atol=1e-15)
    assert loop.counters() == (1, 1, 0, 0, 0, 1)


def test_without_known_commands_it_starts_with_the_measured_tensions():
    loop = Loop()
    measured = np.array([2.0, 0.5, 0.5, 1.0, 4.0])
    assert loop.state(commanded=np.full(5, np.nan), tension_n=measured)
    np.testing.assert_allclose(loop.force(), loop.manifold.generalized_force(measured), atol=1e-12)


def test_without_any_known_tension_it_does_not_start():
    loop = Loop()
    assert not loop.state(commanded=np.full(5, np.nan), tension_n=np.full(5, np.nan))
    assert np.isnan(loop.cycle.command).all()
    assert loop.counters() == (1, 0, 0, 1, 0, 0)


@pytest.mark.parametrize("fault", SKIPPED)
def test_one_bad_state_skips_one_answer_and_nothing_else(fault):
    """The states around it get the same answers as in a loop that never saw it."""
    disturbed, undisturbed = Loop(), Loop()
    for k in range(60):
        place = PLACE_M * (1 + 0.01 * k)
        bad = k == 30
        for loop in (disturbed, undisturbed):
            if k % 4 == 0:
                loop.follow(PLACE_M * (1 + 0.012 * k), PLACE_M * 12)
            if not bad:
                assert loop.state(place)
            elif loop is disturbed:
                assert not loop.state(place, **SKIPPED[fault])
                assert np.isnan(loop.cycle.command).all()
                assert np.isnan(loop.force()).all()
            else:
                loop.now_s, loop.sequence = disturbed.now_s, disturbed.sequence
        if not bad:
            np.testing.assert_array_equal(disturbed.cycle.command, undisturbed.cycle.command)
    received, answered, stale, not_finite, _lost, restarts = disturbed.counters()
    assert (received, answered, restarts) == (60, 59, 1)
    assert (stale, not_finite) == ((0, 1) if "displacement" in fault or "velocity" in fault else (1, 0))


def test_it_reports_since_when_it_is_silent():
    loop = Loop()
    assert loop.state()
    assert loop.cycle.silent_since_s is None
    for _ in range(3):
        assert not loop.state(age_s=np.ones(5))
    assert loop.cycle.silent_since_s == pytest.approx(loop.now_s - 2 * PERIOD_S)
    assert loop.state()
    assert loop.cycle.silent_since_s is None


def test_the_integral_advances_by_a_few_periods_at_most():
    loop = Loop(robot_with(gains={"p": 0.0, "d": 0.0, "i": 1000.0, "antiwindup_strategy": "none"}))
    loop.state()
    error = 1e-4 * np.array([1.0, 1.0])
    for after_s, expected_s in ((1e-3, 1e-3), (2.5e-3, 2.5e-3), (0.1, 3e-3), (0.0, 0.0)):
        assert loop.state(PLACE_M - error, after_s=PERIOD_S)
        start = loop.controller.output().terms.i_term
        assert loop.state(PLACE_M - error, after_s=after_s)
        assert loop.state(PLACE_M - error, after_s=PERIOD_S)
        gained = loop.controller.output().terms.i_term - start
        np.testing.assert_allclose(gained, 1000 * error * (PERIOD_S + expected_s), rtol=1e-9)
    assert loop.cycle.restarts == 1


def test_a_stamp_that_runs_backwards_takes_no_time():
    loop = Loop()
    loop.state()
    loop.state()
    last = np.array(loop.cycle.command)
    assert loop.state(PLACE_M + 1e-3, stamp_s=loop.now_s - 1e-3)
    np.testing.assert_array_equal(loop.cycle.command, last)


@pytest.mark.parametrize("gap_s", [0.05, 0.2])
def test_a_short_gap_restarts_nothing(gap_s):
    loop = Loop()
    for _ in range(10):
        loop.state()
    assert loop.state(after_s=gap_s, steps=round(gap_s / PERIOD_S))
    assert loop.cycle.restarts == 1
    assert loop.cycle.lost == round(gap_s / PERIOD_S) - 1


@pytest.mark.parametrize("how", ["silence", "stale states", "unknown states"])
def test_after_a_long_gap_it_blends_from_the_reference_that_it_followed(how):
    loop = Loop(blend_s=0.5)
    far = PLACE_M + 0.5e-3
    for k in range(1000):
        if k % 4 == 0:
            loop.follow(far)
        loop.state()
    np.testing.assert_allclose(loop.reference.position, far, atol=1e-15)
    if how == "silence":
        loop.now_s += 0.3
    else:
        for _ in range(300):
            stale = {"age_s": np.ones(5)} if how == "stale states" else {"displacement_m": np.full(5, np.nan)}
            assert not loop.state(**stale)
    further = far + 2e-3
    loop.follow(further)
    assert loop.state(PLACE_M, commanded=TENSION_N)
    assert loop.cycle.restarts == 2
    np.testing.assert_allclose(loop.reference.position, far, atol=1e-9)  # not the measured place
    np.testing.assert_allclose(loop.force(), loop.manifold.generalized_force(TENSION_N), atol=1e-6)
    path = []
    for k in range(600):
        if k % 4 == 0:
            loop.follow(further)
        loop.state()
        path.append(loop.reference.position[0])
    assert np.all(np.diff(path) >= 0)
    assert np.diff(path).max() < 1e-5
    np.testing.assert_allclose(loop.reference.position, further, atol=1e-15)
    assert loop.cycle.restarts == 2


def test_after_a_gap_without_new_references_it_holds_the_one_that_it_followed():
    loop = Loop()
    for _ in range(20):
        loop.follow(PLACE_M, [0.01, 0.0])
        loop.state()
    followed = np.array(loop.reference.position)
    assert loop.state(PLACE_M - 1e-3, after_s=0.4)
    assert loop.state(PLACE_M - 1e-3)
    np.testing.assert_array_equal(loop.reference.position, followed)


def test_after_the_driver_did_not_follow_it_starts_at_the_measured_place():
    loop = Loop()
    loop.follow(PLACE_M + 5e-3)
    for _ in range(50):
        loop.follow(PLACE_M + 5e-3)
        loop.state()
    assert not loop.state(following=False)
    assert np.isnan(loop.cycle.command).all()
    elsewhere, tension = PLACE_M - 2e-3, TENSION_N[::-1]
    assert loop.state(elsewhere, commanded=tension)
    np.testing.assert_allclose(loop.reference.position, elsewhere, atol=1e-15)
    np.testing.assert_allclose(loop.force(), loop.manifold.generalized_force(tension), atol=1e-12)
    assert loop.cycle.restarts == 2
    assert loop.cycle.received == 51


def test_it_reports_where_the_robot_stands_without_following():
    loop = Loop()
    assert not loop.state(following=False, velocity_m_per_s=loop.manifold.displacement([0.1, 0.2]))
    np.testing.assert_allclose(loop.cycle.clarke, PLACE_M, atol=1e-15)
    np.testing.assert_allclose(loop.cycle.clarke_rate, [0.1, 0.2], atol=1e-15)
    assert loop.counters() == (0, 0, 0, 0, 0, 0)


def test_a_sequence_that_runs_backwards_is_another_driver():
    loop = Loop()
    for _ in range(10):
        loop.state()
    assert loop.state(PLACE_M + 1e-3, steps=-4000)
    assert loop.cycle.restarts == 2
    assert loop.cycle.lost == 0
    np.testing.assert_allclose(loop.reference.position, PLACE_M + 1e-3, atol=1e-15)


def test_states_that_were_left_out_are_counted():
    loop = Loop()
    for steps in (1, 1, 4, 1, 2, 0):
        assert loop.state(steps=steps)
    assert loop.cycle.lost == 4
    loop.cycle.reset()
    assert loop.counters() == (0, 0, 0, 0, 0, 0)


def test_new_settings_keep_the_state_and_those_that_do_not_fit_change_nothing():
    loop = Loop(robot_with(gains={"p": 100.0, "i": 1000.0, "d": 0.0, "antiwindup_strategy": "none"}))
    loop.state()
    for _ in range(50):
        loop.state(PLACE_M - 1e-4)
    before = loop.cycle.output().terms
    settings = loop.cycle.settings
    gains = tuple(dataclasses.replace(one, p=200.0) for one in settings.gains)
    loop.cycle.set_settings(dataclasses.replace(settings, gains=gains, pretension_n=1.25, tendon_forces="redistribute"))
    loop.state(PLACE_M - 1e-4)
    after = loop.cycle.output()
    np.testing.assert_allclose(after.terms.p_term, 2 * before.p_term)
    np.testing.assert_allclose(after.terms.i_term, before.i_term + 1000 * 1e-4 * 1e-3 * np.ones(2), atol=1e-2)
    assert after.command.min() == 1.25
    assert loop.cycle.restarts == 1
    kept = loop.cycle.settings
    with pytest.raises(ParameterError, match="rod_feedforward"):
        loop.cycle.set_settings(dataclasses.replace(kept, feedforward_gravity=1.0))
    with pytest.raises(ParameterError, match="gains"):
        loop.cycle.set_settings(dataclasses.replace(kept, gains=kept.gains * 2))
    assert loop.cycle.settings is kept


@pytest.mark.parametrize("name", ["state_timeout_s", "period_s", "long_gap_s", "longest_step_periods"])
def test_times_that_are_none_are_refused(name):
    controller, reference = ClarkeController(robot_with()), ReferenceInput(2)
    with pytest.raises(ParameterError, match=name):
        ControllerCycle(controller, reference, **({"state_timeout_s": 0.02, "period_s": 1e-3} | {name: 0.0}))


class Spring:
    """Pulls towards the reference with half of the displacement's error, on top of 1 N."""

    def __init__(self, robot):
        self.manifold = ClarkeController(robot).manifold
        self.resets, self.steps_s, self.answer = [], [], None

    def reset(self, reading, tension, reference):
        self.resets.append((reading.stamp_s, tension.copy(), reference.position.copy()))

    def update(self, reading, reference, dt):
        self.steps_s.append(dt)
        error = self.manifold.displacement(reference.position) - reading.displacement_m
        return 1.0 + 500.0 * error if self.answer is None else self.answer


def test_a_controller_of_ones_own_takes_the_place_of_the_clarke_controller():
    robot = robot_with()
    own = Spring(robot)
    loop = Loop(robot, ForeignController(own, robot))
    assert loop.cycle.needs_python
    assert loop.state()
    np.testing.assert_allclose(loop.cycle.command, np.ones(5), atol=1e-12)
    assert len(own.resets) == 1
    np.testing.assert_array_equal(own.resets[0][1], TENSION_N)
    np.testing.assert_allclose(own.resets[0][2], PLACE_M, atol=1e-15)
    assert loop.state(PLACE_M - 1e-3)
    expected = 1.0 + 500 * loop.manifold.displacement([1e-3, 1e-3])
    np.testing.assert_allclose(loop.cycle.command, expected, atol=1e-12)
    np.testing.assert_allclose(loop.force(), loop.manifold.generalized_force(expected), atol=1e-12)
    np.testing.assert_allclose(own.steps_s, PERIOD_S)
    assert not loop.state(age_s=np.ones(5))
    assert len(own.steps_s) == 2
    own.answer = np.full(5, np.nan)
    assert not loop.state()
    assert loop.cycle.not_finite == 1
    assert np.isnan(loop.cycle.output().terms.p_term).all()
    own.answer = np.ones(4)
    with pytest.raises(ParameterError, match="command"):
        loop.state()
    own.answer = {}
    with pytest.raises(RuntimeError, match=r"Spring\.update raised TypeError"):
        loop.state()
    loop.cycle.set_settings(robot.control)  # as they are
    assert np.isnan(loop.cycle.pretension)
    with pytest.raises(ParameterError, match="Spring"):
        loop.cycle.set_settings(dataclasses.replace(robot.control, pretension_n=2.0))
    with pytest.raises(ParameterError, match="Spring"):
        loop.cycle.ask_pretension(2.0)
