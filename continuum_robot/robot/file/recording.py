# SPDX-License-Identifier: Apache-2.0
"""Recorded data: which column is which tendon, where the tracked marker sits."""

from __future__ import annotations

from dataclasses import dataclass

from continuum_robot.robot.schema import quantity


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """How columns of recorded data map to this robot, and where the tracked marker sits."""

    displacement_columns: tuple[str, ...] = quantity("column of each tendon's displacement in mm, in tendon order")
    displacement_signs: tuple[float, ...] = quantity("+1: the column counts pulling in positive", ge=-1, le=1)
    marker_in_tip_m: tuple[float, ...] = quantity(
        "marker in the tip frame", default=(0.0, 0.0, 0.0), length=3, ge=-1, le=1
    )
    base_in_tracker_m: tuple[float, ...] = quantity(
        "origin of the base frame in the tracker's", default=(0.0, 0.0, 0.0), length=3, ge=-100, le=100
    )
    base_rotation_in_tracker_rad: tuple[float, ...] = quantity(
        "rotation vector of the base frame in the tracker's", default=(0.0, 0.0, 0.0), length=3, ge=-7, le=7
    )
