# SPDX-License-Identifier: Apache-2.0
"""Friction of motors and backbone against a motion, on the coordinates of the tendons. Stepped code.

Derived here: viscous and dry friction at each tendon, and what the way so far leaves, as forces by muhmann (27).
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.libc.math import tanh

from continuum_robot.errors import ParameterError
from continuum_robot.robot.description import Robot
from continuum_robot.robot.traits import ROD
from continuum_robot.rod.friction.resistance import Resistance
from continuum_robot.rod.tendons import coefficients_from_clarke, controlled_manifold
from continuum_robot.stepped.buffers import indices, matrix, stepped, vector
from continuum_robot.stepped.products import multiply, multiply_transposed

ROUNDED_M_PER_S = cython.declare(cython.double, 1e-3)
"""Below this speed dry friction that acts at once is rounded off, m/s."""


@cython.cclass
class FrictionForce:
    """What resists one motion: viscous and dry friction of the motors, and the hysteresis of the backbone."""

    dry_fraction: cython.double
    force: cython.double[::1]
    tendon_count: cython.int
    coordinate_count: cython.int
    coefficient_count: cython.int
    displacement_matrix: cython.double[::1]
    shape: cython.double[::1]
    viscous: cython.double[::1]
    dry_n: cython.double[::1]
    dry: cython.bint
    past: Resistance
    coefficients: cython.double[::1]
    on_tendons: cython.double[::1]
    added: cython.double[::1]

    def __init__(self, robot: Robot) -> None:
        if robot.traits.kind != ROD:
            raise ParameterError("robot", robot.traits.kind, "a rod: friction of a mechanism has no model here")
        manifold, shape = controlled_manifold(robot), coefficients_from_clarke(robot)
        pull = np.asarray(manifold.displacement_matrix)
        self.tendon_count, self.coordinate_count = pull.shape
        self.coefficient_count = len(shape)
        self.displacement_matrix, self.shape = matrix(pull.tolist()), matrix(shape.tolist())
        dry_n = viscous_ns_per_m = np.zeros(self.tendon_count)
        if robot.actuators is not None:
            viscous_ns_per_m = robot.actuators.each("viscous_ns_per_m", self.tendon_count)
            if not robot.actuators.friction_travel_m:  # else it is in what has a past
                dry_n = robot.actuators.each("coulomb_n", self.tendon_count)
        self.dry_n, self.dry = vector(dry_n), bool(dry_n.any())
        self.viscous = matrix(((viscous_ns_per_m * pull.T) @ pull).tolist())
        self.past = Resistance(robot)
        self.dry_fraction = 1.0
        self.coefficients, self.on_tendons = vector(self.coefficient_count), vector(self.tendon_count)
        self.force, self.added = vector(self.coordinate_count), vector(self.coordinate_count)

    @stepped
    def rest(self, position: cython.double[::1]) -> cython.void:
        """Rest at a ``position`` of the coordinates, m, the past unknown."""
        self.place(position)
        self.past.rest(self.coefficients, self.on_tendons)

    @stepped
    def step(self, position: cython.double[::1], rate: cython.double[::1]) -> cython.void:
        """Go on to a ``position`` of the coordinates, m, at a ``rate``, m/s; what resists is in ``force``."""
        j: cython.int
        k: cython.int
        multiply(self.viscous, rate, self.coordinate_count, self.coordinate_count, self.force)
        if self.past.acts:
            self.place(position)
            self.past.motor_fraction = self.dry_fraction
            self.past.step(self.coefficients, self.on_tendons)
            multiply_transposed(self.shape, self.past.force, self.coefficient_count, self.coordinate_count, self.added)
            for k in indices(self.coordinate_count):
                self.force[k] += self.added[k]
        dry_n: cython.double[::1] = self.dry_n
        if not self.dry or self.dry_fraction == 0.0:
            return
        multiply(self.displacement_matrix, rate, self.tendon_count, self.coordinate_count, self.on_tendons)
        for j in indices(self.tendon_count):
            self.on_tendons[j] = self.dry_fraction * dry_n[j] * tanh(self.on_tendons[j] / ROUNDED_M_PER_S)
        multiply_transposed(
            self.displacement_matrix, self.on_tendons, self.tendon_count, self.coordinate_count, self.added
        )
        for k in indices(self.coordinate_count):
            self.force[k] += self.added[k]

    @stepped
    def place(self, position: cython.double[::1]) -> cython.void:
        """Coefficients and displacements of all tendons at a ``position`` of the coordinates, m."""
        multiply(self.shape, position, self.coefficient_count, self.coordinate_count, self.coefficients)
        multiply(self.displacement_matrix, position, self.tendon_count, self.coordinate_count, self.on_tendons)
