# SPDX-License-Identifier: Apache-2.0
"""What a shape needs of the tendons: displacements, tensions and forces as fractions of the robot's limits."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from continuum_robot.control.tendon_forces import TendonForces
from continuum_robot.errors import ParameterError
from continuum_robot.robot.description import Robot
from continuum_robot.rod.holding_force import clarke_feedforward
from continuum_robot.rod.tendons import controlled_manifold
from continuum_robot.stepped.buffers import vector

Vector = NDArray[np.float64]


class TendonUse:
    """Displacements, predicted tensions and generalised forces as fractions of what is allowed: all are to be <= 1."""

    def __init__(self, robot: Robot, fraction: float) -> None:
        limits = robot.limits
        if limits is None:
            raise ParameterError("robot", robot.name, "a robot file with the section limits")
        largest_m, maximum_n = (limits.each(key, robot.tendon_count) for key in ("maximum_displacement_m", "maximum_n"))
        self.displacement_m = float(largest_m.min())
        self._fraction = fraction
        self._manifold = controlled_manifold(robot)
        self.displacement_matrix: Vector = np.asarray(self._manifold.displacement_matrix)
        self._forces = clarke_feedforward(robot)
        control = robot.control
        self._strategy = "shift" if control is None else control.tendon_forces
        self.pretension_n = limits.largest("least_n", robot.tendon_count) if control is None else control.pretension_n
        self._distribution = TendonForces(self._manifold, self._strategy, self.pretension_n)
        count = self._manifold.tendon_count
        largest = np.full(self._manifold.coordinate_count, np.inf)
        least = -largest
        if control is not None and control.gains:
            each = len(largest) // len(control.gains)
            largest = np.repeat([gain.u_clamp_max for gain in control.gains], each)
            least = np.repeat([gain.u_clamp_min for gain in control.gains], each)
        ends = np.concatenate([self._manifold.displacement_matrix, -self._manifold.displacement_matrix])
        self._displacement = ends / (fraction * np.tile(largest_m, 2))[:, None]
        self._largest_force, self._least_force = fraction * largest, fraction * least
        self._maximum_n = fraction * maximum_n
        self._total_n = fraction * limits.largest_sum_n
        coordinates = self._manifold.coordinate_count
        ends_at = np.cumsum([0, 2 * count, count + 1, 2 * coordinates])
        self.count = int(ends_at[-1])
        self.rows = {
            name: slice(int(ends_at[i]), int(ends_at[i + 1]))
            for i, name in enumerate(("displacement", "tension", "force"))
        }

    def set_gravity(self, gravity_m_per_s2: Vector) -> None:
        """Go on in another gravity in the base frame, (3,), m/s^2."""
        self._forces.parts[2].gravity_m_per_s2 = gravity_m_per_s2

    def tension(self, clarke: Vector) -> Vector:
        """Tensions that hold the robot at Clarke coordinates (2m,), m, by the model, shape (N,), N."""
        return self._distributed(self._force(clarke))

    def use(self, clarke: Vector) -> Vector:
        """Fractions of all limits, (rows,), that Clarke coordinates (2m,), m, need at rest."""
        force = self._force(clarke)
        return np.asarray(self._fractions(clarke[None], force[None], self._distributed(force)[None])[0])

    def under_motion(self, clarke: Vector, motion_n: Vector, stiffness: Vector) -> tuple[Vector, Vector, Vector]:
        """Fractions of all limits in motion, and their slopes, at k moments."""
        force = np.array([self._force(one) for one in clarke]) + motion_n
        size, change_n = force.shape[1], 1e-4 * float(self._maximum_n.min())
        changed = force[:, None] + np.vstack([np.zeros(size), change_n * np.eye(size)])
        tension = np.array([self._distributed(one) for one in changed.reshape(-1, size)]).reshape(
            *changed.shape[:2], -1
        )
        by_force = np.zeros((len(force), self.count, size))
        of_tension = ((tension[:, 1:] - tension[:, :1]) / change_n).transpose(0, 2, 1)
        by_force[:, self.rows["tension"]] = np.concatenate(
            [of_tension / self._maximum_n[:, None], of_tension.sum(axis=1, keepdims=True) / self._total_n], axis=1
        )
        by_force[:, self.rows["force"]] = np.vstack([np.diag(1 / self._largest_force), np.diag(1 / self._least_force)])
        by_position = by_force @ stiffness
        by_position[:, self.rows["displacement"]] += self._displacement
        return self._fractions(clarke, force, tension[:, 0]), by_position, by_force

    def tensions(self, use: Vector, slopes: Vector) -> tuple[Vector, Vector]:
        """Tensions and slopes out of the fractions of :meth:`under_motion`."""
        rows = slice(self.rows["tension"].start, self.rows["tension"].stop - 1)
        return self._maximum_n * use[:, rows], self._maximum_n[:, None] * slopes[:, rows]

    def stiffness(self, clarke: Vector) -> Vector:
        """Slope of the holding force at Clarke coordinates (2m,), m, by them, (2m, 2m), N/m."""
        change_m, holding = 1e-4 * self.displacement_m, self._force(clarke)
        return np.stack(
            [(self._force(clarke + row) - holding) / change_m for row in change_m * np.eye(clarke.size)], axis=1
        )

    def _force(self, clarke: Vector) -> Vector:
        """Generalised force that holds the robot, (2m,), N."""
        elastic, gravity = self._forces(clarke)
        return np.asarray(elastic + gravity)

    def _distributed(self, force: Vector) -> Vector:
        self._distribution.step(vector(force))
        return np.array(self._distribution.tension)

    def _fractions(self, clarke: Vector, force: Vector, tension: Vector) -> Vector:
        """Of all limits at k moments, (k, rows), by coordinates (k, 2m), forces (k, 2m) and tensions (k, N)."""
        return np.concatenate(
            [
                clarke @ self._displacement.T,
                tension / self._maximum_n,
                tension.sum(axis=1, keepdims=True) / self._total_n,
                force / self._largest_force,
                force / self._least_force,
            ],
            axis=1,
        )

    def exceeded(self, clarke: Vector) -> bool:
        """Whether Clarke coordinates (2m,), m, need more than there is."""
        return bool(self.use(clarke).max() > 1 + 1e-9)

    def linearised(self, clarke: Vector) -> tuple[Vector, Vector]:
        """Slope (rows, 2m), 1/m, and room (rows,) at Clarke coordinates (2m,), m: slope @ step <= room."""
        here = self.use(clarke)
        change_m = 1e-4 * self.displacement_m
        slope = np.empty((here.size, clarke.size))
        for index in range(clarke.size):
            there = clarke.copy()
            there[index] += change_m
            slope[:, index] = (self.use(there) - here) / change_m
        return slope, 1.0 - here

    def kept(self, inside: Vector, desired: Vector) -> Vector:
        """The last point within the limits on the way from one inside to a desired one, Clarke coordinates (2m,), m."""
        if not self.exceeded(desired):
            return desired
        low, high = 0.0, 1.0
        for _ in range(30):
            middle = (low + high) / 2
            if self.exceeded(inside + middle * (desired - inside)):
                high = middle
            else:
                low = middle
        return inside + low * (desired - inside)

    def inside(self, clarke: Vector) -> Vector:
        """Clarke coordinates (2m,), m, or those next to them on the way to the straight robot within the limits."""
        return self.kept(np.zeros_like(clarke), clarke)
