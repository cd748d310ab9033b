# SPDX-License-Identifier: Apache-2.0
"""The ideal robot of simulation level "mirror": linear, rigid tendons, no friction; a few microseconds a step."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.robot.description import Robot
from continuum_robot.rod.description import DRIVEN
from continuum_robot.rod.fiber import curvature_matrix
from continuum_robot.rod.rod import Rod
from continuum_robot.rod.tendons import string_matrix, tendon_matrix
from continuum_robot.simulation.devices.plant_link import TIP_VALUES

Vector = NDArray[np.float64]


class Mirror:
    """Follows commanded tensions to the static response of the robot linearised at the straight configuration.

    At rest K c = G^T tension, with G = dq/dc and the stiffness K of rod and gravity at c = 0. On the way there, the
    inertia of the rod at c = 0 and of the motors, and the rod's damping act:
    M c'' + D c' + K c = G^T tension, by implicit Euler steps, which are stable for any duration. Without
    inertia, a displacement that jumped with the tension could not be controlled with the gains of the real robot: a
    proportional gain above the stiffness, one cycle late, is unstable. Tensions and currents follow commands at once.

    Parameters
    ----------
    robot : with ``actuators``

    Attributes
    ----------
    current_limit_a : largest current of each motor, shape (N,), A; may be written
    limited : where the latest command was beyond it or negative, shape (N,), bool

    Raises
    ------
    ParameterError : no actuators, or a robot that does not stand straight by itself
    """

    def __init__(self, robot: Robot) -> None:
        if robot.actuators is None:
            raise ParameterError("robot.actuators", None, f"actuators in the file of robot {robot.name!r}")
        rod, straight = Rod(robot, paths=(), parts=DRIVEN), np.zeros(robot.coefficient_count)
        terms = rod.terms(straight, straight)
        self._newton_per_ampere = robot.actuators.newton_per_ampere
        self._jacobian, self._strings = tendon_matrix(robot), string_matrix(robot)
        self._curvature = curvature_matrix(robot)
        self._stiffness = rod.arrays.stiffness - (terms.force_by_c + terms.force_by_c.T) / 2
        if np.linalg.eigvalsh(self._stiffness)[0] <= 0:
            raise ParameterError("robot.gravity_m_per_s2", robot.gravity_m_per_s2, "a robot that stands straight")
        self._damping, self._mass = rod.arrays.damping, terms.mass
        self.current_limit_a = np.full(robot.tendon_count, robot.actuators.maximum_current_a)
        self.limited = np.zeros(robot.tendon_count, dtype=bool)
        self._c, self._rate = straight.copy(), straight.copy()
        self._tension = np.zeros(robot.tendon_count)

    def advance(self, tension_command: Vector, duration_s: float) -> None:
        """Move for ``duration_s`` (s) under constant tensions (N,), N.

        Parameters
        ----------
        tension_command : of every tendon, shape (N,), N
        """
        tension = np.clip(tension_command, 0.0, self.current_limit_a * self._newton_per_ampere)
        self.limited = tension != tension_command
        self._tension = tension
        h = duration_s
        force = self._jacobian.T @ tension - self._stiffness @ self._c
        system = self._mass + h * self._damping + h**2 * self._stiffness
        self._rate = np.linalg.solve(system, self._mass @ self._rate + h * force)
        self._c = self._c + h * self._rate

    @property
    def displacement(self) -> Vector:
        """Displacement of every tendon, shape (N,), m."""
        return self._jacobian @ self._c

    @property
    def current(self) -> Vector:
        """Motor currents, shape (N,), A."""
        return self._tension / self._newton_per_ampere

    @property
    def string_extension(self) -> Vector:
        """Extension of every string, shape (strings,), m."""
        return self._strings @ self._c

    @property
    def linked(self) -> Vector:
        """For sensors in other processes, (linked_count,): the strings' extensions, m, no tip, NaN, and the curvatures
        at a fibre's gratings, 1/m.
        """
        return np.concatenate((self.string_extension, np.full(TIP_VALUES, np.nan), self._curvature @ self._c))
