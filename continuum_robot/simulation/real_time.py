# SPDX-License-Identifier: Apache-2.0
"""Whether this machine simulates a robot as fast as it would move."""

from __future__ import annotations

import time

import numpy as np

from continuum_robot.robot.description import Robot
from continuum_robot.simulation.simulator import WIRE
from continuum_robot.simulation.tendon_actuators import SimulatedTendonActuators
from continuum_robot.simulation.wire.hardware import SimulatedHardware

STEP_S = 0.001
DURATION_S = 0.2
_PULL = 0.2
_PULL_RAD_PER_S = 20.0


def real_time_factor(robot: Robot, level: str, duration_s: float = DURATION_S) -> float:
    """How much simulated time passes in a second while the tendons are pulled; below 1 the robot falls behind.

    Plant and devices run alone in this thread; what else the machine does meanwhile counts.

    Parameters
    ----------
    robot : with ``actuators``, its plant compiled where that takes long
    level : "wire", "dynamics" or "mirror"
    duration_s : how long the robot is simulated, s

    Returns
    -------
    simulated time as a ratio of the time that it took, > 0

    Raises
    ------
    ParameterError : unknown level, or no actuators
    """
    largest_n = _PULL * robot.limits.maximum_n if robot.limits is not None else 1.0
    steps = max(1, round(duration_s / STEP_S))
    now_s = 0.0
    busy_s = 0.0
    hardware = SimulatedHardware(robot) if level == WIRE else None
    if hardware is not None:
        hardware.open()

        def sleep(passed_s: float) -> None:
            nonlocal now_s
            now_s += passed_s

        device = hardware.tendon_actuators(clock=lambda: now_s, sleep=sleep)
    else:
        device = SimulatedTendonActuators(robot, level=level)
    try:
        device.open()
        device.enable()
        phases = np.arange(robot.tendon_count)
        for _ in range(steps):
            device.write(largest_n * (0.5 + 0.5 * np.sin(_PULL_RAD_PER_S * now_s + phases)), now_s)
            now_s += STEP_S
            begun_s = time.perf_counter()
            if hardware is not None:
                hardware.step(now_s)
            else:
                device.read(now_s)
            busy_s += time.perf_counter() - begun_s
            if hardware is not None:
                device.read(now_s)  # the driver's work, which is another process's
    finally:
        device.close()
        if hardware is not None:
            hardware.close()
    return steps * STEP_S / busy_s
