# SPDX-License-Identifier: Apache-2.0
"""How motions ended."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class MotionResult:
    """How a motion ended.

    Attributes
    ----------
    clarke_m : measured Clarke coordinates at its end, shape (2m,), m
    error_m : norm of desired less measured coordinates, m
    duration_s : it took, s
    """

    clarke_m: Vector
    error_m: float
    duration_s: float


@dataclass(frozen=True, slots=True)
class TipResult:
    """How a motion of the tip ended.

    Attributes
    ----------
    tip_m : estimated, shape (3,), base frame, m
    goal_m : the reachable point next to the target, shape (3,), base frame, m
    distance_m : from target to goal: how much of it is out of reach, m
    error_m : from goal to tip, m
    reachable : whether goal and target are the same point
    message : what kept it from the target, empty for nothing
    duration_s : it took, s
    """

    tip_m: Vector
    goal_m: Vector
    distance_m: float
    error_m: float
    reachable: bool
    message: str
    duration_s: float
