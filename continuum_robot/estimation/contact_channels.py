# SPDX-License-Identifier: Apache-2.0
"""What the channels of a contact's residual are: all coefficients of a rod, or the modes that its sensors see.

The least tip force that the tendons balance is that of a cantilever under its tendons' moments, derived here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from continuum_robot.estimation.seen_modes import SeenModes, force_balanced_at_tip_n, seen_modes
from continuum_robot.estimation.shape import ShapeSettings, sensor_accuracy
from continuum_robot.robot.description import Robot
from continuum_robot.rod.tendons import beyond_bending

_PERIOD_S = 0.01
_FASTEST_RAD_PER_S = 20.0


@dataclass(frozen=True)
class ContactChannels:
    """Channels of the residual of a robot.

    Attributes
    ----------
    count : number of channels
    modes : what they are, None where they are the coefficients
    accuracy : what the sensors leave unknown of them, settings of the contact monitor by name, 1/m or 1/(m.s)
    balanced_tip_force_n : force across the tip that the tendons balance in their weakest direction, the least of all
        segments, N; of tendons on other paths than parallel ones that which they balance at the tip itself; NaN
        without limits
    """

    count: int
    modes: SeenModes | None
    balanced_tip_force_n: float
    accuracy: dict[str, float] = field(default_factory=dict)


def contact_channels(robot: Robot) -> ContactChannels:
    """The channels of a robot: coefficients, where its sensors' readings are linear in them, else modes.

    Parameters
    ----------
    robot : a rod
    """
    return _of_modes(robot) if beyond_bending(robot) else _of_coefficients(robot)


def _of_modes(robot: Robot) -> ContactChannels:
    modes = seen_modes(robot)
    per_rad = modes.jerk_density / ShapeSettings().bending_jerk_rad
    accuracy = {
        "coefficient_error_per_m": 1.0,
        "rate_noise_per_m_s": float(np.ceil(modes.motion_filter(_PERIOD_S).steady_rate_sigma(_PERIOD_S).max())),
        "jump_per_m": float(np.ceil(_FASTEST_RAD_PER_S * _PERIOD_S * per_rad.max())),
    }
    force_n = math.nan if robot.limits is None else force_balanced_at_tip_n(robot)
    return ContactChannels(modes.count, modes, force_n, accuracy)


def _of_coefficients(robot: Robot) -> ContactChannels:
    sensors = sensor_accuracy(robot)
    accuracy = {
        "coefficient_error_per_m": float(np.ceil(1e3 * sensors.coefficient_error_per_m.max()) / 1e3),
        "rate_noise_per_m_s": float(np.ceil(1e3 * sensors.rate_noise_per_m_s.max()) / 1e3),
    }
    return ContactChannels(robot.coefficient_count, None, _balanced_by_parallel_tendons_n(robot), accuracy)


def _balanced_by_parallel_tendons_n(robot: Robot) -> float:
    if robot.limits is None:
        return math.nan
    span_n = robot.limits.maximum_n - robot.limits.minimum_n
    directions = np.linspace(0, 2 * np.pi, 360, endpoint=False)
    found = []
    for segment in robot.segments:
        tendons = segment.tendons
        angles = tendons.angle_offset_rad + 2 * np.pi * np.arange(tendons.count) / tendons.count
        lever_m = tendons.pitch_radius_m * np.maximum(np.cos(angles - directions[:, None]), 0).sum(axis=1).min()
        found.append(lever_m * span_n / segment.length_m)
    return float(min(found))
