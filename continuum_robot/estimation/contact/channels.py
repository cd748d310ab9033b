# SPDX-License-Identifier: Apache-2.0
"""What the channels of a contact's residual are: all coefficients of a rod, or the modes that its sensors see.

The least tip force that the tendons balance is that of a cantilever under its tendons' moments, derived here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from continuum_robot.estimation.seen_modes import SeenModes, force_balanced_at_tip_n, seen_modes
from continuum_robot.estimation.shape import sensor_accuracy
from continuum_robot.estimation.shape_estimate import ShapeSettings
from continuum_robot.robot.description import Robot
from continuum_robot.robot.traits import LENGTHS, STATICS

_PERIOD_S = 0.01
_FASTEST_RAD_PER_S = 20.0


class ContactChannels(Protocol):
    """Channels of the residual of a robot; each value is computed when it is asked for."""

    @property
    def count(self) -> int:
        """Number of channels."""

    @property
    def modes(self) -> SeenModes | None:
        """What they are, None where they are the coefficients."""

    @property
    def accuracy(self) -> dict[str, float]:
        """What the sensors leave unknown of them, settings of the contact monitor by name, 1/m or 1/(m.s)."""

    @property
    def balanced_tip_force_n(self) -> float:
        """Force across the tip that the tendons balance in their weakest direction, the least of all segments, N.

        Of tendons on other paths than parallel ones that which they balance at the tip itself; NaN without limits.
        """


def contact_channels(robot: Robot) -> ContactChannels:
    """The channels of a robot: coefficients, where its sensors' readings are linear in them, else modes."""
    return _CHANNELS[robot.traits.shape_from](robot)


@dataclass(frozen=True)
class _ModeChannels:
    robot: Robot

    @property
    def modes(self) -> SeenModes:
        return seen_modes(self.robot)

    @property
    def count(self) -> int:
        return self.modes.count

    @property
    def accuracy(self) -> dict[str, float]:
        modes = self.modes
        per_rad = modes.jerk_density / ShapeSettings().bending_jerk_rad
        return {
            "coefficient_error_per_m": 1.0,
            "rate_noise_per_m_s": float(np.ceil(modes.motion_filter(_PERIOD_S).steady_rate_sigma(_PERIOD_S).max())),
            "jump_per_m": float(np.ceil(_FASTEST_RAD_PER_S * _PERIOD_S * per_rad.max())),
        }

    @property
    def balanced_tip_force_n(self) -> float:
        return math.nan if self.robot.limits is None else force_balanced_at_tip_n(self.robot)


@dataclass(frozen=True)
class _CoefficientChannels:
    robot: Robot

    @property
    def modes(self) -> None:
        return None

    @property
    def count(self) -> int:
        return self.robot.coefficient_count

    @property
    def accuracy(self) -> dict[str, float]:
        sensors = sensor_accuracy(self.robot)
        return {
            "coefficient_error_per_m": float(np.ceil(1e3 * sensors.coefficient_error_per_m.max()) / 1e3),
            "rate_noise_per_m_s": float(np.ceil(1e3 * sensors.rate_noise_per_m_s.max()) / 1e3),
        }

    @property
    def balanced_tip_force_n(self) -> float:
        limits = self.robot.limits
        if limits is None:
            return math.nan
        directions = np.linspace(0, 2 * np.pi, 360, endpoint=False)
        found = []
        most_n, least_n = (limits.each(key, self.robot.tendon_count) for key in ("maximum_n", "least_n"))
        for segment, rows in zip(self.robot.segments, self.robot.tendon_slices, strict=True):
            tendons = segment.tendons
            along = np.maximum(np.cos(tendons.angles_rad - directions[:, None]), 0)
            moment_nm = tendons.pitch_radius_m * (along @ (most_n - least_n)[rows]).min()
            found.append(moment_nm / segment.length_m)
        return float(min(found))


_CHANNELS: dict[str, Callable[[Robot], ContactChannels]] = {LENGTHS: _CoefficientChannels, STATICS: _ModeChannels}
