# SPDX-License-Identifier: Apache-2.0
"""Robots of which fewer modes are controlled than their tendons have coordinates."""

from __future__ import annotations

from dataclasses import replace

from displacement_robots import with_servos

from continuum_robot.robot.control_settings import ControlSettings, ReferenceSettings
from continuum_robot.robot.description import Robot
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.transmission import Transmission


def with_modes(robot: Robot | str, modes: int, **control: object) -> Robot:
    """A robot under control of its softest modes, with the gains of its first segment and a slow chirp of each."""
    robot = load_robot(robot) if isinstance(robot, str) else robot
    settings = robot.control_settings
    gains = settings.gains[:1] * modes
    amplitude_m = tuple(0.004 / (1 + k // 2) for k in range(modes))
    chirp = ReferenceSettings(kind="chirp", amplitude_m=amplitude_m, frequency_hz=(0.2,) * modes)
    return robot.changed(control=replace(settings, modes=modes, gains=gains, **control), reference=chirp)


def coupled_segments() -> Robot:
    """Two segments with four tendons each on two servos: one bends both along x alike, one along y."""
    whole = with_servos("two_segment")
    first, second = whole.segments
    tendons = replace(first.tendons, count=4, angle_offset_rad=0.0)
    matrix = [[share * x, share * y] for share in (1.0, 2.0) for x, y in ((1, 0), (0, 1), (-1, 0), (0, -1))]
    return whole.changed(
        segments=(replace(first, tendons=tendons), replace(second, tendons=tendons)),
        transmission=Transmission(matrix=tuple(map(tuple, matrix)), preload_n=10.0),
        control=ControlSettings(modes=2),
        reference=ReferenceSettings(kind="chirp", amplitude_m=(0.006, 0.004), frequency_hz=(0.2, 0.15)),
    )
