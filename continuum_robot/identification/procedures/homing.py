# SPDX-License-Identifier: Apache-2.0
"""Homing: take up slack, sway the robot about its straight pose, and measure where the tendons stand there.

Friction holds a robot with equal tensions away from the straight pose: 1 N of it bends the five-tendon prototype by
half a radian. While it sways in a circle, friction opposes the motion on all sides alike, so the middle of the circle
is the pose that a robot without friction would take.

Homing of servos that hold displacements: let all tendons out, pull in one after the other, and see its load begin.

With the other tendons slack the rod stands as its weight lets it, and a tendon that is pulled bears nothing until it is
tight. From there its load grows evenly, by the compliance of rod and tendon, so a line through the loads on the way
leads back to where they begin. The motor's friction is in the loads before that as much as after. What all tendons of
a segment have in common bends nothing and is found better together: how far they are tighter than they should be when
they are pulled in at last shows in their loads, by their own stiffness. Where no load is measured, the distance between
the servo's goal and its place stands for it, which its own loop keeps in proportion.

Tendons that share a motor cannot be let out and pulled one after the other: their robot counts from the place where it
stands, which has to be straight (:class:`Mounted`).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from continuum_robot.drivers.protocols import TendonReading
from continuum_robot.errors import ParameterError
from continuum_robot.geometry.clarke import ClarkeManifold
from continuum_robot.identification.procedures.procedure import (
    HeldProcedure,
    Procedure,
    ProcedureError,
    Step,
    driven_parts,
    pretension_n,
)
from continuum_robot.robot.coupling import coupling_of
from continuum_robot.robot.description import Robot
from continuum_robot.robot.reading_thresholds import reading_thresholds
from continuum_robot.robot.schema import checked, quantity
from continuum_robot.rod.holding_force import HeldTendons
from continuum_robot.rod.rod import Rod
from continuum_robot.rod.tendons import controlled_manifold

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


LET_OUT, BACK, NEAR, TIGHTEN, MEASURE_LOAD = (
    "letting out", "letting out again", "taking in slack", "tightening", "measuring"
)  # fmt: skip
_QUIET_M = 1e-3  # of the way in, over which a slack tendon shows its motor's friction
_QUIET_READINGS = 16  # at least, over that way
_UNSEEN = 0.5  # of the largest load, that a blocked tendon may gain while a reading is as old as it may be
_ONSET = 0.125  # of pretension and motors' friction, beyond the friction: a tight tendon
_LEAST_COUNTS = 4
_JITTER_S = 0.015  # of goals and readings, in which a servo goes no further than those counts
_TOGETHER = 16  # readings, whose median shows a load
_NOISE, _DEVIATION = 4.0, 1.48  # standard deviations, each of a median's distance
_LOOK_S = 1.0  # over which the place of a robot that stands straight is averaged
_SETTLE_S = 0.5  # in which the robot comes to rest
_LAST = 0.5  # of the pretension's stretch, over which the loads of tight tendons are compared


class LoadOnset(HeldProcedure[Homed]):
    """The procedure; see the module. Pure."""

    def __init__(self, robot: Robot, tension_n: float = 0.0) -> None:
        super().__init__(robot)
        if robot.shares_motors:
            expected = "a motor for each tendon: tendons that share one cannot be pulled one after the other"
            raise ParameterError("transmission.matrix", f"{robot.motor_count} motors", expected)
        limits, actuators = robot.displacement_limits, robot.actuators
        assert actuators is not None
        self._tension_n = tension_n or pretension_n(robot)
        limit, motor = (functools.partial(one.each, count=robot.tendon_count) for one in (limits, actuators))
        half_n = float(limit("maximum_n").min()) / 2
        if self._tension_n > half_n:
            raise ParameterError("tension_n", self._tension_n, f"at most {half_n:g} N, half of limits.maximum_n")
        self._robot, self._tendons, self._most_n = robot, HeldTendons.of(robot), limit("maximum_n")
        self._onset_n = _ONSET * np.maximum(pretension_n(robot), motor("coulomb_n"))
        self._count_n = _LEAST_COUNTS * self.k_n_per_m * motor("meter_per_count")
        self.speed_m_per_s = min(
            float(limit("speed_m_per_s").min()),
            _QUIET_M * actuators.cycle_hz / _QUIET_READINGS,
            _UNSEEN * float((self._most_n / self.drive_n_per_m).min()) / limits.reading_timeout_s,
            _LEAST_COUNTS * float(motor("meter_per_count").min()) / _JITTER_S,
        )
        self._back_speed = float(limit("pay_out_speed_m_per_s").min())
        self._out_m = limit("pay_out_m")
        rod = Rod(robot)
        self._path_m = rod.displacement(rod.equilibrium().c)  # where the weight lets the rod stand
        shift = np.asarray(controlled_manifold(robot).shift_direction)
        self._rest_load_n = self._tension_n * shift / shift.min()
        stretch_m = self._rest_load_n / self._tendons.stiffness_n_per_m
        self._near_m = stretch_m + _QUIET_M
        self._slowly = min(self.speed_m_per_s, float(stretch_m.min()) * actuators.cycle_hz / _QUIET_READINGS)
        self._phase, self._tendon = LET_OUT, 0
        self._rested_s = 0.0
        self._begin_pull()
        self._zero_m = np.zeros(robot.tendon_count)
        self._shifted = False
        self._tightened: list[tuple[Vector, Vector]] = []
        self._load_n = self._rest_load_n

    @property
    def measuring(self) -> bool:
        """Whether the robot stands straight now."""
        return self._phase == MEASURE_LOAD

    def start(self, reading: TendonReading) -> None:
        self._begin_m = reading.displacement_m.copy()
        self._slack_m, self._farthest_m = self._begin_m - self._out_m, self._begin_m + self.reach_m

    def move(self, reading: TendonReading, dt: float) -> Step:
        load_n = self.bearable_load_n(reading, self._most_n)
        count, phase = len(self.goal_m), self._phase
        if phase == LET_OUT:
            if self._rests(self.towards(self._slack_m, self._back_speed, dt), dt):
                self._phase = self._pulling
        elif phase == BACK:
            # The robot comes to rest while the next tendon is slack still.
            if self.towards(self._slack_m, self._back_speed, dt):
                self._tendon += 1
                self._phase = NEAR if self._tendon == count else self._pulling
        elif phase == NEAR:
            if self._rests(self.towards(self._tight_m() - self._near_m, self.speed_m_per_s, dt), dt):
                self._phase = TIGHTEN
        elif phase == TIGHTEN:
            self._tightened.append((reading.displacement_m.copy(), load_n))
            if self._rests(self.towards(self._tight_m(), self._slowly, dt), dt):
                if self._shifted:
                    self._phase = MEASURE_LOAD
                else:
                    self._shift_zero()
                    self.straight_m = self._zero_m
        elif phase == MEASURE_LOAD:
            self._load_n, self.ended = load_n, self._rests(True, dt)
        else:
            self._pull(reading, load_n, dt)
        return Step(self.goal_m.copy(), phase, min(1.0, 0.05 + 0.85 * self._tendon / count))

    @property
    def _pulling(self) -> str:
        return f"pulling {self._robot.tendon_names[self._tendon]}"

    def _rests(self, there: bool, dt: float) -> bool:
        """Whether the goals have been there for long enough."""
        self._rested_s = self._rested_s + dt if there else 0.0
        if self._rested_s < _SETTLE_S:
            return False
        self._rested_s = 0.0
        return True

    def _tight_m(self) -> Vector:
        """Readings under the load at the straight pose."""
        return self._zero_m + self._tendons.reading(np.zeros(len(self._zero_m)), self._rest_load_n)

    def _begin_pull(self) -> None:
        self._from_m = math.nan
        self._slack_n: list[float] = []
        self._way: list[tuple[float, float]] = []

    def _pull(self, reading: TendonReading, loads_n: Vector, dt: float) -> None:
        """Pull a tendon in until its load has begun, and find where."""
        j = self._tendon
        at_m, load_n, name = float(reading.displacement_m[j]), float(loads_n[j]), self._robot.tendon_names[j]
        if math.isnan(self._from_m):
            self._from_m = at_m
        self.goal_m[j] = min(self.goal_m[j] + self.speed_m_per_s * dt, self._farthest_m[j])
        gone_m = at_m - self._from_m
        if self.goal_m[j] == self._farthest_m[j]:
            raise ProcedureError(
                f"{name} came in by {1e3 * gone_m:.0f} mm and bears no load yet",
                "It is not attached, its polarity in the robot file is wrong, or its spool stands far from where the"
                " robot is straight: fasten it, change the sign, or turn the spool on its horn.",
            )
        if gone_m < 2 * _QUIET_M:
            if gone_m > _QUIET_M:
                self._slack_n.append(load_n)
            return
        if not self._way:
            self._quiet_n = float(np.median(self._slack_n or [load_n]))
            counts_n = 0.0 if np.isfinite(reading.tension_n).all() else self._count_n[j]
            # A busy computer adds single readings that are far off.
            off_n = np.abs(np.array(self._slack_n or [0.0]) - self._quiet_n)
            self._tight_n = max(self._onset_n[j], counts_n, _NOISE * _DEVIATION * float(np.median(off_n)))
        over_n = load_n - self._quiet_n
        self._way.append((at_m, over_n))
        # Long after its load began, a line through the loads shows where; a tendon that was never slack shows a line
        # from its start on.
        together_n = [n for _, n in self._way[-_TOGETHER:]]
        if len(together_n) == _TOGETHER and np.median(together_n) > 2 * self._tight_n:
            way_m, way_n = np.array(self._way).T
            # Single readings of a slack tendon may be as high as that.
            together = np.median(sliding_window_view(way_n, _TOGETHER), axis=1)
            low = np.flatnonzero(together <= self._tight_n / 2)
            begun = low[-1] + _TOGETHER // 2 if low.size else 0
            n_per_m, at_zero_n = np.polyfit(way_m[begun:], way_n[begun:], 1)
            begin_m = -at_zero_n / n_per_m if n_per_m > 0 else -math.inf
            if begin_m < self._from_m + _QUIET_M:
                raise ProcedureError(
                    f"{name} was tight before it was pulled",
                    "Its polarity in the robot file is wrong, or its spool winds more than stated; or let the tendons"
                    " out by hand, or raise limits.pay_out_m.",
                )
            # There its path is what the weight makes of it, and it bears nothing.
            self._zero_m[j] = begin_m - self._tendons.reading(self._path_m, np.zeros(len(self.goal_m)))[j]
            self._phase = BACK
            self._begin_pull()

    def _shift_zero(self) -> None:
        """Move the zeros of each segment together to where its loads say that they are."""
        readings, loads = (np.array(column) for column in zip(*self._tightened, strict=True))
        self._shifted = True
        # On the first part of the way all are slack, and show what their motors' friction is at this speed.
        slack = (readings > readings[0] + 0.2 * _QUIET_M) & (readings < readings[0] + 0.6 * _QUIET_M)
        loads = loads - np.array(
            [column[part].mean() if part.any() else column[0] for column, part in zip(loads.T, slack.T, strict=True)]
        )
        expected = self._tendons.stiffness_n_per_m * self._tendons.spooled(readings - self._zero_m)
        for rows in self._robot.tendon_slices:
            tight = (loads[:, rows] > _LAST * self._rest_load_n[rows]).all(axis=1)
            if tight.any():
                excess_m = (loads - expected)[tight][:, rows] / self._tendons.stiffness_n_per_m[rows]
                self._zero_m[rows] -= excess_m.mean() / self._tendons.gain[rows]

    def found(self) -> Homed:
        return Homed(
            self._zero_m,
            self._zero_m - self._begin_m,
            self._tension_n,
            float(np.abs(self._load_n - self._rest_load_n).max()),
            np.zeros(len(self._robot.tendon_slices)),
            string_zeros(self._string_names, self._strings.copy()),
        )


class Mounted(Procedure[Homed]):
    """The homing of a robot whose tendons share motors: it stands straight now, and moves nothing. Pure.

    Motors that take tensions stay idle, and servos where they are.
    """

    def __init__(self, robot: Robot) -> None:
        coupling = coupling_of(robot)
        if coupling is None or not coupling.shares or robot.transmission is None:
            raise ParameterError("transmission", robot.name, "motors that tendons share")
        super().__init__(robot, np.full(robot.tendon_count, robot.transmission.preload_n))
        self._holds, self._tight = robot.takes_displacements, True
        self._rest_m, self._preload_n = coupling.offset_m, robot.transmission.preload_n
        self._parts = len(robot.tendon_slices)
        self._seen: list[Vector] = []
        self._elapsed_s = 0.0

    def move(self, reading: TendonReading, dt: float) -> Step:
        self._seen.append(reading.displacement_m.copy())
        self._elapsed_s += dt
        self.ended = self._elapsed_s >= _LOOK_S
        return Step(self.rest_n.copy(), MEASURE_LOAD, min(1.0, self._elapsed_s / _LOOK_S))

    @property
    def measuring(self) -> bool:
        """Always: all that is read is of the straight pose."""
        return True

    def start(self, reading: TendonReading) -> None:
        """Servos stay where they are."""
        if self._holds:
            self.rest_n = reading.displacement_m.copy()

    def found(self) -> Homed:
        zero_m, nothing = np.mean(self._seen, axis=0) - self._rest_m, np.zeros(self._parts)
        strings = string_zeros(self._string_names, self._strings.copy())
        return Homed(zero_m, np.zeros(len(zero_m)), self._preload_n, 0.0, nothing, strings)


def homing_of(robot: Robot, settings: HomingSettings | None = None) -> Procedure[Homed]:
    """The homing of a robot, by what its actuators take."""
    tension_n = 0.0 if settings is None else settings.tension_n
    if robot.shares_motors:
        if tension_n:
            raise ParameterError("tension_n", tension_n, "0: transmission.preload_n says how tight the tendons are")
        return Mounted(robot)
    if robot.takes_displacements:
        return LoadOnset(robot, tension_n)
    return Homing(robot, settings)
