# SPDX-License-Identifier: Apache-2.0
"""The motion with which a robot weighs what its tip carries."""

from __future__ import annotations

import cmath
import math
from typing import TypeAlias

import numpy as np

from continuum_robot.control.references import ClarkeReference, Reference, rest_to_rest_fraction
from continuum_robot.errors import ParameterError

ARCS = 12
"""Parts of a turn, of which each gives one mean."""
PERIOD_S, TURNS = 16.0, 6
"""Time of a turn, s, and how many each way."""
# Of the radius in a turn, relative to it. Tendons in line with the bend hardly move in a plain turn, and the friction
# and cogging in which they rest would not average; a whole wave on each arc.
_WAVES, _WAVE_HEIGHT = ARCS, 0.05
_NARROWING = 0.2  # over all turns: no two pass the same places of the cogging


Derived: TypeAlias = tuple[complex, complex, complex]
"""A value and its first two derivatives by time."""


def _product(a: Derived, b: Derived) -> Derived:
    return a[0] * b[0], a[1] * b[0] + a[0] * b[1], a[2] * b[0] + 2 * a[1] * b[1] + a[0] * b[2]


class WeighingMotion(Reference):
    """Turns to weigh with: bent from straight, so many turns one way, as many back, and straight again.

    The radius waves a little, so that every tendon moves to and fro, and narrows from turn to turn.

    Parameters
    ----------
    radius_m : of the first turn, of every segment, Clarke coordinates, m
    coordinate_count : 2m, or how many modes are controlled
    period_s : of a turn, s; slow, since what the motion itself asks for is not in the model
    turns : each way

    Attributes
    ----------
    duration_s : s

    Raises
    ------
    ParameterError : a radius, period or number that is not positive
    """

    def __init__(
        self, radius_m: float, coordinate_count: int, *, period_s: float = PERIOD_S, turns: int = TURNS
    ) -> None:
        if not (0 < radius_m < math.inf and 0 < period_s < math.inf and turns > 0):
            raise ParameterError("radius_m, period_s, turns", (radius_m, period_s, turns), "positive numbers")
        self._radius_m, self._count = radius_m, coordinate_count
        self._bend_s = period_s / 4
        self._turn_s, self._angle_rad = turns * period_s, 2 * math.pi * turns
        self._duration_s = 2 * (self._bend_s + self._turn_s)

    @property
    def duration_s(self) -> float:
        """Time of all of it, s."""
        return self._duration_s

    def at(self, t_s: float) -> ClarkeReference:
        """The reference at a time, s."""
        angle, rate, change = self._angle(t_s)
        wave = _WAVE_HEIGHT * cmath.exp(1j * _WAVES * angle)
        sine, cosine, narrowing = wave.imag, _WAVES * wave.real, _NARROWING / self._angle_rad
        factor = (
            1 + sine - narrowing * angle,
            (cosine - narrowing) * rate,
            (cosine - narrowing) * change - _WAVES**2 * sine * rate**2,
        )
        turn = cmath.exp(1j * angle)
        turning = turn, 1j * rate * turn, (1j * change - rate**2) * turn
        places = _product(_product(self._bend(t_s), factor), turning)
        return ClarkeReference(*(np.resize([one.real, one.imag], self._count) for one in places))

    def arc(self, t_s: float) -> int:
        """Number of the arc that the reference is on, from 0 to 2 ARCS - 1: first those of one way, then of the other;
        -1 while it does not turn.
        """
        into_s = t_s - self._bend_s
        if not 0 <= into_s < 2 * self._turn_s:
            return -1
        arc = int(self._angle(t_s)[0] / (2 * math.pi) * ARCS) % ARCS
        return arc + ARCS * (into_s >= self._turn_s)

    def _bend(self, t_s: float) -> tuple[float, float, float]:
        """Radius and its derivatives, m, m/s, m/s^2."""
        left_s = self._duration_s - t_s
        into_s = min(t_s, left_s)
        fraction, rate, change = rest_to_rest_fraction(into_s, self._bend_s)
        sign = 1.0 if t_s <= left_s else -1.0
        return (
            self._radius_m * fraction,
            sign * self._radius_m * rate,
            self._radius_m * change,
        )

    def _angle(self, t_s: float) -> tuple[float, float, float]:
        """Angle of the bend and its derivatives, rad, rad/s, rad/s^2."""
        into_s = t_s - self._bend_s
        fraction, rate, change = rest_to_rest_fraction(into_s, self._turn_s)
        if into_s > self._turn_s:
            back, back_rate, back_change = rest_to_rest_fraction(into_s - self._turn_s, self._turn_s)
            fraction, rate, change = fraction - back, -back_rate, -back_change
        factor = self._angle_rad
        return factor * fraction, factor * rate, factor * change
