# SPDX-License-Identifier: Apache-2.0
"""Prints how long a cycle of predictive tip control takes with each solver: python benchmarks/predictive_solvers.py.

The tip goes round the shipped post, and a two-segment robot bends without obstacles; the search for the first plan,
then 150 cycles, after one run that is not counted.
"""

from __future__ import annotations

import time

import numpy as np

from continuum_robot.control.tip.inverse import TipKinematics
from continuum_robot.control.tip.predictive import PredictiveSettings, PredictiveTip
from continuum_robot.control.tip.predictive_problem import SOLVERS
from continuum_robot.robot.coordinates import coordinate_scale_m
from continuum_robot.robot.file.shipped_files import shipped_file
from continuum_robot.robot.loading import load_robot
from continuum_robot.simulation.mujoco.world import load_world

CYCLES, PERIOD_S = 150, 0.02


def motion(name: str) -> tuple[PredictiveTip, ...]:
    """Controls of a robot, one for each solver."""
    obstacles = load_world(shipped_file("worlds/post.yaml")).convex() if name == "opencr_five_tendon" else []
    return tuple(PredictiveTip(load_robot(name), obstacles, PredictiveSettings(solver=solver)) for solver in SOLVERS)


def measure(control: PredictiveTip, start: np.ndarray, target: np.ndarray) -> tuple[float, list[float], int, float]:
    """Search in s, cycles in ms, cycles that held, and the distance left, mm."""
    control.reset(start)
    began_s = time.perf_counter()
    control.set_target(target)
    search_s, cycles, held, error_m = time.perf_counter() - began_s, [], 0, np.nan
    for _ in range(CYCLES):
        began_s = time.perf_counter()
        output = control.update(None, None, PERIOD_S)
        cycles.append(1e3 * (time.perf_counter() - began_s))
        held, error_m = held + output.holding, output.error_m
    return search_s, cycles, held, 1e3 * error_m


def main() -> None:
    """Print the table."""
    for name in ("opencr_five_tendon", "two_segment"):
        robot = load_robot(name)
        side = np.zeros((2, robot.coordinate_count // 2, 2))
        side[:, 0] = 0.8 / np.sqrt(2) * np.array([[1, -1], [1, 1]])
        start, end = side.reshape(2, -1) * coordinate_scale_m(robot)
        target = TipKinematics(robot).place(end)[0]
        print(f"{name}\n{'solver':>8} {'search s':>9} {'median ms':>10} {'p99 ms':>8} {'held':>5} {'left mm':>8}")
        for control in motion(name):
            measure(control, start, target)
            search_s, cycles, held, left_mm = measure(control, start, target)
            median, high = np.median(cycles), np.quantile(cycles, 0.99)
            solver = control.settings.solver
            print(f"{solver:>8} {search_s:9.2f} {median:10.1f} {high:8.1f} {held:5d} {left_mm:8.2f}", flush=True)


if __name__ == "__main__":
    main()
