# SPDX-License-Identifier: Apache-2.0
"""How much faster than real time the general rod moves."""

from __future__ import annotations

import dataclasses
import time

import numpy as np
from kernel_calls import robot_of_segments
from numpy.typing import NDArray

from continuum_robot.robot.basis import Basis
from continuum_robot.rod.rod import METHODS, Rod
from continuum_robot.simulation.moving_rod import MovingRod

_STEP_S = 2e-3
_DAMPING_S = 5e-3


def measure_motion(duration_s: float = 2.0) -> dict[str, float]:
    """Motion of three segments with bending of order 2 in steps of 2 ms, Python's part included.

    Parameters
    ----------
    duration_s : of the motion, s; all tendons are pulled by turns, twice a second

    Returns
    -------
    flat: ``dynamics_3_segments_prepared_s``, what making the rod costs; for each method
    ``dynamics_3_segments_<method>_times_real_time``, without that, and ``..._iterations_a_step``
    """
    robot = robot_of_segments(3)
    basis = Basis(kind="chebyshev", bending_order=2)
    robot = dataclasses.replace(
        robot,
        segments=tuple(dataclasses.replace(segment, basis=basis) for segment in robot.segments),
        strings=(),
    )
    phase = 2 * np.pi * np.arange(robot.tendon_count) / robot.tendon_count
    start = time.perf_counter()
    rod = Rod(robot)
    rod.arrays.damping[:] = _DAMPING_S * rod.arrays.stiffness
    numbers = {"dynamics_3_segments_prepared_s": time.perf_counter() - start}
    for method in METHODS:
        moving = MovingRod(rod, linear=True, method=method)
        moving.reset(np.zeros(rod.n))

        def pull(t: float, desired: NDArray[np.float64] = moving.desired) -> None:
            desired[:] = 1.0 + np.sin(4 * np.pi * t + phase)

        start = time.perf_counter()
        motion = moving.follow([0.0, duration_s], _STEP_S, pull)
        key = f"dynamics_3_segments_{method}"
        numbers[f"{key}_times_real_time"] = duration_s / (time.perf_counter() - start)
        numbers[f"{key}_iterations_a_step"] = motion.evaluations * _STEP_S / duration_s
    return numbers
