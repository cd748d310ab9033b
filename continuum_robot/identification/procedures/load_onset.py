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

from dataclasses import asdict, dataclass

import numpy as np
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
from continuum_robot.robot.schema import checked, quantity
from continuum_robot.rod.held_tendons import HeldTendons
from continuum_robot.rod.rod import Rod
from continuum_robot.rod.tendon_modes import controlled_manifold

Vector = NDArray[np.float64]

LET_OUT, BACK, TIGHTEN, MEASURE = "letting out", "letting out again", "tightening", "measuring"
_QUIET_M = 1e-3  # of the way in, over which a slack tendon shows its motor's friction
_LEAST_COUNTS = 4
_NOISE = 6.0  # standard deviations
_LOOK_S = 1.0  # over which the place of a robot that stands straight is averaged
_LAST = 0.5  # of the pretension's stretch, over which the loads of tight tendons are compared


@dataclass(frozen=True, slots=True, kw_only=True)
class OnsetSettings:
    """How tendons are pulled, and which load shows that one is tight."""

    tension_n: float = quantity(
        "load at the straight pose, to which it goes in the end; 0: control.pretension_n",
        "N",
        default=0.0,
        ge=0,
        le=1e4,
    )
    speed_m_per_s: float = quantity("of a tendon that is pulled in", "m/s", default=4e-3, gt=0, le=0.1)
    onset_n: float = quantity("load that shows a tight tendon", "N", default=0.5, gt=0, le=1e3)
    longest_m: float = quantity("way in after which a tendon counts as not attached", "m", default=0.05, gt=0, le=1)
    settle_s: float = quantity("time in which the robot comes to rest", "s", default=1.0, gt=0, le=60)


class LoadOnset(HeldProcedure[Homed]):
    """The procedure; see the module. Pure.

    Parameters
    ----------
    robot : a rod whose actuators take displacements, with limits
    settings : see :class:`OnsetSettings`

    Attributes
    ----------
    measuring : the strings' readings of this cycle are of the straight pose
    result : set when done

    Raises
    ------
    ParameterError : settings out of range, or loads that the limits do not allow
    """

    def __init__(self, robot: Robot, settings: OnsetSettings | None = None) -> None:
        super().__init__(robot)
        if robot.shares_motors:
            expected = "a motor for each tendon: tendons that share one cannot be pulled one after the other"
            raise ParameterError("transmission.matrix", f"{robot.motor_count} motors", expected)
        self.settings = settings = checked(OnsetSettings, asdict(settings or OnsetSettings()))
        limits, actuators = robot.limits, robot.actuators
        assert limits is not None
        assert actuators is not None
        self._tension_n = settings.tension_n or pretension_n(robot)
        for name, value in (("tension_n", self._tension_n), ("onset_n", 2 * settings.onset_n)):
            if value > limits.maximum_n / 2:
                raise ParameterError(name, value, f"at most {limits.maximum_n / 2:g} N, half of limits.maximum_n")
        self._robot, self._tendons, self._most_n = robot, HeldTendons.of(robot), limits.maximum_n
        self._count_n = _LEAST_COUNTS * self.k_n_per_m * actuators.meter_per_count
        self._speed = min(settings.speed_m_per_s, limits.speed_m_per_s)
        self._back_speed = limits.pay_out_speed_m_per_s
        self._out_m = limits.pay_out_m
        rod = Rod(robot)
        self._path_m = rod.displacement(rod.equilibrium().c)  # where the weight lets the rod stand
        shift = np.asarray(controlled_manifold(robot).shift_direction)
        self._rest_load_n = self._tension_n * shift / shift.min()
        self._phase, self._tendon = LET_OUT, 0
        self._slack_m = np.zeros(0)
        self._rested_s = 0.0
        self._way: list[tuple[float, float]] = []
        self._quiet_n = np.zeros(robot.tendon_count)
        self._zero_m = np.zeros(robot.tendon_count)
        self._shifted = False
        self._tightened: list[tuple[Vector, Vector]] = []
        self._names = tuple(string.name for string in robot.strings)
        self._strings: list[Vector] = []

    @property
    def measuring(self) -> bool:
        """Whether the robot stands straight now."""
        return self._phase == MEASURE

    def take_strings(self, extension_m: Vector) -> None:
        """As of :class:`~.procedure.Procedure`."""
        if self.measuring and extension_m.shape == (len(self._names),):
            self._strings.append(np.array(extension_m, dtype=float))

    def start(self, reading: TendonReading) -> None:
        """As of :class:`~.procedure.Procedure`."""
        self._begin_m = reading.displacement_m.copy()
        self._slack_m = self._begin_m - self._out_m

    def move(self, reading: TendonReading, dt: float) -> Step:
        """As of :class:`~.procedure.Procedure`."""
        load_n = self.bearable_load_n(reading, self._most_n)
        count, phase = len(self.goal_m), self._phase
        if phase == LET_OUT:
            if self._rests(self.towards(self._slack_m, self._back_speed, dt), dt):
                self._phase = self._pulling
        elif phase == BACK:
            if self.towards(self._slack_m, self._back_speed, dt) and self._rests(True, dt):
                self._tendon += 1
                self._phase = TIGHTEN if self._tendon == count else self._pulling
        elif phase == TIGHTEN:
            self._tightened.append((reading.displacement_m.copy(), load_n - self._quiet_n))
            if self._rests(self.towards(self._tight_m(), self._speed, dt), dt):
                if self._shifted:
                    self._phase = MEASURE
                else:
                    self._shift_zero()
        elif phase == MEASURE:
            if self._rests(True, dt):
                self.result = self._found(load_n)
        else:
            self._pull(reading, float(load_n[self._tendon]), dt)
        return Step(self.goal_m.copy(), phase, min(1.0, 0.05 + 0.85 * self._tendon / count))

    @property
    def _pulling(self) -> str:
        return f"pulling {self._robot.tendon_names[self._tendon]}"

    def _rests(self, there: bool, dt: float) -> bool:
        """Whether the goals have been there for long enough."""
        self._rested_s = self._rested_s + dt if there else 0.0
        if self._rested_s < self.settings.settle_s:
            return False
        self._rested_s = 0.0
        return True

    def _tight_m(self) -> Vector:
        """Readings under the load at the straight pose."""
        return self._zero_m + self._tendons.reading(np.zeros(len(self._zero_m)), self._rest_load_n)

    def _pull(self, reading: TendonReading, load_n: float, dt: float) -> None:
        """Pull a tendon in until its load has begun, and find where."""
        j, settings = self._tendon, self.settings
        goal = self.goal_m.copy()
        goal[j] += self._speed * dt
        self.goal_m = goal
        self._way.append((float(reading.displacement_m[j]), load_n))
        way = np.array(self._way)
        gone_m = way[-1, 0] - way[0, 0]
        if gone_m < 2 * _QUIET_M:
            return
        slack = way[(way[:, 0] > way[0, 0] + _QUIET_M) & (way[:, 0] < way[0, 0] + 2 * _QUIET_M)]
        quiet_n, noise_n = float(slack[:, 1].mean()), float(slack[:, 1].std())
        onset_n = max(settings.onset_n, self._count_n, _NOISE * noise_n)
        # Long after its load began, a line through the loads shows where; a tendon that was never slack shows a line
        # from its start on.
        if load_n - quiet_n > 2 * onset_n:
            loaded = way[way[:, 1] - quiet_n > onset_n / 2]
            loaded = loaded[loaded[:, 0] > way[0, 0] + 2 * _QUIET_M]
            per_n, begin_m = np.polyfit(loaded[:, 1] - quiet_n, loaded[:, 0], 1)
            if begin_m < way[0, 0] + _QUIET_M or per_n <= 0:
                raise ProcedureError(
                    f"{self._robot.tendon_names[j]} was tight before it was pulled",
                    "Let the tendons out by hand, or raise limits.pay_out_m.",
                )
            self._quiet_n[j] = quiet_n
            # There its path is what the weight makes of it, and it bears nothing.
            self._zero_m[j] = begin_m - self._tendons.reading(self._path_m, np.zeros(len(goal)))[j]
            self._way, self._phase = [], BACK
        elif gone_m > settings.longest_m:
            raise ProcedureError(
                f"{self._robot.tendon_names[j]} came in by {1e3 * gone_m:.0f} mm and bears nothing",
                "It is not attached, or its polarity in the robot file is wrong: fasten it, or change the sign.",
            )

    def _shift_zero(self) -> None:
        """Move the zeros of each segment together to where its loads say that they are."""
        readings, loads = (np.array(column) for column in zip(*self._tightened, strict=True))
        self._shifted = True
        expected = self._tendons.stiffness_n_per_m * self._tendons.spooled(readings - self._zero_m)
        for rows in self._robot.tendon_slices:
            tight = (loads[:, rows] > _LAST * self._rest_load_n[rows]).all(axis=1)
            if tight.any():
                excess_m = (loads - expected)[tight][:, rows] / self._tendons.stiffness_n_per_m[rows]
                self._zero_m[rows] -= excess_m.mean() / self._tendons.gain[rows]

    def _found(self, load_n: Vector) -> Homed:
        inconsistency = np.zeros(len(self._robot.tendon_slices))
        return Homed(
            self._zero_m,
            self._zero_m - self._begin_m,
            self._tension_n,
            float(np.abs(load_n - self._rest_load_n).max()),
            inconsistency,
            string_zeros(self._names, self._strings.copy()),
        )


class Mounted(Procedure[Homed]):
    """The homing of a robot whose tendons share motors: it stands straight now, and moves nothing. Pure.

    Motors that take tensions stay idle, and servos where they are.

    Parameters
    ----------
    robot : with a transmission whose tendons share motors

    Attributes
    ----------
    measuring : True: the strings' readings are of the straight pose
    result : set when done

    Raises
    ------
    ParameterError : a motor for each tendon
    """

    measuring = True

    def __init__(self, robot: Robot) -> None:
        coupling = coupling_of(robot)
        if coupling is None or not coupling.shares or robot.transmission is None:
            raise ParameterError("transmission", robot.name, "motors that tendons share")
        super().__init__(robot, np.full(robot.tendon_count, robot.transmission.preload_n))
        self._holds, self._tight = robot.takes_displacements, True
        self._rest_m, self._preload_n = coupling.offset_m, robot.transmission.preload_n
        self._parts = len(robot.tendon_slices)
        self._names = tuple(string.name for string in robot.strings)
        self._seen: list[Vector] = []
        self._strings: list[Vector] = []
        self._elapsed_s = 0.0

    def take_strings(self, extension_m: Vector) -> None:
        """As of :class:`~.procedure.Procedure`."""
        if extension_m.shape == (len(self._names),):
            self._strings.append(np.array(extension_m, dtype=float))

    def move(self, reading: TendonReading, dt: float) -> Step:
        """As of :class:`~.procedure.Procedure`."""
        self._seen.append(reading.displacement_m.copy())
        self._elapsed_s += dt
        if self._elapsed_s >= _LOOK_S:
            zero_m, nothing = np.mean(self._seen, axis=0) - self._rest_m, np.zeros(self._parts)
            strings = string_zeros(self._names, self._strings.copy())
            self.result = Homed(zero_m, np.zeros(len(zero_m)), self._preload_n, 0.0, nothing, strings)
        return Step(self.rest_n.copy(), MEASURE, min(1.0, self._elapsed_s / _LOOK_S))

    def start(self, reading: TendonReading) -> None:
        """Servos stay where they are.

        Parameters
        ----------
        reading : the first
        """
        if self._holds:
            self.rest_n = reading.displacement_m.copy()


def homing_of(robot: Robot, settings: HomingSettings | None = None) -> Procedure[Homed]:
    """The homing of a robot, by what its actuators take.

    Parameters
    ----------
    robot : with actuators and limits
    settings : of the swaying; of these ``tension_n`` counts for displacements too

    Raises
    ------
    ParameterError : settings that the procedure refuses
    """
    tension_n = 0.0 if settings is None else settings.tension_n
    if robot.shares_motors:
        if tension_n:
            raise ParameterError("tension_n", tension_n, "0: transmission.preload_n says how tight the tendons are")
        return Mounted(robot)
    if robot.takes_displacements:
        return LoadOnset(robot, OnsetSettings(tension_n=tension_n))
    return Homing(robot, settings)
