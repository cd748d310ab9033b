# SPDX-License-Identifier: Apache-2.0
"""Friction that builds up over a travel: springs in parallel that each slide at a limit of their own (Maxwell slip).

Each is a stop of Prandtl, see :mod:`continuum_robot.rod.friction.dry`.

Pushed from rest in one direction, the force follows 1 - exp(-x / travel) from knot to knot, where the elements begin to
slide; after a turn it follows the same curve twice as wide (Masing's rule), and it remembers where it turned before.
Tendons in guides, gears and bearings do that before they slide, and a backbone of superelastic wire. In a plane an
element slides where the length of its force is at the limit, so that no direction is preferred.
"""

from __future__ import annotations

from typing import Any

import casadi as ca
import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.rod.friction.dry import shortened

Vector = NDArray[np.float64]

KNOTS = np.array([0.25, 0.75, 1.5, 3.0])
"""At which positions from rest the elements slide, travels."""

_CURVE = np.concatenate([[0.0], 1 - np.exp(-KNOTS)]) / (1 - np.exp(-KNOTS[-1]))
_SLOPES = np.diff(_CURVE) / np.diff(KNOTS, prepend=0.0)
STIFFNESSES = _SLOPES - np.append(_SLOPES[1:], 0.0)
"""Of the elements, limits of the whole over a travel; their limits, stiffness times knot, add up to one."""

ELEMENTS = len(KNOTS)


class MaxwellSlip:
    """Friction of k positions with its memory, on lines or in planes; E elements each.

    Parameters
    ----------
    limit : friction of sliding, not negative, shape (k,), N or N.m
    travel : over which it grows to 63 % of that from rest, positive, in the positions' unit, shape (k,)
    position : where it rests at first, shape (k,), or (k, 2) in planes
    """

    def __init__(self, limit: ArrayLike, travel: ArrayLike, position: ArrayLike) -> None:
        bound, over = np.asarray(limit, dtype=float), np.asarray(travel, dtype=float)
        self._reach = KNOTS[:, None] * over
        self._stiffness = STIFFNESSES[:, None] * (bound / over)
        self.reset(position)

    def reset(self, position: ArrayLike) -> None:
        """Rest at a position without force, and with a past that nobody knows.

        Parameters
        ----------
        position : shape (k,), or (k, 2) in planes
        """
        place = np.asarray(position, dtype=float)
        self._factor = self._stiffness.reshape(*self._stiffness.shape, *[1] * (place.ndim - 1))
        self._offset: Vector = np.zeros((ELEMENTS, *place.shape))
        self._place = place.copy()
        self._slid = np.zeros(self._offset.shape, dtype=bool)

    def move(self, position: ArrayLike) -> Vector:
        """Go straight to a position.

        Parameters
        ----------
        position : shape (k,), or (k, 2) in planes

        Returns
        -------
        force that resists, of the sign of the motion, of the shape of the position
        """
        place = np.asarray(position, dtype=float)
        offset = self._offset + (place - self._place)
        self._offset = shortened(offset, self._reach)
        np.logical_or(self._slid, self._offset != offset, out=self._slid)
        self._place = place.copy()
        return self.force

    def along(self, positions: Vector) -> Vector:
        """Forces that resist along a motion; T positions.

        Parameters
        ----------
        positions : in the unit of the travel, shape (T, k), or (T, k, 2) in planes

        Returns
        -------
        of the shape of the positions
        """
        return np.array([self.move(position) for position in positions])

    @property
    def force(self) -> Vector:
        """Force that resists now, of the shape of the position."""
        return np.asarray(np.add.reduce(self._factor * self._offset, axis=0))

    @property
    def anchors(self) -> Vector:
        """Where each element would rest, of shape (E, ...) with that of the position."""
        return np.asarray(self._place - self._offset)

    def uncertain(self, fraction: float) -> Vector:
        """By how much the force may be off, (k,): the limits of elements that never slid, and a part of all limits.

        Parameters
        ----------
        fraction : that part
        """
        slid = self._slid.reshape(*self._stiffness.shape, -1).any(axis=-1)
        return np.asarray((self._stiffness * self._reach * (~slid + fraction)).sum(axis=0))


def motor_slip(coulomb_n: float, travel_m: float, position: Vector) -> MaxwellSlip | None:
    """Dry friction of motors that builds up over a travel, at rest; None where it does at once.

    Parameters
    ----------
    coulomb_n : of each motor, N on the tendon
    travel_m : not negative, m
    position : of the tendons, shape (N,), m
    """
    if not travel_m > 0:
        return None
    return MaxwellSlip(np.full(len(position), coulomb_n), np.full(len(position), travel_m), position)


def slip_force(position: Any, anchors: Any, limit: float, travel: float) -> Any:
    """Force that resists at positions near where the elements were left, on lines; of the sign of the motion.

    Parameters
    ----------
    position : expression, shape (k,)
    anchors : of the elements one after another, as :attr:`MaxwellSlip.anchors`, expression, (E k,)
    limit, travel : as of :class:`MaxwellSlip`, for all positions
    """
    force: Any = 0
    for knot, stiffness, anchor in zip(KNOTS, STIFFNESSES, ca.vertsplit(anchors, position.shape[0]), strict=True):
        offset = ca.fmin(ca.fmax(position - anchor, -knot * travel), knot * travel)
        force = force + stiffness * limit / travel * offset
    return force
