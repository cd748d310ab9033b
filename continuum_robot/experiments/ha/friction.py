# SPDX-License-Identifier: Apache-2.0
"""Friction of the tendons at the entry points, which ha leaves out.

Source: the capstan law of Euler and Eytelwein, exp(mu angle).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ConvergenceError, ParameterError
from continuum_robot.mechanisms.rolling_joint.linkage import Linkage
from continuum_robot.mechanisms.rolling_joint.loads import Load
from continuum_robot.mechanisms.rolling_joint.statics import Equilibrium, RollingStatics

Array = NDArray[np.float64]

_TOLERANCE = 1e-10
_ROUNDS = 200


def capstan_weights(linkage: Linkage, contact_m: ArrayLike, coefficient: float, direction: ArrayLike) -> Array:
    """Tension between the links relative to that at the base.

    At every entry point the tendon turns by an angle a, and over it the tension changes by exp(-mu a) away from the
    actuator where the tendon is being pulled in, by exp(mu a) where it is paid out.
    """
    sign = np.asarray(direction, dtype=float)
    if not (np.isfinite(coefficient) and coefficient >= 0):
        raise ParameterError("coefficient", coefficient, "a number, 0 or more")
    if sign.shape != (2,) or not np.all(np.isin(sign, (-1.0, 0.0, 1.0))):
        raise ParameterError("direction", direction, "for the left and the right tendon 1, -1 or 0")
    joints = linkage.joints(linkage.check_contacts(contact_m))
    channels = np.array([link.child_entries_m - link.parent_entries_m for link in linkage.links]) @ [1, 1j]
    turned = np.abs(np.angle(joints.gaps_m / channels[:-1].T))
    turned[:, 1:] += np.abs(np.angle(joints.turn * channels[1:].T / joints.gaps_m))[:, :-1]
    return np.asarray(np.exp(-coefficient * sign[:, None] * np.cumsum(turned, axis=1)))


def equilibrium_with_friction(
    statics: RollingStatics,
    tension_n: ArrayLike,
    coefficient: float,
    direction: ArrayLike,
    loads: Sequence[Load] = (),
    *,
    start_m: ArrayLike | None = None,
) -> Equilibrium:
    """The equilibrium with sliding friction of both tendons at all entry points."""
    found = statics.solve_tension(tension_n, loads, start_m=start_m)
    weights = np.ones((2, statics.linkage.joint_count))
    iterations, change = found.iterations, np.inf
    for _ in range(_ROUNDS):
        desired = capstan_weights(statics.linkage, found.contact_m, coefficient, direction)
        change = float(np.abs(desired - weights).max())
        if change < _TOLERANCE:
            return replace(found, iterations=iterations)
        weights = desired
        found = statics.solve_tension(tension_n, loads, start_m=found.contact_m, weights=weights)
        iterations += found.iterations
    raise ConvergenceError("tensions with friction", change, _TOLERANCE, _ROUNDS)
