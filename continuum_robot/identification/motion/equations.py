# SPDX-License-Identifier: Apache-2.0
"""The equations of motion of motors, tendons and rod as they hold for measured samples.

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
from scipy.signal import butter, sosfiltfilt

from continuum_robot.identification.motion.parameters import TENDON_DAMPING, TENDON_STIFFNESS, Parameters
from continuum_robot.identification.motion.rod_parts import RodParts
from continuum_robot.identification.motion.samples import DriveSamples
from continuum_robot.identification.procedures.procedure import driven_parts
from continuum_robot.robot.description import Robot
from continuum_robot.robot.schema import quantity
from continuum_robot.robot.segments.hysteresis import Hysteresis
from continuum_robot.robot.segments.segment import Segment
from continuum_robot.rod.friction.hysteresis import RodHysteresis
from continuum_robot.rod.friction.maxwell_slip import MaxwellSlip
from continuum_robot.rod.tendon_modes import controlled_manifold

MODEL_ERROR = 0.01
"""Fraction of the forces to which the model is trusted, of either sign in each block of time."""

LAG_S = 1e-3
"""Unit of the lag."""

Vector = NDArray[np.float64]
LowPass = Callable[[Vector, float], Vector]

_DRY_M_PER_S = 5e-4  # below this speed dry friction is rounded off
_SPEED_HZ = 120.0
_MOTORS = 3  # inertia, viscous and dry friction: the first parameters
_DRY = 2
_SLOPE_STEP = 1e-4
_PAST_STEP = 0.02  # of what a force by the past depends on, which has knots
_LEAST_PAST = 0.05  # such a travel or curvature is not tried below this part of the file's
_TRIM_S = 1.0
_LEAST_BLOCKS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class MotionFitSettings:
    """How the samples are used."""

    bandwidth_hz: float = quantity(
        "of the forces on the coordinates; noise in them stretches tendons and passes for motion of the rod", "Hz",
        default=8.0, gt=0.5, le=200,
    )  # fmt: skip
    stretching_hz: float = quantity("of the forces across the coordinates", "Hz", default=16.0, gt=0.5, le=200)
    samples_hz: float = quantity("how many samples of it count", "Hz", default=50.0, gt=5, le=1000)
    block_s: float = quantity("of the blocks that are left out one at a time", "s", default=2.0, gt=0.1, le=100)
    prior: float = quantity("deviation of the file's values before the data, relative to them", "", default=1.0, gt=0)
    iterations: int = quantity("largest number of steps", "", default=20, ge=1, le=1000)


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


def chord_per_m(segment: Segment) -> float:
    """Beta of tendons that run straight between the disks of a bent segment, 1/m.

    A gap l = L / n between disks that bends by angle a is l (1 - a^2 / 24) straight: in all L theta^2 / (24 n^2), and
    theta = q / r, muhmann (7).

    Parameters
    ----------
    segment : with disks
    """
    gaps = max(1, segment.disks.disk_count)
    return segment.length_m / (24 * gaps**2 * segment.tendons.pitch_radius_m**2)


class MotionEquations:
    """The forces of the samples, filtered, and what the model makes of them.

    The unknowns are the parameters over their usual sizes, then of each motor sine, cosine and constant (N), the lag
    over LAG_S, and of each segment beta (1/m).

    Parameters
    ----------
    robot : a rod that bends under parallel tendons with a motor on each
    samples : at even times
    settings : how they are used

    Attributes
    ----------
    parameters : of the robot
    expected, precision : of the unknowns before the data, and how well they are expected, shape (U,)
    sine, cosine, lag, chords : where these stand among the unknowns
    forces : measured ones less their means, on the coordinates and across them, shape (T, N), N
    pulled : on the coordinates as they are, shape (T, 2m), N
    time_s : shape (T,), s
    blocks : number of the block of time of each sample, shape (T,)
    """

    def __init__(self, robot: Robot, samples: DriveSamples, settings: MotionFitSettings) -> None:
        actuators, _ = driven_parts(robot)
        self._robot, self.parameters = robot, Parameters.of(robot)
        manifold = controlled_manifold(robot)
        self._pull = np.asarray(manifold.displacement_matrix)
        # Not the manifold's own: what stretches across the coordinates must not count on them.
        self._onto = np.linalg.pinv(self._pull)
        self._across = null_space(self._pull.T)
        self._parts = RodParts(robot)
        motors, period_s = robot.tendon_count, float(samples.time_s[1] - samples.time_s[0])
        hz = 1 / period_s

        def low_pass(values: Vector, cut_hz: float, order: int = 4) -> Vector:
            return np.asarray(sosfiltfilt(butter(order, 2 * cut_hz / hz, output="sos"), values, axis=0))

        def slope(values: Vector) -> Vector:
            return np.asarray(np.gradient(values, period_s, axis=0))

        trim = round(_TRIM_S * hz)
        kept = slice(trim, len(samples.time_s) - trim, max(1, round(hz / settings.samples_hz)))

        def with_slopes(values: Vector) -> Vector:
            first = slope(values)
            return np.stack([values[kept], first[kept], slope(first)[kept]])

        def pulled(values: Vector) -> Vector:
            return with_slopes(low_pass(values @ self._pull, settings.bandwidth_hz))

        moved = samples.displacement_m - samples.displacement_m[0]
        place = low_pass(moved, settings.stretching_hz)
        speed = low_pass(slope(moved), _SPEED_HZ, 2)
        turned = actuators.cogging_periods_per_turn * actuators.motor_rad_per_m * samples.displacement_m
        force = low_pass(samples.force_n, settings.stretching_hz)
        late = LAG_S * slope(force)
        travel = self.parameters.travel

        def dry(factor: float) -> Vector:
            if travel is None:
                return np.tanh(speed / _DRY_M_PER_S)
            reach_m = max(factor, _LEAST_PAST) * actuators.friction_travel_m
            return MaxwellSlip(np.ones(motors), np.full(motors, reach_m), moved[0]).along(moved)

        rubbed = low_pass(dry(1.0), settings.stretching_hz)
        sine, cosine = (low_pass(wave(turned), settings.stretching_hz) for wave in (np.sin, np.cos))
        own = np.eye(motors)
        # Every column of what is linear: what it adds to the motors' forces, (T, N).
        columns = [slope(slope(place)), slope(place), rubbed]
        columns += [values[:, [j]] * own[j] for values in (sine, cosine) for j in range(motors)]
        columns += [np.broadcast_to(own[j], force.shape) for j in range(motors)]
        columns.append(-late)
        self._across_columns = np.array([column[kept] @ self._across for column in columns])
        # Where the rod is, for what the chords do; the stretch by the file's stiffness is near enough for that.
        stretched = low_pass(force @ self._pull, settings.bandwidth_hz) @ (self._onto @ self._onto.T)
        rod_place = place @ self._onto.T - stretched / robot.simulation.tendon_stiffness_n_per_m
        # The constants stand for where displacements count from, not for tension.
        tensions = [force, *columns]
        tensions[-1 - motors : -1] = [np.zeros_like(force)] * motors
        self._chords = self._chord_columns(rod_place, tensions, low_pass, settings, kept)

        def rubbing(factor: float) -> tuple[Vector, Vector]:
            """Dry friction of the motors over its limit: on the coordinates, and across them."""
            column = low_pass(dry(factor), settings.stretching_hz)
            return pulled(column), column[kept] @ self._across

        def lagging(segment: int, factor: float) -> Vector:
            """Force on the coordinates of a segment's hysteresis for a unit of its moment, (T, 2m)."""
            bent = RodHysteresis(_lagging_alone(robot, segment, max(factor, _LEAST_PAST)))
            force = np.array([bent.move(c) for c in rod_place @ self._parts.shape.T]) @ self._parts.shape
            return low_pass(force, settings.bandwidth_hz)[kept]

        self._rubbing, self._lagging = lru_cache(rubbing), lru_cache(lagging)
        self._pulled_columns = [pulled(column) for column in columns]
        self._across_force, self._pulled_force = force[kept] @ self._across, pulled(force)
        self.pulled = self._pulled_force[0]
        self._coordinates = with_slopes(low_pass(place @ self._onto.T, settings.bandwidth_hz))
        self._across_place, self._across_rate = place[kept] @ self._across, slope(place)[kept] @ self._across
        whole = np.concatenate([self.pulled, self._across_force], axis=1)
        self.forces = whole - whole.mean(axis=0)
        self.time_s = samples.time_s[kept]
        scales, count = self.parameters.scales, self.parameters.count
        usual_n = float(np.abs(samples.force_n).mean())
        self._motor_units = np.concatenate([self.parameters.motor_units, np.ones(len(columns) - _MOTORS)])
        chords_per_m = np.array([chord_per_m(segment) for segment in robot.segments])
        nuisances = np.concatenate(
            [
                np.full(2 * motors, max(2 * actuators.cogging_n, 0.05 * usual_n)),
                np.full(motors, 2 * usual_n),
                [1.0],
                chords_per_m,
            ]
        )
        self.sine, self.cosine = slice(count, count + motors), slice(count + motors, count + 2 * motors)
        self.lag, self.chords = (
            count + 3 * motors,
            slice(count + 3 * motors + 1, count + 3 * motors + 1 + len(chords_per_m)),
        )
        self.expected = np.concatenate([self.parameters.before / scales, np.zeros(len(nuisances))])
        self.precision = np.concatenate([np.full(count, settings.prior**-2), nuisances**-2.0])
        blocks = max(_LEAST_BLOCKS, int((self.time_s[-1] - self.time_s[0]) / settings.block_s))
        self.blocks = np.minimum(np.arange(len(self.time_s)) * blocks // len(self.time_s), blocks - 1)

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
        motors = np.concatenate([values[:_MOTORS], unknowns[self.parameters.count : self.chords.start]])
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
            (rubbed, rubbed_across), dry = self._rubbing(float(unknowns[self.parameters.travel])), factors[_DRY]
            pulled = pulled - dry * (rubbed - self._pulled_columns[_DRY])
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
        chords = unknowns[self.chords]
        bent = sum(
            beta * (one.force - np.tensordot(factors, one.columns, 1))
            for beta, one in zip(chords, self._chords, strict=True)
        )
        shortened = sum(beta * one.across for beta, one in zip(chords, self._chords, strict=True))
        across = self._across_force - np.tensordot(factors, self._across_columns, 1)
        if self.parameters.travel is not None:
            across = across - dry * (rubbed_across - self._across_columns[_DRY])
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
            moved, step = unknowns.copy(), _SLOPE_STEP if index < rod_parts.start else _PAST_STEP
            moved[index] += step
            slopes[:, :, index] = (self._residual(moved, rod)[0] - rows) / step
        for index, force in enumerate(rod.forces, rod_parts.start):
            slopes[:, : force.shape[1], index] = -force
        columns = zip(self._pulled_columns[_MOTORS:], self._across_columns[_MOTORS:], strict=True)
        for index, (pulled, across) in enumerate(columns, count):
            slopes[:, :, index] = -np.concatenate([pulled[0], across], axis=1)
        _, factors = self._split(unknowns)
        stiffness = float(unknowns[TENDON_STIFFNESS] * self.parameters.scales[TENDON_STIFFNESS])
        for index, one in enumerate(self._chords, self.chords.start):
            bent = one.force - np.tensordot(factors, one.columns, 1)
            slopes[:, :, index] = np.concatenate([bent, stiffness * one.across], axis=1)
        trusted = np.sqrt(np.mean(rows**2, axis=0) + (MODEL_ERROR * self.forces.std(axis=0)) ** 2)
        return rows, slopes, 1 / trusted
