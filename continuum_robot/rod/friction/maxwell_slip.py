# SPDX-License-Identifier: Apache-2.0
"""Friction that builds up over a travel: springs in parallel that each slide at a limit of their own (Maxwell slip).

Pushed from rest in one direction, the force follows 1 - exp(-x / travel) from knot to knot, where the elements begin to
slide; after a turn it follows the same curve twice as wide (Masing's rule), and it remembers where it turned before.
Tendons in guides, gears and bearings do that before they slide, and a backbone of superelastic wire. In a plane an
element slides where the length of its force is at the limit, so that no direction is preferred.

Each is Prandtl's stop (Jenkin's element): its force is k (x - a) where that is less than the limit F, else F with the
sign of x - a, and the anchor a then follows at the distance F / k. It depends on the order of the positions, not on
time. It is the derivative of Huber's function of x - a, so that an equilibrium with friction is the minimum of an
energy: the incremental energy of a rate-independent system.
"""

from __future__ import annotations

from dataclasses import dataclass

import cython
import numpy as np
from cython.cimports.libc.math import sqrt
from numpy.typing import ArrayLike, NDArray

from continuum_robot.stepped.buffers import copy_into, indices, integers, matrix, stepped, vector

Vector = NDArray[np.float64]

KNOTS = np.array([0.25, 0.75, 1.5, 3.0])
"""At which positions from rest the elements slide, travels."""

_CURVE = np.concatenate([[0.0], 1 - np.exp(-KNOTS)]) / (1 - np.exp(-KNOTS.max()))
_SLOPES = np.diff(_CURVE) / np.diff(KNOTS, prepend=0.0)
STIFFNESSES = _SLOPES - np.append(_SLOPES[1:], 0.0)
"""Of the elements, limits of the whole over a travel; their limits, stiffness times knot, add up to one."""

ELEMENTS = len(KNOTS)


@cython.cclass
class MaxwellSlip:
    """Friction of k positions with its memory, on lines or in planes; E elements each. Stepped code."""

    resisting: cython.double[::1]
    position_count: cython.int
    element_count: cython.int
    in_planes: cython.bint
    # Element after element, and of each position after position.
    reach: cython.double[::1]
    stiffness: cython.double[::1]
    offset: cython.double[::1]
    slid: cython.int[::1]
    place: cython.double[::1]

    def __init__(self, limit: ArrayLike, travel: ArrayLike, position: ArrayLike) -> None:
        bound, over, place = (np.asarray(values, dtype=float) for values in (limit, travel, position))
        self.position_count, self.element_count = len(bound), len(KNOTS)
        self.in_planes = place.ndim > 1
        self.reach, self.stiffness = matrix(KNOTS[:, None] * over), matrix(STIFFNESSES[:, None] * (bound / over))
        self.offset, self.slid = vector(len(KNOTS) * place.size), integers(len(KNOTS) * len(bound))
        self.place, self.resisting = vector(place.size), vector(place.size)
        self.reset(position)

    def reset(self, position: ArrayLike) -> None:
        """Rest at a position without force, and with a past that nobody knows."""
        self.rest(vector(np.ravel(position).tolist()))

    def move(self, position: ArrayLike) -> Vector:
        """Go straight to a position."""
        self.step(vector(np.ravel(position).tolist()))
        return self.force

    def along(self, positions: Vector) -> Vector:
        """Forces that resist along a motion; T positions."""
        return np.array([self.move(position) for position in positions])

    @property
    def force(self) -> Vector:
        """Force that resists now, of the shape of the position."""
        return self._shaped(self.resisting)

    @property
    def anchors(self) -> Vector:
        """Where each element would rest, of shape (E, ...) with that of the position."""
        offset = np.array(self.offset).reshape(self.element_count, -1)
        place = np.array(self.place)
        return np.array([self._shaped(place - one) for one in offset])

    def uncertain(self, fraction: float) -> Vector:
        """By how much the force may be off, (k,): the limits of elements that never slid, and a part of all limits."""
        limits = np.array(self.stiffness) * np.array(self.reach)
        unknown = np.array(self.slid) == 0
        return np.asarray((limits * (unknown + fraction)).reshape(self.element_count, -1).sum(axis=0))

    def _shaped(self, values: ArrayLike) -> Vector:
        own = np.array(values)
        return own.reshape(-1, 2) if self.in_planes else own

    @stepped
    def rest(self, place: cython.double[::1]) -> cython.void:
        """As :meth:`reset`, at a ``place`` in the unit of the travel."""
        i: cython.int
        numbers: cython.int = self.position_count * (2 if self.in_planes else 1)
        copy_into(self.place, place, numbers)
        for i in indices(numbers):
            self.resisting[i] = 0.0
        for i in indices(self.element_count * numbers):
            self.offset[i] = 0.0
        for i in indices(self.element_count * self.position_count):
            self.slid[i] = 0

    @stepped
    def step(self, place: cython.double[::1]) -> cython.void:
        """As :meth:`move`, to a ``place`` in the unit of the travel; the force is in ``resisting``."""
        i: cython.int
        for i in indices(self.position_count):
            if self.in_planes:
                self.slide_in_plane(i, place[2 * i] - self.place[2 * i], place[2 * i + 1] - self.place[2 * i + 1])
                self.place[2 * i], self.place[2 * i + 1] = place[2 * i], place[2 * i + 1]
            else:
                self.slide(i, place[i] - self.place[i])
                self.place[i] = place[i]

    @stepped
    def slide(self, i: cython.int, way: cython.double) -> cython.void:
        """Move position ``i`` (an index) by a ``way`` on its line, in the unit of the travel."""
        _: cython.int
        at: cython.int = i
        force: cython.double = 0.0
        for _ in indices(self.element_count):
            offset: cython.double = self.offset[at] + way
            reach: cython.double = self.reach[at]
            if offset > reach:
                offset = reach
                self.slid[at] = 1
            elif offset < -reach:
                offset = -reach
                self.slid[at] = 1
            self.offset[at] = offset
            force += self.stiffness[at] * offset
            at += self.position_count
        self.resisting[i] = force

    @stepped
    def slide_in_plane(self, i: cython.int, way_x: cython.double, way_y: cython.double) -> cython.void:
        """Move position ``i`` (an index) by ``way_x`` and ``way_y`` in its plane, in the unit of the travel."""
        _: cython.int
        at: cython.int = i
        force_x: cython.double = 0.0
        force_y: cython.double = 0.0
        for _ in indices(self.element_count):
            x: cython.double = self.offset[2 * at] + way_x
            y: cython.double = self.offset[2 * at + 1] + way_y
            length: cython.double = sqrt(x * x + y * y)
            reach: cython.double = self.reach[at]
            if length > reach:
                x, y = reach / length * x, reach / length * y
                self.slid[at] = 1
            self.offset[2 * at], self.offset[2 * at + 1] = x, y
            force_x += self.stiffness[at] * x
            force_y += self.stiffness[at] * y
            at += self.position_count
        self.resisting[2 * i], self.resisting[2 * i + 1] = force_x, force_y


def motor_slip(coulomb_n: Vector, travel_m: float, position: Vector) -> MaxwellSlip | None:
    """Dry friction of motors that builds up over a travel, at rest; None where it does at once."""
    if not travel_m > 0:
        return None
    return MaxwellSlip(coulomb_n, np.full(len(position), travel_m), position)


def slip_force(position: Vector, anchors: Vector, limit: float | Vector, travel: float) -> tuple[Vector, Vector]:
    """Force that resists at positions near where the elements were left, on lines, and its slope; (k,) each."""
    stiffness, reach = STIFFNESSES[:, None] * limit / travel, KNOTS[:, None] * travel
    offset = position - anchors
    force = (stiffness * np.clip(offset, -reach, reach)).sum(axis=0)
    return force, (stiffness * (np.abs(offset) < reach)).sum(axis=0)


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
