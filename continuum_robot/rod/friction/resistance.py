# SPDX-License-Identifier: Apache-2.0
"""What resists a motion by its past: dry friction of the motors that builds up, and hysteresis of the backbone."""

from __future__ import annotations

import cython
import numpy as np
from numpy.typing import NDArray

from continuum_robot.robot.description import Robot
from continuum_robot.rod.description import RodDescription
from continuum_robot.rod.friction.hysteresis import RodHysteresis
from continuum_robot.rod.friction.maxwell_slip import MaxwellSlip, motor_slip
from continuum_robot.rod.kernel.arrays import straight_lever
from continuum_robot.stepped.buffers import copy_into, indices, matrix, stepped, vector
from continuum_robot.stepped.products import multiply_transposed

Vector = NDArray[np.float64]


@cython.cclass
class Resistance:
    """Force on the coefficients of a rod against one motion, with its memory; n coefficients, N tendons. Stepped
    code.
    """

    acts = cython.declare(cython.bint, visibility="readonly")
    motor_fraction: cython.double
    force: cython.double[::1]
    size: cython.int
    tendon_count: cython.int
    of_motors: cython.bint
    rod: RodHysteresis
    motors: MaxwellSlip
    lever: cython.double[::1]
    pulled: cython.double[::1]

    def __init__(self, robot: Robot, *, motors: bool = True) -> None:
        actuators, self.tendon_count, self.size = robot.actuators, robot.tendon_count, robot.coefficient_count
        self.rod, self.motors = RodHysteresis(robot), None  # type: ignore[assignment]
        if motors and actuators is not None:
            self.motors = motor_slip(  # type: ignore[assignment]
                actuators.each("coulomb_n", self.tendon_count),
                actuators.friction_travel_m,
                np.zeros(self.tendon_count),
            )
        self.of_motors, self.motor_fraction = self.motors is not None, 1.0
        self.acts = self.rod.acts or self.of_motors
        # Where the tendons' levers depend on the shape, that of the straight rod is near enough for friction.
        lever = np.zeros((self.tendon_count, self.size))
        if self.acts:
            lever = straight_lever(RodDescription.of_robot(robot))
        self.lever = matrix(lever.tolist())
        self.force, self.pulled = vector(self.size), vector(self.size)

    def reset(self, c: Vector, displacement_m: Vector) -> None:
        """Rest without force, the past unknown."""
        self.rest(vector(c.tolist()), vector(displacement_m.tolist()))

    def displacement(self, c: Vector) -> Vector:
        """Of the tendons at the rod for coefficients, (N,), m."""
        return np.asarray(self._lever() @ c)

    def move(self, c: Vector, displacement_m: Vector) -> Vector:
        """Go on to a pose."""
        self.step(vector(c.tolist()), vector(displacement_m.tolist()))
        return np.array(self.force)

    def uncertain(self, fraction: float) -> Vector:
        """Generalised forces by each of which it may be off, (m, n), N.m^2."""
        rod = self.rod.uncertain(fraction)
        if not self.of_motors:
            return rod
        return np.concatenate([rod, self.motors.uncertain(fraction)[:, None] * self._lever()])

    def _lever(self) -> Vector:
        return np.array(self.lever).reshape(-1, self.size)

    @stepped
    def rest(self, c: cython.double[::1], displacement_m: cython.double[::1]) -> cython.void:
        """As :meth:`reset`, at coefficients ``c``, 1/m, and displacements ``displacement_m``."""
        k: cython.int
        self.rod.rest(c)
        if self.of_motors:
            self.motors.rest(displacement_m)
        for k in indices(self.size):
            self.force[k] = 0.0

    @stepped
    def step(self, c: cython.double[::1], displacement_m: cython.double[::1]) -> cython.void:
        """As :meth:`move`, to coefficients ``c``, 1/m, and displacements ``displacement_m``."""
        k: cython.int
        if self.rod.acts:
            self.rod.step(c)
            copy_into(self.force, self.rod.force, self.size)
        if self.of_motors:
            self.motors.step(displacement_m)
            multiply_transposed(self.lever, self.motors.resisting, self.tendon_count, self.size, self.pulled)
            for k in indices(self.size):
                self.force[k] = self.motor_fraction * self.pulled[k] + self.rod.force[k]
