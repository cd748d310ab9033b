# SPDX-License-Identifier: Apache-2.0
"""The one cycle of the tendon driver: read, control, check, write. Stepped code; its caller passes the time in."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import cython
import numpy as np
from numpy.typing import NDArray

from continuum_robot.control.cogging import CoggingCompensation
from continuum_robot.drivers.cycle_device import CycleDevice
from continuum_robot.drivers.protocols import TendonReading
from continuum_robot.drivers.reading_buffer import ReadingBuffer
from continuum_robot.drivers.safety.cycle import STATE_ACTIVE, STATE_SAFE
from continuum_robot.drivers.safety.tendon_safety import TendonSafety
from continuum_robot.errors import ParameterError
from continuum_robot.runtime.cycle.controller_cycle import ControllerCycle
from continuum_robot.runtime.cycle.log import CycleLog
from continuum_robot.runtime.cycle.row import CycleRow
from continuum_robot.stepped.buffers import INFINITE, UNKNOWN, copy_into, indices, stepped, vector
from continuum_robot.stepped.mailbox import Mailbox

Commander = Callable[[TendonReading | None, float], Sequence[float] | NDArray[np.float64] | None]


@cython.cclass
class DriverCycle:
    """Read, control, check, write, in this order; the command that is written answers the state just read.

    The commands come from the controller in the cycle, or, where there is none, from :meth:`command`; or the cycle
    itself holds what was commanded, whatever these say (:meth:`hold_now`). An old command is never written again to
    keep a device content. Commands are tensions, or displacements from home, as the actuators take. Where
    :attr:`cogging` is switched on, the motors get its forces on top of the tensions, and what they measure is less by
    them: commanded and measured tensions stay those of the tendons.
    """

    actuators: CycleDevice
    safety: TendonSafety
    controller: ControllerCycle
    cogging = cython.declare(CoggingCompensation, visibility="readonly")
    sent: cython.double[::1]
    tendon_count: cython.int
    coordinate_count: cython.int
    reading: ReadingBuffer
    zero_m: cython.double[::1]
    commands: Mailbox
    controls: cython.bint
    holds: cython.bint
    held_known: cython.bint
    desired: cython.double[::1]
    desired_size: cython.int
    desired_s: cython.double
    desired_sequence: cython.longlong
    take_up_n: cython.double[::1]
    takes_up: cython.bint
    is_powered: cython.bint
    answered: cython.bint
    late: cython.bint
    written: cython.bint
    number: cython.longlong
    read_failures: cython.longlong
    write_failures: cython.longlong
    noted: cython.double[::1]
    noted_limits: cython.double[::1]
    nothing: cython.double[::1]
    log: CycleLog

    def __init__(
        self,
        actuators: CycleDevice,
        safety: TendonSafety,
        tendon_count: int,
        coordinate_count: int,
        controller: ControllerCycle | None = None,
        *,
        number: int = 0,
    ) -> None:
        self.actuators, self.safety = actuators, safety
        self.controller = controller  # type: ignore[assignment]
        self.tendon_count, self.coordinate_count = tendon_count, coordinate_count
        self.reading = ReadingBuffer(tendon_count)
        self.cogging, self.sent = CoggingCompensation(tendon_count), vector(tendon_count)
        self.zero_m, self.take_up_n, self.desired = vector(tendon_count), vector(tendon_count), vector(tendon_count)
        self.holds = self.held_known = False
        self.noted, self.noted_limits = vector([math.nan] * tendon_count), vector(tendon_count)
        self.nothing = vector([math.nan] * max(tendon_count, coordinate_count))
        self.commands = Mailbox(3 + tendon_count)
        self.controls = self.takes_up = self.is_powered = self.answered = self.late = self.written = False
        self.desired_size = -1
        self.desired_s = -math.inf
        self.desired_sequence, self.number = 0, number
        self.read_failures = self.write_failures = 0
        self.log = CycleLog(CycleRow(tendon_count, coordinate_count).width)

    # --- the cycle

    @stepped
    def step(self, now_s: cython.double, elapsed_s: cython.double, missed: cython.longlong) -> cython.void:
        """One cycle at ``now_s``, ``elapsed_s`` after the one before, between which ``missed`` deadlines passed."""
        self.begin(now_s)
        if self.controller is not None:
            self.control(now_s)
        elif self.commands.take() and not self.holds:
            self.hear()
        if self.holds:
            self.hold(now_s)
        self.finish(now_s, elapsed_s, missed)

    @stepped
    def begin(self, now_s: cython.double) -> cython.void:
        """Read; displacements count from home."""
        j: cython.int
        self.number += 1
        if self.actuators.read_into(self.reading, now_s):
            displacement_m: cython.double[::1] = self.reading.displacement_m
            zero_m: cython.double[::1] = self.zero_m
            self.balance_cogging(now_s)
            for j in indices(self.tendon_count):
                displacement_m[j] -= zero_m[j]
        else:
            self.reading.fail(now_s)
            self.read_failures += 1

    @stepped
    def balance_cogging(self, now_s: cython.double) -> cython.void:
        """Take the cogging at the angles just read out of the measured tensions; what is written gets it added."""
        j: cython.int
        powered: cython.bint = self.is_powered or self.takes_up
        age_s: cython.double = now_s - self.reading.stamp_s
        self.cogging.step(self.reading.displacement_m, self.reading.velocity_m_per_s, age_s, powered)
        if self.cogging.acts:
            tension_n: cython.double[::1] = self.reading.tension_n
            here_n: cython.double[::1] = self.cogging.here_n
            for j in indices(self.tendon_count):
                tension_n[j] -= here_n[j]

    @stepped
    def control(self, now_s: cython.double) -> cython.void:
        """Ask the controller in the cycle for the commands that answer the reading."""
        following: cython.bint = (
            self.controls and self.is_powered and not self.holds and self.safety.state_code == STATE_ACTIVE
        )
        self.late = False
        self.controller.limited = self.safety.is_limited() if following else False
        self.answered = self.controller.answer(
            self.reading, self.safety.rules.command if following else self.nothing, following, now_s, self.number
        )
        if self.answered:
            copy_into(self.desired, self.controller.command, self.tendon_count)
            self.desired_size, self.desired_s, self.desired_sequence = self.tendon_count, now_s, self.number
        elif (
            following
            and self.safety.rules.displaces
            and self.desired_size >= 0
            and self.reading.older_than(self.controller.state_timeout_s, now_s)
        ):
            # Servos hold while a reading is late; how late it may be is the reading's own timeout's matter.
            copy_into(self.desired, self.safety.rules.command, self.tendon_count)
            self.desired_s, self.desired_sequence, self.late = now_s, self.number, True

    @stepped
    def hear(self) -> cython.void:
        """Take over the newest command of another program."""
        j: cython.int
        self.desired_size = int(self.commands.values[0])
        self.desired_s = self.commands.values[1]
        self.desired_sequence = int(self.commands.values[2])
        for j in indices(self.tendon_count):
            self.desired[j] = self.commands.values[3 + j]

    @stepped
    def want(self, command: cython.double[::1], now_s: cython.double) -> cython.void:
        """As :meth:`command`, in the cycle's thread: the answer to the state before."""
        copy_into(self.desired, command, self.tendon_count)
        self.desired_size, self.desired_s, self.desired_sequence = self.tendon_count, now_s, self.number

    @stepped
    def hold(self, now_s: cython.double) -> cython.void:
        """Command what was commanded when the hold, or the activation, began."""
        if not self.is_powered or self.safety.state_code != STATE_ACTIVE:
            self.held_known = False
            return
        if not self.held_known:
            self.held_known = True
            copy_into(self.desired, self.safety.rules.command, self.tendon_count)  # nobody else writes it meanwhile
        self.desired_size, self.desired_s, self.desired_sequence = self.tendon_count, now_s, self.number

    @stepped
    def finish(self, now_s: cython.double, elapsed_s: cython.double, missed: cython.longlong) -> cython.void:
        """Check what is desired, write what the safety logic lets through, and note all in the log.

        ``now_s``, ``elapsed_s`` and ``missed`` as in :meth:`step`.
        """
        age_s: cython.double = now_s - self.desired_s if self.desired_size >= 0 else 0.0
        self.begin_row(now_s, missed)
        self.safety.missed = missed
        self.safety.step(self.reading, self.desired, self.desired_size, age_s, self.desired_sequence, now_s, elapsed_s)
        self.written = False
        if self.safety.torque_off_due or (self.takes_up and self.safety.state_code == STATE_SAFE):
            self.switch_off()
        elif self.is_powered and self.safety.write:
            self.write(self.safety.rules.output, now_s)
        elif self.takes_up:
            self.write(self.take_up_n, now_s)
        if not self.written:
            self.safety.latency_s = UNKNOWN
        self.end_row()

    @stepped
    def write(self, command: cython.double[::1], now_s: cython.double) -> cython.void:
        """Send a command, and note it for the next row: displacements as the actuators count, without cogging."""
        j: cython.int
        sent: cython.double[::1] = command
        added_n: cython.double[::1] = self.safety.rules.added
        ahead_n: cython.double[::1] = self.cogging.ahead_n
        acts: cython.bint = self.cogging.acts
        if acts:
            for j in indices(self.tendon_count):
                self.sent[j] = command[j] + ahead_n[j]
            sent = self.sent
        elif self.safety.rules.displaces:
            for j in indices(self.tendon_count):
                self.sent[j] = command[j] + self.zero_m[j]
            sent = self.sent
        for j in indices(self.tendon_count):
            added_n[j] = ahead_n[j] if acts else 0.0
        if not self.actuators.write_commands(sent, now_s):
            self.write_failures += 1
        self.written = True
        copy_into(self.noted, command, self.tendon_count)
        for j in indices(self.tendon_count):
            self.noted_limits[j] = self.safety.rules.limited[j]

    @stepped
    def switch_off(self) -> cython.void:
        """Switch the torque off in this cycle, which writes nothing: a brake closes, or slack was being taken up."""
        if not self.actuators.switch_off():
            self.write_failures += 1
        self.safety.cut()
        self.is_powered = self.takes_up = False
        self.forget()

    @stepped
    def forget(self) -> cython.void:
        """No command is known, and without power none was written."""
        j: cython.int
        self.commands.take()
        self.desired_size, self.desired_s, self.answered = -1, -INFINITE, False
        if not self.is_powered:
            for j in indices(self.tendon_count):
                self.noted[j], self.noted_limits[j] = UNKNOWN, 0.0

    @stepped
    def note_written(self, now_s: cython.double) -> cython.void:
        """What this cycle wrote was on its way at ``now_s``: the safety logic watches how late that is."""
        if self.controller is not None and not self.late:
            self.safety.latency_s = now_s - self.reading.stamp_s
        elif self.controller is None and self.desired_size >= 0 and not self.safety.waits:
            self.safety.latency_s = now_s - self.desired_s
        else:  # what is written answers nobody: the driver holds after its activation, or while a reading is late
            self.safety.latency_s = UNKNOWN

    @stepped
    def begin_row(self, now_s: cython.double, missed: cython.longlong) -> cython.void:
        """The reading, what the cycle before wrote, and how many deadlines were ``missed``."""
        n: cython.int = self.tendon_count
        self.log.put(self.number)
        self.log.put(now_s)
        self.log.put(self.reading.stamp_s)
        self.log.put(missed)
        self.log.put(self.reading.valid)
        self.log.put_all(self.reading.displacement_m, n)
        self.log.put_all(self.reading.velocity_m_per_s, n)
        self.log.put_all(self.reading.tension_n, n)
        self.log.put_all(self.reading.current_a, n)
        self.log.put_all(self.reading.temperature_c, n)
        self.log.put_all(self.reading.age_s, n)
        self.log.put_all(self.noted, n)
        self.log.put_all(self.noted_limits, n)

    @stepped
    def end_row(self) -> cython.void:
        """What was desired, and why something else was written."""
        self.log.put(self.safety.changed)
        self.log.put(self.written)
        self.log.put(self.answered)
        self.log.put_all(self.desired, self.tendon_count)
        if self.controller is None:
            self.log.put_all(self.nothing, self.coordinate_count)
            self.log.put_all(self.nothing, self.coordinate_count)
            self.log.put_all(self.nothing, self.coordinate_count)
        else:
            self.log.put_all(self.controller.clarke, self.coordinate_count)
            self.log.put_all(self.controller.clarke_rate, self.coordinate_count)
            self.log.put_all(
                self.controller.generalized_force if self.answered else self.nothing, self.coordinate_count
            )
        self.log.end_row()

    # --- for Python code, between two cycles

    def step_once(self, now_s: float, elapsed_s: float, missed: int = 0) -> None:
        """One cycle, as :meth:`step`."""
        self.step(now_s, elapsed_s, missed)

    def step_for(
        self,
        commander: Commander,
        now_s: float,
        elapsed_s: float,
        missed: int = 0,
        device_faults: tuple[str, ...] = (),
    ) -> None:
        """One cycle in which ``commander`` is asked for the command that answers the reading."""
        self.begin(now_s)
        desired = commander(self.newest_reading(device_faults), elapsed_s)
        if desired is None:
            self.desired_size = -1
        else:
            self._want(desired, now_s, self.number)
        self.finish(now_s, elapsed_s, missed)

    def write_failed(self) -> None:
        """What this cycle wrote could not be sent."""
        self.write_failures += 1

    def wrote(self, now_s: float) -> bool:
        """As :meth:`note_written`; whether this cycle wrote anything."""
        if self.written:
            self.note_written(now_s)
        return bool(self.written)

    def command(self, command: Sequence[float], born_s: float, sequence: int) -> None:
        """A command of another program, from one thread only; the next cycle hears it."""
        padded = [*command, *[math.nan] * self.tendon_count][: self.tendon_count]
        self.commands.post([len(command), born_s, sequence, *padded])

    def attach(self, controller: ControllerCycle | None) -> None:
        """Put a controller into the cycle, inactive; None: take it out."""
        self.controller = controller  # type: ignore[assignment]
        self.controls = False
        self.forget_command()

    def control_now(self, *, on: bool) -> None:
        """Whether the controller in the cycle acts."""
        self.controls = on

    def hold_now(self, *, on: bool, now_s: float) -> None:
        """Hold the commands as they are, or obey the others again, without a jump in either direction.

        Until the first command of the others the safety logic holds; it waits for it as after an activation.
        """
        self.holds, self.held_known = on, False
        self.forget_command()
        self.safety.await_commands(now_s)

    def forget_command(self) -> None:
        """No command is known."""
        self.forget()

    def newest_reading(self, device_faults: tuple[str, ...] = ()) -> TendonReading | None:
        """The reading of the newest cycle, displacements from home; None where the devices could not be read."""
        return self.reading.get(device_faults) if self.reading.valid else None

    def power(self, *, on: bool) -> None:
        """Whether what the safety logic lets through is written."""
        self.is_powered = on
        self.forget()
        if not on:
            self.take_up(None)

    @property
    def holds_tensions(self) -> bool:
        """Whether the cycle itself commands, see :meth:`hold_now`."""
        return bool(self.holds)

    @property
    def powered(self) -> bool:
        """Whether what the safety logic lets through is written."""
        return bool(self.is_powered)

    def take_up(self, tension: Sequence[float] | None) -> None:
        """Tensions that are written while nothing else is; None: none."""
        self.takes_up = tension is not None
        if tension is not None:
            self.take_up_n = vector(tension)

    def set_zero(self, zero_m: Sequence[float]) -> None:
        """Displacements count from here."""
        if len(zero_m) != self.tendon_count:
            raise ParameterError("zero_m", len(zero_m), f"{self.tendon_count} values, one a tendon")
        self.zero_m = vector(zero_m)

    @property
    def zero(self) -> list[float]:
        """What the actuators read at the straight pose, N values, m."""
        return [self.zero_m[j] for j in range(self.tendon_count)]

    @property
    def cycles(self) -> int:
        """Cycles so far: the sequence number of the newest state."""
        return self.number

    @property
    def failures(self) -> tuple[int, int]:
        """How often the devices could not be read, and written."""
        return self.read_failures, self.write_failures

    def rows(self) -> CycleLog:
        """The log."""
        return self.log

    def _want(self, desired: Sequence[float] | NDArray[np.float64], now_s: float, sequence: int) -> None:
        self.desired_size = len(desired)
        self.desired_s, self.desired_sequence = now_s, sequence
        self.desired = vector([*desired, *[math.nan] * self.tendon_count][: self.tendon_count])
