# SPDX-License-Identifier: Apache-2.0
"""What the sections of all trackers have: where base and tip are in what the tracker sees, and how well it sees."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from continuum_robot.geometry.so3 import matrix_from_quaternion
from continuum_robot.robot.schema import quantity, refuse

Pose = NDArray[np.float64]

_UPRIGHT = (1.0, 0.0, 0.0, 0.0)
_UNIT = 1e-3


def pose_of(position_m: tuple[float, ...], quaternion: tuple[float, ...]) -> Pose:
    """A pose, shape (4, 4)."""
    made = np.eye(4)
    made[:3, :3] = matrix_from_quaternion(np.asarray(quaternion) / math.hypot(*quaternion))
    made[:3, 3] = position_m
    return made


@dataclass(frozen=True, slots=True, kw_only=True)
class MountedTracker:
    """A tracker of something at the tip, in a frame of its own."""

    base_position_m: tuple[float, ...] = quantity(
        "where the robot's base is in the tracker's frame", default=(0.0, 0.0, 0.0), length=3, ge=-10, le=10
    )
    base_quaternion: tuple[float, ...] = quantity(
        "how the robot's base is turned there: w, x, y, z", default=_UPRIGHT, length=4, ge=-1, le=1
    )
    tip_position_m: tuple[float, ...] = quantity(
        "where the robot's tip is in the frame of what is seen at it", default=(0.0, 0.0, 0.0), length=3, ge=-1, le=1
    )
    tip_quaternion: tuple[float, ...] = quantity(
        "how the robot's tip is turned there: w, x, y, z", default=_UPRIGHT, length=4, ge=-1, le=1
    )
    latency_s: float = quantity("age of a pose when it can be read at the earliest", default=0.02, ge=0, le=0.5)
    sigma_m: float = quantity("standard deviation of a position in each axis", default=2.5e-4, gt=0, le=0.1)
    sigma_rad: float = quantity("standard deviation of a turn about each axis", default=1e-2, gt=0, le=1)

    def __post_init__(self) -> None:
        for key in ("base_quaternion", "tip_quaternion"):
            if abs(math.hypot(*getattr(self, key)) - 1) > _UNIT:
                raise refuse(key, getattr(self, key), "four numbers whose squares add up to 1")

    def tip_in_base(self, seen: Pose, base: Pose | None = None) -> Pose:
        """Pose of the tip in the robot's base frame, shape (4, 4)."""
        stands = pose_of(self.base_position_m, self.base_quaternion)
        if base is not None:
            stands = base @ stands
        found: Pose = np.linalg.inv(stands) @ seen @ pose_of(self.tip_position_m, self.tip_quaternion)
        return found
