# SPDX-License-Identifier: Apache-2.0
"""How long one update of the contact monitor takes, alone and with the shape before it."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence

import numpy as np

from continuum_robot.estimation.contact.monitor import ContactMonitor
from continuum_robot.estimation.contact.settings import METHODS, MonitorSettings
from continuum_robot.estimation.shape import ShapeEstimator
from continuum_robot.robot.loading import load_robot
from continuum_robot.rod.tendons import string_matrix, tendon_matrix

_DT_S = 1e-3


def measure_contact_monitor(
    robots: Sequence[str] = ("vanderbilt_segment", "vanderbilt_two_segment"),
    repeats: int = 1000,
) -> dict[str, float]:
    """Time of one update: model, observer, thresholds, place and wrench, Python's part included.

    With the shape it is all that a new reading of tendons and strings costs: coefficients and rates by the Kalman
    filter too.

    Parameters
    ----------
    robots : names or files of robots
    repeats : updates of each method

    Returns
    -------
    flat: for each robot and method ``contact_monitor_<robot>_<method>_median_us`` and ``..._p99_us``, and with the
    shape ``contact_monitor_<robot>_shape_and_<method>_...``
    """
    results: dict[str, float] = {}
    for robot_name in robots:
        robot = load_robot(robot_name)
        shape = ShapeEstimator(robot)
        monitor = ContactMonitor(robot)
        tendons, strings, n = tendon_matrix(robot), string_matrix(robot), monitor.size
        generator = np.random.default_rng(1)
        wave = 0.3 * generator.normal(size=n)
        tension = np.full(robot.tendon_count, 20.0)
        noise = np.eye(n) * 1e-6
        # A contact that is there all the time, so that place and wrench are worked out in full.
        push = -monitor.functions(wave, wave).jacobians[-1][:2].T @ np.array([10.0, -5.0])
        for method in METHODS:
            monitor.with_settings(MonitorSettings(method=method))
            monitor.reset()
            shape.reset()
            times: dict[str, list[float]] = {method: [], f"shape_and_{method}": []}
            for k in range(repeats):
                phase = 2 * k * _DT_S
                c, rate = wave * np.sin(phase), 2 * wave * np.cos(phase)
                displacement, extension = tendons @ c, strings @ c
                begin = time.perf_counter_ns()
                shape.update(displacement, None, extension, _DT_S)
                middle = time.perf_counter_ns()
                monitor.update(c, rate, noise, _DT_S, tension=tension, other_force=push)
                end = time.perf_counter_ns()
                times[method].append((end - middle) / 1e3)
                times[f"shape_and_{method}"].append((end - begin) / 1e3)
            for name, values in times.items():
                key = f"contact_monitor_{robot.name}_{name}"
                results[f"{key}_median_us"] = statistics.median(values)
                results[f"{key}_p99_us"] = float(np.percentile(values, 99))
    return results
