# SPDX-License-Identifier: Apache-2.0
"""Tendons that servos hold at displacements: what lies between a servo's reading and its tendon's path and load.

A tendon whose servo reads q has taken in gain q + zero; what its path is not shorter by, it stretches by:
load = stiffness (gain q + zero - path), never negative. Dry friction of the path takes up a part of the load
(:mod:`continuum_robot.rod.friction.dry`), at most a fraction of it. Values of ``displaced_tendons`` where a fit found
them; else a tendon takes in what its servo reads, and slides without friction.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from continuum_robot.robot.description import Robot

Vector = NDArray[np.float64]

STICKING_OVER_TENDON = 5.0
"""Friction springs are this much stiffer than their tendon: what they hide is F / (5 k), a fifth of the tendon's own
stretch under the friction."""


@dataclass(frozen=True, slots=True)
class HeldTendons:
    """Numbers of N tendons, shape (N,) each."""

    stiffness_n_per_m: Vector
    zero_m: Vector
    gain: Vector
    friction_fraction: Vector

    @classmethod
    def of(cls, robot: Robot) -> HeldTendons:
        """Those of a rod."""
        stiffness, found = robot.tendon_stiffnesses_n_per_m, robot.displaced_tendons
        if found is None:
            nothing = np.zeros(len(stiffness))
            return cls(stiffness, nothing, nothing + 1.0, nothing)
        return cls(stiffness, np.array(found.zero_m), np.array(found.gain), np.array(found.friction_fraction))

    @property
    def sticking_n_per_m(self) -> Vector:
        """Stiffness of the friction springs."""
        return STICKING_OVER_TENDON * self.stiffness_n_per_m

    def spooled(self, reading: Vector) -> Vector:
        """What is taken in at readings of the servos, (..., N), m."""
        return self.gain * reading + self.zero_m

    def reading(self, path_m: Vector, load_n: Vector) -> Vector:
        """Readings at which the servos hold a load."""
        return np.asarray((path_m + load_n / self.stiffness_n_per_m - self.zero_m) / self.gain)

    def path(self, reading: Vector, load_n: Vector) -> Vector:
        """What the paths are shorter by at readings of the servos under loads; a slack tendon does not show it, m."""
        return np.asarray(self.spooled(reading) - np.maximum(load_n, 0.0) / self.stiffness_n_per_m)
