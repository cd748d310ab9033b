# SPDX-License-Identifier: Apache-2.0
"""Paths of tendons and strings in the cross-section: x_j(s), y_j(s) of rucker (8), chosen in the robot's file.

A path begins at the polar place (pitch radius, angle) that its tendon or string has in the file; the routing states
how it goes on from there. Arc lengths s count from the start of the tendon or string.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.polynomial import Polynomial
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.robot.schema import quantity, refuse

MOST_TURNS = 100.0
"""Of a path about the backbone."""
_TURN_PLACES = 257

Vector = NDArray[np.float64]
Places = tuple[Vector, Vector, Vector, Vector]


class TendonRouting(ABC):
    """How a path goes on from its start; a subclass is a frozen dataclass of what the file states.

    Attributes
    ----------
    kind : its name in a robot's file
    """

    __slots__ = ()

    kind: str

    @property
    def parallel(self) -> bool:
        """Whether it stays parallel to the backbone at its start's polar place or another one."""
        return False

    def parallel_place(self, pitch_radius_m: float, angle_rad: float) -> tuple[float, float]:
        """Polar place of a parallel path, if it is not that of its start."""
        return pitch_radius_m, angle_rad

    @abstractmethod
    def at(self, s_m: Vector, length_m: float, pitch_radius_m: float, angle_rad: float) -> Places:
        """The path in the cross-section."""

    def kinks_m(self, _length_m: float) -> tuple[float, ...]:
        """Arc lengths from the path's start, inside the path, at which its direction jumps, m."""
        return ()

    def polar(self, _length_m: float, _pitch_radius_m: float, _angle_rad: float) -> tuple[Vector, Vector] | None:
        """Coefficients of distance (m) and angle (rad) by powers of the arc length (m); None of a path without."""
        return None

    def turn_rates(self, s_m: Vector, length_m: float, pitch_radius_m: float, angle_rad: float) -> Vector:
        """How fast the path's direction turns about the backbone, (k,), rad/m; arguments as of :meth:`at`, increasing.

        Here by differences between the places; quadratures along the path take their nodes by it.
        """
        _, _, x_rate, y_rate = self.at(s_m, length_m, pitch_radius_m, angle_rad)
        turning = np.unwrap(np.where(np.hypot(x_rate, y_rate) > 0, np.arctan2(y_rate, x_rate), 0.0))
        return np.asarray(np.abs(np.gradient(turning, s_m)))

    def corners(self, _pitch_radius_m: float, _angle_rad: float) -> tuple[Vector, Vector, Vector] | None:
        """Arc lengths, x and y between which a path is straight, each (k,), m; None of one that is curved."""
        return None


class PolarRouting(TendonRouting):
    """Angle and distance are polynomials of the arc length."""

    __slots__ = ()

    @abstractmethod
    def polar(self, length_m: float, pitch_radius_m: float, angle_rad: float) -> tuple[Vector, Vector]:
        """Arguments as of :class:`TendonRouting`."""

    def at(self, s_m: Vector, length_m: float, pitch_radius_m: float, angle_rad: float) -> Places:
        """Arguments as of :class:`TendonRouting`."""
        distance, turn = (Polynomial(values) for values in self.polar(length_m, pitch_radius_m, angle_rad))
        r, r_rate, angle_rate = distance(s_m), distance.deriv()(s_m), turn.deriv()(s_m)
        c, d = np.cos(turn(s_m)), np.sin(turn(s_m))
        return r * c, r * d, r_rate * c - r * d * angle_rate, r_rate * d + r * c * angle_rate

    def turn_rates(self, s_m: Vector, length_m: float, pitch_radius_m: float, angle_rad: float) -> Vector:
        """Arguments as of :class:`TendonRouting`."""
        return np.asarray(np.abs(Polynomial(self.polar(length_m, pitch_radius_m, angle_rad)[1]).deriv()(s_m)))


@dataclass(frozen=True, slots=True, kw_only=True)
class StraightRouting(PolarRouting):
    """Parallel to the backbone."""

    kind: str = quantity("parallel to the backbone", default="straight", choices=("straight",))

    @property
    def parallel(self) -> bool:
        """Always."""
        return True

    def polar(self, _length_m: float, pitch_radius_m: float, angle_rad: float) -> tuple[Vector, Vector]:
        """Arguments as of :class:`TendonRouting`."""
        return np.array([pitch_radius_m]), np.array([angle_rad])


@dataclass(frozen=True, slots=True, kw_only=True)
class HelicalRouting(PolarRouting):
    """A helix at constant distance from the backbone."""

    kind: str = quantity("a helix", default="helical", choices=("helical",))
    turns: float = quantity(
        "turns over the whole path, counter-clockwise seen from the tip", ge=-MOST_TURNS, le=MOST_TURNS
    )

    @property
    def parallel(self) -> bool:
        """Without turns."""
        return self.turns == 0

    def polar(self, length_m: float, pitch_radius_m: float, angle_rad: float) -> tuple[Vector, Vector]:
        """Arguments as of :class:`TendonRouting`."""
        return np.array([pitch_radius_m]), np.array([angle_rad, 2 * math.pi * self.turns / length_m])


@dataclass(frozen=True, slots=True, kw_only=True)
class PolynomialRouting(PolarRouting):
    """Angle and distance as polynomials of the arc length, rucker (28)."""

    kind: str = quantity("angle and radius as polynomials", default="polynomial", choices=("polynomial",))
    angle_coefficients: tuple[float, ...] = quantity(
        "of s, s^2, s^3, ... in the angle, in rad/m, rad/m^2, ...", default=(), ge=-1e12, le=1e12
    )
    radius_coefficients: tuple[float, ...] = quantity(
        "of s, s^2, ... in the distance from the backbone, in m/m, m/m^2, ...", default=(), ge=-1e12, le=1e12
    )

    @property
    def parallel(self) -> bool:
        """With all coefficients 0."""
        return not any(self.angle_coefficients) and not any(self.radius_coefficients)

    def polar(self, _length_m: float, pitch_radius_m: float, angle_rad: float) -> tuple[Vector, Vector]:
        """Arguments as of :class:`TendonRouting`; rucker (28)."""
        return np.array([pitch_radius_m, *self.radius_coefficients]), np.array([angle_rad, *self.angle_coefficients])


@dataclass(frozen=True, slots=True, kw_only=True)
class HolesRouting(TendonRouting):
    """Straight lines in the undeformed body from hole to hole; parallel to the backbone before and after them."""

    kind: str = quantity("through holes in disks", default="holes", choices=("holes",))
    arc_lengths_m: tuple[float, ...] = quantity("arc length of each hole from the path's start", ge=0, le=10)
    angles_rad: tuple[float, ...] = quantity(
        "angle of each hole from the path's own angle", ge=-4 * math.pi, le=4 * math.pi
    )
    radii_m: tuple[float, ...] = quantity(
        "distance of each hole from the backbone; none: the pitch radius", default=(), ge=0, le=1
    )

    def __post_init__(self) -> None:
        if not self.arc_lengths_m or list(self.arc_lengths_m) != sorted(set(self.arc_lengths_m)):
            raise refuse("arc_lengths_m", self.arc_lengths_m, "one or more increasing arc lengths")
        for key, values in (("angles_rad", self.angles_rad), ("radii_m", self.radii_m)):
            if len(values) != len(self.arc_lengths_m) and (values or key == "angles_rad"):
                raise refuse(key, values, f"{len(self.arc_lengths_m)} values, one a hole")

    @property
    def parallel(self) -> bool:
        """With all holes at one angle and distance."""
        return len(set(self.angles_rad)) == 1 and len(set(self.radii_m)) <= 1

    def parallel_place(self, pitch_radius_m: float, angle_rad: float) -> tuple[float, float]:
        """Arguments as of :class:`TendonRouting`: that of the holes."""
        turned = math.remainder(angle_rad + self.angles_rad[0], 2 * math.pi) if self.angles_rad[0] else angle_rad
        return self.radii_m[0] if self.radii_m else pitch_radius_m, turned

    def kinks_m(self, length_m: float) -> tuple[float, ...]:
        """Arguments as of :class:`TendonRouting`: the holes."""
        return tuple(s for s in self.arc_lengths_m if 0 < s < length_m * (1 - 1e-12))

    def corners(self, pitch_radius_m: float, angle_rad: float) -> tuple[Vector, Vector, Vector]:
        """Arguments as of :class:`TendonRouting`: the holes."""
        angles = angle_rad + np.array(self.angles_rad)
        radii = np.array(self.radii_m or [pitch_radius_m] * len(angles))
        return np.array(self.arc_lengths_m), radii * np.cos(angles), radii * np.sin(angles)

    def turn_rates(self, s_m: Vector, _length_m: float, _pitch_radius_m: float, _angle_rad: float) -> Vector:
        """Arguments as of :class:`TendonRouting`: straight between its kinks."""
        return np.zeros(len(s_m))

    def at(self, s_m: Vector, _length_m: float, pitch_radius_m: float, angle_rad: float) -> Places:
        """Arguments as of :class:`TendonRouting`."""
        holes, x, y = self.corners(pitch_radius_m, angle_rad)
        piece = np.searchsorted(holes, s_m, side="right")  # 0 before the first hole, len(holes) after the last
        slopes = [np.concatenate([[0.0], np.diff(v) / np.diff(holes), [0.0]])[piece] for v in (x, y)]
        return np.interp(s_m, holes, x), np.interp(s_m, holes, y), slopes[0], slopes[1]


Routing: TypeAlias = StraightRouting | HelicalRouting | PolynomialRouting | HolesRouting
"""The shipped ones; other packages add theirs by the door ``TENDON_ROUTINGS``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutedPath:
    """Where one tendon or string runs: rucker (8), with its derivative."""

    name: str
    start_m: float
    end_m: float
    pitch_radius_m: float
    angle_rad: float = 0.0
    routing: TendonRouting = StraightRouting()
    spiral_rad_per_m: float = 0.0
    about_m: float = 0.0
    straight_over_m: float = 0.0

    def __post_init__(self) -> None:
        if not isinstance(self.routing, TendonRouting):
            raise ParameterError(f"routing of {self.name}", self.routing, "a subclass of robot.routing.TendonRouting")

    @property
    def parallel(self) -> bool:
        """Whether it stays parallel to the backbone."""
        return self.routing.parallel and not self.spiral_rad_per_m

    @property
    def chord_m2(self) -> float:
        """What it is shorter by than along the backbone, per length and squared curvature, to first order, m^2."""
        return self.straight_over_m**2 / 24

    @property
    def length_m(self) -> float:
        """Between its ends along the backbone, m."""
        return self.end_m - self.start_m

    @property
    def kinks_m(self) -> tuple[float, ...]:
        """Arc lengths from the base, inside the path, at which its direction jumps, m."""
        return tuple(self.start_m + s for s in self.routing.kinks_m(self.length_m))

    @property
    def polar(self) -> tuple[Vector, Vector] | None:
        """Arguments as of :class:`TendonRouting`, by arc lengths from the path's start."""
        polar = self.routing.polar(self.length_m, self.pitch_radius_m, self.angle_rad)
        if polar is None or not self.spiral_rad_per_m:
            return polar
        turn = [self.spiral_rad_per_m * (self.start_m - self.about_m), self.spiral_rad_per_m]
        return polar[0], np.asarray(np.polynomial.polynomial.polyadd(polar[1], turn), dtype=float)

    @property
    def corners(self) -> tuple[Vector, Vector, Vector] | None:
        """Arguments as of :class:`TendonRouting`, at arc lengths from the path's start."""
        return None if self.spiral_rad_per_m else self.routing.corners(self.pitch_radius_m, self.angle_rad)

    def at(self, s_m: ArrayLike) -> Places:
        """The path in the cross-section."""
        s = np.atleast_1d(np.asarray(s_m, dtype=float))
        x, y, x_rate, y_rate = self.routing.at(s - self.start_m, self.length_m, self.pitch_radius_m, self.angle_rad)
        if not self.spiral_rad_per_m:
            return x, y, x_rate, y_rate
        turn = self.spiral_rad_per_m * (s - self.about_m)
        cosine, sine = np.cos(turn), np.sin(turn)
        here, up = cosine * x - sine * y, sine * x + cosine * y
        rates = cosine * x_rate - sine * y_rate, sine * x_rate + cosine * y_rate
        return here, up, rates[0] - self.spiral_rad_per_m * up, rates[1] + self.spiral_rad_per_m * here

    def turned_rad(self, s_m: Vector) -> Vector:
        """How far its direction has turned about the backbone since the first of some places, either way, (k,), rad."""
        own = self.routing.turn_rates(s_m - self.start_m, self.length_m, self.pitch_radius_m, self.angle_rad)
        rates = own + abs(self.spiral_rad_per_m)
        return np.concatenate([[0.0], np.cumsum(np.diff(s_m) * (rates[1:] + rates[:-1]) / 2)])

    def largest_radius_m(self, begin_m: float, end_m: float) -> float:
        """Largest distance from the backbone between two arc lengths from the base, sampled and at the kinks, m."""
        low, high = max(begin_m, self.start_m), min(end_m, self.end_m)
        if low > high:
            return 0.0
        inside = [kink for kink in self.kinks_m if low <= kink <= high]
        x, y, _, _ = self.at(np.concatenate([np.linspace(low, high, 257), inside]))
        return float(np.hypot(x, y).max())


def turn_cuts(low_m: float, high_m: float, paths: Sequence[RoutedPath], piece_rad: float) -> Vector:
    """Cut a length of rod so that no path turns about it by more than an angle in a piece."""
    grid = np.linspace(low_m, high_m, _TURN_PLACES)
    turned = np.max([path.turned_rad(grid) for path in paths], axis=0)
    pieces = max(1, math.ceil(turned[-1] / piece_rad - 1e-9))
    inner = np.interp(turned[-1] * np.arange(1, pieces) / pieces, turned, grid)
    return np.concatenate([[low_m], inner, [high_m]])
