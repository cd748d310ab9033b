# SPDX-License-Identifier: Apache-2.0
"""A controller of your own: LQI on the Clarke coordinates, found by `control.law: lqi` of a robot file."""

import numpy as np
from scipy.linalg import solve_continuous_are

from continuum_robot.control.tendon_forces import distribute
from continuum_robot.robot.coordinates import clarke_manifold


class Lqi:
    """State feedback with an integral; each coordinate is modelled as the motors' reflected mass alone."""

    def __init__(self, robot):
        self.manifold, self.pretension_n = clarke_manifold(robot), robot.control.pretension_n
        mass_kg = robot.actuators.reflected_mass_kg * robot.segments[0].tendons.count / 2
        a = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]])  # integral, error, its rate
        b = np.array([[0.0], [0.0], [1 / mass_kg]])
        # Each of these errors is worth the force of 25 N: 1 mm for 0.1 s, 1 mm, 50 mm/s.
        q, r = np.diag(1 / np.array([1e-4, 1e-3, 5e-2]) ** 2), np.array([[1 / 25.0**2]])
        self.gains = (b.T @ solve_continuous_are(a, b, q, r) / r)[0]

    def reset(self, reading, command, reference):
        """Begin with the force that acts now, so that nothing jumps."""
        self.held_n = self.manifold.generalized_force(command)

    def update(self, reading, reference, dt):
        """From displacements and velocities to tensions."""
        i, p, d = self.gains
        error_m = reference.position - self.manifold.clarke(reading.displacement_m)
        error_m_per_s = reference.velocity - self.manifold.clarke(reading.velocity_m_per_s)
        self.held_n = self.held_n + i * error_m * dt
        force_n = self.held_n + p * error_m + d * error_m_per_s
        return distribute("shift", force_n, self.manifold, self.pretension_n)
