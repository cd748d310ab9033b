# SPDX-License-Identifier: Apache-2.0
"""Coefficients that no robot can have: not a number, snapped, frozen while the tensions change."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.estimation.contact.cycle import CycleInput
from continuum_robot.estimation.contact.residual_methods import USUAL_STEP_S
from continuum_robot.estimation.contact.settings import MonitorSettings

Vector = NDArray[np.float64]

_FROZEN_FACTOR = 10.0
# Of what a cycle is given, in the order of :func:`_not_finite`.
_NAMES = (
    "coefficients",
    "coefficient rates",
    "covariance of the coefficients",
    "covariance of the rates",
    "tensions or other forces",
    "time step",
)


class ShapeCheck:
    """Looks at each cycle beside the one before.

    Parameters
    ----------
    stiffness : of the coefficients, (n, n)
    """

    def __init__(self, stiffness: Vector) -> None:
        self._softness = np.linalg.inv(stiffness)
        self.reset()

    def reset(self) -> None:
        """Forget the cycles before."""
        self._last_c: Vector | None = None
        self._frozen_s = 0.0
        self._frozen_load: Vector = np.zeros(len(self._softness))

    def problem(self, cycle: CycleInput, settings: MonitorSettings) -> str:
        """Why a cycle cannot be used; empty where it can.

        Parameters
        ----------
        cycle : the newest
        settings : in use
        """
        reason = _not_finite(cycle) or self._implausible(cycle, settings)
        self._last_c = cycle.c
        return reason

    def _implausible(self, cycle: CycleInput, settings: MonitorSettings) -> str:
        noise, tendons, dt = cycle.noise, cycle.drives.force, cycle.dt
        if self._last_c is None:
            self._frozen_load = tendons
            return ""
        change = np.abs(cycle.c - self._last_c)
        largest = float(change.max())
        # A cycle that took longer shows more motion.
        allowed = settings.jump_per_m * max(1.0, dt / USUAL_STEP_S)
        if largest > allowed and largest > allowed + 10 * math.sqrt(noise.max()):
            return f"coefficient {int(np.argmax(change))} jumped by {largest:.3g} 1/m within a cycle"
        if largest > 0:
            self._frozen_s, self._frozen_load = 0.0, tendons
            return ""
        self._frozen_s += dt
        expected = np.abs(self._softness @ (tendons - self._frozen_load)).max()
        least = _FROZEN_FACTOR * max(settings.coefficient_error_per_m, math.sqrt(float(noise.max())), 1e-3)
        if self._frozen_s > settings.frozen_s and expected > least:
            return f"coefficients frozen for {self._frozen_s:.2g} s while the tensions changed"
        return ""


def _not_finite(cycle: CycleInput) -> str:
    """Which inputs are not numbers."""
    given = (cycle.c, cycle.rate, cycle.noise, cycle.rate_noise, cycle.drives.force + cycle.other)
    if math.isfinite(sum(np.vdot(values, values) for values in given) + cycle.dt):
        return ""
    inputs: list[ArrayLike] = [*given, cycle.dt]
    unknown = [name for name, values in zip(_NAMES, inputs, strict=True) if not np.all(np.isfinite(values))]
    return f"{', '.join(unknown)}: not a number" if unknown else ""
