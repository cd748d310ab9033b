# SPDX-License-Identifier: Apache-2.0
"""Runs of a sweep, in whatever process: each a virtual stack that follows its reference, and the report's numbers of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuum_robot.app.recordings.reading import Series
from continuum_robot.app.report.numbers import motion_numbers, track, track_tip
from continuum_robot.app.sweep.file import Material, Run
from continuum_robot.control.references import ClarkeReference, blend, make_reference
from continuum_robot.errors import ContinuumRobotError, ParameterError
from continuum_robot.robot.description import Robot
from continuum_robot.testing import VirtualStack

LOOK_S = 0.01
"""Between two looks at the true tip, and for faults; as often as the simulator publishes it."""
RUN, SEED, FOLLOWED, FAULTS, FAULT_S, PROBLEM = "run", "seed", "followed_s", "faults", "fault_s", "problem"


@dataclass(frozen=True, slots=True)
class Batch:
    """A task: some runs."""

    material: Material
    runs: tuple[Run, ...]


def run_batch(batch: Batch) -> list[dict[str, Any]]:
    """What came of each run: metrics, and what ended it early."""
    found = []
    for run in batch.runs:
        robot, truth = batch.material.robots(run.values)
        settings = batch.material.settings
        numbers: Mapping[str, Any]
        try:
            numbers = follow(robot, truth, run.seed, settings.duration_s, settings.blend_s)
        except ContinuumRobotError as error:  # no equilibrium, no step of the plant: other runs have some
            numbers = {FAULTS: "", PROBLEM: str(error)}
        found.append({RUN: run.index, SEED: run.seed, **numbers})
    return found


def metric_names(batch: Batch) -> list[str]:
    """What there is to know of runs; the first one is tried for a moment."""
    robot, truth = batch.material.robots(batch.runs[0].values)
    numbers = follow(robot, truth, batch.runs[0].seed, 2 * LOOK_S, 0.0)
    return [name for name, value in numbers.items() if isinstance(value, float) and name != FAULT_S]


class _KeptStack(VirtualStack):
    """Keeps what every cycle read and wrote."""

    def on_row(self, row: list[float]) -> None:
        super().on_row(row)
        self.__dict__.setdefault("rows", []).append(row)


def follow(robot: Robot, truth: Robot, seed: int, duration_s: float, blend_s: float) -> dict[str, Any]:
    """Follow the robot file's reference until a fault latches, and compute the numbers that a demo's report has."""
    if robot.reference is None:
        raise ParameterError("reference", None, "a robot file with the section reference")
    trajectory = make_reference(robot.reference, robot.coordinate_count, Path(robot.file_name).parent)
    asked: list[tuple[float, NDArray[np.float64]]] = []
    tips: list[tuple[float, NDArray[np.float64]]] = []
    with _KeptStack(truth, believed=robot, seed=seed) as stack:
        stack.activate()
        stack.step()
        start, begun_s = stack.state.clarke_m, stack.now_s

        def way(time_s: float) -> ClarkeReference:
            reference = trajectory.at(time_s)
            if time_s < blend_s:
                reference = blend(start, reference, time_s / blend_s, blend_s)
            asked.append((begun_s + time_s, reference.position))
            return reference

        stack.rows.clear()
        stack.follow(way)
        while stack.now_s < begun_s + duration_s - 0.5 * stack.period_s and not stack.faults:
            stack.run(max(LOOK_S, stack.period_s))
            if stack.plant is not None:
                tips.append((stack.now_s, stack.plant.pose(stack.plant.robot.length_m)[:3, 3]))
        rows, at, faults = np.array(stack.rows), stack.loop.row, stack.faults
        ended_s = stack.now_s - begun_s
    reference = _series(asked, "position")
    stamps = rows[:, at.stamp_s]
    states = Series.of(stamps, tension=rows[:, at.tension], limited=rows[:, at.limited])
    clarke = Series.of(stamps, position=rows[:, at.clarke])
    tip = track_tip(_series(tips, "tip"), reference, robot, blend_s) if tips else None
    return {
        FOLLOWED: ended_s,
        **motion_numbers(states, track(clarke, reference, robot, blend_s), tip),
        FAULTS: ", ".join(dict.fromkeys(name for _, name in faults)),
        FAULT_S: faults[0][0] - begun_s if faults else math.nan,
        PROBLEM: "",
    }


def _series(samples: list[tuple[float, NDArray[np.float64]]], name: str) -> Series:
    times_s, values = zip(*samples, strict=True)
    return Series.of(np.array(times_s), **{name: np.array(values)})
