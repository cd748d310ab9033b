# SPDX-License-Identifier: Apache-2.0
"""Feed-forward of the motors' cogging from a table over the motor's angle.

Stepped code: see :mod:`continuum_robot.stepped`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import cython
import numpy as np
from cython.cimports.libc.math import floor

from continuum_robot.errors import ParameterError
from continuum_robot.stepped.buffers import indices, stepped, vector

# Switched on or off, the compensation fades within so many cycles: a table of some newtons must not jump.
FADING_STEP = cython.declare(cython.double, 0.005)


@cython.cclass
class CoggingCompensation:
    """Force that balances the cogging of each motor: linear between the entries of a table over a motor's turn.

    The force acts later than the angle was read: the table is read where the motor will be then.
    """

    tendon_count: cython.int
    lead_s: cython.double
    table: cython.double[::1]
    entries: cython.int
    turns_per_m: cython.double[::1]
    fading_s_per_m: cython.double[::1]
    desired: cython.bint
    fade: cython.double
    acts = cython.declare(cython.bint, visibility="readonly")
    here_n = cython.declare(cython.double[::1], visibility="readonly")
    ahead_n = cython.declare(cython.double[::1], visibility="readonly")

    def __init__(self, tendon_count: int) -> None:
        self.tendon_count, self.lead_s = tendon_count, 0.0
        self.table, self.entries, self.turns_per_m = vector(0), 0, vector(tendon_count)
        self.fading_s_per_m = vector(tendon_count)
        self.desired, self.fade, self.acts = False, 0.0, False
        self.here_n, self.ahead_n = vector(tendon_count), vector(tendon_count)

    def set_table(
        self,
        force_n: Sequence[Sequence[float]],
        m_per_turn: Sequence[float],
        lead_s: float = 0.0,
        fastest_m_per_s: Sequence[float] = (),
    ) -> None:
        """Use a table from the next cycle on; an empty one switches off. Between two cycles only."""
        if not 0 <= lead_s < math.inf:
            raise ParameterError("lead_s", lead_s, "a time of at least 0 s")
        rows = [[float(value) for value in row] for row in force_n]
        if rows and (
            len(rows) != self.tendon_count
            or len(m_per_turn) != self.tendon_count
            or len({len(row) for row in rows}) != 1
            or len(rows[0]) < 2
        ):
            raise ParameterError(
                "force_n", [len(row) for row in rows], f"{self.tendon_count} rows of equal length, at least 2"
            )
        if not all(math.isfinite(value) for row in rows for value in row):
            raise ParameterError("force_n", "not finite", "finite forces in N")
        if fastest_m_per_s and not (
            len(fastest_m_per_s) == self.tendon_count and all(speed > 0 for speed in fastest_m_per_s)
        ):
            raise ParameterError(
                "fastest_m_per_s", list(fastest_m_per_s), f"{self.tendon_count} positive speeds in m/s"
            )
        if rows and not all(math.isfinite(length) and length != 0 for length in m_per_turn):
            raise ParameterError("m_per_turn", list(m_per_turn), "finite lengths other than 0 m")
        self.lead_s = float(lead_s)
        self.entries = len(rows[0]) if rows else 0
        self.table = vector([value for row in rows for value in row])
        self.turns_per_m = vector([1.0 / length for length in m_per_turn] if rows else self.tendon_count)
        self.fading_s_per_m = vector([2.0 / speed for speed in fastest_m_per_s] or self.tendon_count)
        if not rows:
            self.desired, self.fade, self.acts = False, 0.0, False
            self.here_n, self.ahead_n = vector(self.tendon_count), vector(self.tendon_count)

    def switch(self, *, on: bool) -> None:
        """Compensate from now on or no longer; fades in and out over 0.2 s at 1 kHz. Between two cycles only."""
        if on and not self.entries:
            raise ParameterError("on", on, "a table first: continuum-robot calibrate-cogging")
        self.desired = on

    @property
    def on(self) -> bool:
        """Whether it is switched on."""
        return bool(self.desired)

    def forces(self) -> list[float]:
        """What it adds now, N values, N."""
        return [self.ahead_n[j] for j in range(self.tendon_count)]

    @stepped
    def step(
        self,
        displacement_m: cython.double[::1],
        velocity_m_per_s: cython.double[::1],
        age_s: cython.double,
        powered: cython.bint,
    ) -> cython.void:
        """Forces for a reading: ``displacement_m`` from the devices' own zero and ``velocity_m_per_s``.

        The reading is ``age_s`` old (s). Motors that are not ``powered`` get no force; when they are again, it fades
        in. A motor whose displacement or velocity is unknown keeps its force.
        """
        j: cython.int
        if not powered:
            self.fade = 0.0
        elif self.desired:
            if self.fade < 1.0:
                self.fade += FADING_STEP
                if self.fade > 1.0:
                    self.fade = 1.0
        elif self.fade > 0.0:
            self.fade -= FADING_STEP
            if self.fade < 0.0:
                self.fade = 0.0
        self.acts = self.fade > 0.0
        if not self.acts:
            return
        lead_s: cython.double = self.lead_s
        if age_s > 0.0:
            lead_s += age_s
        fade: cython.double = self.fade
        fraction: cython.double
        here_n: cython.double[::1] = self.here_n
        ahead_n: cython.double[::1] = self.ahead_n
        for j in indices(self.tendon_count):
            known: cython.double = displacement_m[j] + velocity_m_per_s[j]
            if known - known == 0.0:
                turns: cython.double = displacement_m[j] * self.turns_per_m[j]
                moved: cython.double = lead_s * velocity_m_per_s[j] * self.turns_per_m[j]
                fraction = 2.0 - abs(velocity_m_per_s[j]) * self.fading_s_per_m[j]
                fraction = 0.0 if fraction < 0.0 else 1.0 if fraction > 1.0 else fraction
                here_n[j] = fade * fraction * self.at(j, turns)
                ahead_n[j] = fade * fraction * self.at(j, turns + moved)

    @stepped
    def at(self, j: cython.int, turns: cython.double) -> cython.double:
        """The table of motor ``j`` at an angle in ``turns``, N."""
        entries: cython.int = self.entries
        place: cython.double = (turns - floor(turns)) * entries
        i: cython.int = int(place)
        if i >= entries:  # by rounding
            i = 0
            place = 0.0
        past: cython.double = place - i
        following: cython.int = i + 1
        if following == entries:
            following = 0
        first: cython.double = self.table[j * entries + i]
        return first + past * (self.table[j * entries + following] - first)


def strongest_harmonic(force_n: Sequence[float]) -> int:
    """The harmonic of a turn with the largest amplitude, at least 1."""
    amplitude = np.abs(np.fft.rfft(np.asarray(force_n, dtype=float)))[1:]
    return int(np.argmax(amplitude)) + 1
