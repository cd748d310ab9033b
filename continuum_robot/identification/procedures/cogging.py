# SPDX-License-Identifier: Apache-2.0
"""Turn every motor slowly both ways, with its tendon on: the robot goes in circles that wind a turn of each spool.

What is left of a motor's force when inertia, friction and the slowly changing load are taken off repeats with the
motor's angle: its cogging. See identification/cogging_fit.py for that fit.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from continuum_robot.drivers.protocols import TendonReading
from continuum_robot.errors import ParameterError
from continuum_robot.identification.cogging_fit import CoggingFit, CoggingSamples, fit_cogging
from continuum_robot.identification.procedures.manifold_servo import ServoAdvice, ServoedMotion, ServoSettings
from continuum_robot.identification.procedures.procedure import Step, driven_parts
from continuum_robot.identification.procedures.record import spooled_per_turn_m
from continuum_robot.robot.description import Robot
from continuum_robot.robot.schema import checked, quantity

Vector = NDArray[np.float64]

# Circles of 1.3 turns: a turn is covered by the part of the circle in which a tendon is at least half as fast as in
# the middle, and a motor that is slower hangs in its cogging.
TURNS_WOUND = 1.3
GROWTH_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CoggingSweepSettings(ServoSettings):
    """How the motors are turned."""

    speed_m_per_s: float = quantity("fastest speed of the slowest tendon", "m/s", default=0.01, gt=0, le=0.2)
    circles: int = quantity(
        "whole circles of which the readings are kept, half of them each way", default=4, ge=2, le=64
    )
    bandwidth_rad_per_s: float = quantity("of the position control", "rad/s", default=40.0, gt=0, le=500)
    lag_m: float = quantity("how far the robot may lag behind its circle", "m", default=0.006, gt=0, le=0.5)


class CoggingSweep(ServoedMotion[CoggingSamples]):
    """The procedure; see the module. Pure."""

    def __init__(self, robot: Robot, m_per_turn: Vector, settings: CoggingSweepSettings | None = None) -> None:
        self.settings = settings = checked(CoggingSweepSettings, asdict(settings or CoggingSweepSettings()))
        super().__init__(
            robot,
            settings,
            ServoAdvice("run the tendon check, or choose a slower sweep", "Sweep with a greater tension."),
        )
        _, limits = driven_parts(robot)
        # All pairs of coordinates go round together; a tendon moves by the length of its row.
        pairs = self.manifold.pairs_together
        length = np.linalg.norm(pairs, axis=1)
        self._radius_m = float((0.5 * TURNS_WOUND * np.abs(m_per_turn) / length).max())
        reach_m, most_m = self._radius_m * length, limits.each("maximum_displacement_m", robot.tendon_count)
        worst = int(np.argmax(reach_m / most_m))
        if reach_m[worst] > 0.9 * most_m[worst]:
            raise ParameterError(
                f"limits.{limits.key_of('maximum_displacement_m', worst + 1)}",
                float(most_m[worst]),
                f"at least {reach_m[worst] / 0.9:.3g} m, room for a turn of every motor",
            )
        self._rate_rad_per_s = settings.speed_m_per_s / (self._radius_m * float(length.min()))
        self._phase_rad = self._turned_rad = self._shrunk = 0.0
        self._phases_rad: list[float] = []

    def move(self, reading: TendonReading, dt: float) -> Step:
        self.elapsed_s += dt
        position, velocity = self._reference(dt)
        tension = self.following(reading, self.rest_n, position, velocity, dt)
        whole_rad = 2 * math.pi * self.settings.circles
        if self.elapsed_s > GROWTH_S and self._shrunk == 0:
            self.record(reading)
            self._phases_rad.append(self._phase_rad)
        if self._turned_rad >= whole_rad:
            self._shrunk = min(1.0, self._shrunk + dt / GROWTH_S)
            self.ended = self._shrunk >= 1.0
        return Step(tension, "turning the motors", 0.05 + 0.95 * min(1.0, self._turned_rad / whole_rad))

    def found(self) -> CoggingSamples:
        kept = self.samples
        stretch_m = self.off_manifold(kept.displacement_m)
        return CoggingSamples(kept.time_s, kept.displacement_m, stretch_m, kept.effort, np.array(self._phases_rad))

    def _reference(self, dt: float) -> tuple[Vector, Vector]:
        """Circle that grows, goes round one way, then the other, and shrinks: coordinates (m) and rates (m/s)."""
        grown = min(1.0, self.elapsed_s / GROWTH_S)
        grown = 0.5 * (1 - math.cos(math.pi * grown))
        shrunk = 0.5 * (1 + math.cos(math.pi * self._shrunk))
        half_rad = math.pi * self.settings.circles
        # The way back begins and ends gently, within a tenth of a circle.
        left_rad = half_rad - self._turned_rad % half_rad
        gently = min(1.0, 0.1 + left_rad / 0.6, 0.1 + (half_rad - left_rad) / 0.6)
        direction = 1.0 if self._turned_rad < half_rad else -1.0
        rate = direction * self._rate_rad_per_s * gently if self.elapsed_s > GROWTH_S else 0.0
        if self._shrunk > 0:
            rate = 0.0
        self._turned_rad += abs(rate) * dt
        self._phase_rad += rate * dt
        unit = np.resize([math.cos(self._phase_rad), math.sin(self._phase_rad)], self.manifold.coordinate_count)
        across = np.resize([-math.sin(self._phase_rad), math.cos(self._phase_rad)], self.manifold.coordinate_count)
        radius_m = self._radius_m * grown * shrunk
        return radius_m * unit, radius_m * rate * across


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
