# SPDX-License-Identifier: Apache-2.0
"""What resists a motion by its past: dry friction of the motors that builds up, and hysteresis of the backbone.

Tendons rub on their way through guides and disks by the capstan law, on any routing.
"""

from __future__ import annotations

from functools import cached_property

import cython
import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.robot.description import Robot
from continuum_robot.robot.segments.tendons import RoutedTendon, Tendons
from continuum_robot.rod.description import RodDescription
from continuum_robot.rod.friction.hysteresis import RodHysteresis
from continuum_robot.rod.friction.maxwell_slip import MaxwellSlip, motor_slip
from continuum_robot.rod.kernel.arrays import straight_lever
from continuum_robot.rod.rod import Rod
from continuum_robot.stepped.buffers import copy_into, indices, matrix, stepped, vector
from continuum_robot.stepped.products import multiply_transposed

Vector = NDArray[np.float64]


@cython.cclass
class Resistance:
    """Force on the coefficients of a rod against one motion, with its memory; n coefficients, N tendons. Stepped
    code.
    """

    acts = cython.declare(cython.bint, visibility="readonly")
    motor_fraction: cython.double
    force: cython.double[::1]
    size: cython.int
    tendon_count: cython.int
    of_motors: cython.bint
    rod: RodHysteresis
    motors: MaxwellSlip
    lever: cython.double[::1]
    pulled: cython.double[::1]

    def __init__(self, robot: Robot, *, motors: bool = True) -> None:
        actuators, self.tendon_count, self.size = robot.actuators, robot.tendon_count, robot.coefficient_count
        self.rod, self.motors = RodHysteresis(robot), None  # type: ignore[assignment]
        if motors and actuators is not None:
            self.motors = motor_slip(  # type: ignore[assignment]
                actuators.each("coulomb_n", self.tendon_count),
                actuators.friction_travel_m,
                np.zeros(self.tendon_count),
            )
        self.of_motors, self.motor_fraction = self.motors is not None, 1.0
        self.acts = self.rod.acts or self.of_motors
        # Where the tendons' levers depend on the shape, that of the straight rod is near enough for friction.
        lever = np.zeros((self.tendon_count, self.size))
        if self.acts:
            lever = straight_lever(RodDescription.of_robot(robot))
        self.lever = matrix(lever.tolist())
        self.force, self.pulled = vector(self.size), vector(self.size)

    def reset(self, c: Vector, displacement_m: Vector) -> None:
        """Rest without force, the past unknown."""
        self.rest(vector(c.tolist()), vector(displacement_m.tolist()))

    def displacement(self, c: Vector) -> Vector:
        """Of the tendons at the rod for coefficients, (N,), m."""
        return np.asarray(self._lever() @ c)

    def move(self, c: Vector, displacement_m: Vector) -> Vector:
        """Go on to a pose."""
        self.step(vector(c.tolist()), vector(displacement_m.tolist()))
        return np.array(self.force)

    def uncertain(self, fraction: float) -> Vector:
        """Generalised forces by each of which it may be off, (m, n), N.m^2."""
        rod = self.rod.uncertain(fraction)
        if not self.of_motors:
            return rod
        return np.concatenate([rod, self.motors.uncertain(fraction)[:, None] * self._lever()])

    def _lever(self) -> Vector:
        return np.array(self.lever).reshape(-1, self.size)

    @stepped
    def rest(self, c: cython.double[::1], displacement_m: cython.double[::1]) -> cython.void:
        """As :meth:`reset`, at coefficients ``c``, 1/m, and displacements ``displacement_m``."""
        k: cython.int
        self.rod.rest(c)
        if self.of_motors:
            self.motors.rest(displacement_m)
        for k in indices(self.size):
            self.force[k] = 0.0

    @stepped
    def step(self, c: cython.double[::1], displacement_m: cython.double[::1]) -> cython.void:
        """As :meth:`move`, to coefficients ``c``, 1/m, and displacements ``displacement_m``."""
        k: cython.int
        if self.rod.acts:
            self.rod.step(c)
            copy_into(self.force, self.rod.force, self.size)
        if self.of_motors:
            self.motors.step(displacement_m)
            multiply_transposed(self.lever, self.motors.resisting, self.tendon_count, self.size, self.pulled)
            for k in indices(self.size):
                self.force[k] = self.motor_fraction * self.pulled[k] + self.rod.force[k]


_LEAST_PLACES = 9


class PathFriction:
    """Which fraction of its tension each tendon loses where it slides: 1 - exp(-mu turn), Euler's capstan law.

    The turn is that of the guide between spool and base, and the angles between the tendon's pieces from disk to disk,
    which bend with the rod. Friction that a fit found as a fraction comes on top.
    """

    def __init__(self, robot: Robot) -> None:
        tendons = [segment.tendons for segment in robot.segments for _ in range(segment.tendons.count)]
        each: list[Tendons | RoutedTendon] = [*tendons, *robot.routed_tendons]
        fitted = robot.displaced_tendons
        self.coefficient = np.array([one.friction_coefficient for one in each])
        self.guide_rad = np.array([one.guide_turn_rad for one in each])
        self._found = np.zeros(len(each)) if fitted is None else np.array(fitted.friction_fraction)
        self._turns = bool(self.coefficient.any())
        self.acts = self._turns or bool(self._found.any())
        self._robot = robot

    @cached_property
    def _ways(self) -> tuple[Rod, Vector, Vector, NDArray[np.bool_]]:
        """Rod, places on its backbone, where the tendons run there, and which pieces from one to the next they use."""
        robot = self._robot
        even = [
            np.linspace(start_m, start_m + segment.length_m, _LEAST_PLACES)
            for start_m, segment in zip(robot.segment_starts_m, robot.segments, strict=True)
        ]
        places = np.unique(np.concatenate([[0.0], robot.disk_arc_lengths_m, *even]).round(9))
        places = np.minimum(places, robot.length_m)
        offset = np.zeros((len(self.coefficient), len(places), 2))
        used = np.zeros((len(self.coefficient), len(places) - 1), dtype=bool)
        for index, path in enumerate(robot.tendon_paths):
            on = (places >= path.start_m - 1e-9) & (places <= path.end_m + 1e-9)
            offset[index, on] = np.stack(path.at(places[on])[:2], axis=1)
            used[index] = on[1:] & on[:-1]
        return Rod(robot, paths=()), places, offset, used

    def turn_rad(self, c: ArrayLike) -> Vector:
        """Angle through which each tendon turns from its spool to its end at coefficients (n,), (N,), rad."""
        rod, places, offset, used = self._ways
        poses = np.asarray(rod.poses(c, places))
        at = poses[:, :3, 3] + np.einsum("kij,nkj->nki", poses[:, :3, :2], offset)
        ways = np.diff(at, axis=1)
        ways /= np.linalg.norm(ways, axis=2, keepdims=True)
        cosine = np.einsum("nki,nki->nk", ways[:, 1:], ways[:, :-1])
        turns = np.arccos(np.clip(cosine, -1.0, 1.0)) * (used[:, 1:] & used[:, :-1])
        first = np.arange(len(used)), used.argmax(axis=1)
        comes = poses[first[1], :3, 2]  # along the backbone
        enters = np.arccos(np.clip(np.einsum("ni,ni->n", comes, ways[first]), -1.0, 1.0))
        return np.asarray(self.guide_rad + enters + turns.sum(axis=1))

    def fraction(self, c: ArrayLike) -> Vector:
        """Fraction of each tendon's tension that friction takes up before it slides at coefficients (n,), (N,)."""
        if not self._turns:
            return self._found
        return np.asarray(1 - (1 - self._found) * np.exp(-self.coefficient * self.turn_rad(c)))
