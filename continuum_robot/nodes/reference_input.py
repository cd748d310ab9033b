# SPDX-License-Identifier: Apache-2.0
"""The reference that a controller follows between two messages. Plain Python, no ROS."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from continuum_robot.control.references import ClarkeReference

Vector = NDArray[np.float64]

EXTRAPOLATION_S = 0.02
_NEAR_M = 5e-5


class ReferenceInput:
    """Holds a position until references come, extrapolates between them, and holds again when they stop.

    References come at a lower rate than the states; between them the position is extrapolated with their velocity and
    acceleration, for 20 ms at most. After that the position stands where it is, with zero velocity. Where the first
    reference after :meth:`start` is far from the held position, it is blended in.

    Parameters
    ----------
    coordinate_count : 2m
    blend_s : time to blend from the held position to references that start elsewhere, s
    """

    def __init__(self, coordinate_count: int, blend_s: float = 1.0) -> None:
        self._count, self._blend_s = coordinate_count, blend_s
        self.refused = 0
        self.start(np.zeros(coordinate_count))

    def start(self, position: Vector) -> None:
        """Hold ``position``, shape (2m,), m, until the next reference; a reference under way is blended in anew."""
        self._held = ClarkeReference.at_rest(np.array(position, dtype=float))
        self._newest: ClarkeReference | None = None
        self._stamp_s = -math.inf
        self._blend_start_s: float | None = None
        self._stopped: ClarkeReference | None = None

    def receive(self, reference: ClarkeReference, stamp_s: float) -> bool:
        """Take a reference.

        Parameters
        ----------
        reference : arrays of shape (2m,)
        stamp_s : the time that it is meant for, s

        Returns
        -------
        whether it was taken: a wrong number of values, or one that is not finite, is refused and counted
        """
        sizes = (reference.position.size, reference.velocity.size, reference.acceleration.size)
        total = reference.position.sum() + reference.velocity.sum() + reference.acceleration.sum()
        if sizes != (self._count,) * 3 or not math.isfinite(total):
            self.refused += 1
            return False
        if self._newest is None and np.max(np.abs(reference.position - self._held.position)) > _NEAR_M:
            self._blend_start_s = stamp_s
        self._newest, self._stamp_s, self._stopped = reference, stamp_s, None
        return True

    def at(self, time_s: float) -> ClarkeReference:
        """The reference at a time, s, on the clock of the stamps."""
        reference = self._newest
        if reference is None:
            return self._held
        ahead_s = time_s - self._stamp_s
        if ahead_s >= EXTRAPOLATION_S:
            # Blended at the moment it stopped: a position that only stands must not go on moving.
            if self._stopped is None:
                last = _ahead(reference, EXTRAPOLATION_S)
                blended = self._blended(last, self._stamp_s + EXTRAPOLATION_S)
                self._stopped = ClarkeReference.at_rest(blended.position)
            return self._stopped
        # A stamp a little in the future (another process's clock tick) is extrapolated backwards just as well.
        return self._blended(_ahead(reference, max(ahead_s, -EXTRAPOLATION_S)), time_s)

    def age_s(self, time_s: float) -> float:
        """Age of the newest reference, s; inf when there is none."""
        return time_s - self._stamp_s

    def _blended(self, reference: ClarkeReference, time_s: float) -> ClarkeReference:
        if self._blend_start_s is None:
            return reference
        x = (time_s - self._blend_start_s) / self._blend_s if self._blend_s > 0 else 1.0
        if x >= 1:
            self._blend_start_s = None
            return reference
        return blend(self._held.position, reference, max(x, 0.0), self._blend_s)


def blend(start: Vector, reference: ClarkeReference, x: float, duration_s: float) -> ClarkeReference:
    """From a standing position into a moving reference: ``start + w (reference - start)``, w a quintic polynomial.

    Parameters
    ----------
    start : shape (2m,), m
    reference : arrays of shape (2m,)
    x : share of the duration that has passed, from 0 to 1
    duration_s : of the blend, s

    Returns
    -------
    position, velocity and acceleration, consistent with each other
    """
    weight = x**3 * (10 - 15 * x + 6 * x**2)
    rate = 30 * x**2 * (1 - x) ** 2 / duration_s
    acceleration = 60 * x * (1 - x) * (1 - 2 * x) / duration_s**2
    way = reference.position - start
    return ClarkeReference(
        start + weight * way,
        rate * way + weight * reference.velocity,
        acceleration * way + 2 * rate * reference.velocity + weight * reference.acceleration,
    )


def _ahead(reference: ClarkeReference, time_s: float) -> ClarkeReference:
    return ClarkeReference(
        reference.position + time_s * (reference.velocity + 0.5 * time_s * reference.acceleration),
        reference.velocity + time_s * reference.acceleration,
        reference.acceleration,
    )
