# SPDX-License-Identifier: Apache-2.0
"""A simulated fibre with Bragg gratings: the true curvatures with noise and offsets, reported late, some lost."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from continuum_robot.robot.schema import quantity
from continuum_robot.simulation.devices.channel import LateReports

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class FiberErrors:
    """What a simulated fibre and its interrogator do wrong."""

    noise_per_m: float = quantity(
        "standard deviation of each curvature's noise", "1/m", default=0.01, ge=0, le=10, live=True
    )
    offset_per_m: float = quantity(
        "standard deviation of each curvature's constant error, drawn once", "1/m", default=0.03, ge=0, le=10, live=True
    )
    delay_s: float = quantity(
        "age of the curvatures when they are reported; their stamp is when they were read",
        "s",
        default=0.005,
        ge=0,
        le=0.4,
        live=True,
    )
    lost: float = quantity("fraction of the readings that are lost; 1: an outage", default=0.0, ge=0, le=1, live=True)


@dataclass(frozen=True, slots=True)
class MeasuredCurvature:
    """Curvatures about x and y at every grating."""

    time_s: float
    curvature: Vector


class SimulatedFiber:
    """Reads curvatures, and reports them later."""

    def __init__(self, errors: FiberErrors, rng: np.random.Generator) -> None:
        self.errors, self._rng = errors, rng
        self._offset: Vector | None = None  # of standard deviation 1
        self._late: LateReports[MeasuredCurvature] = LateReports()

    def look(self, time_s: float, curvature: Vector) -> None:
        """Read the gratings at a time, s."""
        if self._offset is None:
            self._offset = self._rng.standard_normal(len(curvature))
        noise = self.errors.noise_per_m * self._rng.standard_normal(len(curvature))
        if self._rng.random() >= self.errors.lost:
            self._late.add(MeasuredCurvature(time_s, curvature + self.errors.offset_per_m * self._offset + noise))

    def reported(self, now_s: float) -> list[MeasuredCurvature]:
        """What comes until now, s, and has not come before."""
        return self._late.until(now_s, self.errors.delay_s)
