# SPDX-License-Identifier: Apache-2.0
"""Rules for actuators that take tensions: limits, swings, currents, holds and the ramp to the safe tension.

Stepped code: see :mod:`continuum_robot.stepped`.
"""

from __future__ import annotations

from collections.abc import Sequence

import cython
import numpy as np

from continuum_robot.control.limits import TensionLimiter
from continuum_robot.drivers.protocols import TendonReading
from continuum_robot.drivers.reading_buffer import ReadingBuffer
from continuum_robot.drivers.safety.actuation_rules import ActuationRules
from continuum_robot.drivers.safety.fault_codes import CURRENT_MISMATCH_BIT
from continuum_robot.drivers.safety.safe_ramp import SafeRamp
from continuum_robot.drivers.safety.settings import SafetySettings
from continuum_robot.drivers.safety.tendon_swing import TendonSwing
from continuum_robot.robot.description import Robot
from continuum_robot.rod.tendons import limiting_manifold
from continuum_robot.stepped.buffers import UNKNOWN, copy_into, indices, stepped, vector

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
