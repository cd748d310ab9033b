# SPDX-License-Identifier: Apache-2.0
"""The simulated rolling-joint robot: links without mass between the motors' reflected mass and damped joints."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.mechanisms.rolling_joint.building import rolling_joint_of, statics_of
from continuum_robot.mechanisms.rolling_joint.turning import BALANCED, JointTurning
from continuum_robot.robot.description import Robot
from continuum_robot.simulation.motors import MotorModel

Vector = NDArray[np.float64]


class RollingPlant:
    """Joints turn under the tensions: m G^T (G a')' + D a' = G^T tension, by implicit steps.

    a are the joints' angles, G the change of the tendon displacements with them, m the motors' reflected mass, D the
    joints' damping. The motors' friction comes to it, their cogging takes from the tension. Tensions and currents
    follow commands at once, tendons are rigid. At the end of a surface a contact stops.

    Parameters
    ----------
    robot : a rolling-joint robot with actuators

    Attributes
    ----------
    current_limit_a : largest current of each motor, shape (2,), A; may be written
    contact_m : arc length of each contact, shape (n - 1,), m

    Raises
    ------
    ParameterError : no actuators, or no rolling joints
    """

    def __init__(self, robot: Robot) -> None:
        if robot.actuators is None:
            raise ParameterError("robot.actuators", None, f"actuators in the file of robot {robot.name!r}")
        self._newton_per_ampere = robot.actuators.newton_per_ampere
        self._mass_kg = robot.actuators.reflected_mass_kg
        self._motors = MotorModel.from_actuators(
            robot.actuators, robot.tendon_count, np.random.default_rng(robot.simulation.seed)
        )
        self._damping_nms = rolling_joint_of(robot).joint_damping_nms
        self._turning = JointTurning(statics_of(robot))
        self._low, self._high = self._turning.limits_rad.T
        self.current_limit_a = np.full(2, robot.actuators.maximum_current_a)
        self._angles_rad = self._turning.home_rad
        self._joints = self._turning.at(self._angles_rad)
        self._home_m = self._joints.gaps_m.sum(axis=1)
        self._rate = np.zeros(2)  # of the displacements
        self._tension = np.zeros(2)

    def advance(self, command: Vector, duration_s: float) -> None:
        """Move for ``duration_s`` (s) under constant tensions (2,), N."""
        tension = np.clip(command, 0.0, self.current_limit_a * self._newton_per_ampere)
        self._tension = tension
        pull, h = -self._joints.levers_m, BALANCED * duration_s
        # Against its tendons each joint is as stiff as its levers change.
        stiffness = np.maximum(tension @ self._joints.lever_slopes_m, 0.0)
        resisting = self._mass_kg * pull.T @ pull + np.diag(h * self._damping_nms + h**2 * stiffness)
        known = self._mass_kg * self._rate @ pull + h * tension @ pull
        rate = np.linalg.solve(resisting, known)
        if self._motors.drags:
            rate = self._motors.dragged_rate(resisting, known, pull, self.displacement, rate, h)
        moved = self._angles_rad + duration_s * rate
        self._angles_rad = np.clip(moved, self._low, self._high)
        stopped = self._angles_rad != moved
        mean = pull @ np.where(stopped, 0.0, rate)
        self._rate = mean if stopped.any() else self._rate + (mean - self._rate) / BALANCED
        self._joints = self._turning.at(self._angles_rad)

    @property
    def contact_m(self) -> Vector:
        """Arc length of each contact, shape (n - 1,), m."""
        return self._joints.contact_m

    @property
    def displacement(self) -> Vector:
        """Displacement of the left and the right tendon from the pose of equal tensions, shape (2,), m."""
        return self._home_m - self._joints.gaps_m.sum(axis=1)

    @property
    def current(self) -> Vector:
        """Motor currents, shape (2,), A."""
        return self._tension / self._newton_per_ampere

    @property
    def string_extension(self) -> Vector:
        """No strings: shape (0,), m."""
        return np.zeros(0)

    @property
    def linked(self) -> Vector:
        """What sensors in other processes need: the strings' extensions, (strings,), m."""
        return self.string_extension
