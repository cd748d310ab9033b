# SPDX-License-Identifier: Apache-2.0
"""What resists a motion by its past: dry friction of the motors that builds up, and hysteresis of the backbone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from continuum_robot.robot.description import Robot
from continuum_robot.rod.friction.hysteresis import RodHysteresis
from continuum_robot.rod.friction.maxwell_slip import motor_slip
from continuum_robot.rod.strain.rod import StrainRod

Vector = NDArray[np.float64]


class Resistance:
    """Force on the coefficients of a rod against one motion, with its memory; n coefficients, N tendons.

    Parameters
    ----------
    robot : a rod; dry friction that its file says builds up at once is not in it
    motors : with friction of the motors
    motor_fraction : of it

    Attributes
    ----------
    acts : whether there is some
    """

    def __init__(self, robot: Robot, *, motors: bool = True, motor_fraction: float = 1.0) -> None:
        actuators, count, size = robot.actuators, robot.tendon_count, robot.coefficient_count
        self._rod, self._motors = RodHysteresis(robot), None
        if motors and actuators is not None:
            limit_n = motor_fraction * actuators.coulomb_n
            self._motors = motor_slip(limit_n, actuators.friction_travel_m, np.zeros(count))
        self.acts = self._rod.acts or self._motors is not None
        self._nothing = np.zeros(size)
        # Where the tendons' levers depend on the shape, that of the straight rod is near enough for friction.
        self._lever = StrainRod.from_robot(robot).displacement_jacobian(self._nothing) if self.acts else self._nothing

    def reset(self, c: Vector, displacement_m: Vector) -> None:
        """Rest without force, the past unknown.

        Parameters
        ----------
        c : (n,), 1/m
        displacement_m : of the tendons at the motors, (N,), m
        """
        self._rod.reset(c)
        if self._motors is not None:
            self._motors.reset(displacement_m)

    def displacement(self, c: Vector) -> Vector:
        """Of the tendons at the rod for coefficients, (N,), m.

        Parameters
        ----------
        c : (n,), 1/m
        """
        return np.asarray(self._lever @ c)

    def move(self, c: Vector, displacement_m: Vector) -> Vector:
        """Go on to a pose.

        Parameters
        ----------
        c : (n,), 1/m
        displacement_m : of the tendons at the motors, (N,), m

        Returns
        -------
        generalised force that resists, (n,), N.m^2
        """
        if not self.acts:
            return self._nothing
        force = self._rod.move(c)
        return force if self._motors is None else force + self._lever.T @ self._motors.move(displacement_m)

    def uncertain(self, fraction: float) -> Vector:
        """Generalised forces by each of which it may be off, (m, n), N.m^2.

        Parameters
        ----------
        fraction : of the limits that are not known well
        """
        rod = self._rod.uncertain(fraction)
        if self._motors is None:
            return rod
        return np.concatenate([rod, self._motors.uncertain(fraction)[:, None] * self._lever])
