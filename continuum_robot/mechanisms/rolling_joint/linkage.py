# SPDX-License-Identifier: Apache-2.0
"""Links that roll on each other, with the entry points of two tendons; all joints' contact frames in one call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.geometry import se2
from continuum_robot.mechanisms.rolling_joint.problems import IntersectingSurfacesError, OffSurfaceError, SurfaceError
from continuum_robot.mechanisms.rolling_joint.surfaces import Surface, evaluate, with_curvature

Array = NDArray[np.float64]

TENDONS = ("left", "right")
_PIVOT_FRACTION = 1e-9


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


class Linkage:
    """n links in a chain: link 1 is the base, joint k is between link k and link k + 1.

    Parameters
    ----------
    links : two or more

    Attributes
    ----------
    links : as given
    joint_count : n - 1
    limits_m : arc lengths between which each joint can roll, shape (n - 1, 2), m
    entries_m : for each joint the left and right entry point of the lower link's child side, then those of the upper
        link's parent side; shape (8, n - 1), m
    channel_length_m : length of both tendons inside of all links, shape (2,), m: the first sum of ha (28)
    size_m : mean distance of the entry points of a joint, which makes moments comparable with tensions, m

    Raises
    ------
    ParameterError : fewer than two links, or entry points of another shape
    IntersectingSurfacesError : surfaces of a joint that cut into each other where they touch
    SurfaceError : surfaces of a joint without common arc lengths
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
        lower, upper = self.links[:-1], self.links[1:]
        children, parents = [link.child for link in lower], [link.parent for link in upper]
        pairs = list(zip(children, parents, strict=True))
        self.limits_m = np.array(
            [[max(a.limits_m[0], b.limits_m[0]), min(a.limits_m[1], b.limits_m[1])] for a, b in pairs]
        )
        for number, ((a, b), (low, high)) in enumerate(zip(pairs, self.limits_m, strict=True), start=1):
            if not low < 0 < high:
                raise SurfaceError(f"surfaces of joint {number}", (low, high), "common arc lengths around 0")
            _check_rolling(number, a, b, low, high)
        self._low, self._high = self.limits_m.T.copy()
        self.entries_m = np.concatenate(
            [
                np.array([link.child_entries_m.ravel() for link in lower]).T,
                np.array([link.parent_entries_m.ravel() for link in upper]).T,
            ]
        )
        self.channel_length_m = np.sum(
            [np.linalg.norm(link.child_entries_m - link.parent_entries_m, axis=1) for link in self.links], axis=0
        )
        apart = [link.child_entries_m[1] - link.child_entries_m[0] for link in lower]
        self.size_m = float(np.mean(np.linalg.norm(apart, axis=1)))
        surfaces = [*children, *parents]
        # One search for all surfaces: each table is moved to a stretch of its own.
        reach = 2 * max(max(abs(end) for end in surface.limits_m) for surface in surfaces)
        self._shift = 2 * reach * np.arange(len(surfaces))
        self._ends = np.concatenate(
            [surface.knots_m[:-1] + shift for surface, shift in zip(surfaces, self._shift, strict=True)]
        )
        self._starts = np.concatenate([surface.knots_m[:-1] for surface in surfaces])
        self._table = with_curvature(np.concatenate([surface.coefficients for surface in surfaces]))
        offsets = np.cumsum([0] + [len(surface.knots_m) - 1 for surface in surfaces])
        self._first, self._last = offsets[:-1], offsets[1:] - 1

    def frames(self, contact_m: Array) -> Array:
        """Contact frames of all joints, without a check of the arc lengths.

        Parameters
        ----------
        contact_m : arc length of each joint's contact, shape (n - 1,), m

        Returns
        -------
        shape (8, n - 1): x, y, heading, curvature of the lower link's child surface in its body frame, then of the
        upper link's parent surface in its own
        """
        s = np.concatenate([contact_m, contact_m])
        index = np.searchsorted(self._ends, s + self._shift, side="right") - 1
        index = np.minimum(np.maximum(index, self._first), self._last)
        values = evaluate(self._table[index], s - self._starts[index]).T
        return np.concatenate([values[:, : self.joint_count], values[:, self.joint_count :]])

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
        OffSurfaceError : an arc length that is not on both surfaces of its joint
        """
        contact = np.asarray(contact_m, dtype=float)
        if contact.shape != (self.joint_count,):
            raise ParameterError("contact_m", contact.shape, f"shape ({self.joint_count},), one arc length a joint")
        if ((self._low <= contact) & (contact <= self._high)).all():
            return contact
        for number, (s, (low, high)) in enumerate(zip(contact, self.limits_m, strict=True), start=1):
            if not low <= s <= high:
                raise OffSurfaceError(
                    f"contact of joint {number}", float(s), f"on its surfaces, in [{low:g}, {high:g}] m"
                )
        return contact

    def relative_pose(self, frames: Array) -> tuple[Array, Array]:
        """Pose of each joint's upper link in its lower one: T_c T_p^-1 of ha (9).

        Parameters
        ----------
        frames : as :meth:`frames` gives them, shape (8, k)

        Returns
        -------
        angle, shape (k,), rad; and position, shape (k, 2), m
        """
        angle = frames[2] - frames[6]
        turned = np.einsum("kij,jk->ki", se2.rotation(angle), frames[4:6])
        return angle, frames[:2].T - turned

    def poses(self, contact_m: ArrayLike, base: ArrayLike = (0.0, 0.0, 0.0)) -> Array:
        """Poses of all links: ha (9).

        Parameters
        ----------
        contact_m : shape (n - 1,), m
        base : pose of link 1: x (m), y (m), angle (rad)

        Returns
        -------
        x (m), y (m), angle (rad) of each link in the frame in which the base is given, shape (n, 3)

        Raises
        ------
        ParameterError, OffSurfaceError : as :meth:`check_contacts`
        """
        angle, place = self.relative_pose(self.frames(self.check_contacts(contact_m)))
        result = np.empty((self.joint_count + 1, 3))
        result[0] = base
        result[1:, 2] = result[0, 2] + np.cumsum(angle)
        steps = np.einsum("kij,kj->ki", se2.rotation(result[:-1, 2]), place)
        result[1:, :2] = result[0, :2] + np.cumsum(steps, axis=0)
        return result

    def gaps(self, contact_m: ArrayLike) -> Array:
        """Tendons between the links, seen from the lower one: v of ha (13).

        Parameters
        ----------
        contact_m : shape (n - 1,), m

        Returns
        -------
        shape (n - 1, 2, 2): joint, tendon, x and y (m)

        Raises
        ------
        ParameterError, OffSurfaceError : as :meth:`check_contacts`
        """
        angle, place = self.relative_pose(self.frames(self.check_contacts(contact_m)))
        entries = self.entries_m.T.reshape(-1, 2, 2, 2)
        turned = np.einsum("kij,ktj->kti", se2.rotation(angle), entries[:, 1])
        return np.asarray(place[:, None] + turned - entries[:, 0])

    def tendon_lengths(self, contact_m: ArrayLike) -> Array:
        """Length of the left and the right tendon from the base's lower entry to the last link's upper one: ha (28).

        Parameters
        ----------
        contact_m : shape (n - 1,), m

        Returns
        -------
        shape (2,), m

        Raises
        ------
        ParameterError, OffSurfaceError : as :meth:`check_contacts`
        """
        return np.asarray(self.channel_length_m + np.sum(np.linalg.norm(self.gaps(contact_m), axis=-1), axis=0))


def _check_rolling(number: int, child: Surface, parent: Surface, low: float, high: float) -> None:
    """Refuse surfaces that cut into each other: the upper one must bend away from the lower one everywhere.

    The heading of the upper surface then outruns that of the lower one on both sides of any contact, so that they
    cannot meet again before they have turned by half a turn.
    """
    s = np.union1d(child.knots_m, parent.knots_m)
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
