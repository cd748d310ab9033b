# SPDX-License-Identifier: Apache-2.0
"""Simulated hardware as a person meets it after switching it on."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from continuum_robot.robot.description import Robot
from continuum_robot.simulation.wire.hardware import SimulatedHardware

SLACK_M = (0.002, 0.01)


def switched_on(robot: Robot, *, force: bool = False, folder: Path | None = None) -> SimulatedHardware:
    """Open hardware whose rotors are not aligned, whose tendons are slack, and whose strings have no zero."""
    hardware = SimulatedHardware(robot, aligned=False, zeroed=False, strings=True, force=force, folder=folder)
    hardware.open()
    rng = np.random.default_rng([robot.simulation.seed, 2])
    for tendon, slack_m in enumerate(rng.uniform(*SLACK_M, robot.tendon_count)):
        hardware.inject("slack_tendon", tendon, float(slack_m))
    return hardware
