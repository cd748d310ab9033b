# SPDX-License-Identifier: Apache-2.0
"""The simulated segment with equilibrium modulation: motors' reflected mass against bending stiffness and damping."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.mechanisms.equilibrium_modulation.building import modulation_of
from continuum_robot.mechanisms.equilibrium_modulation.forces import ModulationForce
from continuum_robot.robot.coordinates import clarke_manifold
from continuum_robot.robot.description import Robot
from continuum_robot.simulation.motors import MotorModel

Vector = NDArray[np.float64]

# Forces are balanced in the middle of a step: at its end, 1 ms would resist by a tenth of what the guides do.
_BALANCED = 0.5


class ModulationPlant:
    """m D^T D x'' + d D^T D x' + K x = D^T tension with x = [q_Re, q_Im, insertion], by implicit Euler steps.

    D maps coordinates to displacements, m and d are the motors' reflected mass and the guides' damping, to which the
    motors' friction comes; their cogging takes from the tension. Currents follow commands at once. The carriage stops
    at both ends of its stroke.

    Parameters
    ----------
    robot : with equilibrium modulation and actuators

    Attributes
    ----------
    current_limit_a : largest current of each motor, shape (N,), A; may be written
    coordinates_m : q_Re, q_Im, insertion, shape (3,), m

    Raises
    ------
    ParameterError : no actuators, or another robot
    """

    def __init__(self, robot: Robot) -> None:
        if robot.actuators is None:
            raise ParameterError("robot.actuators", None, f"actuators in the file of robot {robot.name!r}")
        mechanism = modulation_of(robot)
        self._manifold = clarke_manifold(robot)
        D = self._pull = np.asarray(self._manifold.displacement_matrix)
        self._mass = robot.actuators.reflected_mass_kg * D.T @ D
        self._motors = MotorModel.from_actuators(
            robot.actuators, robot.tendon_count, np.random.default_rng(robot.simulation.seed)
        )
        self._damping_ns_per_m = mechanism.guide_damping_ns_per_m
        self._inverse_for_s, self._inverted = math.nan, np.eye(3)
        stiffness = ModulationForce(robot).stiffness_n_per_m
        self._stiffness = np.diag([stiffness, stiffness, 0.0])
        self._newton_per_ampere = robot.actuators.newton_per_ampere
        self._stroke_m = mechanism.stroke_m
        self.current_limit_a = np.full(robot.tendon_count, robot.actuators.maximum_current_a)
        self.coordinates_m: Vector = np.zeros(3)
        self._rate: Vector = np.zeros(3)
        self._tension: Vector = np.zeros(robot.tendon_count)

    def advance(self, command: Vector, duration_s: float) -> None:
        """Move for ``duration_s`` (s) under constant tensions (N,), N."""
        self._tension = np.clip(command, 0.0, self.current_limit_a * self._newton_per_ampere)
        force = self._pull.T @ self._tension
        rate = self._between(force, _BALANCED * duration_s)
        moved = self.coordinates_m + duration_s * rate
        self._rate = self._rate + (rate - self._rate) / _BALANCED
        stopped = not 0.0 <= moved[2] <= self._stroke_m
        if stopped:
            moved = np.array([*moved[:2], np.clip(moved[2], 0.0, self._stroke_m)])
            self._rate = np.array([*self._rate[:2], 0.0])
        self.coordinates_m = moved

    def _between(self, force: Vector, h: float) -> Vector:
        """Rates after ``h`` (s), where forces are balanced, under a force on the coordinates, shape (3,)."""
        known = self._mass @ self._rate + h * (force - self._stiffness @ self.coordinates_m)
        if not self._motors.drags:
            return np.asarray(self._inverse(h) @ known)
        return self._motors.dragged_rate(self._resisting(h), known, self._pull, self.displacement, self._rate, h)

    def _inverse(self, h: float) -> Vector:
        """Of what resists a rate over a step without friction in the motors, shape (3, 3)."""
        if self._inverse_for_s != h:
            self._inverse_for_s, self._inverted = h, np.linalg.inv(self._resisting(h))
        return self._inverted

    def _resisting(self, h: float) -> Vector:
        """What resists a rate over a step without friction in the motors, shape (3, 3)."""
        D = self._pull
        return self._mass + h * self._damping_ns_per_m * D.T @ D + h**2 * self._stiffness

    @property
    def displacement(self) -> Vector:
        """Displacement of every drive from the straight segment without insertion, shape (N,), m."""
        return self._manifold.displacement(self.coordinates_m)

    @property
    def current(self) -> Vector:
        """Motor currents, shape (N,), A."""
        return self._tension / self._newton_per_ampere

    @property
    def string_extension(self) -> Vector:
        """No strings: shape (0,), m."""
        return np.zeros(0)

    @property
    def linked(self) -> Vector:
        """What sensors in other processes need: the coordinates, which move the tip, (3,), m."""
        return self.coordinates_m
