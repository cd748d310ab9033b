# SPDX-License-Identifier: Apache-2.0
"""Tendons that servos hold at displacements: what lies between a servo and the robot's shape."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from continuum_robot.robot.schema import quantity
from continuum_robot.robot.segments.routing import RoutedPath


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

    @property
    def bends_paths(self) -> bool:
        """Whether tendons run otherwise than their routing states."""
        return self.spiral_rad_per_m != 0 or self.straight_over_m != 0

    def paths(self, routed: Sequence[RoutedPath], middles_m: Sequence[float]) -> tuple[RoutedPath, ...]:
        """Paths of the tendons, by those of their routing."""
        if not self.bends_paths:
            return tuple(routed)
        return tuple(
            replace(
                path,
                spiral_rad_per_m=self.spiral_rad_per_m,
                about_m=(path.start_m + path.end_m) / 2 if math.isnan(middle_m) else middle_m,
                straight_over_m=self.straight_over_m,
            )
            for path, middle_m in zip(routed, middles_m, strict=True)
        )
