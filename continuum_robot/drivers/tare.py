# SPDX-License-Identifier: Apache-2.0
"""Taring of a force sensor: what it measures now counts as nothing from now on."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ParameterError

Vector = NDArray[np.float64]


class Tare:
    """Mean of a number of samples, taken off all that follow."""

    def __init__(self) -> None:
        self.bias: Vector = np.zeros(6)
        self.problem = ""
        self._sum: Vector = np.zeros(6)
        self._desired = self._taken = 0

    @property
    def active(self) -> bool:
        """Whether samples are still being collected."""
        return self._taken < self._desired

    def start(self, samples: int) -> None:
        """Collect as many samples from now on; meanwhile the former bias holds."""
        if samples < 1:
            raise ParameterError("samples", samples, "at least 1")
        self._sum, self._taken, self._desired, self.problem = np.zeros(6), 0, samples, ""

    def stop(self, problem: str) -> None:
        """Give up a tare that is on its way; the former bias stays."""
        if self.active:
            self._desired, self.problem = 0, problem

    def update(self, wrench: Vector) -> None:
        """Take a sample, shape (6,), as measured; an unknown one ends the tare."""
        if not self.active:
            return
        if not np.isfinite(wrench).all():
            self.stop("the sensor gave no valid measurement meanwhile")
            return
        self._sum += wrench
        self._taken += 1
        if not self.active:
            self.bias = self._sum / self._taken
