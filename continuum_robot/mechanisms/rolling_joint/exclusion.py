# SPDX-License-Identifier: Apache-2.0
"""All equilibria of a mechanism under given tensions and constant loads, or the proof that there is none.

From the tip to the base there is one unknown only. With the heading of the last link given, the direction of the
loads in it is known, and the moment about the last contact, which has to vanish, depends on the arc length of that
contact alone. The contact gives the heading of the link below, and so on, down to the base, whose heading is known.
So the headings of the last link are cut into intervals; of each follow intervals of arc lengths, and of the heading
that the base would have. Where no arc length on a surface is left, or the base's true heading is not among them,
there is no equilibrium with such a heading; what cannot be excluded is cut further.
Derived here from the balance of moments in ha (10), with interval arithmetic.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from continuum_robot.mechanisms.rolling_joint.linkage import Linkage

Array = NDArray[np.float64]

_CELLS = 400
"""Cells over the arc lengths that are still possible: the fewer are left, the finer they are."""
_SAMPLES = 4
_WIDENED = 1.25
"""A cell's values are bounded by samples, and their spread widened by this factor for what lies between them."""
_SMALLEST_RAD = 1e-7
_FIRST = 256
_BATCH = 256
_MANY = 4096


@dataclass(frozen=True, slots=True)
class Remainder:
    """What could not be excluded.

    Attributes
    ----------
    contact_m : middles of the arc lengths that are left for intervals of the last link's heading, shape (k, n - 1), m;
        none: there is no equilibrium
    intervals : number of intervals looked at
    """

    contact_m: Array
    intervals: int

    @property
    def is_empty(self) -> bool:
        """Whether every pose within the surfaces was excluded."""
        return not len(self.contact_m)


class _Bounds:
    """Bounds over cells of arc length, for each joint: middle and half width."""

    def __init__(self, linkage: Linkage, pull: Array, low: Array, high: Array) -> None:
        fractions = np.arange(_CELLS * _SAMPLES + 1) / (_CELLS * _SAMPLES)
        self.low, self.high = low, high
        s = low[:, None] + (high - low)[:, None] * fractions
        frames = np.stack([linkage.frames(column) for column in s.T], -1)
        # At the right end of a cell before a jump of curvature nothing jumps: only positions and headings are used.
        values = [frames[2] - frames[6], *_places(frames), _tendon_moment(linkage, frames, pull), s]
        self.heading, self.x, self.y, self.parent_x, self.parent_y, self.moment, self.contact = (
            _over_cells(value, _CELLS) for value in values
        )


def remainder(
    linkage: Linkage, pull_n: Array, loads: Array, base_heading_rad: float = 0.0, width_rad: float = _SMALLEST_RAD
) -> Remainder:
    """Exclude all that can be excluded.

    Parameters
    ----------
    linkage : the mechanism
    pull_n : tension of both tendons at each joint, shape (2, n - 1), N
    loads : matrix of :func:`continuum_robot.mechanisms.rolling_joint.loads.load_matrix`
    base_heading_rad : heading of link 1, rad
    width_rad : width of an interval of heading at which to stop, rad

    Returns
    -------
    the arc lengths that are left
    """
    bounds = _Bounds(linkage, pull_n, *linkage.limits_m.T)
    least = base_heading_rad + np.sum((bounds.heading[0] - bounds.heading[1]).min(axis=1))
    most = base_heading_rad + np.sum((bounds.heading[0] + bounds.heading[1]).max(axis=1))
    edges = np.linspace(least, most, _FIRST + 1)
    middles, half = (edges[:-1] + edges[1:]) / 2, (edges[1] - edges[0]) / 2
    looked_at = 0
    while True:
        alive, contact, radius = (
            np.concatenate(part)
            for part in zip(
                *(
                    _walk(bounds, middles[start : start + _BATCH], half, loads, base_heading_rad)
                    for start in range(0, len(middles), _BATCH)
                ),
                strict=True,
            )
        )
        looked_at += len(middles)
        middles, contact, radius = middles[alive], contact[alive], radius[alive]
        if not len(middles) or 2 * half < width_rad or len(middles) > _MANY:
            return Remainder(contact, looked_at)
        low, high = (contact - radius).min(axis=0), (contact + radius).max(axis=0)
        if np.any(high - low < (bounds.high - bounds.low) / 2):
            bounds = _Bounds(linkage, pull_n, np.maximum(low, bounds.low), np.minimum(high, bounds.high))
        half = half / 2
        middles = np.concatenate([middles - half, middles + half])


def _walk(
    bounds: _Bounds, middles: Array, half: float, loads: Array, base_rad: float
) -> tuple[NDArray[np.bool_], Array, Array]:
    """From the tip to the base: which intervals of heading are left, and middles and half widths of their contacts."""
    count, joints = len(middles), loads.shape[1]
    heading = (middles.copy(), np.full(count, half))
    moment, force_x, force_y = (np.zeros(count), np.zeros(count)), (np.zeros(count),) * 2, (np.zeros(count),) * 2
    alive = np.ones(count, dtype=bool)
    contact, spread = np.zeros((count, joints)), np.zeros((count, joints))
    for joint in range(joints - 1, -1, -1):
        load = loads[:, joint]
        cosine, sine = (np.cos(heading[0]), heading[1]), (np.sin(heading[0]), heading[1])
        moment = _sum(moment, _scaled(cosine, load[3]), _scaled(sine, -load[4]), (np.array(load[2] + load[5]), 0.0))
        force_x = _sum(force_x, _scaled(cosine, load[6]), _scaled(sine, -load[7]), (np.array(load[0]), 0.0))
        force_y = _sum(force_y, _scaled(sine, load[6]), _scaled(cosine, load[7]), (np.array(load[1]), 0.0))
        across, along = _in_link(cosine, sine, force_x, force_y)
        px, py = _row(bounds.parent_x, joint), _row(bounds.parent_y, joint)
        # Moment about the contact: that of the tendons, and of all loads beyond it.
        lever = _difference(_product(px, _column(across)), _product(py, _column(along)))
        middle, radius = _sum(_row(bounds.moment, joint), _column(moment), _scaled(lever, -1.0))
        possible = np.abs(middle) <= radius
        alive &= possible.any(axis=1)
        contact[:, joint], spread[:, joint] = _hull(bounds.contact, joint, possible)
        before = _hull(bounds.heading, joint, possible)
        heading = _difference(heading, before)
        cosine, sine = (np.cos(heading[0]), heading[1]), (np.sin(heading[0]), heading[1])
        across, along = _in_link(cosine, sine, force_x, force_y)
        x, y = _hull(bounds.x, joint, possible), _hull(bounds.y, joint, possible)
        moment = _sum(moment, _difference(_product(x, across), _product(y, along)))
    alive &= np.abs(heading[0] - base_rad) <= heading[1]
    return alive, contact, spread


Interval = tuple[Array, Array]


def _in_link(cosine: Interval, sine: Interval, force_x: Interval, force_y: Interval) -> tuple[Interval, Interval]:
    """Component y, then x, in a link's frame, of a force in the world."""
    across = _difference(_product(cosine, force_y), _product(sine, force_x))
    along = _sum(_product(cosine, force_x), _product(sine, force_y))
    return across, along


def _places(frames: Array) -> tuple[Array, Array, Array, Array]:
    """Place of the upper link in the lower one, then of the contact in the upper one; each (n - 1, samples)."""
    angle = frames[2] - frames[6]
    cosine, sine = np.cos(angle), np.sin(angle)
    x = frames[0] - cosine * frames[4] + sine * frames[5]
    y = frames[1] - sine * frames[4] - cosine * frames[5]
    return x, y, frames[4], frames[5]


def _tendon_moment(linkage: Linkage, frames: Array, pull: Array) -> Array:
    """Moment of both tendons on the upper link about the contact, counter-clockwise, shape (n - 1, samples), N.m."""
    x, y, contact_x, contact_y = _places(frames)
    angle = frames[2] - frames[6]
    cosine, sine = np.cos(angle), np.sin(angle)
    total = np.zeros(x.shape)
    for tendon in range(2):
        hole_x, hole_y, seat_x, seat_y = linkage.entries_m[
            [2 * tendon, 2 * tendon + 1, 4 + 2 * tendon, 5 + 2 * tendon]
        ][:, :, None]
        to_x, to_y = hole_x - x, hole_y - y
        wx, wy = cosine * to_x + sine * to_y - seat_x, cosine * to_y - sine * to_x - seat_y
        length = np.hypot(wx, wy)
        safe = np.where(length > 0, length, 1.0)
        moment = ((seat_x - contact_x) * wy - (seat_y - contact_y) * wx) / safe
        total += pull[tendon][:, None] * moment
    return total


def _over_cells(values: Array, cells: int) -> Interval:
    """Middle and half width of samples over cells, shape (n - 1, cells)."""
    inner = values[:, :-1].reshape(len(values), cells, _SAMPLES)
    last = values[:, _SAMPLES::_SAMPLES]
    high, low = np.maximum(inner.max(axis=2), last), np.minimum(inner.min(axis=2), last)
    return (high + low) / 2, _WIDENED * (high - low) / 2 + 1e-13 * np.abs(values).max()


def _hull(interval: Interval, joint: int, possible: NDArray[np.bool_]) -> Interval:
    """The interval that holds those of all possible cells; shape (count,) each."""
    middle, radius = interval[0][joint], interval[1][joint]
    low = np.where(possible, middle - radius, np.inf).min(axis=1)
    high = np.where(possible, middle + radius, -np.inf).max(axis=1)
    found = possible.any(axis=1)
    low, high = np.where(found, low, 0.0), np.where(found, high, 0.0)
    return (low + high) / 2, (high - low) / 2


def _row(interval: Interval, joint: int) -> Interval:
    return interval[0][joint], interval[1][joint]


def _column(interval: Interval) -> Interval:
    return interval[0][:, None], interval[1][:, None]


def _sum(*terms: tuple[Array, Array | float]) -> Interval:
    return sum((term[0] for term in terms), np.zeros(())), sum((np.asarray(term[1]) for term in terms), np.zeros(()))


def _difference(a: Interval, b: Interval) -> Interval:
    return a[0] - b[0], a[1] + b[1]


def _scaled(a: Interval, factor: float) -> Interval:
    return a[0] * factor, a[1] * abs(factor)


def _product(a: Interval, b: Interval) -> Interval:
    return a[0] * b[0], np.abs(a[0]) * b[1] + np.abs(b[0]) * a[1] + a[1] * b[1]
