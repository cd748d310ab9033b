# SPDX-License-Identifier: Apache-2.0
"""A run of a sweep: a virtual stack that follows its reference, and the report's numbers of it."""

from __future__ import annotations

import contextlib
import math
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from continuum_robot.app.recordings.reading import Series
from continuum_robot.app.report.numbers import motion_numbers, track, track_tip
from continuum_robot.app.sweep.file import SweepSettings
from continuum_robot.control.references import blend, make_reference
from continuum_robot.errors import ParameterError
from continuum_robot.robot.description import Robot
from continuum_robot.testing import SteadyReference, VirtualStack

Vector = NDArray[np.float64]

LOOK_S = 0.01
"""Between two references, two looks at the true tip, and for faults: the nodes publish as often."""


class Follower:
    """Runs one after the other. A stack is made anew where driver and controller know another robot than before."""

    def __init__(self, settings: SweepSettings) -> None:
        self._settings = settings
        self._stack: VirtualStack | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        if self._stack is not None:
            self._stack.close()

    def _started(self, robot: Robot, truth: Robot, seed: int) -> VirtualStack:
        stack, self._stack = self._stack, None
        if stack is not None and stack.robot == robot:
            stack.restart(seed, truth)
            return stack
        if stack is not None:
            stack.close()
        return VirtualStack(truth, believed=robot, seed=seed)

    def follow(self, robot: Robot, truth: Robot, seed: int, duration_s: float) -> dict[str, Any]:
        """Follow the robot file's reference until a fault latches, and compute the numbers that a demo's report has."""
        if robot.reference is None:
            raise ParameterError("reference", None, "a robot file with the section reference")
        trajectory = make_reference(robot.reference, robot.coordinate_count, Path(robot.file_name).parent)
        blend_s = self._settings.blend_s
        asked: list[tuple[float, Vector]] = []
        tips: list[tuple[float, Vector]] = []
        rows: list[list[float] | None] = []
        with contextlib.ExitStack() as at_error:
            stack = self._started(robot, truth, seed)
            at_error.callback(stack.close)
            stack.activate()
            stack.step()
            start, begun_s, log = stack.state.clarke_m, stack.now_s, stack.loop.cycle.rows()
            cycles = max(1, round(LOOK_S / stack.period_s))
            for _ in range(math.ceil(duration_s / (cycles * stack.period_s) - 1e-9)):
                time_s = stack.now_s - begun_s
                reference = trajectory.at(time_s)
                if time_s < blend_s:
                    reference = blend(start, reference, time_s / blend_s, blend_s)
                asked.append((stack.now_s, reference.position))
                stack.follow(SteadyReference(reference.position, reference.velocity))
                seen = log.count
                stack.run(cycles * stack.period_s)
                rows += [log.row(number) for number in range(seen, log.count)]
                if stack.plant is not None:
                    tips.append((stack.now_s, stack.plant.pose(stack.plant.robot.length_m)[:3, 3]))
                if stack.faults:
                    break
            at_error.pop_all()
            self._stack = stack
        at, faults, ended_s = stack.loop.row, stack.faults, stack.now_s - begun_s
        desired = _series(asked, "position")
        kept = np.array(rows)
        stamps = kept[:, at.stamp_s]
        states = Series.of(stamps, tension=kept[:, at.tension], limited=kept[:, at.limited])
        clarke = Series.of(stamps, position=kept[:, at.clarke])
        tip = track_tip(_series(tips, "tip"), desired, robot, blend_s) if tips else None
        return {
            "followed_s": round(ended_s, 9),
            **motion_numbers(states, track(clarke, desired, robot, blend_s), tip),
            "faults": ", ".join(dict.fromkeys(name for _, name in faults)),
            "fault_s": faults[0][0] - begun_s if faults else math.nan,
        }


def _series(samples: list[tuple[float, Vector]], name: str) -> Series:
    times_s, values = zip(*samples, strict=True)
    return Series.of(np.array(times_s), **{name: np.array(values)})
