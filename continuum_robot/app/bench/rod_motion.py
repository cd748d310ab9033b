# SPDX-License-Identifier: Apache-2.0
"""How much faster than real time the general rod moves."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable

import numpy as np

from continuum_robot.app.bench.rod_dynamics import robot_of_segments
from continuum_robot.robot.basis import Basis
from continuum_robot.rod.strain.dynamics import StrainDynamics
from continuum_robot.rod.strain.motion import METHODS, Stepper, simulate
from continuum_robot.rod.strain.rod import StrainRod

_STEP_S = 2e-3
_DAMPING_S = 5e-3


def measure_motion(duration_s: float = 2.0, progress: Callable[[str], None] | None = None) -> dict[str, float]:
    """Motion of three segments with bending of order 2 in steps of 2 ms, Python's part included.

    Parameters
    ----------
    duration_s : of the motion, s; all tendons are pulled by turns, twice a second
    progress : receives a line

    Returns
    -------
    flat: ``dynamics_3_segments_prepared_s``, what the first step costs before it begins; for each method
    ``dynamics_3_segments_<method>_times_real_time``, without that, and ``..._iterations_a_step``
    """
    robot = robot_of_segments(3)
    basis = Basis(kind="chebyshev", bending_order=2)
    robot = dataclasses.replace(
        robot,
        segments=tuple(dataclasses.replace(segment, basis=basis) for segment in robot.segments),
        strings=(),
    )
    dynamics = StrainDynamics(StrainRod.from_robot(robot), damping=_DAMPING_S)
    phase = 2 * np.pi * np.arange(robot.tendon_count) / robot.tendon_count
    start = time.perf_counter()
    Stepper(dynamics)
    numbers = {"dynamics_3_segments_prepared_s": time.perf_counter() - start}
    for method in METHODS:
        if progress is not None:
            progress(f"motion of three segments, {method} ...")
        start = time.perf_counter()
        motion = simulate(
            dynamics,
            [0.0, duration_s],
            pull=lambda t: 1.0 + np.sin(4 * np.pi * t + phase),
            step_s=_STEP_S,
            method=method,
            tolerance=1e-8,
        )
        key = f"dynamics_3_segments_{method}"
        numbers[f"{key}_times_real_time"] = duration_s / (time.perf_counter() - start)
        numbers[f"{key}_iterations_a_step"] = motion.iterations * _STEP_S / duration_s
    return numbers
