# SPDX-License-Identifier: Apache-2.0
"""A rod whose numbers are linear in what is looked for, as its energies are in each mass and stiffness."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.identification.robot_keys import value_of, with_values
from continuum_robot.robot.description import Robot
from continuum_robot.rod.rod import Rod

Vector = NDArray[np.float64]

_NUMBERS = ("body", "inertia", "stiffness", "damping")


class RodParts:
    """The rod of a robot as a sum over P parameters."""

    def __init__(self, robot: Robot, keys: Sequence[str], units: ArrayLike, **rod: Any) -> None:
        sizes = np.asarray(units, dtype=float)
        values = [float(value_of(robot, key)) for key in keys]
        self.rod, self.in_file = Rod(robot, **rod), np.array(values) / sizes
        base = self.rod.arrays
        more = [
            Rod(with_values(robot, {key: value + unit}), **rod).arrays
            for key, value, unit in zip(keys, values, sizes, strict=True)
        ]
        self._parts: dict[str, Vector] = {}
        for name in _NUMBERS:
            whole = getattr(base, name)
            each = np.array([getattr(one, name) - whole for one in more]).reshape(-1, *whole.shape)
            # Linear: a difference of any size is exact but for rounding.
            each[np.abs(each) < 1e-12 * np.abs(whole)] = 0.0
            self._parts[name] = np.append(each, [whole - np.tensordot(self.in_file, each, 1)], axis=0)
        self.stiffness, self.damping = self._parts["stiffness"], self._parts["damping"]
        self.moving: dict[int, Rod] = {}
        for k in range(len(keys) + 1):
            own = {name: part[k] for name, part in self._parts.items() if name in ("body", "inertia")}
            if any(part.any() for part in own.values()):
                self.moving[k] = copy.deepcopy(self.rod)
                for name, part in own.items():
                    getattr(self.moving[k].arrays, name)[:] = part

    def take(self, x: Vector) -> None:
        """Give the rod other numbers."""
        for name, part in self._parts.items():
            getattr(self.rod.arrays, name)[:] = np.tensordot(np.append(x, 1.0), part, 1)

    def forces(self, c: Vector, rate: Vector, acceleration: Vector) -> Vector:
        """Forces that states ask for, M a + C v + g + K c + D v, by each parameter and the rest, (P + 1, T, n)."""
        found = c @ self.stiffness + rate @ self.damping
        for k, rod in self.moving.items():
            found[k] += [rod.terms(*state).bias for state in zip(c, rate, acceleration, strict=True)]
        return np.asarray(found)
