# SPDX-License-Identifier: Apache-2.0
"""Calibration of the motors' cogging: sweeps, each slower and with the table of the one before fed forward."""

from __future__ import annotations

import numpy as np

from continuum_robot.errors import ParameterError
from continuum_robot.identification.cogging_fit import fit_cogging
from continuum_robot.identification.cogging_table import CoggingFit
from continuum_robot.identification.procedures.cogging_record import spooled_per_turn_m
from continuum_robot.identification.procedures.cogging_sweep import CoggingSamples, CoggingSweep, CoggingSweepSettings
from continuum_robot.identification.procedures.procedure import driven_parts
from continuum_robot.robot.description import Robot

# A motor passes its cogging by its momentum in the first, in which most of the cogging is in its acceleration. In the
# second, slowly and with the first table fed forward, it is in the current. The third takes away what the second could
# not pass smoothly, where the cogging is large.
SPEEDS_M_PER_S = (0.01, 0.005, 0.005)


class CoggingCalibration:
    """The sequence of sweeps and fits; its caller drives the sweeps and feeds the tables forward between them."""

    def __init__(
        self,
        robot: Robot,
        speeds_m_per_s: tuple[float, ...] = SPEEDS_M_PER_S,
        tension_n: float = 0.0,
    ) -> None:
        if not speeds_m_per_s:
            raise ParameterError("speeds_m_per_s", speeds_m_per_s, "at least one speed in m/s")
        self._robot = robot
        driven_parts(robot)
        self.m_per_turn = spooled_per_turn_m(robot)
        self._settings = [CoggingSweepSettings(speed_m_per_s=speed, tension_n=tension_n) for speed in speeds_m_per_s]
        self._sweeps = [CoggingSweep(robot, self.m_per_turn, settings) for settings in self._settings]
        self._taken = 0
        self.fit: CoggingFit | None = None
        self.corrections_n: list[float] = []

    @property
    def sweep(self) -> CoggingSweep | None:
        """The next sweep to be driven, None after the last."""
        return self._sweeps[self._taken] if self._taken < len(self._sweeps) else None

    @property
    def title(self) -> str:
        """Which sweep that is, for a person."""
        settings = self._settings[min(self._taken, len(self._settings) - 1)]
        return f"sweep {self._taken + 1} of {len(self._sweeps)} at {1e3 * settings.speed_m_per_s:g} mm/s"

    def take(self, samples: CoggingSamples) -> CoggingFit:
        """Fit the newest sweep's readings."""
        actuators, _ = driven_parts(self._robot)
        lever_m = self.m_per_turn / (2 * np.pi)
        fit = fit_cogging(samples, self.m_per_turn, actuators.rotor_inertia_kg_m2 / lever_m**2, self.fit)
        if self.fit is not None:
            self.corrections_n.append(float(np.sqrt(np.mean((fit.force_n - self.fit.force_n) ** 2))))
        self.fit = fit
        self._taken += 1
        return fit
