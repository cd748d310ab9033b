# SPDX-License-Identifier: Apache-2.0
"""Links that roll on each other, with the entry points of two tendons; all joints in one call.

Vectors in the plane are complex numbers, x + i y.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.mechanisms.rolling_joint.surfaces import (
    IntersectingSurfacesError,
    OffSurfaceError,
    Surface,
    SurfaceError,
)

Array = NDArray[np.float64]
Vectors = NDArray[np.complex128]

_PIVOT_FRACTION = 1e-9
_TOUCHING_M = 1e-13
"""Length below which a tendon between two entry points, which then coincide, is taken along the normal."""


@dataclass(frozen=True, slots=True)
class Link:
    """One link. Its body frame: x to the right, y towards the tip.

    Attributes
    ----------
    parent, child : its lower and its upper contact surface; x of their frames to the right
    parent_entries_m, child_entries_m : where the left and the right tendon enter below and above, in the body frame,
        shape (2, 2), m
    """

    parent: Surface
    child: Surface
    parent_entries_m: Array
    child_entries_m: Array


class Joints(NamedTuple):
    """Each joint at its contact; vectors in the lower link's frame unless said otherwise.

    Attributes
    ----------
    angle_rad : of the upper link in the lower one, ha (9), shape (..., n - 1), rad
    turn : exp(i angle), shape (..., n - 1)
    place_m : of the upper link's origin, ha (9), shape (..., n - 1), m
    child_m, parent_m : the contact, in the lower and in the upper link's frame, shape (..., n - 1), m
    child_tangent, parent_tangent : of the surfaces there, in the same two frames, shape (..., n - 1)
    rolled_m : change of the arc length with the angle, shape (..., n - 1), m/rad
    gaps_m : the left and the right tendon between the links, v of ha (13), shape (..., 2, n - 1), m
    lengths_m : of these, shape (..., 2, n - 1), m
    levers_m : change of the lengths with the angle, ha (30), shape (..., 2, n - 1), m
    lever_slopes_m : change of the levers with the angle, shape (..., 2, n - 1), m
    """

    angle_rad: Array
    turn: Vectors
    place_m: Vectors
    child_m: Vectors
    parent_m: Vectors
    child_tangent: Vectors
    parent_tangent: Vectors
    rolled_m: Array
    gaps_m: Vectors
    lengths_m: Array
    levers_m: Array
    lever_slopes_m: Array

    def poses(self, base: Array) -> Array:
        """Poses of all links, ha (9): x (m), y (m), angle (rad), shape (n, 3).

        Parameters
        ----------
        base : pose of link 1, shape (3,), m and rad
        """
        angles = np.cumsum(np.concatenate([base[2:], self.angle_rad]))
        steps = np.exp(1j * angles[:-1]) * self.place_m
        places = np.cumsum(np.concatenate([base[:1] + 1j * base[1:2], steps]))
        return np.stack([places.real, places.imag, angles], axis=-1)


class Linkage:
    """n links in a chain: link 1 is the base, joint k is between link k and link k + 1.

    Attributes
    ----------
    limits_m : arc lengths between which each joint can roll, shape (n - 1, 2), m
    channel_length_m : length of both tendons inside of all links, shape (2,), m: the first sum of ha (28)

    Raises
    ------
    ParameterError : fewer than two links, or entry points of another shape
    """

    def __init__(self, links: Sequence[Link]) -> None:
        self.links = tuple(links)
        if len(self.links) <= 1:
            raise ParameterError("links", len(self.links), "two links or more")
        for number, link in enumerate(self.links, start=1):
            for entries in (link.parent_entries_m, link.child_entries_m):
                if np.shape(entries) != (2, 2) or not np.all(np.isfinite(entries)):
                    raise ParameterError(f"entry points of link {number}", np.shape(entries), "finite, shape (2, 2)")
        self.joint_count = len(self.links) - 1
        children, parents = [link.child for link in self.links[:-1]], [link.parent for link in self.links[1:]]
        ends = np.array([[surface.limits_m for surface in side] for side in (children, parents)])
        self.limits_m = np.stack([ends[..., 0].max(axis=0), ends[..., 1].min(axis=0)], axis=-1)
        for number, (child, parent, (low, high)) in enumerate(zip(children, parents, self.limits_m, strict=True), 1):
            if not low < 0 < high:
                raise SurfaceError(f"surfaces of joint {number}", (low, high), "common arc lengths around 0")
            _check_rolling(number, child, parent, low, high)
        below, above = (
            np.array([getattr(link, name) for link in self.links]) @ [1, 1j]
            for name in ("parent_entries_m", "child_entries_m")
        )
        self._holes, self._seats = above[:-1].T.copy(), below[1:].T.copy()
        self.channel_length_m = np.abs(above - below).sum(axis=0)
        self.size_m = float(np.mean(np.abs(self._holes[1] - self._holes[0])))
        # One search for all surfaces: each table is moved to a stretch of its own.
        curves = [surface.curve for surface in (*children, *parents)]
        self._shift = 4 * np.abs(ends).max() * np.arange(len(curves))
        self._starts = np.concatenate([curve.x[:-1] for curve in curves])
        self._moved = np.concatenate([curve.x[:-1] + shift for curve, shift in zip(curves, self._shift, strict=True)])
        places = np.concatenate([curve.c[::-1] for curve in curves], axis=1).transpose(1, 2, 0)
        self._powers = np.arange(float(places.shape[-1]))
        # The fourth polynomial is the curvature, the slope of the heading.
        curvature = np.pad(places[:, 2, 1:] * self._powers[1:], ((0, 0), (0, 1)))
        self._table = np.concatenate([places, curvature[:, None]], axis=1)

    def joints(self, contact_m: Array) -> Joints:
        """All joints at their contacts, without a check of the arc lengths.

        Parameters
        ----------
        contact_m : arc length of each joint's contact, shape (..., n - 1), m
        """
        n = self.joint_count
        s = np.concatenate([contact_m, contact_m], axis=-1)
        index = np.searchsorted(self._moved, s + self._shift, side="right") - 1
        powers = (s - self._starts[index])[..., None] ** self._powers
        values = (self._table[index] @ powers[..., None])[..., 0]
        point, heading, curvature = values.view(complex)[..., 0], values[..., 2], values[..., 3]
        tangent = np.exp(1j * heading)
        child, parent = point[..., :n], point[..., n:]
        child_tangent, parent_tangent = tangent[..., :n], tangent[..., n:]
        turn = child_tangent * parent_tangent.conj()
        place = child - turn * parent  # (9)
        rolled = 1 / (curvature[..., :n] - curvature[..., n:])
        seat = place[..., None, :] + turn[..., None, :] * self._seats
        gaps = seat - self._holes  # (13)
        lengths = np.abs(gaps)
        if lengths.min() < _TOUCHING_M:
            gaps = np.where(lengths < _TOUCHING_M, _TOUCHING_M * 1j * child_tangent[..., None, :], gaps)
            lengths = np.abs(gaps)
        away = gaps.conj() / lengths  # (12)
        arm = away * (seat - child[..., None, :])  # the upper link turns about the contact
        along = arm.real
        slopes = along * (along / lengths - 1) + (away * (rolled * child_tangent)[..., None, :]).imag
        angle = heading[..., :n] - heading[..., n:]
        shared = (angle, turn, place, child, parent, child_tangent, parent_tangent, rolled)
        return Joints(*shared, gaps, lengths, -arm.imag, slopes)  # (30)

    def check_contacts(self, contact_m: ArrayLike) -> Array:
        """Contacts as an array.

        Parameters
        ----------
        contact_m : shape (n - 1,), m

        Returns
        -------
        shape (n - 1,), m

        Raises
        ------
        ParameterError : wrong shape
        """
        contact = np.asarray(contact_m, dtype=float)
        if contact.shape != (self.joint_count,):
            raise ParameterError("contact_m", contact.shape, f"shape ({self.joint_count},), one arc length a joint")
        low, high = self.limits_m.T
        beyond = ~((low <= contact) & (contact <= high))
        if beyond.any():
            k = int(np.argmax(beyond))
            allowed = f"on its surfaces, in [{low[k]:g}, {high[k]:g}] m"
            raise OffSurfaceError(f"contact of joint {k + 1}", float(contact[k]), allowed)
        return contact

    def poses(self, contact_m: ArrayLike, base: ArrayLike = (0.0, 0.0, 0.0)) -> Array:
        """Poses of all links: ha (9).

        Parameters
        ----------
        contact_m : shape (n - 1,), m

        Returns
        -------
        x (m), y (m), angle (rad) of each link in the frame in which the base is given, shape (n, 3)
        """
        return self.joints(self.check_contacts(contact_m)).poses(np.asarray(base, dtype=float))

    def tendon_lengths(self, contact_m: ArrayLike) -> Array:
        """Length of the left and the right tendon from the base's lower entry to the last link's upper one: ha (28).

        Parameters
        ----------
        contact_m : shape (n - 1,), m

        Returns
        -------
        shape (2,), m
        """
        lengths = self.joints(self.check_contacts(contact_m)).lengths_m
        return np.asarray(self.channel_length_m + lengths.sum(axis=-1))


def _check_rolling(number: int, child: Surface, parent: Surface, low: float, high: float) -> None:
    """Refuse surfaces that cut into each other: the upper one must bend away from the lower one everywhere.

    The heading of the upper surface then outruns that of the lower one on both sides of any contact, so that they
    cannot meet again before they have turned by half a turn.
    """
    s = np.union1d(child.curve.x, parent.curve.x)
    s = s[(s >= low) & (s <= high)]
    near = 1e-9 * (high - low)
    probes = np.unique(np.clip(np.concatenate([s - near, s + near, (s[:-1] + s[1:]) / 2]), low, high))
    away = parent.frame(probes)[:, 3] - child.frame(probes)[:, 3]
    worst = int(np.argmin(away))
    if away[worst] <= _PIVOT_FRACTION / (high - low):
        raise IntersectingSurfacesError(
            f"surfaces of joint {number} at s = {probes[worst] * 1e3:.4g} mm: curvature of the upper less that of the"
            " lower one",
            float(away[worst]),
            "above 0 1/m, else they intersect or lie flat on each other",
        )
