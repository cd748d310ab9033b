# SPDX-License-Identifier: Apache-2.0
"""Friction of capstan-driven tendons in the holes of the disks, in closed form: johnston section 5.3, (32)-(38).

A strand that comes to a bushing with tension f and direction t_in and leaves with tension f' and direction t_out
presses on it with f' t_out - f t_in, of which the part in the disk's plane is the normal force. johnston (34) prints a
plus: there both unit vectors point away from the disk, so that the one before the disk runs against the strand. With
directions along the strand the sign is a minus, and a strand that passes straight through a hole, however oblique to
the disk, presses on nothing.

With a = P t_in, b = P t_out and x = f' / f the condition f' = f - mu |f' b - f a| of (33), (34) is
(1 - mu^2 b.b) x^2 - 2 (1 - mu^2 a.b) x + (1 - mu^2 a.a) = 0 with x <= 1. For mu < 1 the polynomial is positive at
x = 0, not positive at x = 1 and grows without bound, so one root lies in [0, 1] and the other above: johnston's
constrained minimisation (35) has a single admissible point, the lesser root. It does not depend on f, so a strand loses
a fraction of its tension that depends on the shape alone: rod/kernel/capstans.hpp.
"""

from __future__ import annotations

import ctypes as ct
from collections.abc import Callable
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ContinuumRobotError, ParameterError
from continuum_robot.robot.description import Robot
from continuum_robot.rod.friction.capstans import (
    capstan_jacobian,
    drives,
    tension_from_torque,
    wires_from_tension,
)
from continuum_robot.rod.kernel import library as kernel
from continuum_robot.rod.kernel.reference import Terms
from continuum_robot.rod.rod import Rod

Vector = NDArray[np.float64]

TANH_PER_RADIAN = 10.0  # johnston below (37)
# Deflections at a bushing below about this angle over the friction coefficient, rad, are rounded off, so that the
# friction has a derivative at the straight configuration.
_ROUNDING = 1e-7


class CapstanFriction:
    """Friction of all capstans of a robot; of no effect on a robot without capstans.

    Each wire begins at the plate from which its segment goes on, square to it, runs through the disks of that segment
    and leaves the last one square; with two strands it runs back on the same way. Not for use by two threads at once.
    """

    def __init__(self, robot: Robot, *, coefficients: ArrayLike | None = None) -> None:
        self.robot, self._drives = robot, drives(robot)
        self.capstan_count = len(self._drives)
        values = [drive.friction_coefficient for drive in self._drives] if coefficients is None else coefficients
        self.coefficients = np.array(values, dtype=float)
        if self.coefficients.shape != (self.capstan_count,) or not np.all(
            (self.coefficients >= 0) & (self.coefficients < 1)
        ):
            raise ParameterError("coefficients", coefficients, f"{self.capstan_count} values in [0, 1)")
        self.jacobian = capstan_jacobian(robot) if self._drives else np.zeros((0, robot.coefficient_count))
        self._radii_m = np.array([drive.capstans.radius_m for drive in self._drives])
        self._pretension_n: Vector = np.zeros(robot.tendon_count)
        for drive in self._drives:
            self._pretension_n[[drive.pulled, drive.released]] = drive.strands * drive.capstans.pretension_n
        self._of_torque = tension_from_torque(robot)
        self._of_tension = wires_from_tension(robot)
        self.stations_m: Vector = robot.disk_arc_lengths_m if self._drives else np.zeros(0)
        self._library = kernel.library()
        if self._drives and self._library is None:
            raise ContinuumRobotError(
                "friction of capstans needs the kernel's library: install a C++ compiler and the package again"
            )
        self._on: Rod | None = None
        self._of: Terms | None = None

    def kept(self, terms: Terms, rod: Rod, *, slopes: bool = True) -> tuple[Vector, Vector]:
        """What each wire keeps of its tension, the pulled one and the released one of each capstan: johnston (36)."""
        if rod is not self._on or terms is not self._of:
            self._place(rod, terms)
        if self.capstan_count:
            self._friction[:] = self.coefficients[:, None]
            self._library.rod_kept_fractions(*self._given, self._slopes if slopes else None)  # type: ignore[union-attr]
        return self._kept[0].copy(), self._kept[1]

    def fractions(self, c: ArrayLike) -> Vector:
        """What the pulled and the released wire of each capstan keep at a shape, (k, 2)."""
        rod, evaluate = self._own
        return self.kept(evaluate(c, np.zeros(rod.n)), rod, slopes=False)[0]

    @cached_property
    def _own(self) -> tuple[Rod, Callable[[ArrayLike, ArrayLike], Terms]]:
        rod = Rod(self.robot, paths=(), stations_m=self.stations_m.tolist())
        return rod, rod.prepared()

    def torque(self, fractions: Vector, speed: ArrayLike, wires: Vector) -> Vector:
        """Friction that resists each capstan, (k,), N.m; of the sign of its speed."""
        return np.asarray(np.tanh(TANH_PER_RADIAN * np.asarray(speed)) * self._lost(fractions, wires))

    def resistance(self, c: ArrayLike, speed: ArrayLike, tension: ArrayLike) -> Vector:
        """The same at a shape under given tensions, (k,), N.m."""
        return self.torque(self.fractions(c), speed, self.wires_of_tension(np.asarray(tension, dtype=float)))

    def generalized_force(self, c: ArrayLike, c_rate: ArrayLike, capstan_torque: ArrayLike) -> Vector:
        """kappa_fric of johnston (38), (n,), N.m^2, around the pretension of the robot's file; it resists (41)."""
        wires = self.wires_of_torque(np.asarray(capstan_torque, dtype=float))
        speed = self.jacobian @ np.asarray(c_rate, dtype=float)
        return np.asarray(self.jacobian.T @ self.torque(self.fractions(c), speed, wires))

    def force(self, kept: tuple[Vector, Vector], c_rate: Vector, wires: Vector) -> tuple[Vector, Vector, Vector]:
        """kappa_fric of johnston (38), (n,), N.m^2, its derivatives by c and by c_rate, (n, n)."""
        fractions, slopes = kept
        pulling = wires.reshape(2, -1).T * self._radii_m[:, None]
        sense = np.tanh(TANH_PER_RADIAN * (self.jacobian @ c_rate))
        lost = ((1 - fractions) * pulling).sum(axis=1)  # johnston (33), (36)
        by_c = -sense[:, None] * (pulling[:, None, :] @ slopes)[:, 0]
        by_speed = TANH_PER_RADIAN * (1 - sense**2) * lost
        back = self.jacobian.T
        return back @ (sense * lost), back @ by_c, back @ (by_speed[:, None] * self.jacobian)

    def wires_lose(self, fractions: Vector, tension: Vector) -> Vector:
        """The most that friction takes of each capstan's torque, (k,), N.m: johnston (37) at full speed."""
        return self._lost(fractions, self.wires_of_tension(tension))

    def speeds(self, tendon_rate: Vector) -> Vector:
        """Of the capstans, (k,), rad/s, half of the difference of both tendons: a stretched pair counts as it winds."""
        return np.array(
            [0.5 * (tendon_rate[o.pulled] - tendon_rate[o.released]) / o.path_per_radian_m for o in self._drives]
        )

    def wires_of_tension(self, tension: Vector) -> Vector:
        """Tensions of the pulled wires, then of the released ones, (2k,), N."""
        return np.asarray(self._of_tension @ tension)

    def tension_of_torque(self, torque: Vector) -> Vector:
        """Tensions of all tendons, (N,), N, that torques on the capstans make of the pretension of the robot's file.

        johnston (32) prints the whole of |tau| / r_c on either wire. By statics half of it is, and the pulled wire
        carries all once the other is slack.
        """
        half = self._of_torque @ torque
        return np.asarray(np.maximum(np.maximum(self._pretension_n + half, 2 * half), 0.0))

    def wires_of_torque(self, torque: Vector) -> Vector:
        """As :meth:`wires_of_tension` where only the torque on the capstans is known, (k,), N.m."""
        return self.wires_of_tension(self.tension_of_torque(torque))

    def _lost(self, fractions: Vector, wires: Vector) -> Vector:
        """Torque that friction takes from each capstan at full speed: (33), (36), (37)."""
        count = self.capstan_count
        lost = (1 - fractions[:, 0]) * wires[:count] + (1 - fractions[:, 1]) * wires[count:]
        return np.asarray(self._radii_m * lost)

    def _place(self, rod: Rod, terms: Terms) -> None:
        """Where the wires' holes are among the bodies of a rod, and the arguments of the kernel's call."""
        robot, bodies_m = self.robot, rod.arrays.bodies_m
        paths, wires = robot.tendon_paths, []
        holes: list[tuple[int, tuple[float, float]]] = []
        for drive in self._drives:
            segment, start_m = robot.segments[drive.segment], float(robot.segment_starts_m[drive.segment])
            disks_m = [start_m, *(start_m + at for at in segment.disks.positions_m(segment.length_m) if at > 0)]
            for tendon in (drive.pulled, drive.released):
                wires.append((len(holes), len(disks_m), int(drive.strands > 1)))
                x_m, y_m, _, _ = paths[tendon].at(np.array(disks_m))
                for at_m, x, y in zip(disks_m, x_m, y_m, strict=True):
                    body = int(np.argmin(np.abs(bodies_m - at_m))) if at_m > 0 else -1
                    if body >= 0 and abs(bodies_m[body] - at_m) > 1e-6 * robot.length_m:
                        raise ParameterError("rod", at_m, "a rod with a body at each disk")
                    holes.append((body, (x, y)))
        count = self.capstan_count
        self._on, self._of, self._friction = rod, terms, np.empty((count, 2))
        self._wires, self._holes = np.array(wires, kernel.WIRE), np.array(holes, kernel.HOLE)
        self._kept = np.ones((count, 2)), np.zeros((count, 2, rod.n))
        ways = _at(self._wires), _at(self._holes), _at(self._friction), ct.c_double(_ROUNDING)
        self._given = (rod.n, 2 * count, *ways, _at(terms.pose), _at(terms.jacobian), _at(self._kept[0]))
        self._slopes = _at(self._kept[1])


def _at(array: NDArray[np.generic]) -> ct.c_void_p:
    return ct.c_void_p(kernel.at(array))
