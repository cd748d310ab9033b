# SPDX-License-Identifier: Apache-2.0
"""Procedures whose coordinates follow a reference under position control while the motors are recorded."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from continuum_robot.drivers.protocols import TendonReading
from continuum_robot.errors import ParameterError
from continuum_robot.identification.procedures.procedure import Found, Procedure, ProcedureError, Vector, driven_parts
from continuum_robot.identification.recorded_motion import RecordedMotion
from continuum_robot.robot.description import Robot
from continuum_robot.robot.schema import quantity
from continuum_robot.rod.tendons import controlled_manifold

TENSION_RATIO = 0.75
# A tendon may be asked for less than its least tension for so long: the cogging of a motor does that.
LONGEST_DIP_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class ServoSettings:
    """How tight the robot is moved, and how closely it follows its reference."""

    tension_n: float = quantity(
        "tension of every tendon at the straight pose; 0: three quarters of what all may carry together",
        "N",
        default=0.0,
        ge=0,
        le=1e4,
    )
    bandwidth_rad_per_s: float = quantity("of the position control", "rad/s", default=30.0, gt=0, le=500)
    lag_m: float = quantity("how far the robot may lag behind its reference", "m", default=0.01, gt=0, le=0.5)


@dataclass(frozen=True, slots=True)
class ServoAdvice:
    """What to do where the robot does not follow."""

    lagging: str
    slack: str


class ServoedMotion(Procedure[Found]):
    """A procedure that moves the robot by a PID on a mass: poles at the bandwidth with damping 0.7, an integral eight
    times slower.

    Motors that move against each other stretch tendons and move no rod: nothing else damps that.
    """

    def __init__(self, robot: Robot, settings: ServoSettings, advice: ServoAdvice) -> None:
        actuators, limits = driven_parts(robot)
        self.manifold = manifold = controlled_manifold(robot.with_all_coordinates)
        shift = np.asarray(manifold.shift_direction)
        shares = shift / shift.min()
        keys = "minimum_n", "maximum_n"
        self._minimum_n, maximum_n = (limits.each(key, robot.tendon_count) for key in keys)
        even_n = min(float((maximum_n / shares).min()), limits.total_n / float(shares.sum()))
        level_n = settings.tension_n or max(TENSION_RATIO * even_n, float(self._minimum_n.max()))
        super().__init__(robot, level_n * shares)
        if not (self.rest_n < maximum_n).all() or self.rest_n.sum() >= limits.total_n:
            raise ParameterError("tension_n", level_n, f"less than {even_n:g} N, which all tendons may carry together")
        pull = np.asarray(manifold.displacement_matrix)
        self._motor_kg = actuators.each("reflected_mass_kg", robot.tendon_count)
        self.mass_kg: Vector = (self._motor_kg * pull.T) @ pull
        self._bandwidth, self._lag_m = settings.bandwidth_rad_per_s, settings.lag_m
        self._advice, self._newton_per_ampere = advice, robot.newton_per_ampere
        self._start_m = np.zeros(robot.tendon_count)
        self._integral = np.zeros(manifold.coordinate_count)
        self._low_s = self.elapsed_s = 0.0
        self._rows: list[tuple[float, Vector, Vector]] = []

    def start(self, reading: TendonReading) -> None:
        """As of :class:`Procedure`: take where the tendons are as the origin."""
        self._start_m = reading.displacement_m.copy()

    def record(self, reading: TendonReading) -> None:
        """Keep what the motors measured."""
        self._rows.append((reading.stamp_s, reading.displacement_m.copy(), reading.current_a * self._newton_per_ampere))

    @property
    def samples(self) -> RecordedMotion:
        """What was kept."""
        time_s, displacement_m, force_n = (np.array(column) for column in zip(*self._rows, strict=True))
        return RecordedMotion(time_s, displacement_m, force_n)

    def off_manifold(self, tendons: Vector) -> Vector:
        """What of displacements or rates no shape explains, shape (..., N)."""
        return np.asarray(tendons - self.manifold.clarke(tendons) @ self.manifold.displacement_matrix.T)

    def following(
        self, reading: TendonReading, base_n: Vector, position: Vector, velocity: Vector, dt: float
    ) -> Vector:
        """The tensions of this cycle, shape (N,), N."""
        w = self._bandwidth
        error = position - self.manifold.clarke(reading.displacement_m - self._start_m)
        rate = velocity - self.manifold.clarke(reading.velocity_m_per_s)
        lag_m = float(np.abs(error).max())
        if lag_m > self._lag_m:
            raise ProcedureError(
                f"the robot lags {1e3 * lag_m:.0f} mm behind its reference",
                f"Free what blocks it, {self._advice.lagging}.",
            )
        self._integral += w**3 / 8 * error * dt
        force = self.mass_kg @ (w**2 * error + 1.4 * w * rate + self._integral)
        tension: Vector = base_n + force @ self.manifold.clarke_matrix  # muhmann (26)
        tension = tension - 1.4 * w * self._motor_kg * self.off_manifold(reading.velocity_m_per_s)
        low = int(np.argmin(tension - self._minimum_n))
        self._low_s = self._low_s + dt if tension[low] < self._minimum_n[low] else 0.0
        if self._low_s > LONGEST_DIP_S:
            raise ProcedureError(
                f"a tendon would have {tension[low]:.2g} N, less than limits.minimum_n = {self._minimum_n[low]:g} N",
                self._advice.slack,
            )
        return tension
