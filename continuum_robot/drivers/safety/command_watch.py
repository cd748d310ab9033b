# SPDX-License-Identifier: Apache-2.0
"""Looks for what is wrong with commands: missing, old, of the wrong size, not finite, out of range.

Stepped code: see :mod:`continuum_robot.stepped`.
"""

from __future__ import annotations

from collections.abc import Sequence

import cython

from continuum_robot.drivers.safety.fault_codes import (
    COMMAND_NOT_FINITE_BIT,
    COMMAND_OUT_OF_RANGE_BIT,
    COMMAND_TIMEOUT_BIT,
    COMMAND_WRONG_SIZE_BIT,
)
from continuum_robot.drivers.safety.settings import SafetySettings
from continuum_robot.robot.actuation import Limits
from continuum_robot.stepped.buffers import INFINITE, indices, stepped, vector


@cython.cclass
class CommandWatch:
    """Takes each command once, if it is fresh: its sequence differs, or, without one, it arrived later.

    In both cases it must have arrived after the activation, and be younger than the timeout. What arrives from the
    future arrives now; what is of an unknown age is not fresh.
    """

    fresh: cython.bint
    waiting: cython.bint
    _count: cython.int
    _timeout_s: cython.double
    _grace_s: cython.double
    _highest: cython.double[::1]
    _lowest: cython.double[::1]
    _activated_s: cython.double
    _arrived_s: cython.double
    _sequence: cython.longlong

    def __init__(self, limits: Limits, tendon_count: int, settings: SafetySettings) -> None:
        self._count = tendon_count
        self.accept([-INFINITE] * tendon_count, [INFINITE] * tendon_count)
        self._timeout_s, self._grace_s = limits.command_timeout_s, settings.activation_grace_s
        self.restart(-INFINITE)

    def restart(self, now_s: float) -> None:
        """Forget all commands: those that arrived before ``now_s`` (s) are never fresh."""
        self._activated_s = self._arrived_s = now_s
        self._sequence = 0
        self.fresh, self.waiting = False, True

    def accept(self, lowest: Sequence[float], highest: Sequence[float]) -> None:
        """Refuse commands outside of each tendon's range."""
        self._lowest, self._highest = vector(lowest), vector(highest)

    @stepped
    def step(
        self,
        command: cython.double[::1],
        command_size: cython.int,
        age_s: cython.double,
        now_s: cython.double,
        sequence: cython.longlong,
    ) -> cython.int:
        """Bits of what is wrong with the newest command at ``now_s``; ``fresh``: whether it is new.

        ``command`` holds ``command_size`` numbers, N or m, ``age_s`` old; -1: none came yet. ``sequence`` 0: no
        sequence.
        """
        arrived_s: cython.double
        found: cython.int = 0
        # This program may have stood still, and the newest come with the cycle that ends that: the one before it was
        # on the motors for too long, or they have let go of the robot by themselves and would now pull again.
        stood: cython.bint = not self.waiting and now_s - self._arrived_s > self._timeout_s
        self.fresh = False
        if command_size >= 0 and age_s <= self._timeout_s:
            arrived_s = now_s - age_s if age_s > 0.0 else now_s
            if arrived_s >= self._activated_s and (
                sequence != self._sequence if sequence != 0 else arrived_s > self._arrived_s + 1e-6
            ):
                self._sequence, self._arrived_s = sequence, arrived_s
                self.fresh, self.waiting = True, False
                found = self._judge(command, command_size)
        if stood or now_s - self._arrived_s > (self._timeout_s + self._grace_s if self.waiting else self._timeout_s):
            found |= COMMAND_TIMEOUT_BIT
        return found

    @stepped
    def _judge(self, command: cython.double[::1], command_size: cython.int) -> cython.int:
        j: cython.int
        value: cython.double
        found: cython.int = 0
        highest: cython.double[::1] = self._highest
        lowest: cython.double[::1] = self._lowest
        if command_size != self._count:
            return COMMAND_WRONG_SIZE_BIT
        for j in indices(self._count):
            value = command[j]
            if value - value != 0.0:  # infinity and NaN
                return COMMAND_NOT_FINITE_BIT
            if value < lowest[j] or value > highest[j]:
                found = COMMAND_OUT_OF_RANGE_BIT
        return found
