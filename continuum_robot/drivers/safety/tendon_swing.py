# SPDX-License-Identifier: Apache-2.0
"""How far motors swing on their elastic tendons, and up to what tension they may be commanded meanwhile.

Stepped code: see :mod:`continuum_robot.stepped`.
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.libc.math import sqrt

from continuum_robot.drivers.safety.settings import SafetySettings
from continuum_robot.robot.actuation import TensionLimits
from continuum_robot.robot.description import Robot
from continuum_robot.stepped.buffers import INFINITE, indices, stepped, vector


@cython.cclass
class TendonSwing:
    """Ceilings of commanded tensions that leave room for swings.

    A motor of mass m (as it moves with its tendon) on a tendon of stiffness k is an oscillator: its tension T follows
    the command u by T'' = w^2 (u - T) - (2 / tau) T' with w = sqrt(k / m). A step doubles itself; motion that is slow
    beside w hardly swings. The amplitude about the command, sqrt((T - u)^2 + (T' / w)^2), tells the one from the other.

    - Up to ``soft_fraction`` of the maximum, any command is free.
    - Above, while the swing with the command's own step stays within ``swing_fraction`` of the maximum, so is what
      leaves room for twice that below the highest tension (the maximum less ``headroom_fraction``).
    - Else a command may approach the highest tension with the time constant tau = ``soft_time_s``.
    """

    _half_rad_per_s: cython.double[::1]
    _count: cython.int
    _soft_n: cython.double[::1]
    _soft_time_s: cython.double
    _highest_n: cython.double[::1]
    _swing_n: cython.double[::1]
    _tension_n: cython.double[::1]
    # The tension's rate, divided by w.
    _rise_n: cython.double[::1]

    def __init__(self, robot: Robot, limits: TensionLimits, settings: SafetySettings) -> None:
        self._count = count = robot.tendon_count
        motors = robot.tendon_actuators
        mass_kg = np.zeros(count) if motors is None else motors.each("reflected_mass_kg", count)
        stiffness_n_per_m = float(robot.tendon_stiffnesses_n_per_m.max())
        self._half_rad_per_s = vector(0.5 * sqrt(stiffness_n_per_m / one) if one > 0 else INFINITE for one in mass_kg)
        maximum_n = limits.each("maximum_n", count)
        highest_n = (1 - settings.headroom_fraction) * maximum_n
        self._highest_n = vector(highest_n)
        self._soft_n = vector(np.minimum(highest_n, settings.soft_fraction * maximum_n))
        self._swing_n = vector(settings.swing_fraction * maximum_n)
        self._soft_time_s = settings.soft_time_s
        self._tension_n, self._rise_n = vector(self._count), vector(self._count)

    @stepped
    def step(self, command_n: cython.double[::1], dt: cython.double) -> cython.void:
        """Swing for ``dt``, s, about ``command_n``, N: by the implicit midpoint rule, which neither adds nor takes."""
        j: cython.int
        kept: cython.double = self._soft_time_s / (self._soft_time_s + dt)
        half_rad_per_s: cython.double[::1] = self._half_rad_per_s
        tension_n: cython.double[::1] = self._tension_n
        rises_n: cython.double[::1] = self._rise_n
        before_rad_per_s: cython.double = -1.0
        half: cython.double = 0.0
        cosine: cython.double = 0.0
        sine: cython.double = 0.0
        away_n: cython.double
        rise_n: cython.double
        for j in indices(self._count):
            if half_rad_per_s[j] != before_rad_per_s:
                before_rad_per_s = half_rad_per_s[j]
                half = before_rad_per_s * dt
                cosine = kept * (1.0 - half * half) / (1.0 + half * half)
                sine = kept * 2.0 * half / (1.0 + half * half)
            if not (half < 1e6):
                tension_n[j] = command_n[j]
                continue
            away_n = tension_n[j] - command_n[j]
            rise_n = rises_n[j]
            tension_n[j] = command_n[j] + cosine * away_n + sine * rise_n
            rises_n[j] = cosine * rise_n - sine * away_n

    @stepped
    def ceilings(
        self, command_n: cython.double[::1], since_s: cython.double, ceiling_n: cython.double[::1]
    ) -> cython.void:
        """Into ``ceiling_n`` what may follow ``command_n`` after ``since_s``; all tensions in N."""
        j: cython.int
        blend: cython.double = since_s / self._soft_time_s
        away_n: cython.double
        rise_n: cython.double
        free_n: cython.double
        slow_n: cython.double
        room_n: cython.double
        highest_n: cython.double[::1] = self._highest_n
        swing_n: cython.double[::1] = self._swing_n
        soft_n: cython.double[::1] = self._soft_n
        blend = blend if blend < 1.0 else 1.0
        for j in indices(self._count):
            away_n = self._tension_n[j] - command_n[j]
            rise_n = self._rise_n[j]
            room_n = highest_n[j] - 2.0 * swing_n[j]
            free_n = command_n[j] + swing_n[j] - sqrt(away_n * away_n + rise_n * rise_n)
            free_n = free_n if free_n < room_n else room_n
            slow_n = command_n[j] + (highest_n[j] - command_n[j]) * blend
            slow_n = slow_n if slow_n > soft_n[j] else soft_n[j]
            ceiling_n[j] = slow_n if slow_n > free_n else free_n
