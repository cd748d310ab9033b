# SPDX-License-Identifier: Apache-2.0
"""Which stop follows from which fault: a hold for a bounded time, a release, a brake, or torque off.

Stepped code: see :mod:`continuum_robot.stepped`.
"""

from __future__ import annotations

import cython

from continuum_robot.drivers.safety.fault_codes import FAULT_BIT_COUNT
from continuum_robot.drivers.safety.tendon_faults import fault_name, stop_class
from continuum_robot.robot.stop_policy import BRAKE, HOLD_PLACE, HOLD_TENSION, RELEASE, TORQUE_OFF, StopPolicy
from continuum_robot.stepped.buffers import indices, integers, stepped

# Codes of the actions. Of several faults the greatest counts.
STOP_HOLD_PLACE = cython.declare(cython.int, 0)
STOP_HOLD_TENSION = cython.declare(cython.int, 1)
STOP_RELEASE = cython.declare(cython.int, 2)
STOP_BRAKE = cython.declare(cython.int, 3)
STOP_TORQUE_OFF = cython.declare(cython.int, 4)
STOP_NAMES = (HOLD_PLACE, HOLD_TENSION, RELEASE, BRAKE, TORQUE_OFF)
"""The actions of the robot file, by their codes."""


@cython.cclass
class StopAction:
    """Chooses by the faults what is done with the tendons, and ends a hold after its longest time."""

    code = cython.declare(cython.int, visibility="readonly")
    holds = cython.declare(cython.bint, visibility="readonly")
    _code_of_fault: cython.int[::1]
    _longest_s: cython.double
    _held_s: cython.double

    def __init__(self, policy: StopPolicy) -> None:
        self._code_of_fault = integers(
            [STOP_NAMES.index(getattr(policy, stop_class(fault_name(code)))) for code in range(FAULT_BIT_COUNT)]
        )
        self._longest_s, self._held_s = policy.hold_s, 0.0
        self.code, self.holds = STOP_RELEASE, False

    @stepped
    def begin(self, found: cython.int, may_hold: cython.bint) -> cython.void:
        """Stop by the faults ``found`` (bits); release instead of a hold unless ``may_hold``."""
        self.code = STOP_HOLD_PLACE
        self._worsen(found)
        self.holds = self.code < STOP_RELEASE
        if self.holds and not may_hold:
            self.end()
        self._held_s = 0.0

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
    def step(self, dt: cython.double) -> cython.void:
        """A hold goes on for ``dt``, s, or ends after its longest time."""
        self._held_s += dt
        if self._held_s > self._longest_s:
            self.end()

    @stepped
    def _worsen(self, found: cython.int) -> cython.void:
        code: cython.int
        for code in indices(FAULT_BIT_COUNT):
            if found >> code & 1 and self._code_of_fault[code] > self.code:
                self.code = self._code_of_fault[code]
