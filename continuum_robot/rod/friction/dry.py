# SPDX-License-Identifier: Apache-2.0
"""Rate-independent dry friction: springs that hold up to a limit and then slide (Prandtl's stop, Jenkin's element).

The force is k (x - a) where that is less than the limit F, else F with the sign of x - a, and the anchor a then follows
at the distance F / k. It depends on the order of the positions, not on time. It is the derivative of Huber's function
of x - a, so that an equilibrium with friction is the minimum of an energy: the incremental energy of a rate-independent
system.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class StopForce:
    """Friction of some stops at given positions; N of them."""

    force: Vector
    sticking: NDArray[np.bool_]
    energy: float


def stop_force(position: ArrayLike, anchor: ArrayLike, limit: ArrayLike, stiffness: ArrayLike) -> StopForce:
    """Force of stops."""
    bound, k = np.asarray(limit, dtype=float), np.asarray(stiffness, dtype=float)
    elastic = k * (np.asarray(position, dtype=float) - np.asarray(anchor, dtype=float))
    force = np.minimum(np.maximum(elastic, -bound), bound)
    sticking = np.abs(elastic) < bound
    return StopForce(force, sticking, float(np.sum(force * (elastic - force / 2) / k)))


def moved_anchor(position: ArrayLike, anchor: ArrayLike, limit: ArrayLike, stiffness: ArrayLike) -> Vector:
    """Anchors of stops after they went to a position; arguments as of :func:`stop_force`, shape (N,)."""
    x, a = np.asarray(position, dtype=float), np.asarray(anchor, dtype=float)
    reach = np.asarray(limit, dtype=float) / np.asarray(stiffness, dtype=float)
    return np.asarray(np.minimum(np.maximum(a, x - reach), x + reach))
