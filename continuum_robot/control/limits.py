# SPDX-License-Identifier: Apache-2.0
"""Limits on commanded tensions: not finite, absolute, rate, total. The result always names what was limited.

Stepped code: see :mod:`continuum_robot.stepped`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import cython
import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.geometry.clarke import ClarkeManifold
from continuum_robot.robot.actuation import TensionLimits
from continuum_robot.stepped.buffers import INFINITE, copy_into, indices, integers, stepped, vector


@dataclass(frozen=True, slots=True)
class LimitedTension:
    """A command within all limits.

    Attributes
    ----------
    tension : shape (N,), N
    limited : for each tendon the LIMITED_ bits of the limits that changed it, 0 for none; shape (N,), uint8
    """

    tension: NDArray[np.float64]
    limited: NDArray[np.uint8]


# Bits of LimitedTension.limited; the same as the constants of msg/TendonStates.
LIMITED_NOT_FINITE = cython.declare(cython.int, 1)
LIMITED_MINIMUM = cython.declare(cython.int, 2)
LIMITED_MAXIMUM = cython.declare(cython.int, 4)
LIMITED_RATE = cython.declare(cython.int, 8)
LIMITED_TOTAL = cython.declare(cython.int, 16)


@cython.cclass
class TensionLimiter:
    """Brings desired tensions within a robot's limits, and keeps the direction in which they bend.

    1. Not finite: the tendon keeps its previous command.
    2. Minimum, maximum and total. What the tendons of a segment pull in common, which bends nothing, is raised to the
       minimum, or given up down to it. Where that is not enough, the generalised force is scaled by the largest factor
       with which all tensions are within the limits: all tendons lose the same fraction of what bends.
    3. Rate, around the previous command (around the measured tension, lag would throttle it): all change by the same
       fraction of what is left to go, the farthest by the limit.

    Limits form a convex set, so what lies between two tensions within 2 is within 2. From a previous command outside of
    2, after :meth:`reset` with a measured tension, the limits are approached at the rate limit: a jump is the greater
    evil. The first command is approached from 0 N unless :meth:`reset` gives otherwise.
    """

    limits = cython.declare(object, visibility="readonly")
    command: cython.double[::1]
    limited: cython.int[::1]
    ceiling: cython.double[::1]
    _count: cython.int
    _part_count: cython.int
    _part_end: cython.int[::1]
    _minimum_n: cython.double[::1]
    _maximum_n: cython.double[::1]
    _rate_n_per_s: cython.double[::1]
    _total_n: cython.double
    _rest_total_n: cython.double
    # Least tensions that force nothing, what adds to them without forcing anything, and what of the desired bends.
    _rest: cython.double[::1]
    _direction: cython.double[::1]
    _common: cython.double[::1]
    _bending: cython.double[::1]
    _target: cython.double[::1]

    def __init__(self, limits: TensionLimits, manifold: ClarkeManifold) -> None:
        count = manifold.tendon_count
        minimum_n = limits.each("minimum_n", count)
        if minimum_n.sum() > limits.total_n:
            expected = f"at least minimum_n of {count} tendons together = {minimum_n.sum():g} N"
            raise ParameterError("total_n", limits.total_n, expected)
        self.limits = limits
        self._count = count
        self._minimum_n, self._maximum_n = vector(minimum_n), vector(limits.each("maximum_n", count))
        self._rate_n_per_s, self._total_n = vector(limits.each("rate_n_per_s", count)), limits.total_n
        ends, direction, rest = _parts(limits, manifold)
        self._part_count, self._part_end = len(ends), integers(ends)
        self._direction, self._rest, self._rest_total_n = vector(direction), vector(rest), float(np.sum(rest))
        self.command, self._target = vector(count), vector(count)
        self._common, self._bending = vector(count), vector(count)
        self.ceiling = vector(self._maximum_n)
        self.limited = integers(count)

    @property
    def previous(self) -> NDArray[np.float64]:
        """The previous command, shape (N,), N."""
        return np.array(self.command, dtype=float)

    def reset(self, tension: ArrayLike) -> None:
        """Take a tension as the previous command, so that the next one starts from it."""
        j: cython.int
        tension = np.array(tension, dtype=float)
        if tension.shape != (self._count,) or not np.all((tension >= 0) & (tension < math.inf)):
            raise ParameterError("tension", tension, f"{self._count} tensions of at least 0 N")
        for j in range(self._count):
            self.command[j] = float(tension[j])

    def update(self, desired: ArrayLike, dt: float) -> LimitedTension:
        """The command for desired tensions."""
        desired = np.asarray(desired, dtype=float)
        if desired.shape != (self._count,):
            raise ParameterError("desired", desired, f"{self._count} tensions, one a tendon")
        if not (0 <= dt < math.inf):
            raise ParameterError("dt", dt, "a time step of at least 0 s")
        self.step(vector(desired), dt)
        return LimitedTension(self.previous, np.array(self.limited, dtype=np.uint8))

    @stepped
    def step(self, desired: cython.double[::1], dt: cython.double) -> cython.void:
        """Bring ``desired`` (N) into ``command`` and ``limited``; ``dt`` (s) is known and not negative."""
        j: cython.int
        command: cython.double[::1] = self.command
        limited: cython.int[::1] = self.limited
        minimum_n: cython.double[::1] = self._minimum_n
        rate_n_per_s: cython.double[::1] = self._rate_n_per_s
        ceiling: cython.double[::1] = self.ceiling
        step_n: cython.double
        value: cython.double
        change: cython.double
        total: cython.double = 0.0
        # Nothing has to be limited in nearly every cycle. A comparison with NaN is false.
        admitted: cython.bint = True
        for j in indices(self._count):
            value = desired[j]
            change = value - command[j]
            total += value
            step_n = rate_n_per_s[j] * dt
            if not (minimum_n[j] <= value <= ceiling[j] and -step_n <= change <= step_n):
                admitted = False
        if admitted and total <= self._total_n:
            copy_into(command, desired, self._count)
            for j in indices(self._count):
                limited[j] = 0
        else:
            self._limit(desired, dt)

    @stepped
    def _limit(self, desired: cython.double[::1], dt: cython.double) -> cython.void:
        j: cython.int
        command: cython.double[::1] = self.command
        limited: cython.int[::1] = self.limited
        target: cython.double[::1] = self._target
        value: cython.double
        change: cython.double
        step_n: cython.double
        fraction: cython.double = 1.0
        for j in indices(self._count):
            value = desired[j]
            limited[j] = 0
            if value - value != 0.0:  # infinity and NaN
                value = command[j]
                limited[j] = LIMITED_NOT_FINITE
            target[j] = value
            if value < self._minimum_n[j]:
                limited[j] |= LIMITED_MINIMUM
            elif value > self.ceiling[j]:
                limited[j] |= self._bits_of_ceiling(j)
        self._keep_within()
        for j in indices(self._count):
            change = target[j] - command[j]
            if change < 0.0:
                change = -change
            step_n = self._rate_n_per_s[j] * dt
            if change > step_n and step_n / change < fraction:
                fraction = step_n / change
        if fraction == 1.0:
            copy_into(command, target, self._count)
            return
        for j in indices(self._count):
            change = target[j] - command[j]
            if change != 0.0:
                limited[j] |= LIMITED_RATE
                command[j] += fraction * change

    @stepped
    def _keep_within(self) -> cython.void:
        """Bring the target within minimum, ceilings and total; sets the bits where it changed."""
        j: cython.int
        bits: cython.int
        limited: cython.int[::1] = self.limited
        target: cython.double[::1] = self._target
        rest: cython.double[::1] = self._rest
        bending: cython.double[::1] = self._bending
        common: cython.double[::1] = self._common
        room: cython.double
        value: cython.double
        forced: cython.double = 1.0
        kept: cython.double = 1.0
        forced_bits: cython.int = 0
        kept_bits: cython.int = 0
        bending_n: cython.double = 0.0
        common_n: cython.double = 0.0
        raised: cython.bint = self._split()
        for j in indices(self._count):
            room = self.ceiling[j] - rest[j]
            room = room if room > 0.0 else 0.0
            if bending[j] * forced > room:
                forced = room / bending[j]
                forced_bits = self._bits_of_ceiling(j)
            bending_n += bending[j]
            common_n += common[j]
        room = self._total_n - self._rest_total_n
        room = room if room > 0.0 else 0.0
        if bending_n * forced > room:
            forced = room / bending_n
            forced_bits = LIMITED_TOTAL
        for j in indices(self._count):
            room = self.ceiling[j] - rest[j] - forced * bending[j]
            room = room if room > 0.0 else 0.0
            if common[j] * kept > room:
                kept = room / common[j]
                kept_bits = self._bits_of_ceiling(j)
        room = self._total_n - self._rest_total_n - forced * bending_n
        room = room if room > 0.0 else 0.0
        if common_n * kept > room:
            kept = room / common_n
            kept_bits = LIMITED_TOTAL
        if forced == 1.0 and kept == 1.0 and not raised:
            return
        bits = forced_bits | kept_bits
        for j in indices(self._count):
            value = rest[j] + forced * bending[j] + kept * common[j]
            # Rounding may leave the limits by a hair.
            value = value if value < self.ceiling[j] else self.ceiling[j]
            value = value if value > self._minimum_n[j] else self._minimum_n[j]
            if value > target[j]:
                limited[j] |= LIMITED_MINIMUM
            elif value < target[j]:
                limited[j] |= bits
            target[j] = value

    @stepped
    def _split(self) -> cython.bint:
        """The target as rest, what the tendons of each part have in common, and what bends; whether a part is raised.

        Neither of the three is negative, but for the sum of a part that lies below its rest: it is raised to that.
        """
        i: cython.int
        j: cython.int = 0
        first: cython.int = 0
        end: cython.int
        target: cython.double[::1] = self._target
        rest: cython.double[::1] = self._rest
        direction: cython.double[::1] = self._direction
        lowest: cython.double
        value: cython.double
        raised: cython.bint = False
        for i in indices(self._part_count):
            end = self._part_end[i]
            lowest = INFINITE
            for j in range(first, end):
                value = (target[j] - rest[j]) / direction[j]
                if value < lowest:
                    lowest = value
            for j in range(first, end):
                value = target[j] - rest[j] - lowest * direction[j]
                self._bending[j] = value if value > 0.0 else 0.0
                self._common[j] = lowest * direction[j] if lowest > 0.0 else 0.0
            if lowest < 0.0:
                raised = True
            first = end
        return raised

    @stepped
    def _bits_of_ceiling(self, j: cython.int) -> cython.int:
        """What a ceiling of tendon ``j`` (an index) stands for: below the maximum tensions rise slowly."""
        if self.ceiling[j] < self._maximum_n[j]:
            return LIMITED_RATE | LIMITED_MAXIMUM if self._target[j] > self._maximum_n[j] else LIMITED_RATE
        return LIMITED_MAXIMUM


def _parts(limits: TensionLimits, manifold: ClarkeManifold) -> tuple[list[int], list[float], list[float]]:
    """Where the parts end whose common tension forces nothing, its direction, and the least such tensions, N."""
    minimum_n, maximum_n = (limits.each(key, manifold.tendon_count) for key in ("minimum_n", "maximum_n"))
    ends: list[int] = []
    direction: list[float] = []
    rest: list[float] = []
    for rows in manifold.tendon_slices:
        own, needed = manifold.shift_direction[rows], minimum_n[rows]
        most = int(np.argmax(needed / own))  # that needs most of what is common
        least = needed[most] * own / own[most]
        forces = np.abs(manifold.displacement_matrix[rows].T @ own).max() > 1e-9 * np.abs(own).max()
        if forces or (least > maximum_n[rows]).any():
            ends += range(rows.start + 1, rows.stop + 1)
            direction += [1.0] * len(own)
            rest += needed.tolist()
        else:
            ends.append(rows.stop)
            direction += own.tolist()
            rest += least.tolist()
    if sum(rest) > limits.total_n:
        rest = minimum_n.tolist()
    return ends, direction, rest
