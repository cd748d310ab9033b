# SPDX-License-Identifier: Apache-2.0
"""Rules for actuators that take displacements: limits, lag, slack, holding the place, paying out, frozen readings.

Interpreted only, at the rate of a servo bus.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from continuum_robot.control.displacement_limits import DisplacementLimiter
from continuum_robot.drivers.protocols import TendonReading
from continuum_robot.drivers.reading_buffer import ReadingBuffer
from continuum_robot.drivers.safety.actuation_rules import ActuationRules
from continuum_robot.drivers.safety.fault_codes import (
    DISPLACEMENT_LAG_BIT,
    SLACK_TENDON_BIT,
    TENSION_OUT_OF_RANGE_BIT,
)
from continuum_robot.drivers.safety.reading_watch import ReadingWatch
from continuum_robot.drivers.safety.settings import SafetySettings
from continuum_robot.drivers.safety.tendon_faults import fault_names
from continuum_robot.robot.actuation import DisplacementLimits
from continuum_robot.robot.coupling import coupling_of
from continuum_robot.robot.description import Robot
from continuum_robot.robot.reading_thresholds import ServoThresholds
from continuum_robot.stepped.buffers import vector

Vector = NDArray[np.float64]
# Within which a release has paid out.
_RELEASED_M = 1e-6
# Of the command timeout: servos without a command have come to rest.
_REST_FRACTION = 0.5
# Of the time that something must last: one reading counts for no more, also after a stall.
_STEP_FRACTION = 0.2


class DisplacementRules(ActuationRules):
    """Commands are displacements, m, as :class:`DisplacementLimiter` lets them through.

    A stop pays out: after a fault no tendon is pulled in, each goes out to ``limits.pay_out_m`` below the straight
    robot; without one all go there together, so that the robot straightens. A hold leaves the servos where they are.
    A place that is held needs no reading. Motors that tendons share pay out as far as they can: an antagonist pair goes
    straight, and keeps its preload.
    """

    def __init__(self, robot: Robot, thresholds: ServoThresholds, lasting_s: float) -> None:
        super().__init__(robot.tendon_count)
        limits, count = robot.displacement_limits, robot.tendon_count
        self.displaces = True
        self._limits, self._thresholds = limits, thresholds
        keys = "maximum_n", "maximum_displacement_m", "speed_m_per_s", "slack_n", "pay_out_m", "pay_out_speed_m_per_s"
        self._of = {key: limits.each(key, count) for key in keys}
        self._lasting_s, self._rest_s = lasting_s, _REST_FRACTION * limits.command_timeout_s
        self._limiter = DisplacementLimiter(limits, count)
        self._coupling = coupling_of(robot)
        self._rest = np.zeros(count) if self._coupling is None else self._coupling.offset_m
        self._begin, self._middle = np.zeros(count), self._rest
        self._idle_s = 0.0
        self._target: Vector | None = None
        self._since_s = {
            bit: np.zeros(count) for bit in (DISPLACEMENT_LAG_BIT, TENSION_OUT_OF_RANGE_BIT, SLACK_TENDON_BIT)
        }
        self._taut, self._known = np.zeros(count, dtype=bool), True
        self._names = robot.tendon_names
        self._found: dict[int, tuple[NDArray[np.bool_], Vector, Vector]] = {}
        self._measured: Vector | None = None
        self._stamp_s = np.nan
        self.forget()

    # --- between two cycles

    def prepare(self, reading: TendonReading, known: bool) -> list[str]:
        """The first output is the measured displacement."""
        self._begin, self._known = np.array(reading.displacement_m, dtype=float), known
        self._middle = self._rest if known else self._begin.copy()
        load_n = np.asarray(reading.tension_n, dtype=float)
        beyond_n = np.nan_to_num(load_n - self._of["maximum_n"], nan=-np.inf)
        worst = int(np.argmax(beyond_n))
        if beyond_n[worst] > 0:
            where = f" of tendon {worst + 1}" if self._limits.tendons else ""
            return [f"measured load {load_n[worst]:.3g} N > maximum_n{where} = {self._of['maximum_n'][worst]:g} N"]
        return []

    def start(self) -> None:
        """From the displacements of :meth:`prepare`; none counts as taut yet."""
        self._limiter.reset(self._begin, self._middle)
        self._idle_s, self._target = 0.0, None
        self._taut[:] = False
        for since_s in self._since_s.values():
            since_s[:] = 0.0
        self._put()

    def accepted(self, fraction: float, known: bool) -> tuple[Sequence[float], Sequence[float]]:
        """As :class:`ActuationRules`: a fraction of the range beyond it."""
        farthest_m = (1.0 + fraction) * self._of["maximum_displacement_m"]
        farthest_m = farthest_m if known else np.full(self._count, np.inf)
        return (-farthest_m).tolist(), farthest_m.tolist()

    def detail(self, fault: str) -> str:
        """As :class:`ActuationRules`: load and distance to the command of each tendon that it was found on."""
        for bit, (where, load_n, away_m) in self._found.items():
            if fault_names(bit) == (fault,):
                loads = [f"{one:.3g} N" if np.isfinite(one) else "an unknown load" for one in load_n]
                return ", ".join(
                    f"{self._names[j]} is {1e3 * away_m[j]:.2g} mm from its command, at {loads[j]}"
                    for j in np.flatnonzero(where)
                )
        return ""

    def straighten(self, straight_m: Vector) -> None:
        """Count the place to which a release pays out from where a procedure found the robot straight, (N,), m."""
        self._middle = np.array(straight_m, dtype=float)

    # --- in the cycle

    def elapse(self, dt: float) -> None:
        """Servos come to rest where no command follows."""
        self._idle_s += dt
        if self._idle_s > self._rest_s:
            self._limiter.rest()

    def check(self, reading: ReadingBuffer, dt: float, engaged: bool, obeys: bool) -> int:
        """Whether servos lag, and whether loads are too high or too low where they are known; each for a while."""
        of, thresholds = self._of, self._thresholds
        load_n = np.array(reading.tension_n)
        # What no servo reports may be as much as the tendon carries.
        self.motor_n[:] = np.where(np.isfinite(load_n), load_n, of["maximum_n"]).tolist()
        if not reading.valid or not engaged or reading.stamp_s == self._stamp_s:
            return 0
        self._stamp_s = reading.stamp_s
        measured = np.array(reading.displacement_m)
        self._measured = measured if np.isfinite(measured).all() else None
        speed = np.abs(np.array(reading.velocity_m_per_s))
        friction_n = thresholds.viscous_ns_per_m * np.where(np.isfinite(speed), speed, of["speed_m_per_s"])
        # A comparison with a load that is not known is false.
        self._taut |= load_n >= of["slack_n"]
        wrong = {
            DISPLACEMENT_LAG_BIT: np.abs(np.array(self.command) - measured) > thresholds.lag_m,
            TENSION_OUT_OF_RANGE_BIT: load_n > thresholds.highest_n + friction_n,
            SLACK_TENDON_BIT: self._taut & (load_n < thresholds.lowest_n - friction_n) & self._known,
        }
        found, dt = 0, min(dt, _STEP_FRACTION * self._lasting_s)
        for bit, where in wrong.items():
            since_s = self._since_s[bit]
            since_s[:] = np.where(where, since_s + dt, 0.0)
            if obeys and (since_s > self._lasting_s).any():
                found |= bit
                self._found[bit] = (since_s > self._lasting_s, load_n, np.array(self.command) - measured)
        return found

    def limit(self, command: list[float], since_s: float) -> None:
        self._limiter.step(np.array(command), since_s)
        self._idle_s = 0.0
        self._put()
        self.limited[:] = self._limiter.limited.tolist()

    def begin_stop(self, found: int, holds: bool) -> None:
        """Hold, or pay out: from where a servo is that does not reach its command, since that pulls."""
        if not holds:
            if self._measured is not None and found & (DISPLACEMENT_LAG_BIT | TENSION_OUT_OF_RANGE_BIT):
                self._limiter.reset(self._able(np.minimum(self._limiter.command, self._measured)), self._middle)
            self._target = self._able(np.minimum(self._limiter.command, self._slack_m))
        else:
            self._target = None

    def begin_slowly(self) -> None:
        """Pay all tendons out together."""
        self._target = self._able(self._slack_m)

    def hasten(self) -> None:
        """Pull none in any more: it cannot pay out faster."""
        self.begin_stop(DISPLACEMENT_LAG_BIT, False)

    def hold(self, reading: ReadingBuffer, place: bool, dt: float) -> None:  # noqa: ARG002
        """The servos stay at the last command."""
        self._limiter.brake(dt)
        self._put()

    def release(self, dt: float) -> None:
        """Pay out."""
        if self._target is None:  # a hold has ended
            self._target = self._able(np.minimum(self._limiter.command, self._slack_m))
        self._limiter.step(self._target, dt, self._of["pay_out_speed_m_per_s"])
        self._put()

    def finish_stop(self, reading: ReadingBuffer, engaged: bool, dt: float) -> None:  # noqa: ARG002
        """The command is what is sent."""
        self._idle_s = 0.0
        self.output[:] = self.command

    def is_released(self) -> bool:
        """Whether all tendons are paid out."""
        return self._target is not None and bool((np.abs(self._limiter.command - self._target) < _RELEASED_M).all())

    def forget(self) -> None:
        """Servos without torque hold nothing: no command is known."""
        self.command[:] = self.output[:] = [float("nan")] * self._count
        self._measured = None

    def _able(self, place_m: Vector) -> Vector:
        """Where the motors can go from the command, nearest to a place of the tendons, (N,), m."""
        return place_m if self._coupling is None else self._coupling.nearest(self._limiter.command, place_m)

    @property
    def _slack_m(self) -> Vector:
        """Where tendons are slack, (N,), m: below the straight robot, or below where a procedure began."""
        return self._middle - self._of["pay_out_m"]

    def _put(self) -> None:
        self.command[:] = self._limiter.command.tolist()


_FEWEST_READINGS = 4
"""That repeat, however far apart, before a servo is frozen."""


class ServoWatch(ReadingWatch):
    """As :class:`ReadingWatch`, but for what a servo's readings cannot say.

    - They are where the servos were sent, whatever the tendons do: they need not fit the Clarke manifold, which elastic
      tendons under pretension miss, and say nothing of a tendon that broke. Loads do.
    - A load may be unknown, and below zero while a geared motor pays out. How high it may be, and for how long, is
      judged beside the commands.
    - A reading is frozen where displacement and load repeat bit by bit while the command moves on. A servo that is
      stalled still measures a load that changes; for one without a load, :attr:`ServoThresholds.lag_m` is all. A gap
      between two readings proves little: while this computer stalls, a servo is not told that its command moved.
    """

    def __init__(
        self, limits: DisplacementLimits, tendon_count: int, settings: SafetySettings, thresholds: ServoThresholds
    ) -> None:
        super().__init__(limits, tendon_count, settings)
        # Commands keep the range; a servo gives way beyond it by its load.
        self._maximum_displacement_m = vector(self._maximum_displacement_m + thresholds.lag_m)
        self._thresholds = thresholds
        self._stood_s, self._left_behind_s = np.zeros(tendon_count), np.zeros(tendon_count)
        self._command_at_change = np.zeros(tendon_count)

    def _frozen(self, reading: ReadingBuffer, command: list[float], moving: bool) -> bool:
        before = self._previous
        # A value that the device repeats with its age is no new one.
        aged_s = np.array(reading.age_s) - np.array(before.age_s)
        elapsed_s = reading.stamp_s - before.stamp_s - aged_s if self._started else 0.0
        proven_s = np.minimum(elapsed_s, self._thresholds.frozen_begin_s / _FEWEST_READINGS)
        place, load = np.array(reading.displacement_m), np.array(reading.tension_n)
        repeats = (place == np.array(before.displacement_m)) & (load == np.array(before.tension_n))
        if not moving:
            repeats[:] = False
        self._stood_s = np.where(repeats, self._stood_s + proven_s, 0.0)
        kept = repeats & np.isfinite(self._command_at_change)  # it may repeat since before the first command
        self._command_at_change = np.where(kept, self._command_at_change, command)
        left = repeats & (np.abs(np.array(command) - self._command_at_change) > self._thresholds.frozen_motion_m)
        self._left_behind_s = np.where(left, self._left_behind_s + proven_s, 0.0)
        return bool(
            ((self._stood_s >= self._frozen_time_s) & (self._left_behind_s >= self._thresholds.frozen_begin_s)).any()
        )
