# SPDX-License-Identifier: Apache-2.0
"""Tendons that servos hold at displacements: what lies between a servo and the robot's shape."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.robot.schema import quantity, refuse
from continuum_robot.robot.segments.routing import Places, RoutedPath

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class DisplacedPath(RoutedPath):
    """A path that turns about the backbone besides its routing, and runs straight from disk to disk.

    Attributes
    ----------
    spiral_rad_per_m : turn about the backbone
    about_m : arc length at which it is on its routing, m
    straight_over_m : distance between disks, m
    """

    spiral_rad_per_m: float = 0.0
    about_m: float = 0.0
    straight_over_m: float = 0.0

    @property
    def parallel(self) -> bool:
        """Whether it stays parallel to the backbone."""
        return self.routing.parallel and not self.spiral_rad_per_m

    @property
    def chord_m2(self) -> float:
        """What it is shorter by than along the backbone, per length and squared curvature, to first order, m^2."""
        return self.straight_over_m**2 / 24

    def at(self, s_m: ArrayLike) -> Places:
        """As of :class:`RoutedPath`."""
        s = np.atleast_1d(np.asarray(s_m, dtype=float))
        x, y, x_rate, y_rate = self.routing.at(s - self.start_m, self.length_m, self.pitch_radius_m, self.angle_rad)
        turn = self.spiral_rad_per_m * (s - self.about_m)
        cosine, sine = np.cos(turn), np.sin(turn)
        here, up = cosine * x - sine * y, sine * x + cosine * y
        rates = cosine * x_rate - sine * y_rate, sine * x_rate + cosine * y_rate
        return here, up, rates[0] - self.spiral_rad_per_m * up, rates[1] + self.spiral_rad_per_m * here

    def turned_rad(self, s_m: Vector) -> Vector:
        """As of :class:`RoutedPath`."""
        own = self.routing.turn_rates(s_m - self.start_m, self.length_m, self.pitch_radius_m, self.angle_rad)
        rates = own + abs(self.spiral_rad_per_m)
        return np.concatenate([[0.0], np.cumsum(np.diff(s_m) * (rates[1:] + rates[:-1]) / 2)])


@dataclass(frozen=True, slots=True, kw_only=True)
class DisplacedTendons:
    """Stretch, zero, friction and way of tendons driven by displacement; lists in tendon order."""

    stiffness_n_per_m: tuple[float, ...] = quantity("tension per stretch of a tendon and its drive", gt=0, le=1e12)
    zero_m: tuple[float, ...] = quantity(
        "stretch of a tendon at reading 0 on the straight robot; negative: slack", ge=-0.1, le=0.1
    )
    gain: tuple[float, ...] = quantity("tendon spooled over what the servo reads", gt=0, le=10)
    friction_fraction: tuple[float, ...] = quantity(
        "fraction of its tension that friction in the robot takes up before the tendon slides", ge=0, lt=1
    )
    spiral_rad_per_m: float = quantity(
        "turn of all tendons about the backbone from base to tip, counter-clockwise seen from the tip; the angles are "
        "those in the middle of a segment",
        default=0.0,
        ge=-100,
        le=100,
    )
    straight_over_m: float = quantity(
        "distance between disks, over which tendons run straight while the backbone bends; 0: they follow it",
        default=0.0,
        ge=0,
        le=1,
    )

    def check_count(self, tendon_count: int) -> None:
        """Refuse lists that do not have one value for each of ``tendon_count`` tendons (RobotFileError)."""
        for key in ("stiffness_n_per_m", "zero_m", "gain", "friction_fraction"):
            if len(getattr(self, key)) != tendon_count:
                raise refuse(
                    f"displaced_tendons.{key}", len(getattr(self, key)), f"{tendon_count} values, one a tendon"
                )

    @property
    def bends_paths(self) -> bool:
        """Whether tendons run otherwise than their routing states."""
        return self.spiral_rad_per_m != 0 or self.straight_over_m != 0

    def paths(self, routed: Sequence[RoutedPath], middles_m: Sequence[float]) -> tuple[RoutedPath, ...]:
        """Paths of the tendons, by those of their routing.

        Parameters
        ----------
        routed : of all tendons
        middles_m : arc length of the middle of each tendon's own segment, m; NaN: of its path
        """
        if not self.bends_paths:
            return tuple(routed)
        return tuple(
            DisplacedPath(
                name=path.name,
                start_m=path.start_m,
                end_m=path.end_m,
                pitch_radius_m=path.pitch_radius_m,
                angle_rad=path.angle_rad,
                routing=path.routing,
                spiral_rad_per_m=self.spiral_rad_per_m,
                about_m=(path.start_m + path.end_m) / 2 if math.isnan(middle_m) else middle_m,
                straight_over_m=self.straight_over_m,
            )
            for path, middle_m in zip(routed, middles_m, strict=True)
        )
