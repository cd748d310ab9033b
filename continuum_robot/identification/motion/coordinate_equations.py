# SPDX-License-Identifier: Apache-2.0
"""The equations of motion of motors, parallel tendons and a rod that bends, as they hold for measured samples.

Derived here, from muhmann (22) to (25) with motors (motion/equations.py) and elastic tendons. On coordinates that the
tendons control, P^T T is the force of the rod at what the tendons' stretch leaves of the displacements, with its
hysteresis. Across them the rod feels nothing: Z^T T = k Z^T q + d Z^T q'. Between disks tendons run straight, which
shortens those through segment i by beta_i |q_i|^2 beyond what the coordinates say: that counts as displacement across,
and bends with 2 beta_i q_i times the sum of their tensions (virtual work).
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import null_space

from continuum_robot.identification.fit import by_differences
from continuum_robot.identification.motion.equations import ForceEquations
from continuum_robot.identification.motion.parameters import MotionFitSettings, beside, chord_per_m
from continuum_robot.identification.recorded_motion import RecordedMotion
from continuum_robot.identification.simulated_motion import RodParts
from continuum_robot.robot.description import Robot
from continuum_robot.robot.segments.backbone import Hysteresis
from continuum_robot.rod.friction.hysteresis import RodHysteresis
from continuum_robot.rod.tendon_modes import coefficients_from_clarke, controlled_manifold

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class _Near:
    """Coordinates with their slopes (3, T, 2m), and the forces by each parameter of the rod (P + 1, T, 2m), N."""

    place: Vector
    forces: Vector


def _lagging_alone(robot: Robot, index: int, factor: float) -> Robot:
    """The robot with the hysteresis of one segment alone, with a unit of moment and its curvature times a factor."""
    segments = [dataclasses.replace(segment, hysteresis=None) for segment in robot.segments]
    own = robot.segments[index].hysteresis
    if own is not None:
        unit = Hysteresis(moment_nm=1.0, curvature_per_m=factor * own.curvature_per_m)
        segments[index] = dataclasses.replace(segments[index], hysteresis=unit)
    return robot.changed(segments=tuple(segments))


class CoordinateEquations(ForceEquations):
    """Forces on and across the coordinates."""

    def __init__(self, robot: Robot, samples: RecordedMotion, settings: MotionFitSettings) -> None:
        betas = [chord_per_m(robot, k) for k in range(len(robot.segments))]
        super().__init__(robot, samples, settings, chords=beside("chords", len(betas), betas))
        self._bandwidth_hz, motors, at = settings.bandwidth_hz, self.motors, self.parameters.at
        self._kept = motors.kept(motors.period_s)
        self._pull = np.asarray(controlled_manifold(robot).displacement_matrix)
        # Not the manifold's own: what stretches across the coordinates must not count on them.
        self._onto = np.linalg.pinv(self._pull)
        self._across = null_space(self._pull.T)
        self._shape = coefficients_from_clarke(robot)
        self._parts = RodParts(robot, self.parameters.keys[at["rod"]], self.parameters.scale[at["rod"]])
        rest, arrays = np.zeros(len(self._shape)), self._parts.rod.arrays
        straight = self._parts.rod.terms(rest, rest)
        self._straight = [
            self._shape.T @ matrix @ self._shape
            for matrix in (arrays.stiffness - straight.force_by_c, arrays.damping, straight.mass)
        ]
        # Where the rod is, for what the chords do; the stretch by the file's stiffness is near enough for that.
        stretched = motors.low_pass(motors.force_n @ self._pull, self._bandwidth_hz) @ (self._onto @ self._onto.T)
        self._place_m = motors.place_m @ self._onto.T
        self._bent_m = self._place_m - stretched / robot.tendon_stiffness_n_per_m
        self._coordinates = self._with_slopes(motors.low_pass(self._place_m, self._bandwidth_hz))
        self._through = np.zeros((robot.tendon_count, len(robot.segments)))
        for k, rows in enumerate(robot.tendon_slices):
            self._through[rows, : k if robot.segments[k].tendons.from_base else 0] = 1.0
            self._through[rows, k] = 1.0

        def lagging(segment: int, factor: float) -> Vector:
            """Force on the coordinates of a segment's hysteresis for a unit of its moment, (T, 2m)."""
            bent = RodHysteresis(_lagging_alone(robot, segment, factor))
            force = np.array([bent.move(c) for c in self._bent_m @ self._shape.T]) @ self._shape
            return motors.low_pass(force, self._bandwidth_hz)[self._kept]

        self._lagging = lru_cache(lagging)
        self.pulled = self._with_slopes(motors.low_pass(motors.force_n @ self._pull, self._bandwidth_hz))[0]
        whole = np.concatenate([self.pulled, motors.force_n[self._kept] @ self._across], axis=1)
        self.forces = whole - whole.mean(axis=0)
        self.time_s = samples.time_s[self._kept]

    def _with_slopes(self, values: Vector) -> Vector:
        first = self.motors.slope(values)
        return np.stack([one[self._kept] for one in (values, first, self.motors.slope(first))])

    def left(self, x: Vector, near: _Near | None = None) -> Vector:
        """What is left of the forces, on the coordinates, then across them, (T, N), N."""
        motors, at, values = self.motors, self.parameters.at, self.parameters.values(x)
        stiffness, damping = float(values[at["stiffness"]][0]), float(values[at["damping"]][0])
        tension = motors.force_n - motors.resisting(x)
        pulled = self._with_slopes(motors.low_pass(tension @ self._pull, self._bandwidth_hz))
        # A spring with a damper: T = k s + d s', so that s = (T - d/k T') / k but for higher orders.
        eased = pulled - damping / stiffness * np.concatenate([pulled[1:], np.zeros_like(pulled[:1])])
        place = self._coordinates - eased @ (self._onto @ self._onto.T) / stiffness
        if near is None:
            near = _Near(place, self._parts.forces(*(place @ self._shape.T)) @ self._shape)
            self._latest = near
        modelled = np.tensordot(np.append(x[at["rod"]], 1.0), near.forces, 1)
        modelled = modelled + sum(one @ by for one, by in zip(place - near.place, self._straight, strict=True))
        for name in at:
            if name.startswith("hysteresis"):
                moment, _ = values[at[name]]
                modelled = modelled + moment * self._lagging(int(name.rpartition("_")[2]), float(x[at[name]][1]))
        # The constants stand for where displacements count from, not for tension.
        beta, squeezing = x[at["chords"]], motors.force_n - motors.resisting(x, constant=False)
        bending = 2 * self._bent_m * np.repeat(beta * (squeezing @ self._through), 2, axis=1)
        shorter = (beta * (self._bent_m**2).reshape(len(tension), -1, 2).sum(axis=2)) @ self._through.T
        on = pulled[0] + motors.low_pass(bending, self._bandwidth_hz)[self._kept] - modelled
        stretch = stiffness * (motors.place_m - motors.low_pass(shorter)) + damping * motors.rate_m_per_s
        return np.concatenate([on, (tension - stretch)[self._kept] @ self._across], axis=1)

    def linearised(self, x: Vector) -> tuple[Vector, Vector]:
        rows = self.left(x)
        near = self._latest
        _, slopes = by_differences(lambda other: self.left(other, near).ravel(), self.motors.steps)(x)
        return rows, slopes.reshape(*rows.shape, -1)
