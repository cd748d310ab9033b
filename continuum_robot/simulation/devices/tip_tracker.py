# SPDX-License-Identifier: Apache-2.0
"""A simulated tracker of the tip: it sees the true tip at a rate, with noise, reports it late, and loses some poses."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from continuum_robot.drivers.protocols import TrackedPose
from continuum_robot.geometry import so3
from continuum_robot.mechanisms.equilibrium_modulation.building import make_moment_error, make_segment, modulation_of
from continuum_robot.mechanisms.equilibrium_modulation.equilibrium import modulated_equilibrium
from continuum_robot.mechanisms.equilibrium_modulation.kinematics import end_pose
from continuum_robot.mechanisms.equilibrium_modulation.moment_error import LinearMomentError
from continuum_robot.robot.coordinates import clarke_manifold
from continuum_robot.robot.description import Robot
from continuum_robot.robot.file.recording import Recording
from continuum_robot.robot.schema import quantity
from continuum_robot.simulation.bodies.choosing import linked_tip
from continuum_robot.simulation.devices.channel import LateReports

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackerErrors:
    """What a simulated tracker does wrong."""

    noise_m: float = quantity("standard deviation of the place in each axis", "m", default=1e-4, ge=0, le=1e-2)
    noise_rad: float = quantity("standard deviation of the turn about each axis", "rad", default=2e-3, ge=0, le=1)
    delay_s: float = quantity("age of a pose when it is reported", "s", default=0.015, ge=0, le=0.4)
    lost: float = quantity("fraction of the poses that are lost", default=0.0, ge=0, le=1)


class SimulatedTracker:
    """Sees poses, and reports them later."""

    def __init__(self, errors: TrackerErrors, rng: np.random.Generator) -> None:
        self.errors, self._rng = errors, rng
        self._late: LateReports[TrackedPose] = LateReports()

    def look(self, time_s: float, tip: Vector) -> None:
        """See the true tip, shape (4, 4), at a time, s."""
        errors, rng = self.errors, self._rng
        seen = np.array(tip)
        seen[:3, 3] += errors.noise_m * rng.standard_normal(3)
        seen[:3, :3] = so3.exp(errors.noise_rad * rng.standard_normal(3)) @ seen[:3, :3]
        if rng.random() >= errors.lost:
            self._late.add(TrackedPose(time_s, seen))

    def reported(self, now_s: float) -> list[TrackedPose]:
        """What comes until now, s, and has not come before."""
        return self._late.until(now_s, self.errors.delay_s)


class PlantTracker:
    """A tracker without a clock that sees a plant's tip: it stamps a pose when it comes."""

    simulated = True

    def __init__(
        self,
        plant: Callable[[], Vector],
        place: Recording | None,
        errors: TrackerErrors,
        rng: np.random.Generator,
        rate_hz: float,
    ) -> None:
        self._plant, self._tracker, self._period_s = plant, SimulatedTracker(errors, rng), 1 / rate_hz
        self._base, self._marker = np.eye(4), np.eye(4)
        if place is not None:
            self._base[:3, :3] = so3.exp(np.array(place.base_rotation_in_tracker_rad))
            self._base[:3, 3], self._marker[:3, 3] = place.base_in_tracker_m, place.marker_in_tip_m
        self._next_s = -math.inf
        self._waiting: list[TrackedPose] = []

    def open(self) -> None:
        """Nothing to begin."""

    def read(self, now_s: float) -> TrackedPose | None:
        """See the tip where it is due, and report what comes now; as of :class:`~.protocols.Tracker`."""
        if now_s >= self._next_s:
            self._next_s = max(self._next_s, now_s - self._period_s) + self._period_s
            self._tracker.look(now_s, self._base @ self._plant() @ self._marker)
        self._waiting += self._tracker.reported(now_s)
        if not self._waiting:
            return None
        seen = self._waiting.pop(0)
        return TrackedPose(seen.time_s + self._tracker.errors.delay_s, seen.tip)

    def close(self) -> None:
        """Nothing to end."""


def true_tip(robot: Robot, model_error: float = 0.0) -> Callable[[Vector], Vector | None]:
    """How the true tip follows from what a simulated robot links to sensors in other processes."""
    if not robot.traits.tip_nodes:
        return lambda values: linked_tip(robot, values)
    mechanism = modulation_of(robot)
    segment = make_segment(mechanism)
    error = LinearMomentError(*(make_moment_error(mechanism).parameters * (1 + model_error)))
    spread = clarke_manifold(robot).displacement_matrix[: mechanism.backbone_count, :2]

    def of_modulation(values: Vector) -> Vector | None:
        if values.size < 3 or not math.isfinite(values.sum()):
            return None
        theta, delta = segment.configuration(spread @ values[:2])
        return np.asarray(end_pose(modulated_equilibrium(segment, theta, delta, values[2], error), segment))

    return of_modulation
