# SPDX-License-Identifier: Apache-2.0
"""The position loop that a servo has built in, seen from the tendon; in a rod's steps rod/kernel/plant.hpp has it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from continuum_robot.robot.actuation import Actuators

Vector: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class PositionLoop:
    """A spring and a damper from the goal to the spool, by the motor's encoder, within what the motor gives.

    It has no integral: under a load F it stays F / k behind, as a servo with a proportional gain alone does.

    Attributes
    ----------
    stiffness_n_per_m : k = m w^2 with the reflected mass m and w = 2 pi ``servo.bandwidth_hz``, (N,)
    damping_ns_per_m : 2 m w, so that the motor alone is critically damped, (N,)
    no_load_speed_m_per_s : at which the motor gives no more force in the direction of its motion, (N,)
    """

    stiffness_n_per_m: Vector
    damping_ns_per_m: Vector
    no_load_speed_m_per_s: Vector

    @classmethod
    def of(cls, actuators: Actuators, tendon_count: int, mounted: Callable[[Vector], Vector] = np.copy) -> PositionLoop:
        """The loops of a robot's actuators; arguments as of ``MotorModel.from_actuators``."""
        keys = "bandwidth_rad_per_s", "reflected_mass_kg", "maximum_speed_m_per_s"
        w, mass_kg, fastest = (mounted(actuators.each(key, tendon_count)) for key in keys)
        return cls(mass_kg * w**2, 2 * mass_kg * w, fastest)

    def first(self, count: int) -> PositionLoop:
        """The loops of the first motors alone."""
        arrays = self.stiffness_n_per_m, self.damping_ns_per_m, self.no_load_speed_m_per_s
        return PositionLoop(*(one[:count] for one in arrays))

    def force(
        self, goal: Vector, position: Vector, speed: Vector, largest_n: Vector, duration_s: float
    ) -> tuple[Vector, Vector]:
        """Force on the tendons at the end of a time, and how fast it falls with the speed there, (N,) each: N, N.s/m.

        The largest force falls linearly to none at the no-load speed, and brakes beyond it.
        """
        wanted = self.stiffness_n_per_m * (goal - position) - self.damping_ns_per_m * speed
        slower = largest_n / self.no_load_speed_m_per_s
        up = np.clip(largest_n - slower * speed, -largest_n, largest_n)
        down = np.clip(-largest_n - slower * speed, -largest_n, largest_n)
        force = np.minimum(np.maximum(wanted, down), up)
        falling = (wanted > up) & (np.abs(up) < largest_n) | (wanted < down) & (np.abs(down) < largest_n)
        within = self.damping_ns_per_m + duration_s * self.stiffness_n_per_m
        slope = np.where((wanted >= down) & (wanted <= up), within, np.where(falling, slower, 0.0))
        off = np.isnan(goal)
        return np.where(off, 0.0, force), np.where(off, 0.0, slope)
