# SPDX-License-Identifier: Apache-2.0
"""The equations of motion of motors, parallel tendons and a rod that bends, as they hold for measured samples.

Derived here, from muhmann (22) to (25) with motors and elastic tendons. Motor j with displacement q_j gives

    F_j(t + l) = T_j + m q_j'' + b q_j' + F_c h(q_j) + a_j sin(w q_j) + b_j cos(w q_j) + o_j,

with a lag l between current and encoder; h is dry friction over its limit: tanh(q_j' / v_0), or by the motion's past
where the file says that it builds up over a travel. On the coordinates that the tendons control, P^T T is the force of
the rod at what the tendons' stretch leaves of the displacements, with its hysteresis. Across them the rod feels
nothing: Z^T T = k Z^T q + d Z^T q'. Between disks tendons run straight, which shortens those through segment i by
beta_i |q_i|^2 beyond what the coordinates say: that counts as displacement across, and bends with 2 beta_i q_i times
the sum of their tensions (virtual work). All that is linear passes filters, so each column is computed from what was
measured and filtered as the force is.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import null_space

from continuum_robot.identification.motion.motors import DRY, LEAST_PAST, MOTORS, PAST_STEP, Motors
from continuum_robot.identification.motion.parameters import TENDON_DAMPING, TENDON_STIFFNESS
from continuum_robot.identification.motion.rod_parts import RodParts
from continuum_robot.identification.motion.samples import DriveSamples
from continuum_robot.identification.motion.unknowns import MotionFitSettings, Unknowns, weights
from continuum_robot.robot.description import Robot
from continuum_robot.robot.segments.hysteresis import Hysteresis
from continuum_robot.rod.friction.hysteresis import RodHysteresis
from continuum_robot.rod.tendon_modes import controlled_manifold

Vector = NDArray[np.float64]
LowPass = Callable[[Vector, float], Vector]

_SLOPE_STEP = 1e-4


@dataclass(frozen=True)
class _Rod:
    """Coordinates with their slopes (3, T, 2m), the forces by parameter (P, T, 2m), and the whole force (T, 2m), N."""

    place: Vector
    forces: Vector
    force: Vector


@dataclass(frozen=True)
class _Chord:
    """For a unit of beta: shortening across (T, N - 2m), and the force on the coordinates of the motors' forces (T, 2m)
    and of each column (C, T, 2m).
    """

    across: Vector
    force: Vector
    columns: Vector


def _lagging_alone(robot: Robot, index: int, factor: float) -> Robot:
    """The robot with the hysteresis of one segment alone, with a unit of moment and its curvature times a factor."""
    segments = [dataclasses.replace(segment, hysteresis=None) for segment in robot.segments]
    own = robot.segments[index].hysteresis
    if own is not None:
        unit = Hysteresis(moment_nm=1.0, curvature_per_m=factor * own.curvature_per_m)
        segments[index] = dataclasses.replace(segments[index], hysteresis=unit)
    return robot.changed(segments=tuple(segments))


class CoordinateEquations:
    """Forces on and across the coordinates; see :class:`~.unknowns.ForceEquations` for what they share with others.

    Parameters
    ----------
    robot : a rod that bends under parallel tendons with a motor on each
    samples : at even times
    settings : how they are used
    """

    def __init__(self, robot: Robot, samples: DriveSamples, settings: MotionFitSettings) -> None:
        self._robot = robot
        self.unknowns = Unknowns.of(robot, float(np.abs(samples.force_n).mean()), settings.prior, chords=True)
        self.parameters = self.unknowns.parameters
        manifold = controlled_manifold(robot)
        self._pull = np.asarray(manifold.displacement_matrix)
        # Not the manifold's own: what stretches across the coordinates must not count on them.
        self._onto = np.linalg.pinv(self._pull)
        self._across = null_space(self._pull.T)
        self._parts = RodParts(robot)
        motors = Motors(robot, samples, self.parameters, settings.stretching_hz)
        kept = motors.kept(settings.samples_hz)

        def with_slopes(values: Vector) -> Vector:
            first = motors.slope(values)
            return np.stack([values[kept], first[kept], motors.slope(first)[kept]])

        def pulled(values: Vector) -> Vector:
            return with_slopes(motors.low_pass(values @ self._pull, settings.bandwidth_hz))

        count, place, force = robot.tendon_count, motors.place_m, motors.force_n
        # Every column of what is linear: what it adds to the motors' forces, (T, N).
        columns = [*motors.moving, *motors.of_each(), motors.late]
        self._across_columns = np.array([column[kept] @ self._across for column in columns])
        # Where the rod is, for what the chords do; the stretch by the file's stiffness is near enough for that.
        stretched = motors.low_pass(force @ self._pull, settings.bandwidth_hz) @ (self._onto @ self._onto.T)
        rod_place = place @ self._onto.T - stretched / robot.simulation.tendon_stiffness_n_per_m
        # The constants stand for where displacements count from, not for tension.
        tensions = [force, *columns]
        tensions[-1 - count : -1] = [np.zeros_like(force)] * count
        self._chords = self._chord_columns(rod_place, tensions, motors.low_pass, settings, kept)

        def rubbing(factor: float) -> tuple[Vector, Vector]:
            """Dry friction of the motors over its limit: on the coordinates, and across them."""
            column = motors.rubbed(factor)
            return pulled(column), column[kept] @ self._across

        def lagging(segment: int, factor: float) -> Vector:
            """Force on the coordinates of a segment's hysteresis for a unit of its moment, (T, 2m)."""
            bent = RodHysteresis(_lagging_alone(robot, segment, max(factor, LEAST_PAST)))
            force = np.array([bent.move(c) for c in rod_place @ self._parts.shape.T]) @ self._parts.shape
            return motors.low_pass(force, settings.bandwidth_hz)[kept]

        self._rubbing, self._lagging = lru_cache(rubbing), lru_cache(lagging)
        self._pulled_columns = [pulled(column) for column in columns]
        self._across_force, self._pulled_force = force[kept] @ self._across, pulled(force)
        self.pulled = self._pulled_force[0]
        self._coordinates = with_slopes(motors.low_pass(place @ self._onto.T, settings.bandwidth_hz))
        self._across_place = place[kept] @ self._across
        self._across_rate = motors.rate_m_per_s[kept] @ self._across
        whole = np.concatenate([self.pulled, self._across_force], axis=1)
        self.forces = whole - whole.mean(axis=0)
        self.time_s = samples.time_s[kept]
        self._motor_units = np.concatenate([self.parameters.motor_units, np.ones(len(columns) - MOTORS)])

    def _chord_columns(
        self, rod_place: Vector, columns: list[Vector], low_pass: LowPass, settings: MotionFitSettings, kept: slice
    ) -> list[_Chord]:
        """What a unit of beta does in each segment."""
        found = []
        slices = self._robot.tendon_slices
        for index in range(len(slices)):
            through = np.zeros(self._robot.tendon_count)
            for later, rows in enumerate(slices):
                through[rows] = float(
                    later == index or (later > index and self._robot.segments[later].tendons.from_base)
                )
            own = np.zeros(rod_place.shape[1])
            own[2 * index : 2 * index + 2] = 1.0
            bent = rod_place * own
            shortened = low_pass((bent**2).sum(axis=1, keepdims=True) * through, settings.stretching_hz)
            forced = [
                low_pass(2 * bent * (column @ through)[:, None], settings.bandwidth_hz)[kept] for column in columns
            ]
            found.append(_Chord(shortened[kept] @ self._across, forced[0], np.array(forced[1:])))
        return found

    def _split(self, unknowns: Vector) -> tuple[Vector, Vector]:
        """Values of the parameters, and factors of the columns."""
        values = unknowns[: self.parameters.count] * self.parameters.scales
        motors = np.concatenate([values[:MOTORS], unknowns[self.parameters.count : self.unknowns.chords.start]])
        return values, motors * self._motor_units

    def _residual(self, unknowns: Vector, near: _Rod | None = None) -> tuple[Vector, _Rod]:
        """What is left on the coordinates and across them, (T, N), and the rod's forces.

        With those of a rod ``near`` they are not computed again but moved along by the rod's stiffness, damping and
        mass at the straight pose: what the tendons' stretch changes is small.
        """
        values, factors = self._split(unknowns)
        stiffness, damping = values[TENDON_STIFFNESS], values[TENDON_DAMPING]
        pulled = self._pulled_force - sum(a * one for a, one in zip(factors, self._pulled_columns, strict=True))
        if self.parameters.travel is not None:
            (rubbed, rubbed_across), dry = self._rubbing(float(unknowns[self.parameters.travel])), factors[DRY]
            pulled = pulled - dry * (rubbed - self._pulled_columns[DRY])
        # A spring with a damper: T = k s + d s', so that s = (T - d/k T') / k but for higher orders.
        eased = pulled - damping / stiffness * np.concatenate([pulled[1:], np.zeros_like(pulled[:1])])
        place = self._coordinates - eased @ (self._onto @ self._onto.T) / stiffness
        own = unknowns[self.parameters.rod]
        if near is None:
            forces, rest = self._parts.forces(*place)
            near = _Rod(place, forces, np.tensordot(own, forces, 1) + rest)
            modelled = near.force
        else:
            moved = place - near.place
            modelled = near.force + sum(one @ matrix for one, matrix in zip(moved, self._parts.straight, strict=True))
        for index, moment, curvature in self.parameters.hysteresis:
            modelled = modelled + values[moment] * self._lagging(index, float(unknowns[curvature]))
        chords = unknowns[self.unknowns.chords]
        bent = sum(
            beta * (one.force - np.tensordot(factors, one.columns, 1))
            for beta, one in zip(chords, self._chords, strict=True)
        )
        shortened = sum(beta * one.across for beta, one in zip(chords, self._chords, strict=True))
        across = self._across_force - np.tensordot(factors, self._across_columns, 1)
        if self.parameters.travel is not None:
            across = across - dry * (rubbed_across - self._across_columns[DRY])
        across = across - stiffness * (self._across_place - shortened) - damping * self._across_rate
        return np.concatenate([pulled[0] + bent - modelled, across], axis=1), near

    def linearised(self, unknowns: Vector) -> tuple[Vector, Vector, Vector]:
        """What is left of the forces (T, N), its slopes (T, N, U) and weights (N,), 1/N.

        Parameters
        ----------
        unknowns : shape (U,)
        """
        rows, rod = self._residual(unknowns)
        count = self.parameters.count
        slopes = np.zeros((*rows.shape, len(unknowns)))
        rod_parts = self.parameters.rod
        for index in (*range(rod_parts.start), *range(rod_parts.stop, count)):
            moved, step = unknowns.copy(), _SLOPE_STEP if index < rod_parts.start else PAST_STEP
            moved[index] += step
            slopes[:, :, index] = (self._residual(moved, rod)[0] - rows) / step
        for index, force in enumerate(rod.forces, rod_parts.start):
            slopes[:, : force.shape[1], index] = -force
        columns = zip(self._pulled_columns[MOTORS:], self._across_columns[MOTORS:], strict=True)
        for index, (pulled, across) in enumerate(columns, count):
            slopes[:, :, index] = -np.concatenate([pulled[0], across], axis=1)
        _, factors = self._split(unknowns)
        stiffness = float(unknowns[TENDON_STIFFNESS] * self.parameters.scales[TENDON_STIFFNESS])
        for index, one in enumerate(self._chords, self.unknowns.chords.start):
            bent = one.force - np.tensordot(factors, one.columns, 1)
            slopes[:, :, index] = np.concatenate([bent, stiffness * one.across], axis=1)
        return rows, slopes, weights(rows, self.forces)

    def fraction(self, _unknowns: Vector, _step: Vector) -> float:
        """All of it: what is unknown stands in the forces by factors; arguments as of :class:`~.ForceEquations`."""
        return 1.0
