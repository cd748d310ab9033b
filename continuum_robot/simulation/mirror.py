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
from continuum_robot.simulation.servos import PositionLoop

Vector = NDArray[np.float64]


class Mirror:
    """Follows commands to the static response of the robot linearised at the straight configuration.

    At rest K c = G^T tension, with G = dq/dc and the stiffness K of rod and gravity at c = 0. On the way there, the
    inertia of the rod at c = 0 and of the motors, and the rod's damping act:
    M c'' + D c' + K c = G^T tension, by implicit Euler steps, which are stable for any duration. Without
    inertia, a displacement that jumped with the tension could not be controlled with the gains of the real robot: a
    proportional gain above the stiffness, one cycle late, is unstable. Tensions and currents follow commanded tensions
    at once; commanded displacements become tensions by the servos' position loops.

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
        self._newton_per_ampere, servo = robot.actuators.newton_per_ampere, robot.actuators.servo
        self._servo = None if servo is None else PositionLoop.of(robot.actuators, servo)
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

    def advance(self, command: Vector, duration_s: float) -> None:
        """Move for ``duration_s`` (s) under constant commands.

        Parameters
        ----------
        command : of every tendon, shape (N,): tensions, N, or displacements, m, NaN where a servo's torque is off
        """
        largest = self.current_limit_a * self._newton_per_ampere
        if self._servo is None:
            self._tension = np.clip(command, 0.0, largest)
            self.limited = self._tension != command
            self._move(self._tension, 0.0, 0.0, duration_s)
            return
        k, d, jacobian = self._servo.stiffness_n_per_m, self._servo.damping_ns_per_m, self._jacobian
        goal = np.nan_to_num(command)
        held, given, before = np.isfinite(command), np.zeros_like(largest), (self._c, self._rate)
        for _ in range(2 * len(goal)):  # which tendons are slack, and which servos give their most
            self._c, self._rate = before
            self._move(held * k * goal + given, held * k, held * d, duration_s)
            pull = np.where(np.isfinite(command), k * (goal - jacobian @ self._c) - d * (jacobian @ self._rate), 0.0)
            self._tension = np.clip(pull, 0.0, largest)
            now = self._tension == pull
            now &= np.isfinite(command)
            if (now == held).all():
                break
            held, given = now, np.where(now, 0.0, self._tension)

    def _move(self, pull: Vector, stiffness: Vector | float, damping: Vector | float, h: float) -> None:
        """An implicit step of h (s) under tensions (N,), N, that fall with displacements and rates by N/m and N.s/m."""
        jacobian, one = self._jacobian, np.ones(len(pull))
        stiff = self._stiffness + jacobian.T @ ((one * stiffness)[:, None] * jacobian)
        damped = self._damping + jacobian.T @ ((one * damping)[:, None] * jacobian)
        force = jacobian.T @ pull - stiff @ self._c
        system = self._mass + h * damped + h**2 * stiff
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
