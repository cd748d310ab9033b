# SPDX-License-Identifier: Apache-2.0
"""Motors behind a transmission: they move, and turn the spools of all tendons that they share."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ConvergenceError, ParameterError
from continuum_robot.robot.coupling import Coupling
from continuum_robot.rod.friction.capstan_friction import TANH_PER_RADIAN
from continuum_robot.simulation.bodies.plant_body import Drive
from continuum_robot.simulation.motors import MotorModel

Vector = NDArray[np.float64]
Driving = Callable[[Vector, Vector], tuple[Vector, Vector | float]]

_ITERATIONS = 60
_SHORTEST = 1e-3  # part of a step
_TOLERANCE_M_PER_S = 1e-10


class SharedMotors:
    """M motors, servos or with a current each, one implicit step after the other; spools follow by q = T y + q0.

    The tendons give way meanwhile as springs whose other ends go on as fast as before.

    Parameters
    ----------
    coupling : of the robot
    motor : of each
    stiffness_n_per_m : of the tendons, (N,)
    wires : tensions for the torque of each capstan whose wires rub in the disks, (N, k), N/(N.m)
    backlash_m : play of each motor's gear, as tendon, m

    Attributes
    ----------
    wound_m, speed_m_per_s, force_n, current_a : of the motors, (M,)

    Raises
    ------
    ParameterError : motors whose friction has a memory, or with cogging
    """

    def __init__(
        self, coupling: Coupling, motor: MotorModel, stiffness_n_per_m: Vector, wires: Vector, backlash_m: float = 0.0
    ) -> None:
        cogging_n = float(motor.cogging_n.max())
        for name, value in (("friction_travel_m", motor.friction_travel_m), ("cogging_amplitude_nm", cogging_n)):
            if value:
                raise ParameterError(f"actuators.{name}", value, "0 in simulation, where tendons share motors")
        motors = coupling.matrix.shape[1]
        self._coupling, self._motor, self._stiffness = coupling, motor.first(motors), stiffness_n_per_m
        self._wires = coupling.matrix.T @ wires
        self._unmoving = np.zeros((0, motors))
        self.wound_m, self.speed_m_per_s, self.force_n, self.current_a, self._behind_m = np.zeros((5, motors))
        self._play_m = backlash_m / 2

    def reset(self, displacement_m: Vector) -> None:
        """Be at rest nearest to displacements of the tendons, (N,), m."""
        coupling = self._coupling
        self.wound_m = coupling.inverse @ (displacement_m - coupling.offset_m)
        self.speed_m_per_s, self.force_n, self.current_a, self._behind_m = np.zeros((4, len(self.wound_m)))

    @property
    def spools(self) -> Vector:
        """Tendon on each spool (m), its rate (m/s) and the current of its motor (A), (3, N)."""
        coupling = self._coupling
        return np.array(
            [
                coupling.tendons(self.wound_m),
                coupling.moved(self.speed_m_per_s),
                coupling.each_tendons(self.current_a),
            ]
        )

    @property
    def spooled_m(self) -> Vector:
        """Tendon on each spool, (N,), m: behind what the encoder shows by the play of the gear."""
        return self._coupling.tendons(self.wound_m - self._behind_m)

    def move(
        self, drive: Drive, tension_n: Vector, followed_m_per_s: Vector, rubbed_nm: Vector, duration_s: float
    ) -> None:
        """Go on for a time."""
        coupling, motor, h = self._coupling, self._motor, duration_s
        newton_per_ampere = motor.newton_per_ampere / coupling.radius_at(coupling.tendons(self.wound_m))
        free = coupling.each_motors_least(drive.motor_free) > 0
        largest_n = coupling.each_motors_least(drive.current_limit_a) * newton_per_ampere
        driving = self._driving(drive.desired, largest_n, newton_per_ampere, h)
        taut = coupling.matrix * (self._stiffness * (tension_n > 0))[:, None]
        springs = h**2 * coupling.matrix.T @ taut
        followed_ns = h**2 * taut.T @ followed_m_per_s
        pulled, before, speed = coupling.forces(tension_n), self.speed_m_per_s, self.speed_m_per_s
        if self._play_m:  # within it the spool goes to where its tendons balance
            stiff = np.diag(coupling.matrix.T @ taut)
            further = np.divide(pulled, stiff, out=np.zeros_like(pulled), where=stiff > 0)
            self._behind_m = np.clip(self._behind_m + further, -self._play_m, self._play_m)

        def missed(speed: Vector) -> tuple[Vector, Vector]:
            """By how much the momenta miss these speeds at the end, N.s, and its slope, kg."""
            place = self.wound_m + h * speed
            force, falls = driving(place, speed)
            dry, dry_slope = motor.dry_friction(speed, place, self._unmoving, h)
            sense = np.tanh(TANH_PER_RADIAN * (self._wires.T @ speed))  # johnston (37), at the capstans' speeds
            away = motor.mass_kg * (speed - before) - h * (force - motor.viscous_ns_per_m * speed - dry - pulled)
            away += springs @ speed - followed_ns + h * self._wires @ (sense * rubbed_nm)
            slope = springs + np.diag(motor.mass_kg + h * (falls + motor.viscous_ns_per_m + dry_slope))
            slope += h * (self._wires * (TANH_PER_RADIAN * (1 - sense**2) * rubbed_nm)) @ self._wires.T
            return away, slope

        away, slope = missed(speed)
        for _ in range(_ITERATIONS):
            step = np.linalg.solve(slope, -away)
            size, part = float(away @ away), 1.0
            # Friction is steep at rest and flat beyond: a whole step from there would go to and fro.
            while True:
                away, slope = missed(speed + part * step)
                if away @ away <= (1 - 0.2 * part) * size or part < _SHORTEST:
                    break
                part /= 2
            speed = speed + part * step
            if np.abs(step).max() <= _TOLERANCE_M_PER_S:
                break
        else:
            raise ConvergenceError(
                "motors that share tendons", float(np.abs(step).max()), _TOLERANCE_M_PER_S, _ITERATIONS
            )
        self.speed_m_per_s = np.where(free, speed, 0.0)
        self.wound_m = self.wound_m + h * self.speed_m_per_s
        self.force_n = driving(self.wound_m, self.speed_m_per_s)[0]
        if motor.servo is not None:
            self.current_a = self.force_n / newton_per_ampere

    def _driving(self, desired: Vector, largest_n: Vector, newton_per_ampere: Vector, h: float) -> Driving:
        """Force of the motors at the end of a step, and how fast it falls with the speed there, by place and speed."""
        coupling, servo = self._coupling, self._motor.servo
        if servo is None:
            # The lag of the current is integrated exactly; what accelerates the rotor is its mean over the step.
            asked, lag = coupling.each_motors(desired), h / self._motor.current_time_constant_s
            away = self.current_a - asked
            force = newton_per_ampere * (asked + away * (1 - np.exp(-lag)) / lag)
            self.current_a = asked + away * np.exp(-lag)
            return lambda _place, _speed: (force, 0.0)
        goal = coupling.goals(desired, coupling.tendons(self.wound_m))
        return lambda place, speed: servo.force(goal, place, speed, largest_n, h)
