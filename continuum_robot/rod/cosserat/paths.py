# SPDX-License-Identifier: Apache-2.0
"""Routing of tendons in the cross-section: x(s), y(s) with two derivatives, in pieces on which they are smooth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.polynomial import Polynomial
from numpy.typing import NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.robot.segments.routing import RoutedPath

Vector = NDArray[np.float64]

_DIFFERENCE_FRACTION = 1e-5  # of a path's length: rounding and the neglected derivatives are alike small
_BEFORE_KINK = 1e-12


class TendonPath(Protocol):
    """A path through the cross-sections, rucker (8)."""

    @property
    def kinks_m(self) -> tuple[float, ...]:
        """Arc lengths at which the slope of x(s) or y(s) jumps, m."""

    def at(self, s_m: Vector, inside_m: float, /) -> Vector:
        """Place and derivatives."""


@dataclass(frozen=True, slots=True)
class PolarPath:
    """x = r(s) cos psi(s), y = r(s) sin psi(s): straight, helical, converging, and rucker (28)."""

    radius_m: tuple[float, ...]
    angle_rad: tuple[float, ...] = (0.0,)

    def __post_init__(self) -> None:
        for name, values in (("radius_m", self.radius_m), ("angle_rad", self.angle_rad)):
            if not values or not np.all(np.isfinite(values)):
                raise ParameterError(name, values, "one finite coefficient or more")

    @property
    def kinks_m(self) -> tuple[float, ...]:
        """None: polynomials are smooth."""
        return ()

    def at(self, s_m: Vector, _inside_m: float, /) -> Vector:
        """r, r', r'' at arc lengths, shape (k, 6): see :class:`TendonPath`."""
        radius, angle = Polynomial(self.radius_m), Polynomial(self.angle_rad)
        r, r_1, r_2 = radius(s_m), radius.deriv()(s_m), radius.deriv(2)(s_m)
        psi_1, psi_2 = angle.deriv()(s_m), angle.deriv(2)(s_m)
        cosine, sine = np.cos(angle(s_m)), np.sin(angle(s_m))
        radial, around = r_2 - r * psi_1**2, 2 * r_1 * psi_1 + r * psi_2
        return np.stack(
            [
                r * cosine,
                r * sine,
                r_1 * cosine - r * psi_1 * sine,
                r_1 * sine + r * psi_1 * cosine,
                radial * cosine - around * sine,
                radial * sine + around * cosine,
            ],
            axis=-1,
        )


@dataclass(frozen=True, slots=True)
class HolePath:
    """Straight from hole to hole of the disks: x(s), y(s) piecewise linear, constant beyond the first and last hole."""

    arc_length_m: tuple[float, ...]
    x_m: tuple[float, ...]
    y_m: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.arc_length_m or np.any(np.diff(self.arc_length_m) <= 0):
            raise ParameterError("arc_length_m", self.arc_length_m, "one arc length or more, increasing")
        for name, values in (("x_m", self.x_m), ("y_m", self.y_m)):
            if len(values) != len(self.arc_length_m) or not np.all(np.isfinite(values)):
                raise ParameterError(name, values, f"{len(self.arc_length_m)} finite numbers")

    @property
    def kinks_m(self) -> tuple[float, ...]:
        """The holes."""
        return self.arc_length_m

    def at(self, s_m: Vector, inside_m: float, /) -> Vector:
        """r, r', r'' at arc lengths, shape (k, 6): see :class:`TendonPath`."""
        holes = np.array(self.arc_length_m)
        result = np.zeros((len(s_m), 6))
        piece = int(np.searchsorted(holes, inside_m)) - 1
        for column, values in enumerate((self.x_m, self.y_m)):
            slope = 0.0
            if 0 <= piece < len(holes) - 1:
                slope = (values[piece + 1] - values[piece]) / (holes[piece + 1] - holes[piece])
            nearest = min(max(piece, 0), len(holes) - 1)
            result[:, column] = values[nearest] + slope * (s_m - holes[nearest])
            result[:, 2 + column] = slope
        return result


@dataclass(frozen=True, slots=True)
class DifferencedPath:
    """A path of any routing, which gives one derivative; the second by central differences."""

    path: RoutedPath

    @property
    def kinks_m(self) -> tuple[float, ...]:
        """Of the path."""
        return self.path.kinks_m

    def at(self, s_m: Vector, inside_m: float, /) -> Vector:
        """r, r', r'' at arc lengths, shape (k, 6): see :class:`TendonPath`."""
        step_m, ends = _DIFFERENCE_FRACTION * self.path.length_m, [self.path.start_m, *self.kinks_m, self.path.end_m]
        low_m = max([end for end in ends if end <= inside_m], default=ends[0])
        high_m = min([end for end in ends if end > inside_m], default=ends[-1])
        high_m -= _BEFORE_KINK * self.path.length_m  # where the slopes are still those before it
        s_m = np.clip(s_m, low_m, high_m)
        centre = np.clip(s_m, low_m + step_m, high_m - step_m)
        # Derivative of the parabola through three slopes, at the centre or at its end.
        before, here, after = (np.array(self.path.at(centre + shift)[2:]) for shift in (-step_m, 0.0, step_m))
        second = (after - before) / (2 * step_m) + (s_m - centre) * (after - 2 * here + before) / step_m**2
        return np.concatenate([np.array(self.path.at(s_m)), second]).T
