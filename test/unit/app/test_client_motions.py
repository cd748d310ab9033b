# SPDX-License-Identifier: Apache-2.0
"""Motions of the client on a machine that stalls: the reference waits, and what is measured on the way is complete."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: the client needs ROS 2")

from continuum_robot.app.client import motions
from continuum_robot.app.client.robot import Robot
from continuum_robot.app.client.stack_link import REFERENCE_PERIOD_S
from continuum_robot.control.motion import LONGEST_STEP_S
from continuum_robot.identification.weighing_motion import ARCS, WeighingMotion
from continuum_robot.robot.loading import load_robot
from continuum_robot.rod.tendons import controlled_manifold

ROBOT = load_robot("two_segment")
MANIFOLD = controlled_manifold(ROBOT)


class Clock:
    """Time that passes while somebody sleeps; every seventh sleep takes as long as ``stall_s``."""

    def __init__(self, stall_s: float) -> None:
        self.now_s, self._stall_s, self._sleeps = 100.0, stall_s, 0

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, duration_s: float) -> None:
        self._sleeps += 1
        self.now_s += duration_s + 1e-5 + (self._stall_s if self._sleeps % 7 == 0 else 0.0)


class ObedientLink:
    """A stack whose robot is where its reference is."""

    def __init__(self) -> None:
        self.published: list[np.ndarray] = []
        self.messages = {"clarke_reference": SimpleNamespace(velocity=np.zeros(4))}

    def hold(self) -> None: ...
    def take_reference(self) -> None: ...
    def end_turn(self) -> None: ...
    def check_turn(self) -> None: ...
    def check_up(self) -> None: ...
    def check_heard(self) -> None: ...

    def publish_reference(self, reference) -> None:
        self.published.append(np.array(reference.position))

    def state(self, _robot=None) -> SimpleNamespace:
        at = self.published[-1] if self.published else np.zeros(4)
        return SimpleNamespace(
            reference_m=at, clarke_m=at, displacement_m=MANIFOLD.displacement(at), tension_n=np.full(10, 4.0)
        )


TASK = SimpleNamespace(name="motion", check=lambda: None)


@pytest.fixture(params=[0.0, 0.08, 1.0], ids=lambda stall_s: f"stalls of {stall_s:g} s")
def clock(request, monkeypatch):
    made = Clock(request.param)
    monkeypatch.setattr(motions, "time", made)
    return made


def test_a_motion_waits_while_its_program_stalls(clock):
    link, times = ObedientLink(), []

    def at(time_s: float):
        times.append(time_s)
        return motions.ClarkeReference.at_rest(np.array([1e-3 * time_s, 0.0, 0.0, 0.0]))

    motions.Motions(link, ROBOT).follow(TASK, at, 1.0)
    steps = np.diff(times[1:])  # the first call asks where to begin
    assert times[1] == 0.0
    assert times[-1] == 1.0
    assert steps.max() <= LONGEST_STEP_S + 1e-9
    assert steps.min() > 0.0
    if clock.now_s == pytest.approx(101.0, abs=0.1):
        assert steps == pytest.approx(REFERENCE_PERIOD_S)


class MeasuredRobot:
    """What turning to weigh asks of a client."""

    def __init__(self, link: ObedientLink) -> None:
        self._link = link

    @property
    def state(self) -> SimpleNamespace:
        return self._link.state()

    def follow(self, at, duration_s: float) -> None:
        motions.Motions(self._link, ROBOT).follow(TASK, at, duration_s)


def test_every_arc_is_measured_where_the_robot_is(clock):
    turn = Robot.turn_to_weigh(MeasuredRobot(ObedientLink()), WeighingMotion(0.004, 4, period_s=2.0, turns=1))
    assert turn.displacement_m.shape == turn.tension_n.shape == (2 * ARCS, 10)
    clarke = turn.displacement_m @ MANIFOLD.clarke_matrix.T
    assert np.hypot(clarke[:, 0], clarke[:, 1]) == pytest.approx(0.0036, abs=5e-4)
    one_way = (np.arange(ARCS) + 0.5) * 2 * np.pi / ARCS
    away = np.angle(np.exp(1j * (np.arctan2(clarke[:, 1], clarke[:, 0]) - np.tile(one_way, 2))))
    assert away == pytest.approx(0.0, abs=0.3)
