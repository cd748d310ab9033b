# SPDX-License-Identifier: Apache-2.0
"""Homing of servos that hold displacements: let all tendons out, pull in one after the other, and see its load begin.

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

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from continuum_robot.drivers.protocols import TendonReading
from continuum_robot.errors import ParameterError
from continuum_robot.identification.procedures.homing import Homed, Homing, HomingSettings, string_zeros
from continuum_robot.identification.procedures.procedure import (
    HeldProcedure,
    Procedure,
    ProcedureError,
    Step,
    pretension_n,
)
from continuum_robot.robot.coupling import coupling_of
from continuum_robot.robot.description import Robot
from continuum_robot.rod.held_tendons import HeldTendons
from continuum_robot.rod.rod import Rod
from continuum_robot.rod.tendon_modes import controlled_manifold

Vector = NDArray[np.float64]

LET_OUT, BACK, NEAR, TIGHTEN, MEASURE = (
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
        return self._phase == MEASURE

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
                    self._phase = MEASURE
                else:
                    self._shift_zero()
                    self.straight_m = self._zero_m
        elif phase == MEASURE:
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
        return Step(self.rest_n.copy(), MEASURE, min(1.0, self._elapsed_s / _LOOK_S))

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
