# SPDX-License-Identifier: Apache-2.0
"""Learning the floor from free motion: what is learnt, and what is refused with the floor of before."""

import functools

import numpy as np
import pytest

from continuum_robot.errors import ParameterError
from continuum_robot.estimation.contact.floor_learning import LONGEST_DURATION_S, FloorLearning
from continuum_robot.estimation.contact.free_motion import Floor
from continuum_robot.estimation.contact.monitor import ContactMonitor
from continuum_robot.estimation.contact.settings import METHODS, MonitorSettings
from continuum_robot.robot.loading import load_robot
from continuum_robot.rod.friction.capstan_friction import CapstanFriction

DT, DURATION_S = 0.01, 3.0
NOISE = 1e-8 * np.eye(6)


@pytest.fixture(scope="module")
def monitor_of():
    robot = load_robot("vanderbilt_segment")
    functions = ContactMonitor(robot).functions
    friction = CapstanFriction(robot, coefficients=[0.0, 0.0])
    return functools.partial(ContactMonitor, robot, functions=functions, friction=friction)


def learn(monitor, *, moved_m=3e-3, force=0.0, seconds=DURATION_S + 2 * DT, fault=""):
    """A session at rest, with displacements as if the tendons moved; whose error of the model is ``force``."""
    session = FloorLearning(monitor, DURATION_S)
    rng = np.random.default_rng(0)
    for k in range(round(seconds / DT)):
        other = -force * rng.normal(size=6)
        estimate = monitor.update(
            np.zeros(6), np.zeros(6), NOISE, DT, tension=np.full(4, 60.0), other_force=other, fault=fault
        )
        session.take(estimate, moved_m * np.sin(2 * k * DT) * np.array([1, 0, -1, 0]), DT)
    return session


@pytest.mark.parametrize("method", METHODS)
def test_what_was_learnt_is_in_use_and_told(monitor_of, method):
    monitor = monitor_of(MonitorSettings(method=method))
    session = learn(monitor, force=1e-4)
    learnt = session.learnt
    assert session.problem == ""
    assert not session.running
    assert session.progress == pytest.approx(1)
    assert learnt is not None
    assert monitor.floor is learnt.floor
    assert (learnt.floor.motion is not None) == (method == "kalman_disturbance_observer")
    assert learnt.duration_s == pytest.approx(DURATION_S)
    assert learnt.moved_m == pytest.approx([6e-3, 0, 6e-3, 0], rel=0.1)
    assert np.isfinite([learnt.least_tip_force_n, learnt.before_n]).all()
    assert "3 s, tendons moved by up to 6.0 mm" in learnt.sentence()


def test_the_least_force_at_the_tip_is_what_raises_the_ratio_to_one(monitor_of):
    monitor = monitor_of(MonitorSettings(method="gmo", gain_per_s=(100.0,)))
    learnt = learn(monitor, force=1e-3).learnt
    estimate = monitor.update(np.zeros(6), np.zeros(6), NOISE, DT, tension=np.full(4, 60.0))
    least_n = monitor.least_tip_force_n(estimate)
    assert least_n == pytest.approx(learnt.least_tip_force_n, rel=0.05)
    across = monitor.locator.jacobian_at(monitor._jacobians, monitor.robot.length_m)[:2]
    ratios = []
    for angle in np.linspace(0, np.pi, 18, endpoint=False):
        force = least_n * np.array([np.cos(angle), np.sin(angle)]) @ across
        for _ in range(200):
            found = monitor.update(np.zeros(6), np.zeros(6), NOISE, DT, tension=np.full(4, 60.0), other_force=-force)
        ratios.append(found.ratio)
    assert min(ratios) == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize(
    ("how", "problem"),
    [
        ({"force": 5.0}, "something touches the robot"),
        ({"moved_m": 4e-4}, "no tendon moved by more than 0.8 mm, expected at least 1 mm"),
        ({"fault": "string 1 is broken"}, "invalid: string 1 is broken"),
    ],
)
def test_what_is_no_free_motion_is_refused_and_the_floor_stays(monitor_of, how, problem):
    monitor = monitor_of(MonitorSettings(method="gmo"))
    former = Floor(np.full(6, 1e-3), None)
    monitor.use_floor(former)
    session = learn(monitor, **how)
    assert problem in session.problem
    assert session.learnt is None
    assert monitor.floor is former


def test_a_session_that_is_left_or_changed_learns_nothing(monitor_of):
    monitor = monitor_of(MonitorSettings(method="gmo"))
    session = learn(monitor, seconds=1.0)
    assert session.running
    assert session.progress == pytest.approx(1.0 / DURATION_S)
    session.abort("cancelled")
    assert session.problem == "cancelled"
    assert monitor.floor is None

    session = FloorLearning(monitor, DURATION_S)
    monitor.with_settings(MonitorSettings(method="jfd"))
    session.take(monitor.update(np.zeros(6), np.zeros(6), NOISE, DT, tension=np.full(4, 60.0)), np.zeros(4), DT)
    assert "method was changed" in session.problem


@pytest.mark.parametrize("duration_s", [0.0, -1.0, float("nan"), LONGEST_DURATION_S + 1])
def test_durations_have_a_range(monitor_of, duration_s):
    monitor = monitor_of(MonitorSettings(method="gmo"))
    with pytest.raises(ParameterError, match="2 to 600 s"):
        FloorLearning(monitor, duration_s)
    assert monitor.floor is None
