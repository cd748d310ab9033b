# SPDX-License-Identifier: Apache-2.0
"""Chirps of all coordinates and of what stretches the tendons alone, from which a robot's dynamics are identified.

Each coordinate runs through the frequencies up and down in a time of its own, with an amplitude that the tensions allow
there. Beside them the tendons are pulled against each other, up to where motors and tendons resonate: that shows the
stiffness of the tendons, and what of the inertia and friction is the motors'.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import null_space

from continuum_robot.drivers.protocols import TendonReading
from continuum_robot.errors import ParameterError
from continuum_robot.identification.motion.parameters import check_driven_rod, is_mechanism, stiffness_at_rest
from continuum_robot.identification.procedures.manifold_servo import ServoAdvice, ServoedMotion, ServoSettings
from continuum_robot.identification.procedures.procedure import Step, driven_parts
from continuum_robot.identification.recorded_motion import RecordedMotion
from continuum_robot.robot.description import Robot
from continuum_robot.robot.schema import checked, quantity
from continuum_robot.rod.rod import Rod
from continuum_robot.rod.tendons import coefficients_from_clarke

Vector = NDArray[np.float64]

FADE_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChirpSettings(ServoSettings):
    """How the robot is moved."""

    duration_s: float = quantity("of the chirps", "s", default=60.0, ge=10, le=3600)
    lowest_hz: float = quantity("lowest frequency", "Hz", default=0.1, gt=0, le=10)
    highest_hz: float = quantity("highest frequency of the coordinates", "Hz", default=4.0, gt=0, le=50)
    highest_stretching_hz: float = quantity(
        "highest frequency at which tendons are stretched", "Hz", default=12.0, gt=0, le=100
    )
    speed_m_per_s: float = quantity("largest speed of a coordinate", "m/s", default=0.05, gt=0, le=1)
    swing: float = quantity(
        "by which fraction of what is above the least tension the model expects tensions to swing", "", default=0.6,
        gt=0, le=0.9,
    )  # fmt: skip
    stretching: float = quantity("the same of pulling tendons against each other", "", default=0.15, gt=0, le=0.5)


class Chirps(ServoedMotion[RecordedMotion]):
    """The procedure; see the module. Pure."""

    def __init__(self, robot: Robot, settings: ChirpSettings | None = None) -> None:
        self.settings = settings = checked(ChirpSettings, asdict(settings or ChirpSettings()))
        if not is_mechanism(robot):
            check_driven_rod(robot)
        super().__init__(
            robot,
            settings,
            ServoAdvice("or move it less far and fast", "Move it with a greater tension, or a smaller swing."),
        )
        _, limits = driven_parts(robot)
        keys = "minimum_n", "maximum_n", "maximum_displacement_m"
        minimum_n, maximum_n, most_m = (limits.each(key, robot.tendon_count) for key in keys)
        room_n = float(np.minimum(self.rest_n - minimum_n, maximum_n - self.rest_n).min())
        if room_n <= 0:
            expected = f"more than limits.minimum_n = {minimum_n.max():g} N"
            raise ParameterError("tension_n", float(self.rest_n.min()), expected)
        pull = np.asarray(self.manifold.displacement_matrix)
        own_kg, stiffness = at_rest(robot.with_all_coordinates, float(self.rest_n.sum()))
        self.mass_kg += own_kg
        half_n = 0.5 * settings.swing * room_n
        reach_m = 0.4 * float((most_m / np.abs(pull).sum(axis=1)).min())
        self._farthest_m = min(reach_m, half_n / max(self._swing(stiffness), 1e-9))
        # A coordinate that goes one way only moves about the middle of where it comes to.
        ranges_m = robot.traits.coordinate_ranges_m
        self._one_sided = frozenset(index for index, (low_m, _) in ranges_m.items() if low_m >= 0)
        self._farthest_m = min([self._farthest_m, *(0.45 * high_m for _, high_m in ranges_m.values())])
        self._hardest_m_per_s2 = half_n / self._swing(self.mass_kg)
        across = null_space(pull.T)
        self._stretching_n = settings.stretching * room_n * across / max(float(np.abs(across).sum(axis=1).max()), 1e-9)

    def _swing(self, matrix: Vector) -> float:
        """Largest tension for a unit of all coordinates at once, N."""
        return float((np.abs(matrix).sum(axis=1) @ np.abs(self.manifold.clarke_matrix)).max())

    def move(self, reading: TendonReading, dt: float) -> Step:
        self.elapsed_s += dt
        whole_s = self.settings.duration_s
        position, velocity = self.reference(self.elapsed_s)
        base = self.rest_n + self._stretching(self.elapsed_s)
        tension = self.following(reading, base, position, velocity, dt)
        self.record(reading)
        self.ended = self.elapsed_s >= whole_s
        return Step(tension, "moving in chirps", 0.05 + 0.95 * min(1.0, self.elapsed_s / whole_s))

    def found(self) -> RecordedMotion:
        return self.samples

    def reference(self, time_s: float) -> tuple[Vector, Vector]:
        """Desired coordinates (2m,), m, and their rates, m/s."""
        count = self.manifold.coordinate_count
        position, velocity = np.zeros(count), np.zeros(count)
        for index in range(count):
            before, now, after = (self._coordinate(index, time_s + shift) for shift in (-1e-3, 0.0, 1e-3))
            position[index], velocity[index] = now, (after - before) / 2e-3
        return position, velocity

    def _middle(self, index: int, time_s: float) -> float:
        """About what a coordinate swings, m."""
        return self._fade(time_s) * self._farthest_m if index in self._one_sided else 0.0

    def _coordinate(self, index: int, time_s: float) -> float:
        """A chirp at a time, m."""
        hz, phase = self._chirp(index, time_s, self.settings.highest_hz)
        rate = 2 * math.pi * hz
        return self._middle(index, time_s) + (
            math.sin(phase)
            * self._fade(time_s)
            / (1 / self._farthest_m + rate / self.settings.speed_m_per_s + rate**2 / self._hardest_m_per_s2)
        )

    def _stretching(self, time_s: float) -> Vector:
        """Tensions that the coordinates do not feel, shape (N,), N."""
        waves = [
            math.sin(self._chirp(index, time_s, self.settings.highest_stretching_hz)[1])
            for index in range(self._stretching_n.shape[1])
        ]
        return np.asarray(self._fade(time_s) * self._stretching_n @ np.array(waves))

    def _fade(self, time_s: float) -> float:
        inside_s = min(time_s, self.settings.duration_s - time_s)
        return 0.5 - 0.5 * math.cos(math.pi * min(1.0, max(0.0, inside_s / FADE_S)))

    def _chirp(self, index: int, time_s: float, highest_hz: float) -> tuple[float, float]:
        """Frequency (Hz) and phase (rad) of a coordinate, or of a way to stretch the tendons."""
        # No two in the same rhythm; odd ones begin at the top.
        half_s = 0.5 * self.settings.duration_s / (1 + 0.37 * index)
        return chirp(time_s + half_s * (index % 2), half_s, self.settings.lowest_hz, highest_hz)


def at_rest(robot: Robot, tension_n: float) -> tuple[Vector, Vector]:
    """Mass without that of motors and capstans (kg), and stiffness (N/m), of the coordinates at rest, (M, M) each."""
    if is_mechanism(robot):
        stiffness = stiffness_at_rest(robot, tension_n)
        return np.zeros(stiffness.shape), stiffness
    rod, shape = Rod(robot, paths=()), coefficients_from_clarke(robot)
    straight = np.zeros(rod.n)
    return shape.T @ rod.terms(straight, straight).mass @ shape, shape.T @ rod.arrays.stiffness @ shape


def chirp(time_s: float, half_s: float, lowest_hz: float, highest_hz: float) -> tuple[float, float]:
    """Frequency (Hz) and phase (rad) of a chirp: the logarithm of the frequency rises evenly, then falls, and so on."""
    ratio = math.log(highest_hz / lowest_hz)
    halves, x = divmod(time_s / half_s, 1.0)
    whole = (highest_hz - lowest_hz) * half_s / ratio
    if int(halves) % 2 == 0:
        hz = lowest_hz * math.exp(ratio * x)
        turned = (hz - lowest_hz) * half_s / ratio
    else:
        hz = highest_hz * math.exp(-ratio * x)
        turned = (highest_hz - hz) * half_s / ratio
    return hz, 2 * math.pi * (halves * whole + turned)
