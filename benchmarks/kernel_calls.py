# SPDX-License-Identifier: Apache-2.0
"""How long calls of the rod's kernel take, for robots of several segments."""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from continuum_robot.robot.description import Robot
from continuum_robot.robot.loading import load_robot
from continuum_robot.rod.kernel import reference
from continuum_robot.rod.kernel.call import KernelCall
from continuum_robot.rod.rod import Rod


def robot_of_segments(count: int) -> Robot:
    """A robot of ``count`` segments like those of the shipped ``two_segment``."""
    two = load_robot("two_segment")
    segments = tuple(
        dataclasses.replace(two.segments[index % 2], name=f"segment_{index + 1}") for index in range(count)
    )
    return dataclasses.replace(two, name=f"benchmark_{count}", segments=segments, control=None, reference=None)


def measure_dynamics(segments: Sequence[int] = (1, 2, 3), repeats: int = 2000) -> dict[str, float]:
    """Time of one call of the kernel, Python's part included, in one process.

    Parameters
    ----------
    segments : numbers of segments to measure
    repeats : calls of each

    Returns
    -------
    flat: for each number k medians ``rod_<k>_segments_inverse_us`` of the call in the control cycle,
    ``..._everything_us`` with all second derivatives and Jacobians, and ``..._numpy_us`` of the same in NumPy
    """
    results: dict[str, float] = {}
    for count in segments:
        rod = Rod(robot_of_segments(count), paths=())
        generator = np.random.default_rng(1)
        c, c_rate = generator.normal(size=(2, rod.n))
        inverse, everything = KernelCall(rod, "bias"), rod.prepared()
        for own, given in ((inverse.c, c), (inverse.rate, c_rate), (inverse.acceleration, 10 * c_rate)):
            np.asarray(own)[:] = given
        key = f"rod_{count}_segments"
        results[f"{key}_inverse_us"] = _median_us(inverse.call, repeats)
        results[f"{key}_everything_us"] = _median_us(partial(everything, c, c_rate), repeats)
        plain = partial(reference.terms, rod.arrays, c, c_rate)
        results[f"{key}_numpy_us"] = _median_us(plain, max(3, repeats // 200))
    return results


def _median_us(call: Callable[[], object], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter_ns()
        call()
        times.append(time.perf_counter_ns() - start)
    return statistics.median(times) / 1e3
