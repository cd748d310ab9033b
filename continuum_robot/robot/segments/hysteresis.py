# SPDX-License-Identifier: Apache-2.0
"""Hysteretic elasticity of a segment, as its file states it."""

from __future__ import annotations

from dataclasses import dataclass

from continuum_robot.robot.schema import quantity


@dataclass(frozen=True, slots=True, kw_only=True)
class Hysteresis:
    """A bending moment that lags behind the curvature: the loop that a bent backbone leaves, and its tendons in it."""

    moment_nm: float = quantity("moment that it resists with in the end, either way", gt=0, le=1e3)
    curvature_per_m: float = quantity(
        "curvature over which it grows to 63 % of that from rest, and over twice as much after a turn", gt=0, le=1e3
    )
