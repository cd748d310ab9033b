# SPDX-License-Identifier: Apache-2.0
"""Homing: take up slack, sway the robot about its straight pose, and measure where the tendons stand there.

Friction holds a robot with equal tensions away from the straight pose: 1 N of it bends the five-tendon prototype by
half a radian. While it sways in a circle, friction opposes the motion on all sides alike, so the middle of the circle
is the pose that a robot without friction would take.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

import numpy as np
from numpy.typing import NDArray

from continuum_robot.drivers.protocols import TendonReading
from continuum_robot.errors import ParameterError
from continuum_robot.geometry.clarke import ClarkeManifold
from continuum_robot.identification.procedures.procedure import (
    Procedure,
    ProcedureError,
    Step,
    driven_parts,
    pretension_n,
)
from continuum_robot.robot.description import Robot
from continuum_robot.robot.reading_thresholds import reading_thresholds
from continuum_robot.robot.schema import checked, quantity
from continuum_robot.rod.tendon_modes import controlled_manifold

Vector = NDArray[np.float64]

SWAY, MEASURE, SETTLE = "starting to sway", "measuring", "coming to rest"
LEAST_KNOWN_FRACTION = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class HomingSettings:
    """How a robot is homed."""

    tension_n: float = quantity(
        "tension at the straight pose; 0: control.pretension_n, or four times limits.safe_n",
        "N",
        default=0.0,
        ge=0,
        le=1e4,
    )
    sway_m: float = quantity("amplitude of the sway in Clarke coordinates", "m", default=2e-3, gt=0, le=0.1)
    sway_period_s: float = quantity("time of a turn", "s", default=1.0, ge=0.1, le=60)
    sway_rise_n_per_s: float = quantity(
        "how fast the swaying force grows until the robot moves", "N/s", default=0.5, gt=0, le=1e3
    )
    turns: int = quantity("whole turns over which the middle is measured", default=3, ge=1, le=100)
    settle_s: float = quantity("time in which the sway fades away", "s", default=1.0, gt=0, le=60)
    timeout_s: float = quantity("longest time until the robot sways", "s", default=60.0, gt=0, le=600)


@dataclass(frozen=True, slots=True)
class Homed:
    """Result of a homing."""

    zero_m: Vector
    slack_m: Vector
    tension_n: float
    force_n: float
    inconsistency_m: Vector
    string_zero_m: Mapping[str, float] = field(default_factory=dict)


class Homing(Procedure[Homed]):
    """The procedure; see the module. Pure."""

    def __init__(self, robot: Robot, settings: HomingSettings | None = None) -> None:
        self.settings = settings = checked(HomingSettings, asdict(settings or HomingSettings()))
        _, limits = driven_parts(robot)
        self._tension_n = settings.tension_n or pretension_n(robot)
        count = robot.tendon_count
        allowed_n = min(limits.smallest("maximum_n", count), limits.total_n / count) / 2
        self._minimum_n = limits.largest("minimum_n", count)
        if not self._minimum_n < self._tension_n <= allowed_n:
            raise ParameterError(
                "tension_n",
                self._tension_n,
                f"more than {self._minimum_n:g} N and at most {allowed_n:g} N, half of what every tendon may carry",
            )
        self._range_m = limits.smallest("maximum_displacement_m", count)
        self._largest_inconsistency_m = reading_thresholds(robot).inconsistency_m
        self._manifold = controlled_manifold(robot.with_all_coordinates)
        super().__init__(robot, self._tension_n * _forceless(self._manifold))
        if self.rest_n.max() > allowed_n:
            raise ParameterError(
                "tension_n", self._tension_n, f"at most {allowed_n * self._tension_n / self.rest_n.max():g} N"
            )
        self._sway_directions = _sway_directions(self._manifold)
        self._phase = SWAY
        self._angle_rad = self._force_n = self._elapsed_s = self._fade_s = 0.0
        self._rise_n_per_s = settings.sway_rise_n_per_s
        self._turn: list[Vector] = []
        self._measured: list[Vector] = []

    @property
    def measuring(self) -> bool:
        """Whether the middle is taken of what is read now."""
        return self._phase == MEASURE

    def move(self, reading: TendonReading, dt: float) -> Step:
        """As of :class:`~.procedure.Procedure`: the tendons may not behave as those of this robot."""
        self._angle_rad += 2 * math.pi * dt / self.settings.sway_period_s
        self._elapsed_s += dt
        phase = self._phase
        progress = {SWAY: self._sway, MEASURE: self._measure, SETTLE: self._settle}[phase](reading, dt)
        turning = np.array([math.cos(self._angle_rad), math.sin(self._angle_rad)])
        return Step(self.rest_n + self._force_n * self._sway_directions @ turning, phase, progress)

    def _sway(self, reading: TendonReading, dt: float) -> float:
        """Let the force grow until the robot goes in circles of the desired size."""
        self._turn.append(reading.displacement_m.copy())
        if self._angle_rad < 2 * math.pi:
            self._force_n += self._rise_n_per_s * dt
        else:
            amplitude_m = self._amplitude(np.array(self._turn))
            self._turn, self._angle_rad = [], self._angle_rad - 2 * math.pi
            if amplitude_m > self._range_m / 2:
                # Once friction is overcome the robot goes further than it takes.
                self._force_n, self._rise_n_per_s = 0.85 * self._force_n, 0.0
            elif amplitude_m >= self.settings.sway_m:
                self._phase = MEASURE
            else:
                self._rise_n_per_s = self.settings.sway_rise_n_per_s
        largest_n = self._tension_n - self._minimum_n
        if self._force_n > largest_n or self._elapsed_s > self.settings.timeout_s:
            raise ProcedureError(
                f"the robot does not sway under {min(self._force_n, largest_n):.2g} N more and less on its tendons",
                "Free what blocks it, or home with a greater tension where friction is high.",
            )
        return 0.2 + 0.3 * self._force_n / largest_n

    def _measure(self, reading: TendonReading, _dt: float) -> float:
        self._measured.append(reading.displacement_m.copy())
        turns = self._angle_rad / (2 * math.pi)
        if turns >= self.settings.turns:
            self._phase = SETTLE
            self._fade_n_per_s = self._force_n / self.settings.settle_s
        return 0.5 + 0.4 * min(1.0, turns / self.settings.turns)

    def _settle(self, _reading: TendonReading, dt: float) -> float:
        self._fade_s += dt
        self._force_n = max(0.0, self._force_n - self._fade_n_per_s * dt)
        if self._fade_s >= self.settings.settle_s:
            self._force_n, self.ended = 0.0, True
        return 0.9 + 0.1 * min(1.0, self._fade_s / self.settings.settle_s)

    def _amplitude(self, displacement: Vector) -> float:
        """Least amplitude of a segment's Clarke coordinates in any direction over a turn, m."""
        clarke = self._manifold.clarke(displacement)
        parts = (clarke[:, i : i + 2] for i in range(0, clarke.shape[1], 2))
        least = (np.linalg.eigvalsh(np.atleast_2d(np.cov(part.T)))[0] for part in parts)
        return math.sqrt(2 * max(0.0, min(least)))

    def found(self) -> Homed:
        """As of :class:`~.procedure.Procedure`: the tendons may miss the robot's shapes."""
        # Whole turns, so that every direction counts alike.
        displacement = np.array(self._measured)
        zero = displacement.mean(axis=0)
        away = displacement - zero
        inconsistency = np.sqrt(np.mean([self._manifold.inconsistency_m(q) ** 2 for q in away], axis=0))
        if (inconsistency > self._largest_inconsistency_m).any() or self._amplitude(
            displacement
        ) < self.settings.sway_m / 2:
            raise ProcedureError(
                f"the tendons miss the robot's shapes by {1e3 * inconsistency.max():.2g} mm while it sways",
                "Run the tendon check: a tendon is slack, swapped with another, or its gear ratio is wrong.",
            )
        strings = string_zeros(self._string_names, self._strings.copy())  # another thread may add to them
        return Homed(zero, self._take_up.slack_m.copy(), self._tension_n, self._force_n, inconsistency, strings)


def string_zeros(names: Sequence[str], readings: Sequence[Vector]) -> dict[str, float]:
    """Middle of every string while the robot swayed, by name, m.

    Strings that were unknown in more than a tenth of the readings are left out: a part of the turn that is missing
    moves the middle, by a tenth of the sway at most.
    """
    if not readings:
        return {}
    extension = np.array(readings)
    known = np.isfinite(extension)
    enough = known.mean(axis=0) >= LEAST_KNOWN_FRACTION
    return {name: float(np.nanmean(extension[:, index])) for index, name in enumerate(names) if enough[index]}


def _forceless(manifold: ClarkeManifold) -> Vector:
    """Tensions that force no coordinate, the least of them 1, (N,)."""
    parts = [manifold.shift_direction[rows] for rows in manifold.tendon_slices]
    return np.concatenate([part / part.min() for part in parts])


def _sway_directions(manifold: ClarkeManifold) -> Vector:
    """Which tendons pull while all pairs of coordinates go round together, (N, 2), in the order of the pair.

    A tendon of a segment with parallel ones stands in its own direction, of length 1; one that a pair hardly moves
    pulls less.
    """
    pairs = manifold.pairs_together
    lengths = np.linalg.norm(pairs, axis=1)
    return np.asarray(pairs / np.maximum(lengths, lengths.max() / 4)[:, None])
