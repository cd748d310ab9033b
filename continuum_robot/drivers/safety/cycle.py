# SPDX-License-Identifier: Apache-2.0
"""The cycle of the tendon driver's state machine: what is sent, and which faults latch.

Stepped code: see :mod:`continuum_robot.stepped`.
"""

from __future__ import annotations

import math

import cython

from continuum_robot.control.limits import TensionLimiter
from continuum_robot.drivers.reading_buffer import ReadingBuffer
from continuum_robot.drivers.safety.command_watch import CommandWatch
from continuum_robot.drivers.safety.fault_codes import (
    CURRENT_MISMATCH_BIT,
    ESTOP_BIT,
    FAULT_BIT_COUNT,
    INCONSISTENT_DISPLACEMENT_BIT,
    LOOP_HANGS_BIT,
    LOOP_TOO_SLOW_BIT,
    MOTOR_HOT_BIT,
)
from continuum_robot.drivers.safety.heat_watch import HeatWatch
from continuum_robot.drivers.safety.lateness_watch import LatenessWatch
from continuum_robot.drivers.safety.reading_watch import ReadingWatch
from continuum_robot.drivers.safety.safe_ramp import SafeRamp
from continuum_robot.drivers.safety.settings import SafetySettings
from continuum_robot.drivers.safety.stop_action import STOP_BRAKE, STOP_RELEASE, StopAction
from continuum_robot.drivers.safety.tendon_swing import TendonSwing
from continuum_robot.errors import ParameterError
from continuum_robot.robot.coordinates import tendon_manifold
from continuum_robot.robot.description import Robot
from continuum_robot.robot.reading_thresholds import reading_thresholds
from continuum_robot.rod.tendon_modes import limiting_manifold
from continuum_robot.stepped.buffers import UNKNOWN, copy_into, indices, integers, stepped, vector

# Codes of the states: where their names stand in STATES of tendon_safety.py.
STATE_INACTIVE = cython.declare(cython.int, 0)
STATE_ACTIVE = cython.declare(cython.int, 1)
STATE_SAFE = cython.declare(cython.int, 2)


@cython.cclass
class SafetyCycle:
    """What :class:`TendonSafety` does in each cycle.

    Parameters
    ----------
    robot : with ``limits``
    settings : further thresholds
    period_s : of the cycle, s
    delay_margin_s : delay that the robot's control loop bears, s: the latency of a command that is late, unless the
        settings name one; None or 0: half of the command's timeout

    Attributes
    ----------
    limits, settings : in use
    positions_known : False: displacements count from nowhere (not homed yet, or a procedure looks for slack), and are
        only checked for jumps; may be written
    estop_asked : an emergency stop waits for the next step; any thread may set it
    estop_held : the e-stop's input is still held; any thread may write it
    estop_releases : the emergency stop that waits holds nothing, whatever the robot file states; any thread may set it
    hang_seen : a watch outside of the cycle saw that it does not go on: the next step latches it; any thread may set it
    latency_s : age of the state when its command was written, s; NaN: unknown, or none was written; set before a step
    missed : deadlines that passed without a cycle since the one before; set before a step, which sets it to 0
    tension_n : after a step, what to send: N numbers in N, the brake included
    command_n : the newest command, without the brake: N numbers in N
    added_n : what was added to the newest command for the motors' cogging, N numbers in N; may be written
    limited : LIMITED_ bits of control/limits.py, N numbers
    write : whether to send ``tension_n``. False in a cycle without a fresh command, so that the driver never feeds
        the motor board's own watchdog with an old command, and before the first activation
    waits : no fresh command came since the activation: what is written answers nobody
    state_code : STATE_INACTIVE, STATE_ACTIVE or STATE_SAFE
    changed : state, faults or what a stop does changed since the step before
    stop : what a stop does
    torque_off_due : the torque is to go off in this cycle, see :meth:`cut`: a brake closes by that, or a release has
        ended
    heat : how hot the motors are

    Raises
    ------
    ParameterError : a robot without limits, a period that is not positive, or a negative or unknown margin
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
    tension_n = cython.declare(cython.double[::1], visibility="readonly")
    command_n: cython.double[::1]
    added_n: cython.double[::1]
    limited = cython.declare(cython.int[::1], visibility="readonly")
    heat = cython.declare(HeatWatch, visibility="readonly")
    stop = cython.declare(StopAction, visibility="readonly")
    torque_off_due = cython.declare(cython.bint, visibility="readonly")
    _count: cython.int
    _engaged: cython.bint
    _limiter: TensionLimiter
    _watch: ReadingWatch
    _commands: CommandWatch
    _lateness: LatenessWatch
    _ramp: SafeRamp
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
    _safe_n: cython.double
    # Currents
    _motor_n: cython.double[::1]
    _has_actuators: cython.bint
    _ampere_per_newton: cython.double[::1]
    _tolerated_a: cython.double
    _mismatch_time_s: cython.double
    _mismatch_s: cython.double
    _compared_s: cython.double
    # Commands
    _since_command_s: cython.double
    _credit_s: cython.double
    _maximum_step_s: cython.double
    _minimum_n: cython.double
    _maximum_n: cython.double
    _swing: TendonSwing

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
        limits, count, thresholds = robot.limits, robot.tendon_count, reading_thresholds(robot)
        self.limits, self.settings, self._count = limits, settings, count
        self.positions_known = True
        self.estop_asked = self.estop_held = self.estop_releases = self.hang_seen = self._engaged = False
        self._limiter = TensionLimiter(limits, limiting_manifold(robot))
        self.command_n, self.limited, self.tension_n = self._limiter.command, self._limiter.limited, vector(count)
        self.added_n, self._motor_n = vector(count), vector(count)
        self._watch = ReadingWatch(limits, tendon_manifold(robot), settings, thresholds)
        self._commands = CommandWatch(limits, count, settings)
        late_s = settings.late_latency_s or delay_margin_s or 0.5 * limits.command_timeout_s
        self._lateness = LatenessWatch(late_s, settings, period_s)
        mass_kg = 0.0 if robot.actuators is None else robot.actuators.reflected_mass_kg
        self._ramp = SafeRamp(limits, settings, self._limiter, count, mass_kg)
        self.stop = StopAction(robot.stop, count, limits.maximum_n, mass_kg)
        self._torque_off, self._safe_n, self.torque_off_due = robot.stop.torque_off, limits.safe_n, False
        self._stop_before, self._held_before = STOP_RELEASE, False
        self.latency_s, self.missed = UNKNOWN, 0
        self.write = self.waits = self.changed = False
        self.state_code = self._state_before = STATE_INACTIVE
        self._conditions = self._latched = self._latched_count = self._latched_before = 0
        self._latched_codes, self._newest_code = integers(FAULT_BIT_COUNT), -1
        self._has_actuators = robot.actuators is not None
        self._ampere_per_newton = vector((1.0 / robot.newton_per_ampere).tolist())
        self.heat = HeatWatch(robot.actuators, (1.0 / robot.newton_per_ampere).tolist())
        self._tolerated_a = thresholds.current_mismatch_a
        self._mismatch_time_s, self._mismatch_s = settings.current_mismatch_time_s, 0.0
        self._compared_s = UNKNOWN
        self._since_command_s, self._credit_s = 0.0, settings.credit_periods * period_s
        self._maximum_step_s = settings.maximum_step_s
        self._minimum_n, self._maximum_n = limits.minimum_n, limits.maximum_n
        self._swing = TendonSwing(robot, limits, settings)

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
        """One cycle: ``tension_n``, ``limited``, ``write``, ``state_code`` and ``changed`` of a reading and a command.

        A reading that is not ``valid`` did not come. ``command`` holds ``command_size`` tensions, N, that are
        ``command_age_s`` old; -1: no command. ``sequence`` is the command's, 0: none. ``dt``: time since the previous
        step, s; negative or unknown, it gives no credit.
        """
        j: cython.int
        found: cython.int
        fresh: cython.bint = False
        late: cython.bint
        obeys: cython.bint
        command_n: cython.double[::1] = self.command_n
        step_s: cython.double
        if not (dt >= 0.0):
            dt = 0.0
        self._swing.step(self.tension_n, dt)
        self._obey_estop()
        late = self._lateness.step(now_s, self.latency_s, self.missed, self.state_code == STATE_ACTIVE)
        self.missed = 0
        obeys = self.state_code == STATE_ACTIVE or self.stop.holds
        found = self._watch.step(reading, now_s, command_n, obeys, self.positions_known)
        for j in indices(self._count):
            self._motor_n[j] = command_n[j] + self.added_n[j]
        if self._current_mismatch(reading, dt, obeys):
            found |= CURRENT_MISMATCH_BIT
        if self.heat.step(reading, self._motor_n, self._engaged, now_s):
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
                self.limited[j] = 0
            if self.stop.holds:
                self.stop.step(reading, dt)
            if self.stop.holds:
                for j in indices(self._count):
                    # Each tendon holds its own place: the minimum of one is not made up for by the others.
                    if self.stop.tension_n[j] < self._minimum_n:
                        self.stop.tension_n[j] = self._minimum_n
                self._limiter.step(self.stop.tension_n, step_s)
            elif self._engaged and self.stop.code != STOP_BRAKE:
                self._ramp.step(step_s)
            self._ramp.brake(reading, self._engaged, step_s)
            self.write = self._engaged
            for j in indices(self._count):
                self.tension_n[j] = command_n[j] - self._ramp.brake_n[j]
                if self.tension_n[j] < -self._maximum_n:  # by rounding
                    self.tension_n[j] = -self._maximum_n
            self.torque_off_due = self._off_is_due()
        else:
            # Until the first command the driver itself holds the tension; afterwards only commands are sent.
            self.waits = self._commands.waiting
            self.write = fresh or self.waits
            if fresh:
                self._limit(command)
                self._since_command_s = 0.0
            else:
                for j in indices(self._count):
                    self.limited[j] = 0
            copy_into(self.tension_n, command_n, self._count)
        self.changed = (
            self.state_code != self._state_before
            or self._latched != self._latched_before
            or self.stop.code != self._stop_before
            or self.stop.holds != self._held_before
        )
        self._state_before, self._latched_before = self.state_code, self._latched
        self._stop_before, self._held_before = self.stop.code, self.stop.holds

    @stepped
    def _limit(self, command: cython.double[::1]) -> cython.void:
        """Through the limits, below what swings leave of the maximum.

        That also holds for a tension that the limits raise, since another one is at its minimum.
        """
        j: cython.int
        ceiling: cython.double[::1] = self._limiter.ceiling
        self._swing.ceilings(self.command_n, self._since_command_s, ceiling)
        self._limiter.step(command, self._since_command_s)
        for j in indices(self._count):
            ceiling[j] = self._maximum_n

    @stepped
    def is_limited(self) -> cython.bint:
        """Whether limits changed the newest command."""
        j: cython.int
        for j in indices(self._count):
            if self.limited[j] != 0:
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
                    self._ramp.begin()

    @stepped
    def _off_is_due(self) -> cython.bint:
        """Whether the torque is to go off: by a brake at once, after a release where the robot file wants it."""
        j: cython.int
        away_n: cython.double
        if self.state_code != STATE_SAFE or not self._engaged or self.stop.holds:
            return False
        if self.stop.code == STOP_BRAKE:
            return True
        for j in indices(self._count):
            away_n = self.command_n[j] - self._safe_n
            if away_n > 1e-9 or away_n < -1e-9:
                return False
        return self._torque_off

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
            self.stop.begin(found, self.command_n, self.positions_known)
            if self.stop.holds:
                self._ramp.begin_slowly()
            else:
                self._ramp.begin()
        elif self._engaged and self.stop.add(further):
            self._ramp.hasten()
        self.state_code = STATE_SAFE

    @stepped
    def cut(self) -> cython.void:
        """The torque was switched off or the bus closed: nothing is sent until the next activation.

        What earlier readings reported is forgotten, so that an e-stop can be reset while there are none.
        """
        j: cython.int
        self.stop.end()
        self.state_code = STATE_SAFE if self._latched != 0 else STATE_INACTIVE
        self._engaged = self.torque_off_due = False
        for j in indices(self._count):
            self.command_n[j] = self.added_n[j] = 0.0
        self._conditions = 0
        self._watch.restart()
        self.changed = True

    @stepped
    def _current_mismatch(self, reading: ReadingBuffer, dt: cython.double, obeys: cython.bint) -> cython.bint:
        j: cython.int
        current_a: cython.double[::1] = reading.current_a
        tolerated_a: cython.double = self._tolerated_a
        difference_a: cython.double
        motor_n: cython.double[::1] = self._motor_n
        ampere_per_newton: cython.double[::1] = self._ampere_per_newton
        differs: cython.bint = False
        if reading.valid and self._has_actuators and self._engaged:
            for j in indices(self._count):
                difference_a = current_a[j] - motor_n[j] * ampere_per_newton[j]
                if difference_a > tolerated_a or difference_a < -tolerated_a:
                    differs = True
        if not differs:
            self._mismatch_s = 0.0
        elif reading.stamp_s != self._compared_s:
            # An old reading says nothing new of the currents: how old it may become is another fault's matter.
            # One after a stall does not say what they were in it.
            self._mismatch_s += dt if dt < self._maximum_step_s else self._maximum_step_s
        self._compared_s = reading.stamp_s
        # Once torque is off (not active, ramp at its end) the current is rightly zero.
        return obeys and differs and self._mismatch_s > self._mismatch_time_s
