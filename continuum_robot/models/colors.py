# SPDX-License-Identifier: Apache-2.0
"""Colours with a meaning, the same on the page, in plots and in viewers, and distinct for colour-blind eyes."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.robot.description import Robot

Color: TypeAlias = tuple[int, int, int]

# Okabe and Ito's palette, in the order of use.
SERIES: tuple[Color, ...] = (
    (0, 114, 178), (213, 94, 0), (0, 158, 115), (204, 121, 167), (230, 159, 0), (86, 180, 233),
)  # fmt: skip
MEASURED: Color = (60, 64, 75)
DESIRED: Color = SERIES[0]
CONTACT: Color = SERIES[1]
PUSH: Color = (150, 70, 200)
FAULT: Color = (201, 42, 42)
LIMIT: Color = (127, 127, 127)
TRAIL: Color = (160, 166, 180)
UNKNOWN: Color = (150, 150, 155)
DISK: Color = (176, 182, 196)
OBSTACLE: Color = (120, 130, 150)
AXES: tuple[Color, ...] = ((225, 40, 40), (60, 180, 60), (40, 80, 225))

# From slack to the limit: matplotlib's plasma without its yellow end, which a white page would hide.
_TENSIONS = np.array([[13, 8, 135], [106, 0, 168], [177, 42, 144], [225, 100, 98], [252, 166, 54]], dtype=float)
_SHADES = 0.35  # how far the first segment is darkened, and the last one lightened


def series_colors(count: int) -> tuple[Color, ...]:
    """The first colours of the palette, again from the first where there are more."""
    return tuple(SERIES[k % len(SERIES)] for k in range(count))


def tendon_colors(robot: Robot) -> tuple[Color, ...]:
    """A colour for each tendon: the hue is its number in its segment, lighter from segment to segment."""
    return _shaded([part.stop - part.start for part in robot.tendon_slices])


def coordinate_colors(robot: Robot) -> tuple[Color, ...]:
    """A colour for each Clarke coordinate: Re and Im differ in hue, segments in lightness."""
    pairs, single = divmod(robot.coordinate_count, 2)
    if single or robot.coordinate_count != 2 * len(robot.tendon_slices):
        return series_colors(robot.coordinate_count)
    return _shaded([2] * pairs)


def _shaded(groups: list[int]) -> tuple[Color, ...]:
    shades = np.linspace(-_SHADES, _SHADES, len(groups)) if len(groups) > 1 else [0.0]
    parts = zip(groups, shades, strict=True)
    return tuple(_shade(hue, shade) for count, shade in parts for hue in series_colors(count))


def _shade(color: Color, shade: float) -> Color:
    """A colour mixed with black (-1) or white (1)."""
    mixed = (1 - abs(shade)) * np.array(color) + (255 * shade if shade > 0 else 0)
    red, green, blue = (round(value) for value in mixed.tolist())
    return red, green, blue


def largest_limit_n(robot: Robot) -> float:
    """The largest tension that the robot's limits allow, N; 1 without limits."""
    return robot.limits.largest("maximum_n", robot.tendon_count) if robot.limits is not None else 1.0


def tension_colors(tension_n: ArrayLike, limit_n: ArrayLike) -> NDArray[np.uint8]:
    """Colours of tensions from slack to the limit, by the root so that small ones differ; grey where unknown."""
    tension = np.asarray(tension_n, dtype=float)
    fraction = np.sqrt(np.clip(np.nan_to_num(tension) / limit_n, 0.0, 1.0)) * (len(_TENSIONS) - 1)
    places = np.arange(len(_TENSIONS))
    mixed = np.stack([np.interp(fraction, places, _TENSIONS[:, channel]) for channel in range(3)], -1)
    mixed[~np.isfinite(tension)] = UNKNOWN
    return mixed.astype(np.uint8)


def css(color: ArrayLike) -> str:
    """A colour, three values from 0 to 255, as CSS and matplotlib write it."""
    return "#" + bytes(np.asarray(color, dtype=np.uint8)).hex()


def tension_scale_css() -> str:
    """The scale of :func:`tension_colors` as a gradient of CSS."""
    return f"linear-gradient(to right, {', '.join(css(stop) for stop in _TENSIONS)})"
