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
from continuum_robot.robot.actuation import TensionLimits
from continuum_robot.stepped.buffers import copy_into, indices, integers, stepped, vector


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
    """Brings desired tensions within a robot's limits, in this order.

    1. Not finite: the tendon keeps its previous command.
    2. Minimum and maximum of each tendon.
    3. Total: the parts above the minimum are scaled by one factor, which keeps the direction of bending.
    4. Rate, around the previous command (around the measured tension, lag would throttle it).
    5. Total again: on the way to a target within it, tensions that rise faster than others fall can exceed it. The
       parts above the least tension that each tendon can reach in this cycle are scaled by one factor, so that 2 and 4
       still hold.

    From a previous command outside of 2, after :meth:`reset` with a measured tension, the limits are approached at the
    rate limit: a jump is the greater evil. The first command is approached from 0 N unless :meth:`reset` gives
    otherwise.

    Parameters
    ----------
    limits : of the robot
    tendon_count : N

    Attributes
    ----------
    limits : in use
    command : the newest command, N numbers in N; stepped code may share it
    limited : the LIMITED_ bits of the newest step, N numbers

    Raises
    ------
    ParameterError : the minimum of all tendons together exceeds the total
    """

    limits = cython.declare(object, visibility="readonly")
    command: cython.double[::1]
    limited: cython.int[::1]
    _count: cython.int
    _minimum_n: cython.double
    _maximum_n: cython.double
    _rate_n_per_s: cython.double
    _total_n: cython.double
    _target: cython.double[::1]
    _floor: cython.double[::1]

    def __init__(self, limits: TensionLimits, tendon_count: int) -> None:
        if limits.minimum_n * tendon_count > limits.total_n:
            raise ParameterError(
                "total_n",
                limits.total_n,
                f"at least {tendon_count} tendons x minimum_n = {limits.minimum_n * tendon_count:g} N",
            )
        self.limits = limits
        self._count = tendon_count
        self._minimum_n, self._maximum_n = limits.minimum_n, limits.maximum_n
        self._rate_n_per_s, self._total_n = limits.rate_n_per_s, limits.total_n
        self.command, self._target, self._floor = vector(tendon_count), vector(tendon_count), vector(tendon_count)
        self.limited = integers(tendon_count)

    @property
    def previous(self) -> NDArray[np.float64]:
        """The previous command, shape (N,), N."""
        return np.array(self.command, dtype=float)

    def reset(self, tension: ArrayLike) -> None:
        """Take a tension as the previous command, so that the next one starts from it.

        Parameters
        ----------
        tension : shape (N,), N

        Raises
        ------
        ParameterError : wrong shape, negative or not finite
        """
        j: cython.int
        tension = np.array(tension, dtype=float)
        if tension.shape != (self._count,) or not np.all((tension >= 0) & (tension < math.inf)):
            raise ParameterError("tension", tension, f"{self._count} tensions of at least 0 N")
        for j in range(self._count):
            self.command[j] = float(tension[j])

    def update(self, desired: ArrayLike, dt: float) -> LimitedTension:
        """The command for desired tensions.

        Parameters
        ----------
        desired : shape (N,), N; NaN: unknown
        dt : time since the previous command, s

        Returns
        -------
        the command, and what limited it

        Raises
        ------
        ParameterError : wrong shape, or dt negative or not finite
        """
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
        minimum_n: cython.double = self._minimum_n
        maximum_n: cython.double = self._maximum_n
        step_n: cython.double = self._rate_n_per_s * dt
        value: cython.double
        change: cython.double
        total: cython.double = 0.0
        # Nothing has to be limited in nearly every cycle. A comparison with NaN is false.
        admitted: cython.bint = True
        for j in indices(self._count):
            value = desired[j]
            change = value - command[j]
            total += value
            if not (minimum_n <= value <= maximum_n and -step_n <= change <= step_n):
                admitted = False
        if admitted and total <= self._total_n:
            copy_into(command, desired, self._count)
            for j in indices(self._count):
                limited[j] = 0
        else:
            self._limit(desired, step_n)

    @stepped
    def _limit(self, desired: cython.double[::1], step_n: cython.double) -> cython.void:
        j: cython.int
        command: cython.double[::1] = self.command
        limited: cython.int[::1] = self.limited
        target: cython.double[::1] = self._target
        floor: cython.double[::1] = self._floor
        minimum_n: cython.double = self._minimum_n
        value: cython.double
        lowest: cython.double
        for j in indices(self._count):
            value = desired[j]
            limited[j] = 0
            if value - value != 0.0:  # infinity and NaN
                value = command[j]
                limited[j] = LIMITED_NOT_FINITE
            if value < minimum_n:
                value = minimum_n
                limited[j] |= LIMITED_MINIMUM
            elif value > self._maximum_n:
                value = self._maximum_n
                limited[j] |= LIMITED_MAXIMUM
            target[j] = value
            floor[j] = minimum_n
        self._keep_total(target)
        for j in indices(self._count):
            lowest = command[j] - step_n
            value = target[j]
            if value < lowest:
                value = lowest
                limited[j] |= LIMITED_RATE
            if value > command[j] + step_n:
                value = command[j] + step_n
                limited[j] |= LIMITED_RATE
            lowest = lowest if lowest > minimum_n else minimum_n
            command[j] = value
            floor[j] = lowest if lowest < value else value
        self._keep_total(command)

    @stepped
    def _keep_total(self, tension: cython.double[::1]) -> cython.void:
        """Scale what lies above the floor so that the sum is at most the total; sets the bit where it changed."""
        j: cython.int
        floor: cython.double[::1] = self._floor
        limited: cython.int[::1] = self.limited
        total: cython.double = 0.0
        least: cython.double = 0.0
        above: cython.double = 0.0
        room: cython.double
        scaled: cython.double
        for j in indices(self._count):
            total += tension[j]
            least += floor[j]
            above += tension[j] - floor[j]
        if total <= self._total_n:
            return
        room = self._total_n - least
        room = room if room > 0.0 else 0.0
        if above <= room:
            return
        room = room / above
        for j in indices(self._count):
            scaled = floor[j] + (tension[j] - floor[j]) * room
            if scaled != tension[j]:
                limited[j] |= LIMITED_TOTAL
            tension[j] = scaled
