# SPDX-License-Identifier: Apache-2.0
"""The ramp to the safe tension, and the brake of motors that run in meanwhile.

Stepped code: see :mod:`continuum_robot.stepped`.
"""

from __future__ import annotations

import cython
import numpy as np
from numpy.typing import NDArray

from continuum_robot.control.limits import TensionLimiter
from continuum_robot.drivers.reading_buffer import ReadingBuffer
from continuum_robot.drivers.safety.settings import SafetySettings
from continuum_robot.robot.actuation import TensionLimits
from continuum_robot.stepped.buffers import INFINITE, indices, integers, stepped, vector

BRAKE_DURATION_S = 0.1
"""For how long motors are braked after a fault, at most."""
# From where on a tendon runs in, and the time in which a braked motor loses its speed.
_BRAKE_SPEED_M_PER_S = 0.02
_BRAKE_TIME_S = 0.01


@cython.cclass
class SafeRamp:
    """Leads the command from where it is to the safe tension."""

    brake_n: cython.double[::1]
    _command: cython.double[::1]
    _count: cython.int
    _safe_n: cython.double[::1]
    _safe_rate_n_per_s: cython.double
    _total_n: cython.double
    _maximum_n: cython.double[::1]
    _within_s: cython.double
    _rate_n_per_s: cython.double
    _change: cython.double[::1]
    _braked_s: cython.double
    _duration_s: cython.double
    _brake_ns_per_m: cython.double[::1]
    _brake_speed_m_per_s: cython.double
    _maximum_speed_m_per_s: cython.double
    _runs_in: cython.int[::1]

    def __init__(
        self,
        limits: TensionLimits,
        settings: SafetySettings,
        limiter: TensionLimiter,
        tendon_count: int,
        reflected_mass_kg: NDArray[np.float64],
    ) -> None:
        self._count, self._command = tendon_count, limiter.command
        self._safe_n, self._maximum_n = (vector(limits.each(key, tendon_count)) for key in ("safe_n", "maximum_n"))
        self._safe_rate_n_per_s, self._total_n = limits.safe_rate_n_per_s, limits.total_n
        self._within_s, self._duration_s = settings.safe_within_s, BRAKE_DURATION_S
        self._rate_n_per_s, self._braked_s = limits.safe_rate_n_per_s, INFINITE
        self._brake_ns_per_m = vector(reflected_mass_kg / _BRAKE_TIME_S)
        self._brake_speed_m_per_s = _BRAKE_SPEED_M_PER_S
        self._maximum_speed_m_per_s = settings.maximum_speed_m_per_s
        self.brake_n, self._change = vector(tendon_count), vector(tendon_count)
        self._runs_in = integers(tendon_count)

    @stepped
    def begin(self) -> cython.void:
        """Begin the ramp after a fault: the safe tension is reached within ``safe_within_s``, and motors are braked."""
        j: cython.int
        away_n: cython.double
        quickly: cython.double
        farthest_n: cython.double = self._command[0] - self._safe_n[0]
        for j in indices(self._count):
            self._runs_in[j] = 1
            away_n = self._command[j] - self._safe_n[j]
            farthest_n = farthest_n if farthest_n > away_n else away_n
        quickly = farthest_n / self._within_s
        self._rate_n_per_s = quickly if quickly > self._safe_rate_n_per_s else self._safe_rate_n_per_s
        self._braked_s = 0.0

    @stepped
    def hasten(self) -> cython.void:
        """A fault during a ramp: as :meth:`begin`, and never slower than before."""
        before_n_per_s: cython.double = self._rate_n_per_s
        self.begin()
        if self._rate_n_per_s < before_n_per_s:
            self._rate_n_per_s = before_n_per_s

    @stepped
    def begin_slowly(self) -> cython.void:
        """Begin the ramp without a fault, at the safe rate."""
        self._rate_n_per_s = self._safe_rate_n_per_s

    @stepped
    def step(self, dt: cython.double) -> cython.void:
        """Go on for ``dt``, s; what rises waits for what falls where the total would be exceeded."""
        j: cython.int
        command: cython.double[::1] = self._command
        change: cython.double[::1] = self._change
        step_n: cython.double = self._rate_n_per_s * dt
        value: cython.double
        lowered: cython.double = 0.0
        rising: cython.double = 0.0
        for j in indices(self._count):
            value = self._safe_n[j] - command[j]
            if value > step_n:
                value = step_n
            elif value < -step_n:
                value = -step_n
            if value > 0.0:
                rising += value
                change[j] = value
            else:
                command[j] += value
                change[j] = 0.0
            lowered += command[j]
        if rising <= 0.0:
            return
        value = self._total_n - lowered
        value = value if value > 0.0 else 0.0
        value = 1.0 if rising <= value else value / rising
        for j in indices(self._count):
            command[j] += change[j] * value

    @stepped
    def brake(self, reading: ReadingBuffer, engaged: cython.bint, dt: cython.double) -> cython.void:
        """What motors that wind in fast get less than the ramp, from the fault until they are slow.

        Nothing where ``reading`` is not valid, or the motors are not ``engaged``.
        """
        j: cython.int
        speed: cython.double
        excess: cython.double
        force_n: cython.double
        most_n: cython.double
        brake_n: cython.double[::1] = self.brake_n
        self._braked_s += dt
        if not reading.valid or not engaged or self._braked_s > self._duration_s:
            for j in indices(self._count):
                brake_n[j] = 0.0
            return
        for j in indices(self._count):
            speed = reading.velocity_m_per_s[j]
            # Faster than a tendon can be is no measurement.
            excess = speed - self._brake_speed_m_per_s if speed < self._maximum_speed_m_per_s else 0.0
            # A robot that springs back may pull a tendon to and fro: that is no winding in.
            if not (excess > 0.0):
                self._runs_in[j] = 0
            force_n = self._brake_ns_per_m[j] * excess if self._runs_in[j] else 0.0
            most_n = self._command[j] + self._maximum_n[j]
            brake_n[j] = force_n if force_n < most_n else most_n
