# SPDX-License-Identifier: Apache-2.0
"""What tendons and strings see of a rod with more coefficients than sensors: the modes that stand out of their errors.

Derived here. Forces that act on the rod through its sensors move the readings S c, each over its standard deviation, by
C = S H^-1 S^T per force, with H the stiffness at rest. The eigenvectors U of C, of eigenvalues L, are the modes
q = U^T S c, and c = B q with B = H^-1 S^T U L^-1 is the shape of least energy that has them. A force F on the
coefficients does B^T F on the modes, and B^T H c = L^-1 q: the elastic force on the modes depends on the readings
alone. So a contact is detected in the modes whatever the rest of the shape does, as exactly as the readings are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.estimation.modal_filter import ModalKalmanFilter
from continuum_robot.estimation.shape_estimate import (
    ShapeSettings,
    expected_string_sigma_m,
    sensor_noise_m,
    sensor_sigma_m,
)
from continuum_robot.robot.description import Robot
from continuum_robot.rod.fiber import curvature_readings
from continuum_robot.rod.rod import Rod
from continuum_robot.rod.statics import Balance, equilibrium

Vector = NDArray[np.float64]

_STANDS_OUT = 3.0  # standard deviations by which the largest expected force has to move a mode
_REMEMBERED = 64  # sets of sensors
_IN_ONE_PLANE = 1e-6
_USUAL_FORCE_N = 1.0  # of a robot without limits


@dataclass(frozen=True, slots=True, eq=False)
class SeenModes:
    """Modes of a robot's shape that its sensors see: n coefficients, m sensors, k modes. Modes are dimensionless: 1 is
    what the systematic errors of the sensors make of a mode.
    """

    shapes: Vector
    coordinates: Vector
    readings: Vector
    noise: Vector
    jerk_density: Vector
    largest: Vector
    energy_j: float
    rest: Vector
    sigma_m: Vector
    compliance: Vector
    _informations: dict[bytes, Vector] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """Number k of modes."""
        return self.shapes.shape[1]

    def information(self, known: NDArray[np.bool_]) -> Vector:
        """Inverse covariance of the readings in the modes that some sensors see, (m, m), 1/m^2; else 0.

        What two sensors measure alike, or only the rod's stiffest deformations distinguish, is their errors' and would
        bend the shape to fit them.
        """
        key = known.tobytes()
        if key not in self._informations:
            if len(self._informations) >= _REMEMBERED:
                self._informations.clear()
            chosen = np.flatnonzero(known)
            _, vectors = _standing_out(self.compliance[np.ix_(chosen, chosen)], self.energy_j)
            own = np.zeros((len(known), vectors.shape[1]))
            own[chosen] = vectors / self.sigma_m[chosen, None]
            self._informations[key] = own @ own.T
        return self._informations[key]

    def motion_filter(self, period_s: float | None = None) -> ModalKalmanFilter:
        """Kalman filter of the modes and their rates, which takes modes as readings."""
        return ModalKalmanFilter(np.eye(self.count), self.noise, self.jerk_density, nominal_dt_s=period_s)


@lru_cache(maxsize=16)
def seen_modes(robot: Robot, settings: ShapeSettings | None = None) -> SeenModes:
    """The modes of a rod of any basis and routing."""
    settings = settings or ShapeSettings()
    rod = sensed_rod(robot)
    balance = Balance(rod)
    pretension_n = 0.0 if robot.control is None else robot.control.pretension_n
    tension = np.zeros(rod.tendon_count)
    tension[: robot.tendon_count] = pretension_n
    at_rest = equilibrium(rod, tension, balance=balance)
    rest, stiffness = at_rest.c, at_rest.hessian
    sigma_m = sensor_sigma_m(robot, settings, expected_string_sigma_m(robot, settings))
    sensors = np.vstack([-at_rest.gradient, curvature_readings(robot)])
    weighted = sensors / sigma_m[:, None]
    moved = np.linalg.solve(stiffness, weighted.T)
    compliance = weighted @ moved
    tip = rod.moved(rest)[1][:2]
    force_n = force_balanced_at_tip_n(robot)
    softest = float(np.linalg.eigvalsh(tip @ np.linalg.solve(stiffness, tip.T)).max())
    energy_j = (force_n if math.isfinite(force_n) else _USUAL_FORCE_N) ** 2 * softest / 2
    values, U = _standing_out(compliance, energy_j)
    if not values.size:
        most = math.sqrt(np.linalg.eigvalsh(compliance).max(initial=0.0) * energy_j)
        raise ParameterError(
            f"sensors of {robot.name}",
            f"{len(sigma_m)}, moved by {most:.2g} standard deviations",
            f"tendons or strings that {force_n:.2g} N at the tip move by {_STANDS_OUT:g} standard deviations",
        )
    coordinates = U.T @ weighted
    noise_m = sensor_noise_m(robot, settings)
    scale = np.where(rod.arrays.rows < 3, 1 / rod.scale, 0.0)  # of a rod that turns by 1 rad
    found = SeenModes(
        moved @ U / values,
        coordinates,
        sensors @ moved @ U / values,
        np.sqrt(((U * (noise_m / sigma_m)[:, None]) ** 2).sum(axis=0)),
        settings.bending_jerk_rad * np.sqrt(((coordinates * scale) ** 2).sum(axis=1)),
        np.sqrt(values * energy_j),
        energy_j,
        rest,
        sigma_m,
        compliance,
    )
    for array in (found.shapes, found.coordinates, found.readings, found.noise, found.jerk_density, found.rest):
        array.setflags(write=False)
    return found


def sensed_rod(robot: Robot) -> Rod:
    """The rod whose shape is estimated: tendons and then strings are its paths."""
    return Rod(robot, paths=[*robot.tendon_paths, *(string.path for string in robot.strings)])


def _standing_out(compliance: Vector, energy_j: float) -> tuple[Vector, Vector]:
    """Eigenvalues of the modes that stand out of the sensors' errors, from the softest on, and the modes, (m, k)."""
    values, vectors = np.linalg.eigh((compliance + compliance.T) / 2)
    seen = np.flatnonzero(values * energy_j > _STANDS_OUT**2)[::-1]
    return values[seen], vectors[:, seen]


def force_balanced_at_tip_n(robot: Robot) -> float:
    """Force across the tip that the tendons balance there in their weakest direction, N; NaN without limits.

    Of tendons in one plane: in that plane.

    The tip stays where the force F and the tensions move it to and fro alike: C F = D T, with T of each tendon up to
    the limits' range.
    """
    if robot.limits is None:
        return math.nan
    rod = Rod(robot)
    straight = np.zeros(rod.n)
    tip = rod.moved(straight)[1][:2]
    soft = np.linalg.solve(rod.arrays.stiffness, tip.T)
    held = np.linalg.solve(tip @ soft, soft.T @ rod.displacement_gradient(straight).T)
    axes, forces, _ = np.linalg.svd(held)
    if forces[1] > _IN_ONE_PLANE * forces[0]:
        angles = np.linspace(0, 2 * np.pi, 360, endpoint=False)
        directions = np.column_stack([np.cos(angles), np.sin(angles)])
    else:
        directions = np.array([axes[:, 0], -axes[:, 0]])
    most_n, least_n = (robot.limits.each(key, robot.tendon_count) for key in ("maximum_n", "least_n"))
    room_n = most_n - least_n
    reached = (np.maximum(directions @ held, 0.0) * (room_n / room_n.max())).sum(axis=1)
    return float(reached.min() * room_n.max())
