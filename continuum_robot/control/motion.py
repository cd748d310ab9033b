# SPDX-License-Identifier: Apache-2.0
"""Motion within limits of speed and acceleration, for references that nobody planned: targets and joysticks.

Derived here: the quintic from rest to rest has its largest acceleration 10 / sqrt(3) times way over time squared.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.control.references import ClarkeReference
from continuum_robot.errors import ParameterError
from continuum_robot.robot.actuation import DisplacementLimits
from continuum_robot.robot.description import Robot
from continuum_robot.rod.tendons import controlled_manifold

Vector = NDArray[np.float64]

LONGEST_STEP_S = 0.05
"""After a stall of its program a reference goes on from where it stood, by at most so much time, s."""
# Of the amplitude of the robot file's own reference, which the robot is known to follow; else of the displacements.
_AMPLITUDE_FRACTION = 1.25
_DISPLACEMENT_FRACTION = 0.5
# Where the robot file does not say: two seconds from the straight pose to the largest displacement, half a second to
# full speed.
_RANGE_S = 2.0
_START_S = 0.5
# Peaks of the quintic move from rest to rest over its mean speed, and over way / duration^2.
_QUINTIC_SPEED = 15 / 8
_QUINTIC_ACCELERATION = 10 / math.sqrt(3)


@dataclass(frozen=True, slots=True)
class MotionLimits:
    """How fast a reference moves."""

    speed_m_per_s: float
    acceleration_m_per_s2: float

    def __post_init__(self) -> None:
        for name in ("speed_m_per_s", "acceleration_m_per_s2"):
            value = getattr(self, name)
            if not 0 < value < math.inf:
                raise ParameterError(name, value, "a positive, finite number")

    def move_s(self, start: ArrayLike, end: ArrayLike) -> float:
        """Duration of the shortest quintic move from rest to rest within the limits, s."""
        way = float(np.linalg.norm(np.asarray(end, dtype=float) - np.asarray(start, dtype=float)))
        return max(
            _QUINTIC_SPEED * way / self.speed_m_per_s,
            math.sqrt(_QUINTIC_ACCELERATION * way / self.acceleration_m_per_s2),
        )


def motion_limits(robot: Robot) -> MotionLimits:
    """Speed and acceleration of the file's ``reference`` section, or what follows from the largest displacement."""
    if robot.limits is None:
        raise ParameterError("robot", robot.name, "a robot file with the section limits")
    reference = robot.reference
    speed = reference.speed_m_per_s if reference is not None else 0.0
    acceleration = reference.acceleration_m_per_s2 if reference is not None else 0.0
    smallest = functools.partial(robot.limits.smallest, count=robot.tendon_count)
    usual, usual_acceleration = smallest("maximum_displacement_m") / _RANGE_S, math.inf
    if isinstance(robot.limits, DisplacementLimits):
        # A tendon that ends behind others moves by the coordinates of all of them.
        most = 1 / float(np.linalg.norm(controlled_manifold(robot).displacement_matrix, axis=1).max())
        usual = min(usual, most * smallest("speed_m_per_s"))
        usual_acceleration = most * smallest("acceleration_m_per_s2")
    speed = speed or usual
    return MotionLimits(speed, acceleration or min(speed / _START_S, usual_acceleration))


def reach(robot: Robot) -> tuple[Vector, Vector]:
    """Lowest and highest value of each coordinate that suit a robot, shape (n,) each, m.

    A quarter beyond the amplitude of the file's own reference, if it has one, else half of the largest displacement,
    divided among the segments.
    """
    count = robot.coordinate_count
    largest = (
        robot.limits.smallest("maximum_displacement_m", robot.tendon_count) if robot.limits is not None else math.inf
    )
    usual = _DISPLACEMENT_FRACTION * (largest if math.isfinite(largest) else 0.02) / max(1, len(robot.part_names))
    amplitude = np.zeros(count)
    if robot.reference is not None and len(robot.reference.amplitude_m) == count:
        amplitude = np.abs(np.array(robot.reference.amplitude_m))
    high = np.full(count, usual)
    for first in range(0, count, 2):
        radius = _AMPLITUDE_FRACTION * float(amplitude[first : first + 2].max())
        high[first : first + 2] = min(radius, largest) if radius > 0 else usual
    low = -high
    for index, ends_m in robot.traits.coordinate_ranges_m.items():
        low[index], high[index] = ends_m
    return low, high


class LimitedMotion:
    """A point in the space of the coordinates, or many, that follow targets or velocities within limits; (..., n)."""

    def __init__(self, limits: MotionLimits, position: ArrayLike) -> None:
        self.limits = limits
        self.reset(position)

    @property
    def reference(self) -> ClarkeReference:
        """Where it is and how it moves."""
        return ClarkeReference(self._position.copy(), self._velocity.copy(), self._acceleration.copy())

    @property
    def at_rest(self) -> bool:
        """Whether it stands still."""
        return not self._velocity.any()

    def reset(self, position: ArrayLike, velocity: ArrayLike | None = None) -> None:
        """Start again."""
        self._position = _finite("position", position)
        shape = self._position.shape
        self._velocity = np.zeros(shape) if velocity is None else _finite("velocity", velocity, shape)
        self._acceleration = np.zeros(shape)

    def towards(self, target: ArrayLike, dt: float, drift: ArrayLike | None = None) -> ClarkeReference:
        """One step towards a target, so that it can come to rest there, or beside one that moves."""
        shape = self._position.shape
        moved = np.zeros(shape) if drift is None else _finite("drift", drift, shape)
        way = _finite("target", target, shape) - self._position - dt * moved
        distance = np.linalg.norm(way, axis=-1, keepdims=True)
        braking = self.limits.acceleration_m_per_s2 * _positive(dt)
        # n steps, each slower by a dt than the one before, cover up to n (n + 1) / 2 a dt^2. The last one ends there.
        steps = np.maximum(1.0, np.ceil(np.sqrt(0.25 + 2 * distance / (braking * dt)) - 0.5))
        speed = np.minimum(self.limits.speed_m_per_s, distance / (steps * dt) + (steps - 1) / 2 * braking)
        rate = np.divide(speed, distance, out=np.zeros_like(distance), where=distance > 0)
        return self.along(moved + way * rate, dt)

    def along(self, velocity: ArrayLike, dt: float) -> ClarkeReference:
        """One step with a desired velocity; zero brings it to rest."""
        desired = shortened(_finite("velocity", velocity, self._position.shape), self.limits.speed_m_per_s)
        change = shortened(desired - self._velocity, self.limits.acceleration_m_per_s2 * _positive(dt))
        self._velocity = self._velocity + change
        self._acceleration = change / dt
        self._position = self._position + self._velocity * dt
        return self.reference


class Halt:
    """A reference that comes to rest with a constant deceleration."""

    def __init__(self, position: ArrayLike, velocity: ArrayLike, acceleration_m_per_s2: float) -> None:
        self._position, self._velocity = _finite("position", position), _finite("velocity", velocity)
        speed = float(np.linalg.norm(self._velocity))
        self._duration_s = speed / _positive(acceleration_m_per_s2)

    @property
    def duration_s(self) -> float:
        """Time until it rests, s."""
        return self._duration_s

    def at(self, t_s: float, /) -> ClarkeReference:
        """The reference at a time, s."""
        if t_s >= self._duration_s:
            return ClarkeReference.at_rest(self._position + self._velocity * self._duration_s / 2)
        time_s = max(t_s, 0.0)
        fraction = 1 - time_s / self._duration_s
        return ClarkeReference(
            self._position + self._velocity * time_s * (1 + fraction) / 2,
            self._velocity * fraction,
            -self._velocity / self._duration_s,
        )


def shortened(vector: Vector, longest: float) -> Vector:
    """A vector, shape (..., k), in its direction at most as long as ``longest``, in its unit."""
    length = np.linalg.norm(vector, axis=-1, keepdims=True)
    return np.asarray(vector * np.divide(longest, length, out=np.ones_like(length), where=length > longest))


def _positive(dt: float) -> float:
    if not 0 < dt < math.inf:
        raise ParameterError("dt", dt, "a positive time step in s")
    return dt


def _finite(name: str, value: ArrayLike, shape: tuple[int, ...] | None = None) -> Vector:
    array = np.array(value, dtype=float)
    if not array.ndim or not np.all(np.isfinite(array)) or shape not in (None, array.shape):
        raise ParameterError(name, value, "finite values" if shape is None else f"finite values of the shape {shape}")
    return array
