# SPDX-License-Identifier: Apache-2.0
"""What a base stage is told: its limits, commands that end, and faults that latch."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from continuum_robot.drivers.base_stage import SimulatedStage, StageAxes
from continuum_robot.drivers.safety.stage_motion import LAGS, NOT_FINITE, OUT_OF_RANGE, UNREAD, StageMotion
from continuum_robot.robot.loading import load_robot

STAGE = load_robot("three_segment_servo_stage").base_stage
STEP_S = 0.01


class Bench:
    def __init__(self) -> None:
        self.motors, self.motion, self.now_s = SimulatedStage(2), StageMotion(STAGE), 0.0
        self.device = StageAxes(self.motors, STAGE)
        self.motors.enable()

    def run(self, duration_s, command=None, change=lambda reading: reading):
        goals = []
        for _ in range(round(duration_s / STEP_S)):
            self.now_s += STEP_S
            if command is not None:
                self.motion.command(command, self.now_s)
            reading = change(self.device.read(self.now_s))
            goals.append(self.motion.update(reading, self.now_s, STEP_S))
            self.device.write(goals[-1], self.now_s)
        return np.array(goals)


def test_it_keeps_to_speed_and_acceleration_and_ends_at_the_command():
    goals = Bench().run(6.0, (0.1, 1.0))
    speed = np.diff(goals, axis=0) / STEP_S
    assert np.abs(speed).max(axis=0) == pytest.approx(STAGE.speed)
    assert (np.abs(np.diff(speed, axis=0)).max(axis=0) <= STAGE.acceleration * STEP_S * (1 + 1e-9)).all()
    assert goals[-1] == pytest.approx([0.1, 1.0])


def test_an_old_command_ends_in_a_hold():
    bench = Bench()
    bench.run(1.0, (0.3, 0.0))
    goals = bench.run(2.0)
    moved = np.abs(np.diff(goals[:, 0])) > 1e-12
    stop_s = STEP_S * (1 + np.flatnonzero(moved).max())
    assert stop_s == pytest.approx(STAGE.command_timeout_s + STAGE.speed[0] / STAGE.acceleration[0], abs=0.05)
    assert not bench.motion.faults
    assert bench.run(1.0, (0.1, 0.0))[-1, 0] > goals[-1, 0]


FAULTS = {
    "out of range": (OUT_OF_RANGE, {"command": (0.31, 0.0)}),
    "an unknown place": (NOT_FINITE, {"command": (0.1, math.nan)}),
    "too few values": (NOT_FINITE, {"command": (0.1,)}),
    "an old reading": (UNREAD, {"change": lambda r: dataclasses.replace(r, stamp_s=r.stamp_s - 0.3)}),
    "an unknown reading": (UNREAD, {"change": lambda r: dataclasses.replace(r, displacement_m=np.full(2, math.nan))}),
    "a device": ("hot", {"change": lambda r: dataclasses.replace(r, device_faults=("hot",))}),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_latches_and_stops_it(name):
    fault, how = FAULTS[name]
    bench = Bench()
    bench.run(1.0, (0.1, 0.5))
    bench.run(0.05, **how)
    assert bench.motion.faults == [fault]
    stopped = bench.run(1.0, (0.1, 0.5))[-1]
    assert bench.run(0.5, (0.1, 0.5)) == pytest.approx(np.tile(stopped, (50, 1)))
    bench.motion.reset(bench.device.read(bench.now_s).displacement_m)
    assert bench.run(5.0, (0.1, 0.5))[-1] == pytest.approx([0.1, 0.5])


def test_a_blocked_carriage_is_not_pushed_on():
    bench = Bench()
    bench.run(1.0, (0.1, 0.0))
    bench.motors.blocked = True
    goals = bench.run(2.0, (0.1, 0.0))
    assert bench.motion.faults == [f"{LAGS}: insertion"]
    assert goals[-1] == pytest.approx(bench.device.read(bench.now_s).displacement_m)
