# SPDX-License-Identifier: Apache-2.0
"""A motion of a rod step by step, with its derivative by what is looked for: forward sensitivities.

The implicit midpoint rule in coefficients and momenta, as rod/kernel/motion.hpp has it, with forces that depend on
parameters: friction of capstans, elastic tendons that follow measured displacements. With g half a step, the middle of
the step solves R(c) = p(c, v) - p_0 - g F(c, v) = 0, v = (c - c_0) / g; the kernel gives dR/dc, which Newton's method
and, by the implicit function theorem, the derivatives need.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ConvergenceError
from continuum_robot.identification.robot_keys import value_of, with_values
from continuum_robot.robot.description import Robot
from continuum_robot.rod.kernel.reference import Terms
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


_ITERATIONS, _HALVINGS = 60, 8
_FARTHEST = 30.0  # of a coefficient, as angle or strain over its segment


@dataclass(frozen=True, slots=True)
class Forces:
    """Further forces on n coefficients, and their derivatives by these, by their rates, and by S looked for."""

    force: Vector
    by_c: Vector
    by_rate: Vector
    by: Vector


@dataclass(frozen=True, slots=True)
class State:
    """Coefficients and momenta, shape (n,), and their derivatives by S that are looked for, shape (n, S)."""

    c: Vector
    momentum: Vector
    c_by: Vector
    momentum_by: Vector


class SimulatedMotion:
    """Motions of a rod under forces."""

    def __init__(self, parts: RodParts, tolerance: float) -> None:
        self._parts, self._tolerance = parts, tolerance
        self.terms, self._scale = parts.rod.prepared(), parts.rod.scale
        self._parted = {k: rod.prepared() for k, rod in parts.moving.items() if k < len(parts.in_file)}

    def begin(self, c: Vector, rate: Vector, c_by: Vector, rate_by: Vector) -> State:
        """The state of coefficients and rates, with derivatives."""
        at = self.terms(c, rate)
        by = at.momentum_by_c @ c_by + at.mass @ rate_by
        for k, terms in self._parted.items():
            by[:, k] += terms(c, rate).momentum
        return State(c, at.momentum.copy(), c_by, by)

    def step(
        self,
        state: State,
        rate: Vector,
        step_s: float,
        forces: Callable[[Vector, Vector, Terms], Forces],
        slopes: bool = True,
    ) -> tuple[State, Vector, Vector, Vector]:
        """One step: the state after it, and of its middle the coefficients, the rates and their derivatives
        (n, 2 S).
        """
        g, arrays = step_s / 2, self._parts.rod.arrays
        c0, p0 = state.c, state.momentum
        c, best, halvings = c0 + g * rate, np.inf, 0
        change: Vector = np.zeros(len(c0))
        for iteration in range(_ITERATIONS):
            v = (c - c0) / g
            at = self.terms(c, v)
            own = forces(c, v, at)
            force = at.force + own.force - arrays.stiffness @ c - arrays.damping @ v
            missing = p0 + g * force - at.momentum
            by_rate = at.momentum_by_c.T - arrays.damping + own.by_rate
            by_c = at.force_by_c - arrays.stiffness + own.by_c
            size = float(np.linalg.norm(missing / self._scale))
            if size > best and halvings < _HALVINGS:
                # Where a capstan reverses, friction is steep: full corrections go to and fro.
                change, halvings = change / 2, halvings + 1
                c = c - change
                continue
            matrix = at.momentum_by_c + at.mass / g - g * by_c - by_rate
            best, halvings, change = size, 0, np.asarray(np.linalg.solve(matrix, missing), dtype=float)
            turned = float(np.abs(change * self._scale).max())
            if not turned < _FARTHEST or float(np.abs(c * self._scale).max()) > _FARTHEST:
                raise ConvergenceError("the simulated motion ran away", turned, self._tolerance, iteration)
            c = c + change
            if turned < self._tolerance:
                force = force + by_c @ change + by_rate @ change / g
                break
        else:
            raise ConvergenceError("a step of the simulated motion", turned, self._tolerance, _ITERATIONS)
        v = (c - c0) / g
        ended = (2 * c - c0, p0 + 2 * g * force)
        if not slopes:
            return State(*ended, state.c_by, state.momentum_by), c, v, np.zeros((len(c), 0))
        by, momentum_by = own.by.copy(), np.zeros_like(own.by)
        by[:, : len(self._parts.in_file)] -= (self._parts.stiffness @ c + self._parts.damping @ v)[:-1].T
        for k, terms in self._parted.items():
            one = terms(c, v)
            by[:, k] += one.force
            momentum_by[:, k] = one.momentum
        right = (at.mass / g - by_rate) @ state.c_by + state.momentum_by + g * by - momentum_by
        c_by = np.linalg.solve(matrix, right)
        v_by = (c_by - state.c_by) / g
        after_by = state.momentum_by + 2 * g * (by_c @ c_by + by_rate @ v_by + by)
        after = State(*ended, 2 * c_by - state.c_by, after_by)
        return after, c, v, np.concatenate([c_by, v_by], axis=1)
