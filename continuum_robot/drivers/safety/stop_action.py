# SPDX-License-Identifier: Apache-2.0
"""What a stop does: release, hold the tensions or the place with bounded authority for a bounded time, or brake.

Stepped code: see :mod:`continuum_robot.stepped`.
"""

from __future__ import annotations

import cython

from continuum_robot.drivers.reading_buffer import ReadingBuffer
from continuum_robot.drivers.safety.fault_codes import FAULT_BIT_COUNT
from continuum_robot.drivers.safety.tendon_faults import fault_name, stop_class
from continuum_robot.robot.stop_policy import BRAKE, HOLD_PLACE, HOLD_TENSION, RELEASE, StopPolicy
from continuum_robot.stepped.buffers import copy_into, indices, integers, stepped, vector

# Codes of the actions. Of several faults the greatest counts.
STOP_HOLD_PLACE = cython.declare(cython.int, 0)
STOP_HOLD_TENSION = cython.declare(cython.int, 1)
STOP_RELEASE = cython.declare(cython.int, 2)
STOP_BRAKE = cython.declare(cython.int, 3)

_AUTHORITY_FRACTION = 0.1


@cython.cclass
class StopAction:
    """Chooses by the faults what is done with the tendons, and computes the tensions of a hold.

    Parameters
    ----------
    policy : of the robot file
    tendon_count : N
    maximum_n : greatest tension of a tendon, N
    reflected_mass_kg : of a motor, as it moves with its tendon

    Attributes
    ----------
    code : what is done, one of the codes of this module; a hold that has ended is a release
    holds : tensions or place are held now
    tension_n : what a hold commands, N numbers in N, before the limits
    """

    code = cython.declare(cython.int, visibility="readonly")
    holds = cython.declare(cython.bint, visibility="readonly")
    tension_n: cython.double[::1]
    _count: cython.int
    _code_of_fault: cython.int[::1]
    _longest_s: cython.double
    _authority_n: cython.double
    _stiffness_n_per_m: cython.double
    _damping_ns_per_m: cython.double
    _held_n: cython.double[::1]
    _place_m: cython.double[::1]
    _place_known: cython.bint
    _held_s: cython.double

    def __init__(self, policy: StopPolicy, tendon_count: int, maximum_n: float, reflected_mass_kg: float) -> None:
        codes = {
            HOLD_PLACE: STOP_HOLD_PLACE,
            HOLD_TENSION: STOP_HOLD_TENSION,
            RELEASE: STOP_RELEASE,
            BRAKE: STOP_BRAKE,
        }
        self._count = tendon_count
        self._code_of_fault = integers(
            [codes[getattr(policy, stop_class(fault_name(code)))] for code in range(FAULT_BIT_COUNT)]
        )
        bandwidth = policy.hold_bandwidth_rad_per_s
        self._longest_s, self._authority_n = policy.hold_s, policy.hold_authority_n or _AUTHORITY_FRACTION * maximum_n
        self._stiffness_n_per_m = reflected_mass_kg * bandwidth * bandwidth
        self._damping_ns_per_m = 2.0 * reflected_mass_kg * bandwidth
        self.tension_n, self._held_n, self._place_m = vector(tendon_count), vector(tendon_count), vector(tendon_count)
        self.code, self.holds, self._place_known, self._held_s = STOP_RELEASE, False, False, 0.0

    @stepped
    def begin(self, found: cython.int, command: cython.double[::1], may_hold: cython.bint) -> cython.void:
        """Stop by the faults ``found`` (bits) with the tensions ``command``, N; release instead unless ``may_hold``."""
        self.code = STOP_HOLD_PLACE
        self._worsen(found)
        self.holds = self.code < STOP_RELEASE
        if self.holds and not may_hold:
            self.end()
        self._place_known = False
        self._held_s = 0.0
        copy_into(self._held_n, command, self._count)

    @stepped
    def add(self, found: cython.int) -> cython.bint:
        """Faults ``found`` (bits) came after a stop, or in the ramp of a deactivation, which is a release.

        A hold goes on or ends, a release stays one or becomes a brake, as the policy states; True: one of the faults
        is answered by a release, which is to be fast.
        """
        code: cython.int
        fast: cython.bint = False
        for code in indices(FAULT_BIT_COUNT):
            if found >> code & 1 and self._code_of_fault[code] == STOP_RELEASE:
                fast = True
        self._worsen(found)
        self.holds = self.holds and self.code < STOP_RELEASE
        return fast and self.code == STOP_RELEASE

    @stepped
    def clear(self) -> cython.void:
        """No stop is under way; leaving the active state without a fault is a release."""
        self.code, self.holds = STOP_RELEASE, False

    @stepped
    def end(self) -> cython.void:
        """End a hold: from now on it is a release."""
        if self.code < STOP_RELEASE:
            self.code = STOP_RELEASE
        self.holds = False

    @stepped
    def step(self, reading: ReadingBuffer, dt: cython.double) -> cython.void:
        """The tensions of a hold after ``dt``, s; it ends after its longest time.

        The place is that of the first reading after the fault. Where one is missing, the tensions stay.
        """
        j: cython.int
        known: cython.double = 0.0
        change: cython.double
        displacement_m: cython.double[::1] = reading.displacement_m
        velocity_m_per_s: cython.double[::1] = reading.velocity_m_per_s
        self._held_s += dt
        if self._held_s > self._longest_s:
            self.end()
            return
        if self.code == STOP_HOLD_TENSION:
            copy_into(self.tension_n, self._held_n, self._count)
            return
        if not self._place_known:
            copy_into(self.tension_n, self._held_n, self._count)
        if not reading.valid:
            return
        for j in indices(self._count):
            known += displacement_m[j]
        if known - known != 0.0:  # infinity and NaN
            return
        if not self._place_known:
            self._place_known = True
            copy_into(self._place_m, displacement_m, self._count)
        for j in indices(self._count):
            change = self._stiffness_n_per_m * (self._place_m[j] - displacement_m[j])
            if velocity_m_per_s[j] - velocity_m_per_s[j] == 0.0:
                change -= self._damping_ns_per_m * velocity_m_per_s[j]
            if change > self._authority_n:
                change = self._authority_n
            elif change < -self._authority_n:
                change = -self._authority_n
            self.tension_n[j] = self._held_n[j] + change

    @stepped
    def _worsen(self, found: cython.int) -> cython.void:
        code: cython.int
        for code in indices(FAULT_BIT_COUNT):
            if found >> code & 1 and self._code_of_fault[code] > self.code:
                self.code = self._code_of_fault[code]
