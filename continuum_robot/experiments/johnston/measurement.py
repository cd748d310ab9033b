# SPDX-License-Identifier: Apache-2.0
"""What johnston's robot measures: capstan torque from the commanded current, and how circular its bending is.

The paper takes the torque of a capstan from the commanded current by the torque constant, the rated efficiency of motor
and gearhead and the reduction (section 10), and names the difference to the actual torque as a source of error, without
a number. Two parts of it follow from the method: a constant factor of each capstan, since torque constant and
efficiency differ from their ratings, and the direction of the power. Where the motor drives, the gear takes the
fraction 1 - efficiency from its torque; where the load drives the motor, the gear helps to hold, the current is lower,
and the estimate is efficiency^2 of the actual torque.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from continuum_robot.robot.segments.segment import Segment
from continuum_robot.rod.bases import BENDING_ROWS, basis_matrix

Array = NDArray[np.float64]

_TURNING_RAD_PER_S = 0.05  # below, the friction of the gear changes its side
_PLACES = 31


class CommandedCurrent:
    """Torque of capstans as the commanded current gives it."""

    def __init__(self, count: int, constant_error: float, efficiency: float, rng: np.random.Generator) -> None:
        self._factor = 1 + constant_error * rng.choice([-1.0, 1.0], count)
        self._loss = 1 - efficiency**2

    def read(self, torque: Array, speed: Array) -> Array:
        """The estimate."""
        driven_by_load = (1 - np.tanh(np.sign(torque) * speed / _TURNING_RAD_PER_S)) / 2
        return np.asarray(self._factor * torque * (1 - self._loss * driven_by_load))


def curvature_range(segment: Segment, c: Array) -> tuple[Array, Array]:
    """Largest curvature along a segment, and its range, the measure of circularness: johnston (73)."""
    matrix = np.array([basis_matrix(segment.basis, ratio)[BENDING_ROWS, :] for ratio in np.linspace(0, 1, _PLACES)])
    u = np.einsum("pij,kj->kpi", matrix, np.atleast_2d(c))
    return np.abs(u).max(axis=1), u.max(axis=1) - u.min(axis=1)  # johnston (73)
