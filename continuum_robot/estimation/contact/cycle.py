# SPDX-License-Identifier: Apache-2.0
"""What one cycle gives an observer of contacts, and what that finds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.estimation.contact.disturbance_observer import StateTerms
from continuum_robot.estimation.contact.driven_rod import Drives
from continuum_robot.estimation.contact.error_budget import Budget

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class CycleInput:
    """What one update was given.

    Attributes
    ----------
    c, rate : coordinates of the rod and their rates, (n,), 1/m and 1/(m.s) for curvatures
    noise, rate_noise : covariances of their noise, (n, n)
    drives : what the drives do
    other : generalised force of everything else that is known, (n,), N.m^2
    c_acceleration : (n,), 1/(m.s^2); None where it is not known
    dt : time since the previous update, s
    """

    c: Vector
    rate: Vector
    noise: Vector
    rate_noise: Vector
    drives: Drives
    other: Vector
    c_acceleration: ArrayLike | None
    dt: float


@dataclass(frozen=True, slots=True)
class Residual:
    """What an observer finds.

    Attributes
    ----------
    values : generalised force of contacts and of what the model is wrong by, (n,), N.m^2
    errors : of it
    c : coordinates that it holds for, (n,), 1/m for curvatures
    model : at those
    invalid_reason : why there is none any more; empty while all is well
    spread : the observer's own covariance, (n, n), where it states one
    named_values : more numbers of an observer, by name
    """

    values: Vector
    errors: Budget
    c: Vector
    model: StateTerms
    invalid_reason: str
    spread: Vector | None = None
    named_values: Mapping[str, float] = field(default_factory=dict)
