# SPDX-License-Identifier: Apache-2.0
"""From the sticks of a person to references: limited in speed, acceleration and range, moving only while held.

Derived here: speeds change within the acceleration, and stop at the edge of the range.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.control.motion import LimitedMotion, MotionLimits
from continuum_robot.control.references import ClarkeReference
from continuum_robot.errors import ParameterError
from continuum_robot.robot.description import Robot
from continuum_robot.rod.tendons import controlled_manifold

Vector = NDArray[np.float64]

RANGE_FRACTION = 0.9
"""Fraction of the largest displacement that a person may ask for; the rest is the controller's."""


@dataclass(frozen=True, slots=True)
class Range:
    """A convex range of positions p: slopes @ p <= ends.

    Attributes
    ----------
    slopes : shape (rows, n)
    ends : shape (rows,)
    """

    slopes: Vector
    ends: Vector

    def holds(self, position: Vector) -> bool:
        """Whether a position, shape (n,), is inside."""
        return bool(np.all(self.slopes @ position <= self.ends))

    def along_edge(self, position: Vector, velocity: Vector) -> Vector:
        """The part of a velocity, shape (n,), that does not lead further out of the range at a position outside."""
        outside = self.slopes[self.slopes @ position > self.ends]
        for normal in outside:
            outward = float(normal @ velocity)
            if outward > 0:
                velocity = velocity - normal * (outward / float(normal @ normal))
        return velocity


def clarke_range(robot: Robot) -> Range:
    """Where no tendon's displacement exceeds 90 % of its ``limits.maximum_displacement_m``, either way."""
    if robot.limits is None:
        raise ParameterError("robot", robot.name, "a robot file with the section limits")
    displacement = controlled_manifold(robot).displacement_matrix
    end = RANGE_FRACTION * robot.limits.each("maximum_displacement_m", robot.tendon_count)
    return Range(np.concatenate([displacement, -displacement]), np.tile(end, 2))


def tip_range(robot: Robot) -> Range:
    """A cube of the robot's length to all sides of its base: no tip is outside of it."""
    return Range(np.concatenate([np.eye(3), -np.eye(3)]), np.full(6, robot.length_m))


@dataclass(frozen=True, slots=True)
class TeleoperationStep:
    """One step."""

    reference: ClarkeReference
    moving: bool
    at_range: bool
    ignored: tuple[int, ...]


class Teleoperation:
    """Integrates the axes of a device into a position while the dead man's switch is held, else comes to rest."""

    def __init__(self, limits: MotionLimits, position: ArrayLike, within: Range, deadzone: float = 0.1) -> None:
        if not 0 <= deadzone < 1:
            raise ParameterError("deadzone", deadzone, "a fraction in [0, 1)")
        self._motion = LimitedMotion(limits, position)
        self._range, self._deadzone = within, deadzone

    @property
    def reference(self) -> ClarkeReference:
        """Where it is."""
        return self._motion.reference

    def reset(self, position: ArrayLike) -> None:
        """Start again at rest at a position, shape (n,)."""
        self._motion.reset(position)

    def update(self, axes: ArrayLike, held: bool, dt: float, speed: float = 1.0) -> TeleoperationStep:
        """One step."""
        motion, limits = self._motion, self._motion.limits
        values = np.array(axes, dtype=float)
        before = motion.reference
        if values.shape != before.position.shape:
            raise ParameterError("axes", axes, f"{before.position.size} values")
        ignored = tuple(int(index) for index in np.flatnonzero(~np.isfinite(values)))
        values = np.clip(np.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0), -1.0, 1.0)
        beyond = np.maximum(np.abs(values) - self._deadzone, 0.0) / (1.0 - self._deadzone)
        desired = np.sign(values) * beyond * limits.speed_m_per_s * min(max(speed, 0.0), 1.0) * held
        reference, at_range = self._step(desired, before, dt)
        return TeleoperationStep(reference, not motion.at_rest, at_range, ignored)

    def _step(self, desired: Vector, before: ClarkeReference, dt: float) -> tuple[ClarkeReference, bool]:
        """A step after which braking still ends inside the range; as asked for, along its edge, or braking."""
        motion = self._motion
        reference = motion.along(desired, dt)
        stop = self._stop(reference)
        if self._range.holds(stop):
            return reference, False
        motion.reset(before.position, before.velocity)
        reference = motion.along(self._range.along_edge(stop, desired), dt)
        if self._range.holds(self._stop(reference)):
            return reference, True
        motion.reset(before.position, before.velocity)
        return motion.along(np.zeros_like(desired), dt), True

    def _stop(self, reference: ClarkeReference) -> Vector:
        """Where braking from here ends."""
        speed = float(np.linalg.norm(reference.velocity))
        braking_s = speed / (2 * self._motion.limits.acceleration_m_per_s2)
        return np.asarray(reference.position + reference.velocity * braking_s)


def axes_of_coordinates(axes: ArrayLike, coordinate_count: int, group: int) -> Vector:
    """Deflections of all coordinates from those of a device: two of a segment, two modes, or up to three in all.

    Of six axes the last three, by which a cap is tilted, move the next segment or modes.
    """
    values = np.asarray(axes, dtype=float)
    if coordinate_count in (1, 3):
        return values[:coordinate_count].copy()
    result = np.zeros(coordinate_count)
    groups = (coordinate_count + 1) // 2
    for number, pair in enumerate(values.reshape(-1, 3)[:groups, :2]):
        first = 2 * ((group + number) % groups)
        result[first : first + 2] = pair[: min(2, coordinate_count - first)]
    return result
