# SPDX-License-Identifier: Apache-2.0
"""Limits on commanded tensions: not finite, absolute, rate, total. What was limited is always reported."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.robot.actuation import TensionLimits

Vector = NDArray[np.float64]

# Bits of LimitedTension.limited; the same as the constants of msg/TendonStates.
LIMITED_NOT_FINITE = 1
LIMITED_MINIMUM = 2
LIMITED_MAXIMUM = 4
LIMITED_RATE = 8
LIMITED_TOTAL = 16


@dataclass(frozen=True, slots=True)
class LimitedTension:
    """A command within all limits.

    Attributes
    ----------
    tension : shape (N,), N
    limited : for each tendon the LIMITED_ bits of the limits that changed it, 0 for none; shape (N,), uint8
    """

    tension: Vector
    limited: NDArray[np.uint8]


class TensionLimiter:
    """Brings wanted tensions within a robot's limits, in this order.

    1. Not finite: the tendon keeps its previous command.
    2. Minimum and maximum of each tendon.
    3. Total: the parts above the minimum are scaled by one factor, which keeps the direction of bending.
    4. Rate, around the previous command (around the measured tension, lag would throttle it).
    5. Total again: on the way to a target within it, tensions that rise faster than others fall can exceed it. The
       parts above the least tension that each tendon can reach in this cycle are scaled by one factor, so that 2 and 4
       still hold.

    From a previous command outside of 2, after :meth:`reset` with a measured tension, the limits are approached at the
    rate limit: a jump is the greater evil. The first command is approached from 0 N unless :meth:`reset` says
    otherwise.

    Parameters
    ----------
    limits : of the robot
    tendon_count : N

    Raises
    ------
    ParameterError : the minimum of all tendons together exceeds the total
    """

    def __init__(self, limits: TensionLimits, tendon_count: int) -> None:
        if limits.minimum_n * tendon_count > limits.total_n:
            raise ParameterError(
                "total_n",
                limits.total_n,
                f"at least {tendon_count} tendons x minimum_n = {limits.minimum_n * tendon_count:g} N",
            )
        self.limits = limits
        self._previous = np.zeros(tendon_count)

    @property
    def previous(self) -> Vector:
        """The previous command, shape (N,), N."""
        return self._previous.copy()

    def reset(self, tension: ArrayLike) -> None:
        """Take a tension as the previous command, so that the next one starts from it.

        Parameters
        ----------
        tension : shape (N,), N

        Raises
        ------
        ParameterError : wrong shape, negative or not finite
        """
        tension = np.array(tension, dtype=float)
        if tension.shape != self._previous.shape or not np.all((tension >= 0) & (tension < math.inf)):
            raise ParameterError("tension", tension, f"{self._previous.size} tensions of at least 0 N")
        self._previous = tension

    def update(self, wanted: ArrayLike, dt: float) -> LimitedTension:
        """The command for wanted tensions.

        Parameters
        ----------
        wanted : shape (N,), N; NaN: unknown
        dt : time since the previous command, s

        Returns
        -------
        the command, and what limited it

        Raises
        ------
        ParameterError : wrong shape, or dt negative or not finite
        """
        wanted = np.asarray(wanted, dtype=float)
        previous, limits = self._previous, self.limits
        if wanted.shape != previous.shape:
            raise ParameterError("wanted", wanted, f"{previous.size} tensions, one a tendon")
        if not (0 <= dt < math.inf):
            raise ParameterError("dt", dt, "a time step of at least 0 s")
        limited = np.zeros(previous.size, dtype=np.uint8)
        if self._admits(wanted.tolist(), limits.rate_n_per_s * dt):
            self._previous = wanted.copy()
            return LimitedTension(wanted.copy(), limited)
        if not np.isfinite(wanted).all():
            unknown = ~np.isfinite(wanted)
            wanted = np.where(unknown, previous, wanted)
            limited[unknown] |= LIMITED_NOT_FINITE

        target = np.minimum(np.maximum(wanted, limits.minimum_n), limits.maximum_n)
        limited[wanted < limits.minimum_n] |= LIMITED_MINIMUM
        limited[wanted > limits.maximum_n] |= LIMITED_MAXIMUM
        target = self._within_total(target, np.full_like(target, limits.minimum_n), limited)

        step = limits.rate_n_per_s * dt
        lowest = previous - step
        command = np.minimum(np.maximum(target, lowest), previous + step)
        limited[command != target] |= LIMITED_RATE
        command = self._within_total(command, np.minimum(command, np.maximum(lowest, limits.minimum_n)), limited)
        self._previous = command
        return LimitedTension(command.copy(), limited)

    def _admits(self, wanted: list[float], step: float) -> bool:
        """Whether nothing has to be limited, which is so in nearly every cycle; false for NaN."""
        limits = self.limits
        return (
            sum(wanted) <= limits.total_n
            and all(limits.minimum_n <= value <= limits.maximum_n for value in wanted)
            and all(abs(new - old) <= step for new, old in zip(wanted, self._previous.tolist(), strict=True))
        )

    def _within_total(self, tension: Vector, floor: Vector, limited: NDArray[np.uint8]) -> Vector:
        """Scale what lies above a floor so that the sum is at most the total; sets the bit where it changed."""
        if tension.sum() <= self.limits.total_n:
            return tension
        above = tension - floor
        room = max(0.0, self.limits.total_n - floor.sum())
        scaled = floor + above * min(1.0, room / max(above.sum(), math.ulp(0.0)))
        limited[scaled != tension] |= LIMITED_TOTAL
        return scaled
