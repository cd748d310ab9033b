# SPDX-License-Identifier: Apache-2.0
"""The driver's cycle at 1 kHz on three simulated motor boards, without ROS: processor time and punctuality."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from continuum_robot.drivers.tendon_safety import TendonSafety
from continuum_robot.robot.description import Robot
from continuum_robot.runtime.periodic import FrozenGarbage, PeriodicThread
from continuum_robot.simulation.wire.hardware import SimulatedHardware

PERIOD_S = 0.001
HELD_N = 3.0


def measure_driver_cycle(robot: Robot, wait: Callable[[], object]) -> dict[str, Any]:
    """Read, check, limit and write in a thread at 1 kHz while ``wait`` lasts; the boards and the plant step in between.

    Parameters
    ----------
    robot : with actuators and limits
    wait : returns when it has been measured long enough

    Returns
    -------
    ``driver_boards``, ``driver_tendons``, ``driver_loop_rate_hz``, ``driver_missed_cycles_percent``,
    ``driver_period_p99_us``, ``driver_period_max_us``; ``driver_late_p99_us``: how much later than a period after the
    one before a cycle begins;
    ``driver_processor_percent`` and ``simulated_boards_processor_percent``, with 100 % one core; ``driver_cycle_us``
    """
    hardware = SimulatedHardware(robot)
    hardware.open()
    actuators = hardware.tendon_actuators()
    actuators.open()
    actuators.enable()
    boards = len(hardware.boards)
    safety = TendonSafety(robot)
    tension = np.full(robot.tendon_count, HELD_N)
    driver_s: list[float] = []
    boards_s: list[float] = []
    cycle_number = 0

    def cycle(now_s: float, elapsed_s: float) -> None:
        nonlocal cycle_number
        cycle_number += 1
        begun_s = time.thread_time()
        hardware.step(now_s)
        stepped_s = time.thread_time()
        reading = actuators.read(now_s)
        output = safety.update(reading, tension, 0.0, now_s, elapsed_s, command_sequence=cycle_number)
        if output.write:
            actuators.write(output.tension, now_s)
        driver_s.append(time.thread_time() - stepped_s)
        boards_s.append(stepped_s - begun_s)

    failures: list[BaseException] = []
    loop = PeriodicThread("driver", PERIOD_S, cycle, on_failure=failures.append, on_refused=lambda _sentences: None)
    FrozenGarbage.hold()
    try:
        now_s = time.monotonic()
        safety.activate(actuators.read(now_s), now_s)
        loop.start()
        wait()
        report = loop.statistics.report()
    finally:
        loop.stop()
        FrozenGarbage.release()
        actuators.close()
        hardware.close()
    if failures:
        raise failures[0]
    return {
        "driver_boards": boards,
        "driver_tendons": robot.tendon_count,
        "driver_loop_rate_hz": report.rate_hz,
        "driver_missed_cycles_percent": report.missed_percent,
        "driver_period_p99_us": report.period_p99_us,
        "driver_period_max_us": report.period_max_us,
        "driver_late_p99_us": max(0.0, report.period_p99_us - 1e6 * PERIOD_S),
        "driver_cycle_us": 1e6 * float(np.mean(driver_s)),
        "driver_processor_percent": 100 * float(np.sum(driver_s)) / report.duration_s,
        "simulated_boards_processor_percent": 100 * float(np.sum(boards_s)) / report.duration_s,
    }
