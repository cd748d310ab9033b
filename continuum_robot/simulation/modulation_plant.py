# SPDX-License-Identifier: Apache-2.0
"""The simulated segment with equilibrium modulation: motors' reflected mass against bending stiffness and damping."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.mechanisms.equilibrium_modulation.building import modulation_of
from continuum_robot.mechanisms.equilibrium_modulation.forces import ModulationForce
from continuum_robot.robot.coordinates import clarke_manifold
from continuum_robot.robot.description import Robot

Vector = NDArray[np.float64]


class ModulationPlant:
    """m D^T D x'' + d D^T D x' + K x = D^T tension with x = [q_Re, q_Im, insertion], by implicit Euler steps.

    D maps coordinates to displacements, m and d are the motors' reflected mass and the guides' damping. Tensions and
    currents follow commands at once. The carriage stops at both ends of its stroke.

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
        D = self._manifold.displacement_matrix
        self._mass = robot.actuators.reflected_mass_kg * D.T @ D
        self._damping = mechanism.guide_damping_ns_per_m * D.T @ D
        stiffness = ModulationForce(robot).stiffness_n_per_m
        self._stiffness = np.diag([stiffness, stiffness, 0.0])
        self._newton_per_ampere = robot.actuators.newton_per_ampere
        self._stroke_m = mechanism.stroke_m
        self.current_limit_a = np.full(robot.tendon_count, robot.actuators.maximum_current_a)
        self.coordinates_m: Vector = np.zeros(3)
        self._rate: Vector = np.zeros(3)
        self._tension: Vector = np.zeros(robot.tendon_count)

    def advance(self, tension_command: Vector, duration_s: float) -> None:
        """Move for ``duration_s`` (s) under constant tensions (N,), N.

        Parameters
        ----------
        tension_command : of every drive, shape (N,), N
        """
        self._tension = np.clip(tension_command, 0.0, self.current_limit_a * self._newton_per_ampere)
        h = duration_s
        force = self._manifold.generalized_force(self._tension) - self._stiffness @ self.coordinates_m
        system = self._mass + h * self._damping + h**2 * self._stiffness
        self._rate = np.asarray(np.linalg.solve(system, self._mass @ self._rate + h * force))
        moved = self.coordinates_m + h * self._rate
        self.coordinates_m = np.array([*moved[:2], np.clip(moved[2], 0.0, self._stroke_m)])
        if self.coordinates_m[2] != moved[2]:
            self._rate[2] = 0.0

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
