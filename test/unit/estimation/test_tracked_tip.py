# SPDX-License-Identifier: Apache-2.0
"""The tip of shapes is corrected by a tracker, whatever its delay; what was learned holds elsewhere, and in outages."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from continuum_robot.errors import ParameterError
from continuum_robot.estimation.tracked_tip import (
    DelayPrior,
    Expected,
    LearnedResidual,
    StampDelay,
    TrackedTip,
    TrackerSettings,
)
from continuum_robot.geometry import se3, so3
from continuum_robot.geometry.polynomial import Polynomial
from continuum_robot.robot.loading import load_robot
from continuum_robot.simulation.devices.sensors import SimulatedTracker, TrackerErrors, true_tip

ROBOT = load_robot("opencr_five_tendon")
SHAPE_S = 0.01


@given(st.integers(1, 40), st.integers(0, 1000))
def test_without_drift_it_is_regularised_least_squares(count, seed):
    rng = np.random.default_rng(seed)
    polynomial, variance = Polynomial([1.0, 1.0], 2), 0.04
    deviations = (0.5, 2.0, 1.0)
    learned = LearnedResidual(polynomial, 2, Expected(deviations, (0.0, 0.0, 0.0)))
    places, residuals = rng.uniform(-1, 1, (count, 2)), rng.normal(size=(count, 2))
    for place, residual in zip(places, residuals, strict=True):
        learned.wait(0.1)
        learned.learn(place, residual, variance)
    features = np.array([polynomial.at(place) for place in places])
    prior = np.diag(1 / np.array(deviations)[polynomial.orders] ** 2)
    information = prior + features.T @ features / variance
    expected = np.linalg.solve(information, features.T @ residuals / variance)
    here = polynomial.at([0.3, -0.7])
    value, deviation = learned.at([0.3, -0.7])
    np.testing.assert_allclose(value, here @ expected, atol=1e-9)
    assert deviation == pytest.approx(np.sqrt(here @ np.linalg.solve(information, here)), rel=1e-6)


def test_waiting_never_makes_it_less_certain_than_nothing():
    learned = LearnedResidual(Polynomial([1.0], 2), 1, Expected((0.1, 0.1, 0.1), (1.0, 1.0, 1.0)))
    before = learned.at([0.5])[1]
    learned.learn([0.5], [0.2], 1e-6)
    learned.wait(1e6)
    assert learned.at([0.5])[1] <= before * (1 + 1e-9)


def model_tip(clarke):
    """Where the model has the tip; a stand-in for a rod, smooth in the coordinates."""
    turn = [-8 * clarke[1], 8 * clarke[0], 0.0]
    return se3.transform(so3.exp(turn), [10 * clarke[0], 10 * clarke[1], 0.2 - 300 * clarke @ clarke])


def true_of(clarke):
    """The same with errors that are linear and quadratic in the coordinates."""
    tip = np.array(model_tip(clarke))
    tip[:3, 3] += [1e-3 - 0.5 * clarke[0], -5e-4 + 0.4 * clarke[1], 40 * clarke[0] * clarke[1]]
    tip[:3, :3] = so3.exp([0.02, 3 * clarke[0], 0.0]) @ tip[:3, :3]
    return tip


def clarke_at(time_s):
    return 0.005 * np.array([np.sin(0.9 * time_s), np.sin(1.7 * time_s)])


def run(tracked, delay_s, duration_s, *, from_s=0.0, unobservable=False, rate_hz=60.0, told_delay_s=0.0):
    """Shapes at 100 Hz and poses at 60 Hz that come late; the largest error of place, m, and turn, rad, at the end."""
    tracker = SimulatedTracker(TrackerErrors(noise_m=1e-5, noise_rad=1e-4, delay_s=delay_s), np.random.default_rng(3))
    next_s, errors = from_s, []
    for k in range(1, round(duration_s / SHAPE_S)):
        now_s = from_s + k * SHAPE_S
        while next_s <= now_s:
            if not unobservable:
                tracker.look(next_s, true_of(clarke_at(next_s)))
            next_s += 1 / rate_hz
        for pose in tracker.reported(now_s):
            tracked.see_pose(pose.time_s + told_delay_s, pose.tip[:3, 3], pose.tip[:3, :3])
        clarke = clarke_at(now_s)
        seen, true = tracked.see_shape(now_s, model_tip(clarke), clarke), true_of(clarke)
        errors.append(
            (np.linalg.norm(seen[:3, 3] - true[:3, 3]), np.linalg.norm(so3.log(seen[:3, :3].T @ true[:3, :3])))
        )
    return np.max(errors[len(errors) // 2 :], axis=0)


@pytest.mark.parametrize("delay_s", [0.0, 0.015, 0.2])
def test_the_corrected_tip_is_the_true_one_whatever_the_delay(delay_s):
    tracked = TrackedTip(ROBOT, TrackerSettings(sigma_m=1e-4))
    place_m, turn_rad = run(tracked, delay_s, 20.0)
    assert place_m < 3e-4  # uncorrected 3 mm
    assert turn_rad < 5e-3
    assert tracked.accepted > 1000
    assert tracked.problem == ""


def test_a_delay_that_is_in_the_stamp_is_taken_out_by_the_settings():
    wrong, right = (
        run(TrackedTip(ROBOT, settings), 0.05, 20.0, told_delay_s=0.05)[0]
        for settings in (
            TrackerSettings(sigma_m=1e-4, latency_s=latency_s, latency_deviation_s=0.0) for latency_s in (0.0, 0.05)
        )
    )
    assert right < 3e-4
    assert wrong > 3 * right


def test_a_delay_that_nobody_states_is_found():
    tracked = TrackedTip(ROBOT, TrackerSettings(sigma_m=1e-4))
    assert run(tracked, 0.05, 20.0, told_delay_s=0.05)[0] < 3e-4
    assert tracked.delay.delay_s == pytest.approx(0.05, abs=2e-3)


def test_a_pose_that_waited_unseen_does_not_move_the_delay():
    """On a circle at 2 Hz with stamps 60 ms late: a pose 157 ms late after a gap of a second."""
    delay = StampDelay(DelayPrior(0.0, 0.05))

    def place(time_s):
        phase = 4 * np.pi * time_s
        return np.array([0.03 * np.sin(phase), 0.03 * np.cos(phase), 0.2])

    def see(exposed_s, late_s, dt):
        then_s = exposed_s + late_s - delay.delay_s
        velocity = (place(then_s + 1e-4) - place(then_s - 1e-4)) / 2e-4
        delay.update(place(exposed_s) - place(then_s), place(then_s), velocity, dt)

    for k in range(600):
        see(k / 60, 0.06, 1 / 60)
    assert delay.delay_s == pytest.approx(0.06, abs=1e-3)
    see(11.0, 0.157, 1.0)
    assert delay.delay_s == pytest.approx(0.06, abs=1e-3)


def test_what_was_learned_holds_through_an_outage():
    tracked = TrackedTip(ROBOT, TrackerSettings(sigma_m=1e-4))
    run(tracked, 0.015, 20.0)
    assert run(tracked, 0.015, 10.0, from_s=20.0, unobservable=True)[0] < 5e-4
    assert tracked.age_s(30.0) > 9.0


def test_before_the_first_pose_the_tip_is_that_of_the_shape():
    tracked, clarke = TrackedTip(ROBOT), clarke_at(1.0)
    assert tracked.see_shape(1.0, model_tip(clarke), clarke) is not None
    np.testing.assert_array_equal(tracked.see_shape(1.01, model_tip(clarke), clarke), model_tip(clarke))
    assert tracked.age_s(1.01) == np.inf


def test_a_pose_that_is_not_credible_is_refused_and_many_of_them_are_believed():
    tracked, clarke, tip = TrackedTip(ROBOT), np.zeros(2), model_tip(np.zeros(2))
    now_s = 0.0

    def see(place, count):
        nonlocal now_s
        for _ in range(count):
            now_s += 1 / 60
            tracked.see_pose(now_s, place)
            seen = tracked.see_shape(now_s, tip, clarke)
        return seen

    see(tip[:3, 3], 300)
    seen = see(tip[:3, 3] + [0.03, 0, 0], 1)
    assert "30.0 mm from the estimated tip" in tracked.problem
    assert np.linalg.norm(seen[:3, 3] - tip[:3, 3]) < 1e-5
    seen = see(tip[:3, 3] + [0.03, 0, 0], 80)
    assert np.linalg.norm(seen[:3, 3] - tip[:3, 3] - [0.03, 0, 0]) < 1e-3
    assert tracked.problem == ""


def test_refusals_in_series_are_a_fault_until_poses_are_used_again():
    tracked, clarke, tip = TrackedTip(ROBOT), np.zeros(2), model_tip(np.zeros(2))

    def see(count, behind_s, begin):
        for k in range(begin, begin + count):
            tracked.see_pose(0.01 * k - behind_s, tip[:3, 3])
            tracked.see_shape(0.01 * k, tip, clarke)

    see(60, 3.0, 0)
    assert "newest poses are refused, at last: there is no shape of the pose's instant" in tracked.fault
    see(120, 0.0, 60)
    assert tracked.fault == ""


def test_poses_that_do_not_fit_one_another_are_a_fault_and_the_model_alone_is_used():
    rng, tracked = np.random.default_rng(4), TrackedTip(ROBOT)
    for k in range(1500):
        clarke = clarke_at(0.01 * k)
        tip = model_tip(clarke)
        tracked.see_pose(0.01 * k, tip[:3, 3] + rng.normal(0, 0.01, 3))
        seen = tracked.see_shape(0.01 * k, tip, clarke)
    assert tracked.fault
    assert np.linalg.norm(seen[:3, 3] - tip[:3, 3]) < 1e-3


def test_poses_that_come_together_are_of_one_instant_and_only_the_newest_counts():
    tracked, clarke, tip = TrackedTip(ROBOT), np.zeros(2), model_tip(np.zeros(2))
    tracked.see_shape(-0.01, tip, clarke)
    for k in range(100):
        for j in range(4):
            tracked.see_pose(0.05 * k + 3e-6 * j, tip[:3, 3])
        tracked.see_shape(0.05 * k + 0.01, tip, clarke)
    assert 300 <= tracked.superseded < 340  # before the period is known, some of the newest too
    assert tracked.accepted > 60
    assert tracked.refused == 0


@pytest.mark.parametrize(
    ("stamp_s", "place", "problem"),
    [
        (5.0, [np.nan, 0, 0], "not finite"),
        (-3.0, [0, 0, 0.2], "no shape of the pose's instant"),
        (99.0, [0, 0, 0.2], "no shape"),
    ],
)
def test_poses_of_no_use_are_named(stamp_s, place, problem):
    tracked = TrackedTip(ROBOT)
    for k in range(500):
        tracked.see_shape(5.0 + k * SHAPE_S - 4.9, model_tip(np.zeros(2)), np.zeros(2))
    tracked.see_pose(stamp_s, place)
    tracked.see_shape(6.0, model_tip(np.zeros(2)), np.zeros(2))
    assert problem in tracked.problem
    assert (tracked.accepted, tracked.refused) == (0, 1)


def test_a_place_of_another_shape_is_an_error():
    with pytest.raises(ParameterError, match=r"shape \(3,\)"):
        TrackedTip(ROBOT).see_pose(0.0, [1.0, 2.0])


def test_the_covariance_of_a_message_decides_how_a_pose_is_trusted():
    results = []
    for variance in (1e-10, 1e-4):
        tracked, tip = TrackedTip(ROBOT), model_tip(np.zeros(2))
        for k in range(60):
            tracked.see_shape(0.01 * k, tip, np.zeros(2))
            tracked.see_pose(0.01 * k, tip[:3, 3] + [1e-3, 0, 0], None, np.diag([variance] * 6))
        results.append(tracked.see_shape(1.0, tip, np.zeros(2))[0, 3] - tip[0, 3])
    assert results[0] == pytest.approx(1e-3, rel=1e-3)
    assert 0 < results[1] < 0.95e-3


def test_a_simulated_tracker_is_late_and_loses_poses():
    tracker = SimulatedTracker(TrackerErrors(delay_s=0.1, lost=0.5), np.random.default_rng(1))
    for k in range(1000):
        tracker.look(0.01 * k, np.eye(4))
    assert tracker.reported(0.09) == []
    first = tracker.reported(5.0)
    assert all(pose.time_s <= 4.9 + 1e-9 for pose in first)
    assert 400 < len(first) + len(tracker.reported(100.0)) < 600


def test_a_robot_whose_tip_is_not_linked_has_none():
    strings, tip = np.zeros(len(ROBOT.strings)), model_tip(np.array([1e-3, 2e-3]))
    assert true_tip(ROBOT)(np.concatenate((strings, np.full(12, np.nan)))) is None
    np.testing.assert_array_equal(true_tip(ROBOT)(np.concatenate((strings, tip[:3].ravel()))), tip)
