# SPDX-License-Identifier: Apache-2.0
"""How far the page may steer a robot."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from continuum_robot.control.motion import reach
from continuum_robot.robot.description import Robot

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Unit:
    """In which lengths are shown."""

    name: str = "mm"
    per_m: float = 1e3
    digits: int = 2


def unit_of(robot: Robot) -> Unit:
    """Micrometres for a robot whose tip is moved by micrometres, else millimetres."""
    return Unit("µm", 1e6, 1) if robot.traits.shown_in_um else Unit()


@dataclass(frozen=True)
class Reach:
    """Limits of Clarke references from the page."""

    names: tuple[str, ...]
    short_names: tuple[str, ...]
    low_m: Vector
    high_m: Vector
    modes: bool = False


def reach_of(robot: Robot) -> Reach:
    """Limits that suit a robot."""
    parts = max(1, len(robot.part_names))
    low, high = reach(robot)
    names = robot.traits.coordinate_names or tuple(
        f"{part} {axis}" for part in robot.part_names for axis in ("q_Re", "q_Im")
    )
    short = names
    if not robot.traits.coordinate_names and parts > 1:
        short = tuple(f"{axis},{k + 1}" for k in range(parts) for axis in ("q_Re", "q_Im"))
    return Reach(names, short, low, high, modes=robot.control is not None and robot.control.modes > 0)


def slider_step(span: float) -> float:
    """Step of a slider that a reader can read: 1, 2 or 5 times a power of ten, 100 to 250 steps."""
    decade = 10.0 ** math.floor(math.log10(span / 100.0))
    return float(max(step * decade for step in (1.0, 2.0, 5.0) if step * decade <= span / 100.0 * (1 + 1e-9)))


def on_step(value: float, step: float) -> float:
    """The multiple of a step at a value or just below it in magnitude."""
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    return round(math.trunc(value / step * (1 + 1e-9)) * step, digits)
