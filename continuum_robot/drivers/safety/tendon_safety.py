# SPDX-License-Identifier: Apache-2.0
"""The tendon driver's state machine: what may be sent to the actuators, and what happens when something is wrong.

Stepped code: see :mod:`continuum_robot.stepped`.
"""

from __future__ import annotations

from collections.abc import Sequence

import cython
import numpy as np
from numpy.typing import NDArray

from continuum_robot.drivers.protocols import TendonReading
from continuum_robot.drivers.reading_buffer import ReadingBuffer
from continuum_robot.drivers.safety.cycle import STATE_ACTIVE, STATE_INACTIVE, STATE_SAFE, SafetyCycle
from continuum_robot.drivers.safety.fault_codes import MOTOR_HOT_BIT
from continuum_robot.drivers.safety.settings import SafetySettings
from continuum_robot.drivers.safety.stop_action import STOP_NAMES
from continuum_robot.drivers.safety.tendon_faults import (
    COMMAND_TIMEOUT,
    COMMAND_WRONG_SIZE,
    ESTOP,
    FAULTS,
    LOOP_TOO_SLOW,
    READING_TIMEOUT,
    fault_name,
    fault_names,
    stop_class,
)
from continuum_robot.errors import DeviceError
from continuum_robot.robot.description import Robot
from continuum_robot.stepped.buffers import vector

INACTIVE, ACTIVE, SAFE = "inactive", "active", "safe"
STATES = (INACTIVE, ACTIVE, SAFE)
"""Names of the states, by their codes in safety_cycle.py."""


@cython.cclass
class TendonSafety(SafetyCycle):
    """Decides in each cycle of the tendon driver which tensions or displacements are sent.

    States: *inactive* (commands are ignored), *active* (commands pass through the limits), *safe* (a fault latched).
    Leaving *active* in either direction releases the tendons: tensions ramp from the last command to ``limits.safe_n``
    at ``limits.safe_rate_n_per_s``, after a fault in ``safe_within_s`` at most; servos pay out by ``limits.pay_out_m``.
    From *safe* only :meth:`reset` leads to *inactive*, and from there only :meth:`activate` to *active*. Where the
    robot file's ``stop`` section says so, a fault lets the tensions or the place be held for a bounded time before
    that, or torque go off at once, by which brakes close. Pure: no clock, no thread.

    Methods are called between two cycles; only :meth:`ask_estop` and :meth:`release_estop` at any time.
    """

    estop_reason = cython.declare(object, visibility="public")
    # What Python code gives to activate().
    _taken: ReadingBuffer

    def __init__(
        self,
        robot: Robot,
        settings: SafetySettings | None = None,
        period_s: float = 0.001,
        delay_margin_s: float | None = None,
    ) -> None:
        SafetyCycle.__init__(self, robot, settings, period_s, delay_margin_s)
        self.estop_reason = ""
        self._taken = ReadingBuffer(self._count)

    # --- what the state is

    @property
    def state(self) -> str:
        """Which of "inactive", "active" and "safe"."""
        return STATES[self.state_code]

    @property
    def faults(self) -> tuple[str, ...]:
        """Latched faults, in the order in which they came."""
        return tuple([fault_name(self._latched_codes[k]) for k in range(self._latched_count)])

    @property
    def last_fault(self) -> str:
        """Name of the newest fault, kept after a reset; "" before the first."""
        return fault_name(self._newest_code) if self._newest_code >= 0 else ""

    @property
    def conditions(self) -> tuple[str, ...]:
        """Faults that the newest reading would cause now, latched or not; a hot motor is one without a reading too."""
        return fault_names(self._conditions | (MOTOR_HOT_BIT if self.heat.hot else 0))

    @property
    def commanded(self) -> NDArray[np.float64]:
        """The newest command to the actuators, shape (N,), N or m."""
        return np.array(self.rules.command, dtype=float)

    @property
    def released(self) -> bool:
        """Whether a release has ended (or nothing was ever sent), so that torque may go off."""
        if self.state_code == STATE_ACTIVE or self.stop.holds:
            return False
        return not self._engaged or bool(self.rules.is_released())

    @property
    def stop_action(self) -> str:
        """What a stop does now, of the robot file's ``stop`` section; "" where no fault is latched."""
        if self.state_code != STATE_SAFE:
            return ""
        return STOP_NAMES[self.stop.code]

    @property
    def fallback_holds(self) -> bool:
        """Whether the driver holds in the place of a controller that is lost."""
        return bool(self.stop.holds) and any(stop_class(name) == "commands" for name in self.faults)

    @property
    def late_latency_s(self) -> float:
        """Age of a state beyond which the command that answers it is late, s."""
        return self._lateness.late_latency_s

    @property
    def late_warning(self) -> bool:
        """Whether commands are late, or cycles missed, half as much as makes the loop too slow."""
        return bool(self._lateness.late_warning)

    def explain(self, fault: str) -> str:
        """What a fault means; of what comes late with its numbers, and what to do."""
        meaning = FAULTS[fault]
        if fault == LOOP_TOO_SLOW:
            return f"{meaning}: {self.lateness}"
        if fault == READING_TIMEOUT:
            return (
                f"{meaning} = {self.limits.reading_timeout_s:g} s. Check the devices' bus and supply; a busy computer"
                " delays readings too (docs/how-to/realtime.md)"
            )
        if fault == COMMAND_TIMEOUT:
            return f"{meaning} = {self.limits.command_timeout_s:g} s"
        if fault == COMMAND_WRONG_SIZE:
            return f"{meaning}: {self._count} {'displacements' if self.rules.displaces else 'tensions'}"
        detail = self.rules.detail(fault)
        return f"{meaning}: {detail}" if detail else meaning

    def run_procedure(self, *, on: bool) -> None:
        """Whether a procedure moves the robot: it needs fewer cycles a second than a controller."""
        self._lateness.procedure = on

    @property
    def lateness(self) -> str:
        """How late the cycle is, of which limits, and what to do."""
        return str(self._lateness.text)

    @property
    def missed_fraction(self) -> float:
        """Missed cycles over the last second, as a fraction of all that were due; NaN before the first."""
        return self._lateness.missed_fraction

    @property
    def worst_latency_s(self) -> float:
        """The oldest state that a command answered over the last second, s; NaN where none did."""
        return self._lateness.worst_latency_s

    # --- requests

    def activate(self, reading: TendonReading, now_s: float | None = None) -> None:
        """Begin to obey commands, without a jump: the first output is the measured tension or displacement.

        A tension below the minimum becomes the minimum. Commands from before this call are ignored.
        """
        self._obey_estop()
        if self.state_code == STATE_ACTIVE:
            raise DeviceError("tendon driver", "is already active", "Deactivate it first.")
        self.refuse_faults()
        at_s = reading.stamp_s if now_s is None else now_s
        self._watch.restart()
        self._taken.set(reading)
        found = self._watch.step(self._taken, at_s, self.rules.command, False, self.positions_known)
        found |= MOTOR_HOT_BIT if self.heat.hot else 0
        problems = [self.explain(name) for name in fault_names(found)] + list(reading.device_faults)
        problems += self.rules.prepare(reading, self.positions_known)
        if problems:
            raise DeviceError(
                "tendon driver", f"cannot be activated: {'; '.join(problems)}", "Remove the cause, then activate again."
            )
        self.rules.start()
        self._commands.accept(*self.rules.accepted(self.settings.command_fraction, self.positions_known))
        self.stop.clear()
        self._engaged = True
        self._since_command_s = 0.0
        self._commands.restart(at_s)
        self._lateness.restart()
        self.state_code = STATE_ACTIVE

    def await_commands(self, now_s: float) -> None:
        """Another one commands from now on: hold what was commanded until its first command, as after an activation."""
        self._commands.restart(now_s)
        self._since_command_s = 0.0

    def refuse_faults(self) -> None:
        """Raise :class:`DeviceError` where a fault is latched; it names all."""
        if self._latched:
            raise DeviceError(
                "tendon driver",
                f"latched faults: {', '.join(self.faults)}",
                "Remove the cause, then reset the faults.",
            )

    def deactivate(self) -> None:
        """Stop to obey commands, or to hold, and release the tendons; :attr:`released` is true once they are.

        Latched faults stay latched. Allowed in every state.
        """
        self.stop.end()
        if self.state_code == STATE_ACTIVE:
            self.rules.begin_slowly()
        self.state_code = STATE_SAFE if self._latched else STATE_INACTIVE

    def torque_off(self) -> None:
        """The driver switched torque off or closed the bus, as :meth:`cut`."""
        self.cut()

    def ask_estop(self, reason: str, *, held: bool = False, release: bool = False) -> None:
        """Let the next step latch the emergency stop. Allowed at any time, from any thread."""
        self.estop_reason = reason
        if held:
            self.estop_held = True
        if release:
            self.estop_releases = True
        self.estop_asked = True

    def estop(self, reason: str, *, held: bool = False, release: bool = False) -> None:
        """Latch the emergency stop now. Allowed in every state."""
        self.ask_estop(reason, held=held, release=release)
        self._obey_estop()

    def release_estop(self) -> None:
        """The e-stop's input is no longer held; the fault stays latched until :meth:`reset`."""
        self.estop_held = False

    def reset(self) -> tuple[str, ...]:
        """Clear latched faults, if all inputs are neutral; leads to *inactive*."""
        self._obey_estop()
        blocking = self.conditions + ((ESTOP,) if self.estop_held else ())
        if not blocking:
            self.stop.clear()
            self._latched = self._latched_count = 0
            if self.state_code == STATE_SAFE:
                self.state_code = STATE_INACTIVE
        return blocking

    # --- the cycle

    def step_once(
        self,
        reading: ReadingBuffer,
        desired: Sequence[float],
        size: int,
        age_s: float,
        sequence: int,
        now_s: float,
        elapsed_s: float,
    ) -> None:
        """:meth:`step` for Python code; :class:`~continuum_robot.runtime.cycle.driver_cycle.DriverCycle` steps it."""
        self.step(reading, vector(desired), size, age_s, sequence, now_s, elapsed_s)
