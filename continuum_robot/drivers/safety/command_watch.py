# SPDX-License-Identifier: Apache-2.0
"""Looks for what is wrong with commands: missing, old, of the wrong size, not finite, out of range, or late.

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
from continuum_robot.stepped.buffers import INFINITE, UNKNOWN, indices, integers, stepped, vector


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


LATENESS_SLOTS = cython.declare(cython.int, 20)
"""Parts of the sliding second, each with sums of its own."""
LATENESS_SLOT_S = cython.declare(cython.double, 0.05)
PROCEDURE_RATE_HZ = 200.0
"""Cycles a second that a procedure needs, where the bus has more; how old a state or a command may be is the timeouts'
matter there."""
_FEWEST_LATE = 4


@cython.cclass
class LatenessWatch:
    """Counts missed deadlines and late answers, warns, and says when the loop is too slow to go on.

    Too slow is an answer later than ``late_latency_s`` in all cycles of ``settings.late_time_s``, or more than
    ``settings.missed_fraction`` of all cycles missed over a sliding second; a warning begins at half of the latency or
    of the fraction. Nothing is concluded from less than a second. Cycles without an answer neither end nor lengthen a
    row of late ones.
    """

    late_latency_s = cython.declare(cython.double, visibility="readonly")
    late_warning = cython.declare(cython.bint, visibility="readonly")
    procedure = cython.declare(cython.bint, visibility="public")
    _late_cycles: cython.int
    _rate_hz: cython.double
    _missed_fraction: cython.double
    _procedure_missed_fraction: cython.double
    _late_in_a_row: cython.int
    _half_late_in_a_row: cython.int
    _waits: cython.bint
    _whole: cython.bint
    _slot: cython.int
    _slot_began_s: cython.double
    _began_s: cython.double
    _cycles: cython.longlong
    _missed: cython.longlong
    _slot_cycles: cython.int[::1]
    _slot_missed: cython.int[::1]
    _slot_worst_s: cython.double[::1]

    def __init__(
        self, late_latency_s: float, settings: SafetySettings, period_s: float = 0.001, enough_hz: float = 0.0
    ) -> None:
        self.late_latency_s, self.procedure = late_latency_s, False
        self._missed_fraction = settings.missed_fraction
        self._procedure_missed_fraction = max(settings.missed_fraction, 1.0 - PROCEDURE_RATE_HZ * period_s)
        if enough_hz > 0.0:
            # Servos hold; their procedures go as slowly as readings may be old.
            self._missed_fraction = max(settings.missed_fraction, 1.0 - enough_hz * period_s)
            self._procedure_missed_fraction = 1.0
        self._late_cycles = max(_FEWEST_LATE, round(settings.late_time_s / period_s))
        self._rate_hz = 1.0 / period_s
        self._slot_cycles, self._slot_missed = integers(LATENESS_SLOTS), integers(LATENESS_SLOTS)
        self._slot_worst_s = vector(LATENESS_SLOTS)
        self.restart()

    def restart(self) -> None:
        """Forget the past; the next step shows nothing yet, since what was before it was no cycle."""
        self._forget()

    @property
    def text(self) -> str:
        """How late, of which limits, and what to do."""
        allowed = self._procedure_missed_fraction if self.procedure else self._missed_fraction
        worst_s = self.worst_latency_s
        answered = ""
        if worst_s == worst_s and not self.procedure:
            answered = (
                f", a state {1e3 * worst_s:.2f} ms old when it was answered ({1e3 * self.late_latency_s:.2f} ms"
                f" allowed, {self._late_cycles} times in a row)"
            )
        return (
            f"{100.0 * self.missed_fraction:.1f} % of the cycles missed over a second ({100.0 * allowed:.0f} % allowed)"
            f"{answered}. Relieve this computer, give the loop real-time priority (docs/how-to/realtime.md), or lower "
            f"rate_hz = {self._rate_hz:g}"
        )

    @property
    def missed_fraction(self) -> float:
        """Missed cycles over the last second, as a fraction of all that were due; NaN before the first."""
        missed: cython.double = self._missed
        due: cython.double = self._missed + self._cycles
        return missed / due if due > 0.0 else UNKNOWN

    @property
    def worst_latency_s(self) -> float:
        """The oldest state that a command answered over the last second, s; NaN where none did."""
        j: cython.int
        slot_s: cython.double
        worst_s: cython.double = UNKNOWN
        for j in range(LATENESS_SLOTS):
            slot_s = self._slot_worst_s[j]
            if slot_s == slot_s and not (slot_s <= worst_s):
                worst_s = slot_s
        return worst_s

    @stepped
    def step(
        self, now_s: cython.double, latency_s: cython.double, missed: cython.int, judged: cython.bint
    ) -> cython.bint:
        """Count a cycle at ``now_s``; whether the loop is too slow, which is asked only where ``judged``.

        ``latency_s``: age of the state when its command was written, NaN where none was; ``missed``: deadlines that
        passed without a cycle since the one before.
        """
        due: cython.double
        allowed: cython.double = self._missed_fraction
        slow: cython.bint
        if self.procedure:
            latency_s, allowed = UNKNOWN, self._procedure_missed_fraction
        if self._waits or now_s < self._slot_began_s:
            self._forget()
            self._waits = False
            self._began_s = self._slot_began_s = now_s
            return False
        self._turn(now_s)
        self._cycles += 1
        self._slot_cycles[self._slot] += 1
        if missed > 0:
            self._missed += missed
            self._slot_missed[self._slot] += missed
        if latency_s == latency_s:
            if not (latency_s <= self._slot_worst_s[self._slot]):
                self._slot_worst_s[self._slot] = latency_s
            if latency_s > 0.5 * self.late_latency_s:
                self._half_late_in_a_row += 1
                self._late_in_a_row = self._late_in_a_row + 1 if latency_s > self.late_latency_s else 0
            else:
                self._late_in_a_row = self._half_late_in_a_row = 0
        due = allowed * (self._missed + self._cycles) if self._whole else -1.0
        slow = self._late_in_a_row >= self._late_cycles or (due >= 0.0 and self._missed > due)
        self.late_warning = judged and (
            slow or self._half_late_in_a_row >= self._late_cycles or (due >= 0.0 and 2.0 * self._missed > due)
        )
        return judged and slow

    @stepped
    def _turn(self, now_s: cython.double) -> cython.void:
        """Go on to the slot of ``now_s``, and forget what is older than a second."""
        turns: cython.int = 0
        while now_s - self._slot_began_s >= LATENESS_SLOT_S and turns < LATENESS_SLOTS:
            turns += 1
            self._slot_began_s += LATENESS_SLOT_S
            self._slot = self._slot + 1 if self._slot + 1 < LATENESS_SLOTS else 0
            self._cycles -= self._slot_cycles[self._slot]
            self._missed -= self._slot_missed[self._slot]
            self._slot_cycles[self._slot] = self._slot_missed[self._slot] = 0
            self._slot_worst_s[self._slot] = UNKNOWN
        if turns == LATENESS_SLOTS:
            self._slot_began_s = now_s
        self._whole = now_s - self._began_s >= LATENESS_SLOTS * LATENESS_SLOT_S

    @stepped
    def _forget(self) -> cython.void:
        j: cython.int
        for j in indices(LATENESS_SLOTS):
            self._slot_cycles[j] = self._slot_missed[j] = 0
            self._slot_worst_s[j] = UNKNOWN
        self._cycles = self._missed = 0
        self._slot = self._late_in_a_row = self._half_late_in_a_row = 0
        self._whole = self.late_warning = False
        self._waits = True
        self._began_s = self._slot_began_s = 0.0
