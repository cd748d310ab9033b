# SPDX-License-Identifier: Apache-2.0
"""Rules for actuators that take tensions: limits, swings, currents, holds and the ramp to the safe tension.

Stepped code: see :mod:`continuum_robot.stepped`.
"""

from __future__ import annotations

from collections.abc import Sequence

import cython
import numpy as np
from cython.cimports.libc.math import sqrt
from numpy.typing import NDArray

from continuum_robot.control.limits import TensionLimiter
from continuum_robot.drivers.protocols import TendonReading
from continuum_robot.drivers.reading_buffer import ReadingBuffer
from continuum_robot.drivers.safety.actuation_rules import ActuationRules
from continuum_robot.drivers.safety.fault_codes import CURRENT_MISMATCH_BIT
from continuum_robot.drivers.safety.settings import SafetySettings
from continuum_robot.robot.actuation import TensionLimits
from continuum_robot.robot.description import Robot
from continuum_robot.rod.tendons import limiting_manifold
from continuum_robot.stepped.buffers import INFINITE, UNKNOWN, copy_into, indices, integers, stepped, vector


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


_AUTHORITY_FRACTION = 0.1


@cython.cclass
class TensionRules(ActuationRules):
    """Commands are tensions, N: they pass :class:`TensionLimiter` below what swings leave of the maximum.

    A stop ramps to the safe tension. A hold keeps the tensions, or the place by a stiffness and a damping of each
    tendon, with bounded authority.
    """

    _limits = cython.declare(object)
    _newton_per_ampere = cython.declare(object)
    _begin = cython.declare(object)
    _limiter: TensionLimiter
    _swing: TendonSwing
    _ramp: SafeRamp
    _since_s: cython.double
    _minimum_n: cython.double[::1]
    _maximum_n: cython.double[::1]
    _safe_n: cython.double[::1]
    # A hold: what was commanded, and the place.
    _held_n: cython.double[::1]
    _hold_n: cython.double[::1]
    _place_m: cython.double[::1]
    _place_known: cython.bint
    _authority_n: cython.double[::1]
    _stiffness_n_per_m: cython.double[::1]
    _damping_ns_per_m: cython.double[::1]
    # Currents
    _has_actuators: cython.bint
    _ampere_per_newton: cython.double[::1]
    _tolerated_a: cython.double[::1]
    _mismatch_time_s: cython.double
    _mismatch_s: cython.double
    _compared_s: cython.double
    _longest_step_s: cython.double

    def __init__(
        self,
        robot: Robot,
        settings: SafetySettings,
        tolerated_a: Sequence[float],
        mismatch_s: float,
        longest_step_s: float,
    ) -> None:
        ActuationRules.__init__(self, robot.tendon_count)
        limits, policy, count = robot.tension_limits, robot.stop, robot.tendon_count
        self._limits, self._newton_per_ampere, self._begin = limits, robot.newton_per_ampere, np.zeros(count)
        self._limiter = TensionLimiter(limits, limiting_manifold(robot))
        self.command, self.limited = self._limiter.command, self._limiter.limited
        self._swing = TendonSwing(robot, limits, settings)
        self._has_actuators = robot.actuators is not None
        motor_kg, mass_kg = (
            np.zeros(count) if one is None else one.each("reflected_mass_kg", count)
            for one in (robot.actuators, robot.tendon_actuators)
        )
        self._ramp = SafeRamp(limits, settings, self._limiter, count, motor_kg)
        minimum_n, maximum_n, safe_n = (limits.each(key, count) for key in ("minimum_n", "maximum_n", "safe_n"))
        self._minimum_n, self._maximum_n, self._safe_n = vector(minimum_n), vector(maximum_n), vector(safe_n)
        self._held_n, self._hold_n, self._place_m = vector(count), vector(count), vector(count)
        self._place_known = False
        bandwidth = policy.hold_bandwidth_rad_per_s
        authority_n = policy.hold_authority_n or _AUTHORITY_FRACTION * maximum_n
        self._authority_n = vector(np.broadcast_to(authority_n, count))
        self._stiffness_n_per_m = vector(mass_kg * bandwidth * bandwidth)
        self._damping_ns_per_m = vector(2.0 * mass_kg * bandwidth)
        self._ampere_per_newton = vector((1.0 / robot.newton_per_ampere).tolist())
        self._tolerated_a, self._mismatch_time_s, self._mismatch_s = vector(tolerated_a), mismatch_s, 0.0
        self._compared_s, self._longest_step_s = UNKNOWN, longest_step_s

    def prepare(self, reading: TendonReading, known: bool) -> list[str]:  # noqa: ARG002
        """The first output is the measured tension, or the minimum where that is higher."""
        limits, problems = self._limits, []
        minimum_n, maximum_n = np.array(self._minimum_n), np.array(self._maximum_n)
        tension = np.asarray(reading.tension_n, dtype=float)
        if self._has_actuators:
            from_current = np.asarray(reading.current_a, dtype=float) * self._newton_per_ampere
            tension = np.where(np.isfinite(tension), tension, from_current)
        tension = np.where(np.isfinite(tension), tension, minimum_n)
        if np.any(tension > maximum_n):
            worst = int(np.argmax(tension - maximum_n))
            where = f" of tendon {worst + 1}" if limits.tendons else ""
            problems.append(f"measured tension {tension[worst]:.3g} N > maximum_n{where} = {maximum_n[worst]:g} N")
        self._begin = np.clip(tension, minimum_n, maximum_n)
        if self._begin.sum() > limits.total_n:
            problems.append(f"sum of tensions {self._begin.sum():.3g} N > total_n = {limits.total_n:g} N")
        return problems

    def start(self) -> None:
        """From the tensions of :meth:`prepare`."""
        self._limiter.reset(self._begin)
        self._mismatch_s = 0.0

    def accepted(self, fraction: float, known: bool) -> tuple[Sequence[float], Sequence[float]]:  # noqa: ARG002
        """As :class:`ActuationRules`: a fraction of the maximum beyond 0 and the maximum."""
        maximum_n = np.array(self._maximum_n)
        margin_n = fraction * maximum_n
        return (-margin_n).tolist(), (maximum_n + margin_n).tolist()

    @stepped
    def elapse(self, dt: cython.double) -> cython.void:
        """Motors swing on their tendons."""
        self._swing.step(self.output, dt)

    @stepped
    def check(self, reading: ReadingBuffer, dt: cython.double, engaged: cython.bint, obeys: cython.bint) -> cython.int:
        """Whether commanded and measured currents disagree."""
        j: cython.int
        for j in indices(self._count):
            self.motor_n[j] = self.command[j] + self.added[j]
        return self.compare(reading, dt, engaged, obeys)

    @stepped
    def compare(
        self, reading: ReadingBuffer, dt: cython.double, engaged: cython.bint, obeys: cython.bint
    ) -> cython.int:
        """:meth:`check` of currents for ``motor_n``."""
        j: cython.int
        current_a: cython.double[::1] = reading.current_a
        tolerated_a: cython.double[::1] = self._tolerated_a
        difference_a: cython.double
        motor_n: cython.double[::1] = self.motor_n
        ampere_per_newton: cython.double[::1] = self._ampere_per_newton
        differs: cython.bint = False
        if reading.valid and self._has_actuators and engaged:
            for j in indices(self._count):
                difference_a = current_a[j] - motor_n[j] * ampere_per_newton[j]
                if difference_a > tolerated_a[j] or difference_a < -tolerated_a[j]:
                    differs = True
        if not differs:
            self._mismatch_s = 0.0
        elif reading.stamp_s != self._compared_s:
            # An old reading says nothing new of the currents: how old it may become is another fault's matter.
            # One after a stall does not say what they were in it.
            self._mismatch_s += dt if dt < self._longest_step_s else self._longest_step_s
        self._compared_s = reading.stamp_s
        # Once torque is off (not active, ramp at its end) the current is rightly zero.
        return CURRENT_MISMATCH_BIT if obeys and differs and self._mismatch_s > self._mismatch_time_s else 0

    @stepped
    def limit(self, command: cython.double[::1], since_s: cython.double) -> cython.void:
        """Through the limits, below what swings leave of the maximum.

        That also holds for a tension that the limits raise, since another one is at its minimum.
        """
        ceiling: cython.double[::1] = self._limiter.ceiling
        self._swing.ceilings(self.command, since_s, ceiling)
        self._limiter.step(command, since_s)
        copy_into(ceiling, self._maximum_n, self._count)

    @stepped
    def begin_stop(self, found: cython.int, holds: cython.bint) -> cython.void:  # noqa: ARG002
        """Hold the tensions of now, or the place of the first reading from now on; or ramp down fast."""
        self._place_known = False
        copy_into(self._held_n, self.command, self._count)
        if holds:
            self._ramp.begin_slowly()
        else:
            self._ramp.begin()

    @stepped
    def begin_slowly(self) -> cython.void:
        """The ramp at the safe rate."""
        self._ramp.begin_slowly()

    @stepped
    def hasten(self) -> cython.void:
        """The ramp within the time that a fault allows."""
        self._ramp.hasten()

    @stepped
    def hold(self, reading: ReadingBuffer, place: cython.bint, dt: cython.double) -> cython.void:
        """The tensions of a hold through the limits; where a reading is missing, they stay."""
        j: cython.int
        self._hold(reading, place)
        for j in indices(self._count):
            # Each tendon holds its own place: the minimum of one is not made up for by the others.
            if self._hold_n[j] < self._minimum_n[j]:
                self._hold_n[j] = self._minimum_n[j]
        self._limiter.step(self._hold_n, dt)

    @stepped
    def _hold(self, reading: ReadingBuffer, place: cython.bint) -> cython.void:
        j: cython.int
        known: cython.double = 0.0
        change: cython.double
        displacement_m: cython.double[::1] = reading.displacement_m
        velocity_m_per_s: cython.double[::1] = reading.velocity_m_per_s
        if not place or not self._place_known:
            copy_into(self._hold_n, self._held_n, self._count)
        if not place or not reading.valid:
            return
        for j in indices(self._count):
            known += displacement_m[j]
        if known - known != 0.0:  # infinity and NaN
            return
        if not self._place_known:
            self._place_known = True
            copy_into(self._place_m, displacement_m, self._count)
        for j in indices(self._count):
            change = self._stiffness_n_per_m[j] * (self._place_m[j] - displacement_m[j])
            if velocity_m_per_s[j] - velocity_m_per_s[j] == 0.0:
                change -= self._damping_ns_per_m[j] * velocity_m_per_s[j]
            if change > self._authority_n[j]:
                change = self._authority_n[j]
            elif change < -self._authority_n[j]:
                change = -self._authority_n[j]
            self._hold_n[j] = self._held_n[j] + change

    @stepped
    def release(self, dt: cython.double) -> cython.void:
        """Ramp to the safe tension."""
        self._ramp.step(dt)

    @stepped
    def finish_stop(self, reading: ReadingBuffer, engaged: cython.bint, dt: cython.double) -> cython.void:
        """The command less what brakes motors that wind in."""
        j: cython.int
        self._ramp.brake(reading, engaged, dt)
        for j in indices(self._count):
            self.output[j] = self.command[j] - self._ramp.brake_n[j]
            if self.output[j] < -self._maximum_n[j]:  # by rounding
                self.output[j] = -self._maximum_n[j]

    @stepped
    def is_released(self) -> cython.bint:
        """Whether all tensions are the safe one."""
        j: cython.int
        away_n: cython.double
        for j in indices(self._count):
            away_n = self.command[j] - self._safe_n[j]
            if away_n > 1e-9 or away_n < -1e-9:
                return False
        return True

    @stepped
    def forget(self) -> cython.void:
        """Motors without torque pull nothing."""
        j: cython.int
        for j in indices(self._count):
            self.command[j] = self.added[j] = 0.0
