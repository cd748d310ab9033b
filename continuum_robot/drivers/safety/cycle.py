# SPDX-License-Identifier: Apache-2.0
"""The cycle of the tendon driver's state machine: what is sent, and which faults latch.

Stepped code: see :mod:`continuum_robot.stepped`.
"""

from __future__ import annotations

import math

import cython

from continuum_robot.drivers.reading_buffer import ReadingBuffer
from continuum_robot.drivers.safety.actuation_rules import ActuationRules
from continuum_robot.drivers.safety.command_watch import CommandWatch, LatenessWatch
from continuum_robot.drivers.safety.displacement_rules import DisplacementRules, ServoWatch
from continuum_robot.drivers.safety.fault_codes import (
    ESTOP_BIT,
    FAULT_BIT_COUNT,
    INCONSISTENT_DISPLACEMENT_BIT,
    LOOP_HANGS_BIT,
    LOOP_TOO_SLOW_BIT,
    MOTOR_HOT_BIT,
)
from continuum_robot.drivers.safety.heat_watch import HeatWatch
from continuum_robot.drivers.safety.reading_watch import ManifoldWatch, ReadingWatch
from continuum_robot.drivers.safety.settings import SafetySettings
from continuum_robot.drivers.safety.shared_tension_rules import SharedTensionRules
from continuum_robot.drivers.safety.stop_action import STOP_BRAKE, STOP_HOLD_PLACE, STOP_RELEASE, StopAction
from continuum_robot.drivers.safety.tension_rules import TensionRules
from continuum_robot.errors import ParameterError
from continuum_robot.robot.coordinates import tendon_manifold
from continuum_robot.robot.description import Robot
from continuum_robot.robot.reading_thresholds import reading_thresholds, servo_thresholds
from continuum_robot.stepped.buffers import UNKNOWN, copy_into, indices, integers, stepped

# Codes of the states: where their names stand in STATES of tendon_safety.py.
STATE_INACTIVE = cython.declare(cython.int, 0)
STATE_ACTIVE = cython.declare(cython.int, 1)
STATE_SAFE = cython.declare(cython.int, 2)

# Currents, and places of servos, are measured a cycle or two after they were commanded.
_MISMATCH_PERIODS = 5.0


@cython.cclass
class SafetyCycle:
    """What :class:`TendonSafety` does in each cycle: one state machine for tensions and for displacements.

    What a command may be, and what a stop does with it, are :attr:`rules`.
    """

    limits = cython.declare(object, visibility="readonly")
    settings = cython.declare(object, visibility="readonly")
    positions_known = cython.declare(cython.bint, visibility="public")
    estop_asked = cython.declare(cython.bint, visibility="public")
    estop_held = cython.declare(cython.bint, visibility="public")
    estop_releases = cython.declare(cython.bint, visibility="public")
    hang_seen = cython.declare(cython.bint, visibility="public")
    latency_s = cython.declare(cython.double, visibility="public")
    missed = cython.declare(cython.int, visibility="public")
    write = cython.declare(cython.bint, visibility="readonly")
    waits = cython.declare(cython.bint, visibility="readonly")
    state_code = cython.declare(cython.int, visibility="readonly")
    changed = cython.declare(cython.bint, visibility="readonly")
    rules = cython.declare(ActuationRules, visibility="readonly")
    heat = cython.declare(HeatWatch, visibility="readonly")
    stop = cython.declare(StopAction, visibility="readonly")
    torque_off_due = cython.declare(cython.bint, visibility="readonly")
    _count: cython.int
    _engaged: cython.bint
    _watch: ReadingWatch
    _commands: CommandWatch
    _lateness: LatenessWatch
    # Faults: those of now, all latched ones, and their codes in the order in which they came.
    _conditions: cython.int
    _latched: cython.int
    _latched_codes: cython.int[::1]
    _latched_count: cython.int
    _newest_code: cython.int
    _state_before: cython.int
    _latched_before: cython.int
    _stop_before: cython.int
    _held_before: cython.bint
    _torque_off: cython.bint
    # Commands
    _since_command_s: cython.double
    _credit_s: cython.double
    _maximum_step_s: cython.double

    def __init__(
        self,
        robot: Robot,
        settings: SafetySettings | None = None,
        period_s: float = 0.001,
        delay_margin_s: float | None = None,
    ) -> None:
        if robot.limits is None:
            raise ParameterError("robot.limits", None, f"limits in the file of robot {robot.name!r}")
        if not 0 < period_s < math.inf:
            raise ParameterError("period_s", period_s, "a positive time in s")
        if delay_margin_s is not None and not delay_margin_s >= 0:
            raise ParameterError("delay_margin_s", delay_margin_s, "a delay of at least 0 s, or None")
        settings = settings or SafetySettings()
        limits, count = robot.limits, robot.tendon_count
        shortest_s = min(limits.command_timeout_s, limits.reading_timeout_s)
        if period_s > 0.5 * shortest_s:
            expected = (
                f"at most half of {shortest_s:g} s, the shorter of limits.command_timeout_s and reading_timeout_s"
            )
            raise ParameterError("period_s", period_s, f"{expected}; raise rate_hz")
        self.limits, self.settings, self._count = limits, settings, count
        self.positions_known = True
        self.estop_asked = self.estop_held = self.estop_releases = self.hang_seen = self._engaged = False
        # A stall counts as no more; a slow bus has longer steps than that by itself.
        self._credit_s = settings.credit_periods * period_s
        self._maximum_step_s = max(settings.maximum_step_s, 2.0 * period_s)
        mismatch_s = max(settings.current_mismatch_time_s, _MISMATCH_PERIODS * period_s)
        if robot.takes_displacements:
            servos = servo_thresholds(robot, period_s)
            enough_hz = servos.goals_hz
            self.rules = DisplacementRules(robot, servos, mismatch_s)
            self._watch = ServoWatch(robot.displacement_limits, count, settings, servos)
        else:
            thresholds, enough_hz = reading_thresholds(robot, period_s), 0.0
            tolerated_a = thresholds.current_mismatch_a.tolist()
            kind = TensionRules if robot.transmission is None else SharedTensionRules
            self.rules = kind(robot, settings, tolerated_a, mismatch_s, self._maximum_step_s)
            self._watch = ManifoldWatch(robot.tension_limits, tendon_manifold(robot), settings, thresholds)
        self._commands = CommandWatch(limits, count, settings)
        self._commands.accept(*self.rules.accepted(settings.command_fraction, True))
        late_s = settings.late_latency_s or delay_margin_s or 0.5 * limits.command_timeout_s
        self._lateness = LatenessWatch(late_s, settings, period_s, enough_hz)
        self.stop = StopAction(robot.stop)
        self._torque_off, self.torque_off_due = robot.stop.torque_off, False
        self._stop_before, self._held_before = STOP_RELEASE, False
        self.latency_s, self.missed = UNKNOWN, 0
        self.write = self.waits = self.changed = False
        self.state_code = self._state_before = STATE_INACTIVE
        self._conditions = self._latched = self._latched_count = self._latched_before = 0
        self._latched_codes, self._newest_code = integers(FAULT_BIT_COUNT), -1
        self.heat = HeatWatch(robot.actuators, (1.0 / robot.newton_per_ampere).tolist())
        self._since_command_s = 0.0

    @stepped
    def step(
        self,
        reading: ReadingBuffer,
        command: cython.double[::1],
        command_size: cython.int,
        command_age_s: cython.double,
        sequence: cython.longlong,
        now_s: cython.double,
        dt: cython.double,
    ) -> cython.void:
        """One cycle: ``rules.output``, ``write``, ``state_code`` and ``changed`` of a reading and a command.

        A reading that is not ``valid`` did not come. ``command`` holds ``command_size`` numbers, N or m, that are
        ``command_age_s`` old; -1: no command. ``sequence`` is the command's, 0: none. ``dt``: time since the previous
        step, s; negative or unknown, it gives no credit.
        """
        j: cython.int
        found: cython.int
        fresh: cython.bint = False
        late: cython.bint
        obeys: cython.bint
        step_s: cython.double
        if not (dt >= 0.0):
            dt = 0.0
        self.rules.elapse(dt)
        self._obey_estop()
        late = self._lateness.step(now_s, self.latency_s, self.missed, self.state_code == STATE_ACTIVE)
        self.missed = 0
        obeys = self.state_code == STATE_ACTIVE or self.stop.holds
        found = self._watch.step(reading, now_s, self.rules.command, obeys, self.positions_known)
        found |= self.rules.check(reading, dt, self._engaged, obeys)
        if self.heat.step(reading, self.rules.motor_n, self._engaged, now_s):
            found |= MOTOR_HOT_BIT
        if self.state_code == STATE_SAFE and not self.stop.holds:
            found &= ~INCONSISTENT_DISPLACEMENT_BIT  # a robot that is released may have slack tendons
        self._conditions = found
        # Time with nothing but the hold after activation gives no credit for the first step.
        step_s = dt if self._commands.waiting else self._since_command_s + dt
        self._since_command_s = step_s if step_s < self._credit_s else self._credit_s
        if self.state_code == STATE_ACTIVE:
            if late:
                found |= LOOP_TOO_SLOW_BIT
            found |= self._commands.step(command, command_size, command_age_s, now_s, sequence)
            fresh = self._commands.fresh and found == 0
            if found != 0:
                self._latch(found)
        elif self.state_code == STATE_SAFE and self._engaged:
            if found & ~self._latched != 0:
                self._latch(found)
        if self.state_code != STATE_ACTIVE:
            step_s = dt if dt < self._maximum_step_s else self._maximum_step_s
            for j in indices(self._count):
                self.rules.limited[j] = 0
            if self.stop.holds:
                self.stop.step(dt)
            if self.stop.holds:
                self.rules.hold(reading, self.stop.code == STOP_HOLD_PLACE, step_s)
            elif self._engaged and self.stop.code < STOP_BRAKE:
                self.rules.release(step_s)
            self.rules.finish_stop(reading, self._engaged, step_s)
            self.write = self._engaged
            self.torque_off_due = self._off_is_due()
        else:
            # Until the first command the driver itself holds; afterwards only commands are sent.
            self.waits = self._commands.waiting
            self.write = fresh or self.waits
            if fresh:
                self.rules.limit(command, self._since_command_s)
                self._since_command_s = 0.0
            else:
                for j in indices(self._count):
                    self.rules.limited[j] = 0
            copy_into(self.rules.output, self.rules.command, self._count)
        self.changed = (
            self.state_code != self._state_before
            or self._latched != self._latched_before
            or self.stop.code != self._stop_before
            or self.stop.holds != self._held_before
        )
        self._state_before, self._latched_before = self.state_code, self._latched
        self._stop_before, self._held_before = self.stop.code, self.stop.holds

    @stepped
    def is_limited(self) -> cython.bint:
        """Whether limits changed the newest command."""
        j: cython.int
        for j in indices(self._count):
            if self.rules.limited[j] != 0:
                return True
        return False

    @stepped
    def _obey_estop(self) -> cython.void:
        if self.hang_seen:
            self.hang_seen = False
            self._latch(LOOP_HANGS_BIT)
        if self.estop_asked:
            self.estop_asked = False
            self._latch(ESTOP_BIT)
            if self.estop_releases:
                self.estop_releases = False
                if self.stop.holds:
                    self.stop.end()
                    self.rules.begin_stop(ESTOP_BIT, False)

    @stepped
    def _off_is_due(self) -> cython.bint:
        """Whether the torque is to go off: by a stop at once, after a release where the robot file wants it."""
        if self.state_code != STATE_SAFE or not self._engaged or self.stop.holds:
            return False
        if self.stop.code >= STOP_BRAKE:
            return True
        return self._torque_off and self.rules.is_released()

    @stepped
    def _latch(self, found: cython.int) -> cython.void:
        code: cython.int
        further: cython.int = found & ~self._latched
        for code in indices(FAULT_BIT_COUNT):
            if further >> code & 1:
                self._latched |= 1 << code
                self._latched_codes[self._latched_count] = code
                self._latched_count += 1
                self._newest_code = code
        if self.state_code == STATE_ACTIVE:
            # Where displacements count from nowhere, a procedure moves the robot: its tendons are released.
            self.stop.begin(found, self.positions_known)
            self.rules.begin_stop(found, self.stop.holds)
        elif self._engaged and self.stop.add(further):
            self.rules.hasten()
        self.state_code = STATE_SAFE

    @stepped
    def cut(self) -> cython.void:
        """The torque was switched off or the bus closed: nothing is sent until the next activation.

        What earlier readings reported is forgotten, so that an e-stop can be reset while there are none.
        """
        self.stop.end()
        self.state_code = STATE_SAFE if self._latched != 0 else STATE_INACTIVE
        self._engaged = self.torque_off_due = False
        self.rules.forget()
        self._conditions = 0
        self._watch.restart()
        self.changed = True
