# SPDX-License-Identifier: Apache-2.0
"""Tendons from motors and back: q = T y + q0 and tau = T^T F, and what a motor winds on a spool that grows.

Motors turn by x, m at their spool's radius at zero, and wind y. With fewer motors than tendons only displacements in
the range of T can be commanded, and the motors' forces leave open what the tendons pull against each other: the
preload and the tendons' stiffness say it, as long as the paths change their lengths by what T can do. q0 is what
stretches every tendon by the preload.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.robot.coordinates import tendon_manifold
from continuum_robot.robot.description import Robot

Vector = NDArray[np.float64]

_ROUNDING = 1e-12
_PRELOAD_FRACTION = 0.05  # of the preload, by which a command outside the range of T may change a tension


class Coupling:
    """The transmission of a robot with N tendons and M motors."""

    def __init__(self, robot: Robot) -> None:
        transmission, actuators = robot.transmission, robot.actuators
        if transmission is None or actuators is None:
            raise ParameterError("robot.transmission", None, f"one in the file of robot {robot.name!r}, and actuators")
        count = robot.tendon_count
        self.matrix = transmission.coupling(count)
        self.inverse = _clean(np.linalg.pinv(self.matrix))
        self.reach = _clean(self.matrix @ self.inverse)
        self.missed = _clean(np.eye(count) - self.reach)
        motors = self.matrix.shape[1]
        self.shares = motors < count
        self.moves = self.matrix != 0
        self.motor = transmission.motors(count)
        self._sense = np.sign(self.matrix[np.arange(count), self.motor])
        self._tendon = np.array([np.flatnonzero(self.motor == motor)[0] for motor in range(motors)])
        stiffness = robot.tendon_stiffnesses_n_per_m
        self.offset_m = transmission.preload_n / stiffness
        self.tolerance_m = _PRELOAD_FRACTION * transmission.preload_n / float(stiffness.max()) or np.inf
        radius_m = np.full(motors, actuators.spool_radius_m)
        for entry in () if robot.hardware is None else robot.hardware.tendon_actuators.motors:
            if entry.number <= motors:
                radius_m[entry.number - 1] = entry.spool_radius_m or actuators.spool_radius_m
        # An Archimedean spiral of the turns t = x / (2 pi r0): y = 2 pi (r0 t + layer t^2 / 2).
        self._growth_per_m = np.array(transmission.layer_m or np.zeros(motors)) / (4 * np.pi * radius_m**2)
        # T^T F = tau, and outside the range of T, where the paths add nothing, the stretch F / k is q0.
        usual = float(stiffness.mean())
        from_both = np.linalg.pinv(np.vstack([self.matrix.T, self.missed * (usual / stiffness)]))
        self.told = _clean(from_both[:, :motors])
        self._preloads_n = usual * from_both[:, motors:] @ self.missed @ self.offset_m
        paths = tendon_manifold(robot).displacement_matrix
        if np.abs(self.missed @ paths).max() > 1e-9 * np.abs(paths).max() or robot.traits.nonlinear_lengths:
            self._preloads_n[np.abs(self.missed).max(axis=1) > 0] = np.nan
        if not (robot.takes_displacements or np.isfinite(self._preloads_n).all()):
            expected = "paths whose lengths change by what the motors wind: else these and the preload tell no tensions"
            raise ParameterError("transmission.matrix", self.matrix.tolist(), expected)

    # --- spools

    def wound(self, turned_m: Vector) -> Vector:
        """What the motors have wound, (M,), m, where they have turned by ``turned_m``, (M,), m."""
        return turned_m + self._growth_per_m * turned_m**2

    def turned(self, wound_m: Vector) -> Vector:
        """By how much the motors have turned, (M,), m: the inverse of :meth:`wound`."""
        square = 1 + 4 * self._growth_per_m * wound_m
        if not (square > 0).all():
            raise ParameterError("displacement_m", wound_m, "what the spools hold: transmission.layer_m")
        return np.asarray(2 * wound_m / (1 + np.sqrt(square)))

    def radius(self, turned_m: Vector) -> Vector:
        """Radius of each spool over that at the motor's zero, (M,), where they have turned by ``turned_m``, m."""
        return 1 + 2 * self._growth_per_m * turned_m

    def radius_at(self, displacement_m: Vector) -> Vector:
        """The same where the tendons are at displacements, (N,), m; NaN where one is unknown."""
        if not self._growth_per_m.any():
            return np.ones(len(self._growth_per_m))
        square = 1 + 4 * self._growth_per_m * (self.inverse @ (displacement_m - self.offset_m))
        return np.asarray(np.sqrt(np.maximum(square, 0.0)))

    # --- tendons

    def tendons(self, wound_m: Vector) -> Vector:
        """Displacements of the tendons, (N,), m, at what the motors have wound, (M,), m; NaN where that is unknown."""
        return self.moved(wound_m) + self.offset_m

    def moved(self, wound_m: Vector) -> Vector:
        """Changes, or rates, of the tendons' displacements for those of the motors, (N,)."""
        return _product(self.matrix, wound_m)

    def motors(self, displacement_m: Vector) -> Vector:
        """What the motors wind for displacements of the tendons, (M,), m."""
        missed = self.missed @ (displacement_m - self.offset_m)
        worst = int(np.argmax(np.abs(missed)))
        if not abs(missed[worst]) <= self.tolerance_m:
            raise ParameterError(
                "displacement_m",
                np.round(displacement_m, 6).tolist(),
                f"what the motors can make by transmission.matrix: tendon {worst + 1} would be"
                f" {1e3 * missed[worst]:+.2g} mm from it, at most {1e3 * self.tolerance_m:.2g} mm is allowed",
            )
        return np.asarray(self.inverse @ (displacement_m - self.offset_m))

    def goals(self, displacement_m: Vector, here_m: Vector) -> Vector:
        """As :meth:`motors`, with NaN for motors of which any tendon is to be let go.

        The others keep to what the other tendons ask of them, whatever happens to tendons that they share.
        """
        off = np.isnan(displacement_m)
        if not off.any():
            return self.motors(displacement_m)
        goal = self.inverse @ (np.where(off, here_m, displacement_m) - self.offset_m)
        goal[self.moves[off].any(axis=0)] = np.nan
        return np.asarray(goal)

    def nearest(self, begin_m: Vector, goal_m: Vector) -> Vector:
        """Of all displacements that motors can go to from ``begin_m`` that nearest to ``goal_m``, (N,), m."""
        return np.asarray(begin_m + self.reach @ (goal_m - begin_m))

    # --- forces

    def each_tendons(self, values: Vector) -> Vector:
        """Currents or forces of the motors, (M,), as those of the tendons, (N,): positive where they pull it in."""
        return np.asarray(self._sense * values[self.motor])

    def each_motors(self, values: Vector) -> Vector:
        """The inverse of :meth:`each_tendons`, (M,)."""
        return np.asarray(self._sense[self._tendon] * values[self._tendon])

    def each_motors_least(self, values: Vector) -> Vector:
        """The least value of the tendons, (N,), for each motor whose current stands for theirs, (M,)."""
        own = self.motor == np.arange(self.matrix.shape[1])[:, None]
        return np.asarray(np.where(own, values, np.inf).min(axis=1))

    def forces(self, tension_n: Vector) -> Vector:
        """Forces of the motors that tensions (N,) ask for, T^T F, (M,), N at what they wind."""
        return np.asarray(self.matrix.T @ tension_n)

    def loads(self, force_n: Vector) -> Vector:
        """Tensions at forces of the motors (M,), (N,), N; NaN where the motors and the preload do not tell them."""
        return _product(self.told, force_n) + self._preloads_n


def coupling_of(robot: Robot) -> Coupling | None:
    """The transmission of a robot; None where each motor pulls the tendon of its number."""
    return None if robot.transmission is None else Coupling(robot)


def _clean(matrix: NDArray[np.floating[Any]]) -> Vector:
    return np.where(np.abs(matrix) < _ROUNDING, 0.0, matrix).astype(float)


def _product(matrix: Vector, values: Vector) -> Vector:
    """A product in which an entry of 0 takes nothing, not even NaN."""
    known = matrix @ values
    if np.isfinite(known).all():
        return np.asarray(known)
    return np.asarray(np.where(matrix != 0, matrix * np.where(matrix != 0, values, 0.0), 0.0).sum(axis=1))
