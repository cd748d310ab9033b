# SPDX-License-Identifier: Apache-2.0
"""Limits on commanded displacements: not finite, range, speed, acceleration. The result names what was limited.

Interpreted only, at the rate of a servo bus.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from continuum_robot.control.limits import (
    LIMITED_MAXIMUM,
    LIMITED_MINIMUM,
    LIMITED_NOT_FINITE,
    LIMITED_RATE,
)
from continuum_robot.robot.actuation import DisplacementLimits

Vector = NDArray[np.float64]

LIMITED_ACCELERATION = 32
# Below which a command has arrived: an encoder's count is a thousand times as much.
_ARRIVED_M = 1e-9
# Of the way of the farthest: what goes less than that has nothing to brake.
_LEAST_PART = 1e-12


class DisplacementLimiter:
    """Brings desired displacements within a robot's limits, and keeps the direction in which they move it.

    1. Not finite: the tendon keeps its previous command.
    2. Range: all are scaled by the largest factor with which each is within its own, so that the robot bends in the
       desired direction.
    3. Speed and acceleration. The command follows a moving target without lag while the target keeps both limits. Else
       it goes straight towards it, at the fastest speed from which every tendon can stop there; a change of velocity is
       scaled down as a whole. Each tendon can always stop within its range.
    """

    def __init__(self, limits: DisplacementLimits, tendon_count: int) -> None:
        self._farthest_m = limits.each("maximum_displacement_m", tendon_count)
        self._speed_m_per_s = limits.each("speed_m_per_s", tendon_count)
        self._acceleration = limits.each("acceleration_m_per_s2", tendon_count)
        self.limited = np.zeros(tendon_count, dtype=np.int64)
        self.reset(np.zeros(tendon_count))

    def reset(self, displacement_m: Vector, middle_m: Vector | float = 0.0) -> None:
        """Start at rest from a displacement."""
        self.command, self._middle = np.array(displacement_m, dtype=float), middle_m
        self.rest()

    def rest(self) -> None:
        """The servos have come to rest at the command."""
        self.velocity, self._target = np.zeros_like(self.command), self.command.copy()
        self._target_velocity = np.zeros_like(self.command)

    def step(self, desired: Vector, dt: float, speed_m_per_s: Vector | float = np.inf) -> None:
        """The next command."""
        target, limited = self._within_range(np.asarray(desired, dtype=float))
        self.limited = limited
        if not dt > 0.0:
            limited[target != self.command] |= LIMITED_RATE
            return
        fastest = np.minimum(self._speed_m_per_s, speed_m_per_s)
        change = (target - self._target) / dt - self._target_velocity
        moving = self._target_velocity + _shortened(change, self._acceleration * dt)
        moving = _shortened(moving, fastest)
        self._target, self._target_velocity = target, moving
        rest = target - self.command - moving * dt
        farthest = float(np.abs(rest).max())
        velocity = moving
        if farthest > _ARRIVED_M:
            way = rest / farthest
            braking = float(np.min(self._acceleration / np.maximum(np.abs(way), _LEAST_PART)))
            velocity = moving + way * _stoppable(farthest, dt, braking)
        wanted = _shortened(velocity, fastest)
        self._move(wanted, dt)
        bits = 0 if wanted is velocity else LIMITED_RATE
        if not bits or (self.velocity != wanted).any():
            bits |= LIMITED_ACCELERATION
        short = np.abs(target - self.command) > _ARRIVED_M
        if not short.any():
            self.command = target.copy()
        limited[short] |= bits

    def brake(self, dt: float) -> None:
        """Come to rest as fast as the acceleration allows, and stay there."""
        self._move(np.zeros_like(self.velocity), dt)
        self._target, self._target_velocity = self.command.copy(), self.velocity.copy()

    def _move(self, wanted: Vector, dt: float) -> None:
        """Go on with a velocity as near to the wanted one as the acceleration allows, m/s."""
        velocity = self.velocity + _shortened(wanted - self.velocity, self._acceleration * dt)
        above, below = self._farthest_m - self.command + self._middle, self._farthest_m + self.command - self._middle
        slowest, fastest = -_stoppable(below, dt, self._acceleration), _stoppable(above, dt, self._acceleration)
        self.velocity = np.clip(velocity, slowest, fastest)
        self.command = self.command + self.velocity * dt

    def _within_range(self, desired: Vector) -> tuple[Vector, NDArray[np.int64]]:
        limited = np.zeros(desired.size, dtype=np.int64)
        unknown = ~np.isfinite(desired)
        limited[unknown] = LIMITED_NOT_FINITE
        from_middle = np.where(unknown, self.command, desired) - self._middle
        within = _shortened(from_middle, self._farthest_m)
        if within is not from_middle:
            moved = from_middle != 0.0
            outermost = from_middle[int(np.argmax(np.abs(from_middle) / self._farthest_m))]
            limited[moved] |= LIMITED_MAXIMUM if outermost > 0 else LIMITED_MINIMUM
        return within + self._middle, limited


def _stoppable(room_m: Vector | float, dt: float, a: Vector | float) -> Vector:
    """The fastest speed of this step from which an acceleration stops within ``room_m``, counted from before it.

    v dt + v^2 / (2 a) = room; a command that slows down by a dt in each step stays below that, whatever their dt.
    """
    return np.asarray(a * (np.sqrt(dt * dt + 2.0 * np.maximum(room_m, 0.0) / a) - dt))


def _shortened(vector: Vector, longest: Vector) -> Vector:
    """A vector scaled down until no entry is larger than its own ``longest``; itself where none is."""
    size = np.abs(vector)
    over = size > longest
    return vector * float((longest[over] / size[over]).min()) if over.any() else vector
