# SPDX-License-Identifier: Apache-2.0
"""Colours of the page: tensions on a scale, and one for each curve."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.robot.description import Robot

Color = tuple[int, int, int]

_LEAST_FRACTION = 0.2

UNKNOWN: Color = (150, 150, 155)
ACTUAL: Color = (60, 64, 75)
DISK: Color = (176, 182, 196)
OBSTACLE: Color = (120, 130, 150)
DESIRED: Color = (40, 120, 220)
CONTACT: Color = (225, 40, 30)
PUSH: Color = (150, 70, 200)
TRAIL: Color = (240, 150, 20)

CURVES = (
    "#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf", "#8c564b", "#e377c2", "#7f7f7f", "#bcbd22",
)  # fmt: skip

# From slack to the end of the scale: readable without red against green.
_STOPS = np.array([[52, 92, 190], [40, 165, 200], [120, 190, 90], [245, 180, 40], [215, 45, 35]], dtype=float)


def largest_limit_n(robot: Robot) -> float:
    """The largest tension that the robot's limits allow, N; 1 without limits."""
    return robot.limits.largest("maximum_n", robot.tendon_count) if robot.limits is not None else 1.0


def scale_end(largest_n: float, limit_n: float) -> float:
    """Upper end of the tensions' scale: the next of 1, 2, 5, ... above the largest, from a fifth of the limit to it."""
    if not math.isfinite(largest_n) or largest_n <= 0:
        return limit_n
    desired = max(largest_n, _LEAST_FRACTION * limit_n)  # a slack robot is not to look as if it were about to tear
    decade = 10.0 ** math.floor(math.log10(desired))
    rounded = next(step * decade for step in (1.0, 2.0, 5.0, 10.0) if step * decade >= desired * (1 - 1e-9))
    return min(rounded, limit_n)


def tension_colors(tension_n: ArrayLike, end_n: float) -> NDArray[np.uint8]:
    """Colours of tensions, grey where unknown."""
    tension = np.asarray(tension_n, dtype=float)
    fraction = np.clip(np.nan_to_num(tension) / end_n, 0.0, 1.0) * (len(_STOPS) - 1)
    mixed = np.stack([np.interp(fraction, np.arange(len(_STOPS)), _STOPS[:, channel]) for channel in range(3)], -1)
    mixed[~np.isfinite(tension)] = UNKNOWN
    return mixed.astype(np.uint8)


def css(color: ArrayLike) -> str:
    """A colour, three values from 0 to 255, as CSS writes it."""
    red, green, blue = (int(value) for value in np.asarray(color))
    return f"rgb({red},{green},{blue})"


def scale_css() -> str:
    """The tensions' scale as a gradient of CSS, from slack to its end."""
    return f"linear-gradient(to right, {', '.join(css(stop) for stop in _STOPS)})"
