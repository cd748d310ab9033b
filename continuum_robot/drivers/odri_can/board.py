# SPDX-License-Identifier: Apache-2.0
"""One dual-motor board as the host sees it: how it is switched on and off, and what is wrong with it.

No bus and no clock in here: frames and the time come in as arguments, frames go out through a callable. The frames of
:meth:`.Telemetry.receive` may come from a receive thread; all other calls may come from any thread.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence

from continuum_robot.drivers.odri_can import codec
from continuum_robot.drivers.odri_can.codec import CommandCode, ErrorCode, Status
from continuum_robot.drivers.odri_can.faults import (
    BUS_ERROR,
    BUS_OFF,
    CURRENT_MISMATCH,
    ENCODER,
    ERRORS,
    ESTOP,
    FAULTS,
    MOTOR_OFF,
    OTHER_HOST,
    POSITION_JUMP,
    REBOOTED,
    RECEIVE_TIMEOUT,
    SILENT_BOARD,
    SILENT_STATUS,
    TORQUE_IS_OFF,
    TWO_BOARDS,
    describe,
)
from continuum_robot.drivers.odri_can.telemetry import Sample, Telemetry
from continuum_robot.errors import DeviceError
from continuum_robot.robot.hardware import OdriCan

COMMAND_SPACING_S = 0.002
"""Commands share one mailbox of the board, which looks at it every millisecond."""
SILENT_AFTER_S = 0.03
STATUS_SILENT_AFTER_S = 2.5
GRACE_S = 0.02
"""What looks silent must look so for this long: after a stall of this computer the frames are there, but not read."""
STATUS_SETTLES_S = 0.05
REAPPLY_PERIOD_S = 1.0
RATE_WINDOW_S = 0.25
ONE_BOARD_HZ = 1800.0

_STREAMS = {
    CommandCode.SEND_CURRENT: 1,
    CommandCode.SEND_POSITION: 1,
    CommandCode.SEND_VELOCITY: 1,
    # Nothing here needs the analog inputs, and the bus is half full without them.
    CommandCode.SEND_ADC: 0,
    CommandCode.SEND_ENCODER_INDEX: 0,
}
_ENABLE_MOTOR = {1: CommandCode.ENABLE_MOTOR_1, 2: CommandCode.ENABLE_MOTOR_2}


class Board:
    """A board on its channel.

    Parameters
    ----------
    name : of the channel, for messages
    motors : which of its motors pull a tendon, 1 and 2
    settings : currents, times
    send : sends a frame and says whether it went out

    Attributes
    ----------
    name, motors : as given
    telemetry : what it sends
    """

    def __init__(self, name: str, motors: Sequence[int], settings: OdriCan, send: Callable[[int, bytes], bool]) -> None:
        self.name, self.motors = name, tuple(motors)
        self.telemetry = Telemetry()
        self._settings, self._send = settings, send
        self._lock = threading.RLock()
        self._commands: deque[tuple[CommandCode, int]] = deque()
        self._next_command_s = 0.0
        self._on = self._enabling = self._off_wanted = False
        self._begun_s = self._done_s = self._reapply_s = self._written_s = 0.0
        self._faults: dict[str, None] = {}
        self._commanded = (0.0, 0.0)
        self.forget()

    def forget(self) -> None:
        """Forget what was received, as before the first frame."""
        self.telemetry.forget()
        self._looked_s = self._silent_since_s = self._status_silent_since_s = -1.0
        self._window: tuple[float, int] | None = None
        self._mismatch_since_s: dict[int, float] = {}
        self._mismatch_seen_s = 0.0

    # --- what is known

    @property
    def on(self) -> bool:
        """Whether its motors obey currents, as far as is known."""
        return self._on

    @property
    def faults(self) -> tuple[str, ...]:
        """Latched faults as ``channel: name`` or ``channel motor N: name``, in the order in which they came."""
        return tuple(self._faults)

    @property
    def commanded_a(self) -> tuple[float, float]:
        """Currents that were sent last, A."""
        return self._commanded

    # --- switching it on and off

    def start_streams(self, now_s: float) -> None:
        """Torque off, whatever was before; then currents, positions and velocities a thousand times a second."""
        with self._lock:
            self.forget()
            self._switch_off()
            self._commands.extend(_STREAMS.items())
            self.pump(now_s)

    def pump(self, now_s: float) -> None:
        """Send the next waiting command if it is time."""
        with self._lock:
            if self._commands and now_s >= self._next_command_s:
                code, value = self._commands.popleft()
                self._send(codec.COMMAND_ID, codec.encode_command(code, value))
                self._next_command_s = now_s + COMMAND_SPACING_S
                if not self._commands and not self._on:  # what sets the timeout again switches nothing
                    self._done_s = now_s

    def begin_enable(self, now_s: float) -> None:
        """Begin to switch the motors on; :meth:`continue_enable` goes on with it.

        The current reference is set to zero before anything is enabled: the board's mailbox keeps an old one. The
        receive timeout is off until the motors are ready, as alignment takes seconds in which no currents are sent.
        """
        with self._lock:
            if self._on or self._enabling:
                return
            self._off_wanted = False
            self._zero_current()
            self._commands.clear()
            self._commands.append((CommandCode.RECEIVE_TIMEOUT_MS, 0))
            self._commands.append((CommandCode.ENABLE_SYSTEM, 1))
            self._commands.extend(_STREAMS.items())
            self._commands.extend((_ENABLE_MOTOR[motor], 1) for motor in self.motors)
            self._enabling, self._begun_s = True, now_s
            self.pump(now_s)

    def continue_enable(self, now_s: float) -> bool:
        """Go on with enabling.

        Returns
        -------
        whether its motors are on and ready

        Raises
        ------
        DeviceError : it reports an error or the stop input, or is not ready in time; its motors are off then
        """
        with self._lock:
            if not self._enabling:
                return self._on
            self.pump(now_s)
            if self._commands:
                return False
            # A status that was on its way may still be from before.
            stamp_s, status = self.telemetry.status or (0.0, None)
            fresh = stamp_s > self._done_s + STATUS_SETTLES_S
            if fresh and status is not None:
                if status.system_enabled and all(
                    status.motor_ready(motor) and status.motor_enabled(motor) for motor in self.motors
                ):
                    self._go_on(now_s)
                    return True
                if status.error is not ErrorCode.NONE or not status.system_enabled:
                    fault = ERRORS.get(status.error, ESTOP)
                    self._fail(f"cannot be enabled: {fault}", _sentence(FAULTS[fault]))
            if now_s - self._begun_s > self._settings.alignment_timeout_s:
                seen = "no status came" if status is None else describe(status)
                self._fail(
                    f"motor {' and '.join(map(str, self.motors))} not ready after"
                    f" {self._settings.alignment_timeout_s:g} s ({seen})",
                    "Alignment needs slack tendons and the motors' supply: check both, then try again.",
                )
            return False

    def _go_on(self, now_s: float) -> None:
        self._zero_current()
        self._enabling, self._on = False, True
        self._mismatch_since_s.clear()
        self._reapply_s = now_s
        self._reapply_timeout(now_s)

    def _fail(self, problem: str, remedy: str) -> None:
        self._switch_off()
        raise DeviceError(f"motor board on {self.name}", problem, remedy)

    def _reapply_timeout(self, now_s: float) -> None:
        """The board cannot be asked for its receive timeout, and a command may be lost: so it is set every second."""
        if now_s >= self._reapply_s:
            self._reapply_s = now_s + REAPPLY_PERIOD_S
            self._commands.append((CommandCode.RECEIVE_TIMEOUT_MS, self._settings.receive_timeout_ms))
        self.pump(now_s)

    def write(self, motor_1_a: float, motor_2_a: float, now_s: float) -> None:
        """Send currents (A); nothing where the motors are not on, whose mailbox would keep them.

        Parameters
        ----------
        motor_1_a, motor_2_a : currents of both motors, A

        Raises
        ------
        ParameterError : not finite, or beyond what the wire holds
        """
        with self._lock:
            if not self._on:
                return
            self._look_for_timeout(now_s)
            if self._on and self._send(
                codec.CURRENT_REFERENCE_ID, codec.encode_current_reference(motor_1_a, motor_2_a)
            ):
                self._commanded, self._written_s = (motor_1_a, motor_2_a), now_s

    def _look_for_timeout(self, now_s: float) -> None:
        """A board that got no current for so long has switched off; its status says so up to a second later."""
        waited_s = now_s - self._written_s
        if any(self._commanded) and waited_s > self._settings.receive_timeout_ms / 1000:
            self._latch(RECEIVE_TIMEOUT)

    def disable(self) -> None:
        """Currents to zero and the system off, at once; repeated with each status that still says on."""
        with self._lock:
            self._switch_off()

    def _switch_off(self) -> None:
        self._on = self._enabling = False
        self._off_wanted = True
        self._commands.clear()
        self._zero_current()
        self._send(codec.COMMAND_ID, codec.encode_command(CommandCode.ENABLE_SYSTEM, 0))
        # Once more: this one might have met another command in the board's mailbox.
        self._commands.append((CommandCode.ENABLE_SYSTEM, 0))

    def _zero_current(self) -> None:
        self._send(codec.CURRENT_REFERENCE_ID, codec.encode_current_reference(0.0, 0.0))
        self._commanded = (0.0, 0.0)

    # --- what is wrong with it

    def clear_faults(self) -> None:
        """Forget latched faults; those whose cause is still there come back. What switched it off needs an enable."""
        with self._lock:
            self._faults.clear()
            self.telemetry.jumped = self.telemetry.other_host = False
            self._window = None
            self._mismatch_since_s.clear()

    def look(self, now_s: float, *, bus_off: bool = False, bus_failed: bool = False) -> None:
        """Look for faults, and send what waits; once in each cycle.

        Parameters
        ----------
        now_s : s
        bus_off : the CAN controller says so
        bus_failed : frames can be neither sent nor received
        """
        with self._lock:
            if self._on:
                self._look_for_timeout(now_s)
                self._reapply_timeout(now_s)
            elif not self._enabling:
                self._insist_on_off()
                self.pump(now_s)
            seen = self.telemetry
            stalled = not 0.0 <= now_s - self._looked_s < GRACE_S
            self._looked_s = now_s
            if bus_off:
                self._latch(BUS_OFF)
            if bus_failed:
                self._latch(BUS_ERROR)
            if seen.other_host:
                self._latch(OTHER_HOST)
            if seen.jumped:
                self._latch(POSITION_JUMP)
            self._look_for_silence(now_s, stalled)
            self._look_at_rate(now_s, stalled)
            if seen.status is not None:
                self._look_at_status(*seen.status)
            if self._on and seen.sample is not None and seen.sample.stamp_s != self._mismatch_seen_s:
                self._mismatch_seen_s = seen.sample.stamp_s
                self._look_at_currents(seen.sample)

    def _latch(self, fault: str, motor: int | None = None) -> None:
        place = self.name if motor is None else f"{self.name} motor {motor}"
        self._faults.setdefault(f"{place}: {fault}")
        if fault in TORQUE_IS_OFF and self._on:
            # The board is off already; this empties its mailbox, which would act at once when it is enabled again.
            self._switch_off()

    def _insist_on_off(self) -> None:
        status = self.telemetry.status
        if not self._off_wanted or self._commands or status is None:
            return
        if status[0] > self._done_s + STATUS_SETTLES_S and status[1].system_enabled:
            self._zero_current()
            self._commands.append((CommandCode.ENABLE_SYSTEM, 0))

    def _look_for_silence(self, now_s: float, stalled: bool) -> None:
        seen = self.telemetry
        if seen.sample is None or now_s - seen.sample.oldest_s > SILENT_AFTER_S:
            if self._silent_since_s < 0 or stalled:
                self._silent_since_s = now_s
            if now_s - self._silent_since_s >= GRACE_S:
                self._latch(SILENT_BOARD)
        else:
            self._silent_since_s = -1.0
        if seen.status is None or now_s - seen.status[0] > STATUS_SILENT_AFTER_S:
            if self._status_silent_since_s < 0 or stalled:
                self._status_silent_since_s = now_s
            if now_s - self._status_silent_since_s >= GRACE_S:
                self._latch(SILENT_STATUS)
        else:
            self._status_silent_since_s = -1.0

    def _look_at_rate(self, now_s: float, stalled: bool) -> None:
        if self._window is None or stalled:
            self._window = (now_s, self.telemetry.counters.positions)
            return
        begin_s, count = self._window
        if now_s - begin_s >= RATE_WINDOW_S:
            if (self.telemetry.counters.positions - count) / (now_s - begin_s) > ONE_BOARD_HZ:
                self._latch(TWO_BOARDS)
            self._window = (now_s, self.telemetry.counters.positions)

    def _look_at_status(self, stamp_s: float, status: Status) -> None:
        if status.error is ErrorCode.ENCODER:
            self._latch(ENCODER)
        if not self._on or stamp_s <= self._done_s + STATUS_SETTLES_S:
            return
        # The other errors stay in the status until the next enable, and say nothing about a board that is off.
        if status.error is not ErrorCode.NONE:
            self._latch(ERRORS[status.error])
        elif not all(status.motor_ready(motor) for motor in self.motors):
            self.telemetry.zero_lost = True
            self._latch(REBOOTED)
        elif not status.system_enabled:
            self._latch(ESTOP)
        else:
            for motor in self.motors:
                if not status.motor_enabled(motor):
                    self._latch(MOTOR_OFF, motor)

    def _look_at_currents(self, sample: Sample) -> None:
        for motor in self.motors:
            wanted, measured = self._commanded[motor - 1], sample.current_a[motor - 1]
            if abs(wanted - measured) <= self._settings.current_mismatch_a:
                self._mismatch_since_s.pop(motor, None)
                continue
            since_s = self._mismatch_since_s.setdefault(motor, sample.stamp_s)
            if sample.stamp_s - since_s > self._settings.current_mismatch_time_s:
                self._latch(CURRENT_MISMATCH, motor)


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:] + "."
