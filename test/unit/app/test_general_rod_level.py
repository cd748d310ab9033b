# SPDX-License-Identifier: Apache-2.0
"""What ``up`` reports about a plant that this machine can or cannot run in real time."""

from __future__ import annotations

import pytest

pytest.importorskip("can", reason="python-can is not installed: the wire level needs it")

from continuum_robot.app.running import stack
from continuum_robot.robot.loading import load_robot


@pytest.mark.parametrize(
    ("took_s", "said", "clock"),
    [
        ((0.2e-3, 0.3e-3), "0.20 to 0.30 ms a cycle", "real"),
        ((0.4e-3, 0.6e-3), "0.40 to 0.60 ms a cycle", "lockstep"),  # single cycles take several times as long
        ((1.5e-3, 2e-3), "1.50 to 2.00 ms a cycle", "lockstep"),
    ],
)
def test_it_is_said_whether_the_plant_keeps_up(took_s, said, clock, monkeypatch):
    monkeypatch.setattr(stack, "measure_plant", lambda _: took_s)
    for desired in ("auto", "dynamics"):
        level = stack.choose_level(desired, load_robot("rucker_helical"))
        assert level.name == "dynamics"
        assert said in level.reason
        chosen, why = stack.choose_clock("auto", level)
        assert chosen == clock
        assert ("too slow for real time" in why) == (clock == "lockstep")


def test_a_cycle_of_the_plant_is_measured():
    median_s, most_s = stack.measure_plant(load_robot("rucker_helical"), cycles=5)
    assert 0 < median_s <= most_s


def test_obstacles_need_more_headroom_in_real_time(monkeypatch):
    pytest.importorskip("mujoco", reason="mujoco is not installed: the extra mujoco")
    monkeypatch.setattr(stack, "measure_plant", lambda *_, **__: (3e-4, 4e-4))
    robot = load_robot("opencr_five_tendon")
    assert stack.choose_level(stack.MUJOCO, robot).keeps_up
    touched = stack.choose_level(stack.MUJOCO, robot, world="tube.yaml")
    assert stack.choose_clock(stack.AUTO, touched)[0] == stack.LOCKSTEP
