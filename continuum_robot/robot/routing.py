# SPDX-License-Identifier: Apache-2.0
"""Paths of tendons and strings in the cross-section: x_j(s), y_j(s) of rucker (8), chosen in the robot's file.

A path begins at the polar place (pitch radius, angle) that its tendon or string has in the file; the routing reports
how it goes on from there. Arc lengths s count from the start of the tendon or string.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.robot.schema import quantity, refuse

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class StraightRouting:
    """Parallel to the backbone."""

    kind: str = quantity("parallel to the backbone", default="straight", choices=("straight",))


@dataclass(frozen=True, slots=True, kw_only=True)
class HelicalRouting:
    """A helix at constant distance from the backbone."""

    kind: str = quantity("a helix", default="helical", choices=("helical",))
    turns: float = quantity("turns over the whole path, counter-clockwise seen from the tip", ge=-100, le=100)


@dataclass(frozen=True, slots=True, kw_only=True)
class PolynomialRouting:
    """Angle and distance as polynomials of the arc length, rucker (28)."""

    kind: str = quantity("angle and radius as polynomials", default="polynomial", choices=("polynomial",))
    angle_coefficients: tuple[float, ...] = quantity(
        "of s, s^2, s^3, ... in the angle, in rad/m, rad/m^2, ...", default=(), ge=-1e12, le=1e12
    )
    radius_coefficients: tuple[float, ...] = quantity(
        "of s, s^2, ... in the distance from the backbone, in m/m, m/m^2, ...", default=(), ge=-1e12, le=1e12
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class HolesRouting:
    """Straight lines in the undeformed body from hole to hole; parallel to the backbone before and after them."""

    kind: str = quantity("through holes in disks", default="holes", choices=("holes",))
    arc_lengths_m: tuple[float, ...] = quantity("arc length of each hole from the path's start", "m", ge=0, le=10)
    angles_rad: tuple[float, ...] = quantity(
        "angle of each hole from the path's own angle", "rad", ge=-4 * math.pi, le=4 * math.pi
    )
    radii_m: tuple[float, ...] = quantity(
        "distance of each hole from the backbone; none: the pitch radius", "m", default=(), ge=0, le=1
    )

    def __post_init__(self) -> None:
        if not self.arc_lengths_m or list(self.arc_lengths_m) != sorted(set(self.arc_lengths_m)):
            raise refuse("arc_lengths_m", self.arc_lengths_m, "one or more increasing arc lengths")
        for key, values in (("angles_rad", self.angles_rad), ("radii_m", self.radii_m)):
            if len(values) != len(self.arc_lengths_m) and (values or key == "angles_rad"):
                raise refuse(key, values, f"{len(self.arc_lengths_m)} values, one a hole")


Routing: TypeAlias = StraightRouting | HelicalRouting | PolynomialRouting | HolesRouting


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutedPath:
    """Where one tendon or string runs: rucker (8), with its derivative.

    Attributes
    ----------
    name : for messages
    start_m, end_m : arc lengths from the robot's base between which it runs, m
    pitch_radius_m, angle_rad : polar place in the cross-section at its start
    routing : how it goes on
    """

    name: str
    start_m: float
    end_m: float
    pitch_radius_m: float
    angle_rad: float = 0.0
    routing: Routing = StraightRouting()

    @property
    def parallel(self) -> bool:
        """Whether it stays parallel to the backbone."""
        return isinstance(self.routing, StraightRouting)

    @property
    def kinks_m(self) -> tuple[float, ...]:
        """Arc lengths from the base, inside the path, at which its direction jumps, m."""
        if not isinstance(self.routing, HolesRouting):
            return ()
        return tuple(
            self.start_m + s for s in self.routing.arc_lengths_m if 0 < s < (self.end_m - self.start_m) * (1 - 1e-12)
        )

    def at(self, s_m: ArrayLike) -> tuple[Vector, Vector, Vector, Vector]:
        """The path in the cross-section.

        Parameters
        ----------
        s_m : arc lengths from the robot's base, shape (k,), m; meaningful from start_m to end_m

        Returns
        -------
        x, y (m), dx/ds, dy/ds (dimensionless), each of shape (k,); at a kink the derivatives are those after it
        """
        s = np.atleast_1d(np.asarray(s_m, dtype=float)) - self.start_m
        routing, radius, zero = self.routing, self.pitch_radius_m, np.zeros_like(s)
        if isinstance(routing, HolesRouting):
            return self._through_holes(routing, s)
        if isinstance(routing, HelicalRouting):
            rate = 2 * math.pi * routing.turns / (self.end_m - self.start_m)
            angle, angle_rate, r, r_rate = self.angle_rad + rate * s, zero + rate, zero + radius, zero
        elif isinstance(routing, PolynomialRouting):
            turn = np.polynomial.Polynomial([self.angle_rad, *routing.angle_coefficients])  # rucker (28)
            distance = np.polynomial.Polynomial([radius, *routing.radius_coefficients])
            angle, angle_rate, r, r_rate = turn(s), turn.deriv()(s), distance(s), distance.deriv()(s)
        else:
            angle, angle_rate, r, r_rate = zero + self.angle_rad, zero, zero + radius, zero
        c, d = np.cos(angle), np.sin(angle)
        return r * c, r * d, r_rate * c - r * d * angle_rate, r_rate * d + r * c * angle_rate

    def _through_holes(self, routing: HolesRouting, s: Vector) -> tuple[Vector, Vector, Vector, Vector]:
        angles = self.angle_rad + np.array(routing.angles_rad)
        radii = np.array(routing.radii_m or [self.pitch_radius_m] * len(angles))
        holes, x, y = np.array(routing.arc_lengths_m), radii * np.cos(angles), radii * np.sin(angles)
        piece = np.searchsorted(holes, s, side="right")  # 0 before the first hole, len(holes) after the last
        slopes = [np.concatenate([[0.0], np.diff(v) / np.diff(holes), [0.0]])[piece] for v in (x, y)]
        return np.interp(s, holes, x), np.interp(s, holes, y), slopes[0], slopes[1]

    def largest_radius_m(self, begin_m: float, end_m: float) -> float:
        """Largest distance from the backbone between two arc lengths from the base, sampled and at the kinks, m.

        Parameters
        ----------
        begin_m, end_m : the two arc lengths, m
        """
        low, high = max(begin_m, self.start_m), min(end_m, self.end_m)
        if low > high:
            return 0.0
        inside = [kink for kink in self.kinks_m if low <= kink <= high]
        x, y, _, _ = self.at(np.concatenate([np.linspace(low, high, 257), inside]))
        return float(np.hypot(x, y).max())
