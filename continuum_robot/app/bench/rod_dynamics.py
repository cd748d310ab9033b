# SPDX-License-Identifier: Apache-2.0
"""How long the forward dynamics of robots of several segments take."""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Callable, Sequence

import numpy as np

from continuum_robot.robot.description import Robot
from continuum_robot.robot.loading import load_robot
from continuum_robot.rod.code.generation import FastFunction
from continuum_robot.rod.dynamics import RodDynamics


def robot_of_segments(count: int) -> Robot:
    """A robot of ``count`` segments like those of the shipped ``two_segment``."""
    two = load_robot("two_segment")
    segments = tuple(
        dataclasses.replace(two.segments[index % 2], name=f"segment_{index + 1}") for index in range(count)
    )
    return dataclasses.replace(two, name=f"benchmark_{count}", segments=segments, control=None, reference=None)


def measure_forward_dynamics(
    segments: Sequence[int] = (1, 2, 3), repeats: int = 2000, progress: Callable[[str], None] | None = None
) -> dict[str, float | int | bool]:
    """Time of one call of the forward dynamics, Python's part included.

    Parameters
    ----------
    segments : numbers of segments to measure
    repeats : calls of each
    progress : receives a line where something has to be compiled

    Returns
    -------
    flat: for each number k ``forward_dynamics_<k>_segments_compiled_us`` (absent without a compiler) and
    ``..._virtual_machine_us``, medians; ``..._instructions``
    """
    results: dict[str, float | int | bool] = {}
    for count in segments:
        robot = robot_of_segments(count)
        key = f"forward_dynamics_{count}_segments"
        dynamics = RodDynamics(robot, progress=progress)
        if dynamics.compiled:
            results[f"{key}_compiled_us"] = _median_us(dynamics, repeats)
        virtual = RodDynamics(robot, compile="never")
        results[f"{key}_virtual_machine_us"] = _median_us(virtual, repeats)
        results[f"{key}_instructions"] = FastFunction(virtual.symbolic.forward_dynamics).instructions
    return results


def _median_us(dynamics: RodDynamics, repeats: int) -> float:
    generator = np.random.default_rng(1)
    c, c_rate = generator.normal(size=dynamics.size), generator.normal(size=dynamics.size)
    tension = generator.uniform(0, 5, dynamics.robot.tendon_count)
    times = []
    for _ in range(repeats):
        start = time.perf_counter_ns()
        dynamics.forward_dynamics(c, c_rate, tension)
        times.append(time.perf_counter_ns() - start)
    return statistics.median(times) / 1e3
