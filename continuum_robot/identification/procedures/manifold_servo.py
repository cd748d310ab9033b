# SPDX-License-Identifier: Apache-2.0
"""Procedures that move the robot: slack is taken up, then its coordinates follow a reference under position control."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from continuum_robot.drivers.protocols import TendonReading
from continuum_robot.errors import ParameterError
from continuum_robot.identification.procedures.procedure import ProcedureError, Step, TakeUp, driven_parts
from continuum_robot.robot.description import Robot
from continuum_robot.rod.tendon_modes import controlled_manifold

Vector = NDArray[np.float64]
Samples = TypeVar("Samples")

TENSION_RATIO = 0.75
# A tendon may be asked for less than its least tension for so long: the cogging of a motor does that.
LONGEST_DIP_S = 0.05


@dataclass(frozen=True, slots=True)
class ServoAdvice:
    """What to do where the robot does not follow.

    Attributes
    ----------
    lagging : it lags behind its reference; after "Free what blocks it,"
    slack : a tendon would have less than the least tension; a sentence
    """

    lagging: str
    slack: str


class ManifoldServo:
    """PID on a mass: poles at the bandwidth with damping 0.7, an integral eight times slower.

    Motors that move against each other stretch tendons and move no rod: nothing else damps that.

    Parameters
    ----------
    robot : with actuators and limits
    mass_kg : that the coordinates move, shape (2m, 2m), kg
    bandwidth_rad_per_s : of the position control
    lag_m : how far the robot may lag behind its reference, m
    advice : for the messages
    """

    def __init__(
        self, robot: Robot, mass_kg: Vector, *, bandwidth_rad_per_s: float, lag_m: float, advice: ServoAdvice
    ) -> None:
        actuators, limits = driven_parts(robot)
        self._manifold = controlled_manifold(robot)
        self._mass, self._motor_kg = mass_kg, actuators.reflected_mass_kg
        self._bandwidth, self._lag_m, self._minimum_n = bandwidth_rad_per_s, lag_m, limits.minimum_n
        self._advice = advice
        self._start_m = np.zeros(robot.tendon_count)
        self._integral = np.zeros(self._manifold.coordinate_count)
        self._low_s = 0.0

    def start(self, reading: TendonReading) -> None:
        """Take where the tendons are as the origin.

        Parameters
        ----------
        reading : the newest
        """
        self._start_m = reading.displacement_m.copy()

    def off_manifold(self, tendons: Vector) -> Vector:
        """What of displacements or rates no shape explains, shape (..., N).

        Parameters
        ----------
        tendons : shape (..., N), m or m/s
        """
        return np.asarray(tendons - self._manifold.clarke(tendons) @ self._manifold.displacement_matrix.T)

    def tension(self, reading: TendonReading, base_n: Vector, position: Vector, velocity: Vector, dt: float) -> Vector:
        """The tensions of this cycle, shape (N,), N.

        Parameters
        ----------
        reading : the newest
        base_n : tensions at rest in the origin, shape (N,), N
        position, velocity : of the reference, shape (2m,), m and m/s
        dt : time since the last call, s

        Raises
        ------
        ProcedureError : the robot lags, or a tendon would go slack
        """
        w = self._bandwidth
        error = position - self._manifold.clarke(reading.displacement_m - self._start_m)
        rate = velocity - self._manifold.clarke(reading.velocity_m_per_s)
        lag_m = float(np.abs(error).max())
        if lag_m > self._lag_m:
            raise ProcedureError(
                f"the robot lags {1e3 * lag_m:.0f} mm behind its reference",
                f"Free what blocks it, {self._advice.lagging}.",
            )
        self._integral += w**3 / 8 * error * dt
        force = self._mass @ (w**2 * error + 1.4 * w * rate + self._integral)
        tension: Vector = base_n + force @ self._manifold.clarke_matrix  # muhmann (26)
        tension = tension - 1.4 * w * self._motor_kg * self.off_manifold(reading.velocity_m_per_s)
        low_n = float(tension.min())
        self._low_s = self._low_s + dt if low_n < self._minimum_n else 0.0
        if self._low_s > LONGEST_DIP_S:
            raise ProcedureError(
                f"a tendon would have {low_n:.2g} N, less than limits.minimum_n = {self._minimum_n:g} N",
                self._advice.slack,
            )
        return tension


class ServoedMotion(ABC, Generic[Samples]):
    """A procedure that takes up slack and then moves the robot until it has a result. Pure.

    Parameters
    ----------
    robot : with actuators and limits
    tension_n : of every tendon at the straight pose, N; 0: three quarters of what all may carry together

    Attributes
    ----------
    base_n : tensions at rest, shape (N,), N
    result : the samples, set by :meth:`move` when the motion has come to its end

    Raises
    ------
    ParameterError : limits that leave no room for that tension
    """

    _servo: ManifoldServo

    def __init__(self, robot: Robot, tension_n: float) -> None:
        _, limits = driven_parts(robot)
        shift = np.asarray(controlled_manifold(robot).shift_direction)
        shares = shift / shift.min()
        even_n = min(limits.maximum_n / float(shares.max()), limits.total_n / float(shares.sum()))
        level_n = tension_n or max(TENSION_RATIO * even_n, limits.minimum_n)
        self.base_n: Vector = level_n * shares
        if not (self.base_n < limits.maximum_n).all() or self.base_n.sum() >= limits.total_n:
            raise ParameterError("tension_n", level_n, f"less than {even_n:g} N, which all tendons may carry together")
        self._take_up = TakeUp(self.base_n, robot.tendon_names)
        self._tight = self._started = self._stopped = False
        self.result: Samples | None = None

    def update(self, reading: TendonReading, dt: float) -> Step:
        """The next step.

        Parameters
        ----------
        reading : the newest
        dt : time since the last call, s

        Raises
        ------
        ProcedureError : the robot does not follow
        """
        if self._stopped:
            return Step(self.base_n.copy(), "stopped", 1.0, done=True)
        if not self._tight:
            tension, self._tight = self._take_up.update(reading, dt)
            return Step(tension, "taking up slack", 0.02)
        if self.result is not None:
            return Step(self.base_n.copy(), "done", 1.0, done=True)
        if not self._started:
            self._servo.start(reading)
            self._started = True
        return self.move(reading, dt)

    def stop(self) -> None:
        """End with the next step."""
        self._stopped = True

    @abstractmethod
    def move(self, reading: TendonReading, dt: float) -> Step:
        """The next step of the motion; arguments and errors as :meth:`update`.

        Parameters
        ----------
        reading : the newest
        dt : time since the last call, s
        """
