# SPDX-License-Identifier: Apache-2.0
"""One dual-motor board as the host sees it: how it is switched on and off, and what is wrong with it.

No clock in here: the time comes in as an argument. The cycle calls what is stepped; all else is called between two of
its cycles.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cython

from continuum_robot.drivers.odri_can import faults as board_faults
from continuum_robot.drivers.odri_can.codec import ErrorCode
from continuum_robot.drivers.odri_can.fault_codes import (
    BOARD_BUS_ERROR,
    BOARD_BUS_OFF,
    BOARD_CURRENT_MISMATCH,
    BOARD_ENCODER,
    BOARD_ESTOP,
    BOARD_FAULT_CODES,
    BOARD_IS_TWO,
    BOARD_MOTOR_OFF,
    BOARD_OTHER_ERROR,
    BOARD_OTHER_HOST,
    BOARD_POSITION_JUMP,
    BOARD_REBOOTED,
    BOARD_RECEIVE_TIMEOUT,
    BOARD_SILENT,
    BOARD_SILENT_STATUS,
    LAST_WITHOUT_TORQUE,
)
from continuum_robot.drivers.odri_can.frame_port import FramePort
from continuum_robot.drivers.odri_can.frames import (
    CODE_ENABLE_MOTOR_1,
    CODE_ENABLE_SYSTEM,
    CODE_RECEIVE_TIMEOUT_MS,
    CODE_SEND_CURRENT,
    CODE_SEND_ENCODER_INDEX,
    ID_COMMAND,
    ID_CURRENT_REFERENCE,
    NO_Q24,
    q24_counts,
)
from continuum_robot.drivers.odri_can.telemetry import Telemetry
from continuum_robot.errors import DeviceError
from continuum_robot.robot.hardware import OdriCan
from continuum_robot.stepped.buffers import UNKNOWN, integers, stepped, vector

COMMAND_SPACING_S = cython.declare(cython.double, 0.002)
"""Commands share one mailbox of the board, which looks at it every millisecond."""
BOARD_SILENT_AFTER_S = cython.declare(cython.double, 0.03)
STATUS_SILENT_AFTER_S = cython.declare(cython.double, 2.5)
SILENCE_GRACE_S = cython.declare(cython.double, 0.02)
"""What looks silent must look so for this long: after a stall of this computer the frames are there, but not read."""
STATUS_SETTLES_S = cython.declare(cython.double, 0.05)
TIMEOUT_REAPPLY_PERIOD_S = cython.declare(cython.double, 1.0)
RATE_WINDOW_S = cython.declare(cython.double, 0.25)
ONE_BOARD_HZ = cython.declare(cython.double, 1800.0)
COMMANDS_WAITING = cython.declare(cython.int, 16)
"""Room for commands; nine wait at most, and a receive timeout."""
LAST_STREAM_SENT = cython.declare(cython.int, 14)
"""Current, position, velocity. Nothing here needs the analog inputs, and the bus is half full without them."""


@cython.cclass
class Board:
    """A board on its channel, and those behind it in a chain.

    Parameters
    ----------
    name : of the channel, for messages
    motors : which of its motors pull a tendon, 1 and 2
    settings : currents, times
    port : of the channel

    Attributes
    ----------
    port : as given
    following : the next board of the chain
    """

    port: FramePort
    following: Board
    _telemetry: Telemetry
    _name: object
    _motors: object
    _wire_at: cython.int
    _uses_1: cython.bint
    _uses_2: cython.bint
    _ready_bits: cython.int
    _wanted_bits: cython.int
    _timeout_ms: cython.int
    _timeout_s: cython.double
    _alignment_timeout_s: cython.double
    _mismatch_a: cython.double
    _mismatch_time_s: cython.double
    _codes: cython.int[::1]
    _values: cython.int[::1]
    _head: cython.int
    _waiting: cython.int
    _next_command_s: cython.double
    _on: cython.bint
    _enabling: cython.bint
    _off_wanted: cython.bint
    _begun_s: cython.double
    _done_s: cython.double
    _reapply_s: cython.double
    _written_s: cython.double
    _commanded_1: cython.double
    _commanded_2: cython.double
    _latched: cython.longlong
    _fault_order: cython.int[::1]
    _fault_count: cython.int
    _looked_s: cython.double
    _silent_since_s: cython.double
    _status_silent_since_s: cython.double
    _has_window: cython.bint
    _window_s: cython.double
    _window_positions: cython.longlong
    _mismatch_since_s: cython.double[::1]
    _mismatch_seen_s: cython.double

    def __init__(self, name: str, motors: Sequence[int], settings: OdriCan, port: Any) -> None:
        self._name, self._motors = name, tuple(motors)
        self.port, self._telemetry, self.following = port, Telemetry(), None
        self._wire_at = 0
        self._uses_1, self._uses_2 = 1 in self._motors, 2 in self._motors
        self._ready_bits = sum(1 << 2 * motor for motor in self._motors)
        self._wanted_bits = 1 | self._ready_bits | self._ready_bits >> 1
        self._timeout_ms, self._timeout_s = settings.receive_timeout_ms, settings.receive_timeout_ms / 1000
        self._alignment_timeout_s = settings.alignment_timeout_s
        self._mismatch_a, self._mismatch_time_s = settings.current_mismatch_a, settings.current_mismatch_time_s
        self._codes, self._values = integers(COMMANDS_WAITING), integers(COMMANDS_WAITING)
        self._head = self._waiting = 0
        self._next_command_s = 0.0
        self._on = self._enabling = self._off_wanted = False
        self._begun_s = self._done_s = self._reapply_s = self._written_s = 0.0
        self._commanded_1 = self._commanded_2 = 0.0
        self._latched, self._fault_count = 0, 0
        self._fault_order = integers(3 * BOARD_FAULT_CODES)
        self._mismatch_since_s = vector(2)
        self.forget()

    def join(self, samples: Any, number: int, following: Any) -> None:
        """Take a place in a chain.

        Parameters
        ----------
        samples : vector of the samples of all boards
        number : of this board in it
        following : the next board; None at the end
        """
        self._telemetry.share(samples, number * 8)
        self._wire_at = 2 * number
        self.following = following

    def forget(self) -> None:
        """Forget what was received, as before the first frame."""
        self._telemetry.forget()
        self._looked_s = self._silent_since_s = self._status_silent_since_s = -1.0
        self._has_window, self._window_s, self._window_positions = False, 0.0, 0
        self._forget_mismatch()
        self._mismatch_seen_s = 0.0

    # --- what is known

    @property
    def name(self) -> str:
        """Of the channel."""
        return str(self._name)

    @property
    def motors(self) -> tuple[int, ...]:
        """Which of its motors pull a tendon."""
        return tuple(self._motors)  # type: ignore[call-overload, no-any-return]

    @property
    def telemetry(self) -> Telemetry:
        """What it sends."""
        return self._telemetry

    @property
    def on(self) -> bool:
        """Whether its motors obey currents, as far as is known."""
        return bool(self._on)

    @property
    def faults(self) -> tuple[str, ...]:
        """Latched faults as ``channel: name`` or ``channel motor N: name``, in the order in which they came."""
        j: cython.int
        numbers = [self._fault_order[j] for j in range(self._fault_count)]
        places = (self._name, f"{self._name} motor 1", f"{self._name} motor 2")
        return tuple(f"{places[number % 3]}: {board_faults.BY_CODE[number // 3]}" for number in numbers)

    @property
    def commanded_a(self) -> tuple[float, float]:
        """Currents that were sent last, A."""
        return self._commanded_1, self._commanded_2

    # --- switching it on and off

    def start_streams(self, now_s: float) -> None:
        """Torque off, whatever was before; then currents, positions and velocities a thousand times a second."""
        self.forget()
        self._switch_off()
        self._append_streams()
        self._pump(now_s)

    def pump(self, now_s: float) -> None:
        """Send the next waiting command if it is time."""
        self._pump(now_s)

    def begin_enable(self, now_s: float) -> None:
        """Begin to switch the motors on; :meth:`continue_enable` goes on with it.

        The current reference is set to zero before anything is enabled: the board's mailbox keeps an old one. The
        receive timeout is off until the motors are ready, as alignment takes seconds in which no currents are sent.
        """
        if self._on or self._enabling:
            return
        self._off_wanted = False
        self._zero_current()
        self._waiting = 0
        self._append(CODE_RECEIVE_TIMEOUT_MS, 0)
        self._append(CODE_ENABLE_SYSTEM, 1)
        self._append_streams()
        for motor in self._motors:  # type: ignore[attr-defined]
            self._append(CODE_ENABLE_MOTOR_1 + motor - 1, 1)
        self._enabling, self._begun_s = True, now_s
        self._pump(now_s)

    def continue_enable(self, now_s: float) -> bool:
        """Go on with enabling.

        Returns
        -------
        whether its motors are on and ready

        Raises
        ------
        DeviceError : it reports an error or the stop input, or is not ready in time; its motors are off then
        """
        if not self._enabling:
            return bool(self._on)
        self._pump(now_s)
        if self._waiting:
            return False
        # A status that was on its way may still be from before.
        stamp_s, status = self._telemetry.status or (0.0, None)
        if stamp_s > self._done_s + STATUS_SETTLES_S and status is not None:
            if self._telemetry.status_bits & self._wanted_bits == self._wanted_bits:
                self._go_on(now_s)
                return True
            if status.error is not ErrorCode.NONE or not status.system_enabled:
                fault = board_faults.ERRORS.get(status.error, board_faults.ESTOP)
                meaning = board_faults.FAULTS[fault]
                self._fail(f"cannot be enabled: {fault}", f"{meaning[0].upper()}{meaning[1:]}.")
        if now_s - self._begun_s > self._alignment_timeout_s:
            seen = "no status came" if status is None else board_faults.describe(status)
            self._fail(
                f"motor {' and '.join(map(str, self.motors))} not ready after {self._alignment_timeout_s:g} s ({seen})",
                "Alignment needs slack tendons and the motors' supply: check both, then try again.",
            )
        return False

    def rest(self, now_s: float) -> None:
        """Zero current where it is on."""
        self.write(0.0, 0.0, now_s)

    def disable(self) -> None:
        """Currents to zero and the system off, at once; repeated with each status that still says on."""
        self._switch_off()

    def clear_faults(self) -> None:
        """Forget latched faults; those whose cause is still there come back. What switched it off needs an enable."""
        self._latched, self._fault_count = 0, 0
        self._telemetry.jumped = self._telemetry.other_host = False
        self._has_window = False
        self._forget_mismatch()

    def _go_on(self, now_s: float) -> None:
        self._zero_current()
        self._forget_mismatch()
        self._reapply_s = now_s
        self._enabling = False
        self._on = True
        self._reapply_timeout(now_s)

    def _fail(self, problem: str, remedy: str) -> None:
        self._switch_off()
        raise DeviceError(f"motor board on {self._name}", problem, remedy)

    def _append_streams(self) -> None:
        code: cython.int
        for code in range(CODE_SEND_CURRENT, CODE_SEND_ENCODER_INDEX + 1):
            self._append(code, 1 if code <= LAST_STREAM_SENT else 0)

    def _forget_mismatch(self) -> None:
        self._mismatch_since_s[0] = self._mismatch_since_s[1] = UNKNOWN

    # --- commands, in the cycle too

    @stepped
    def _append(self, code: cython.int, value: cython.int) -> cython.void:
        at: cython.int = (self._head + self._waiting) & (COMMANDS_WAITING - 1)
        self._codes[at] = code
        self._values[at] = value
        if self._waiting < COMMANDS_WAITING:
            self._waiting += 1

    @stepped
    def _pump(self, now_s: cython.double) -> cython.void:
        if self._waiting and now_s >= self._next_command_s:
            self.port.send(ID_COMMAND, self._values[self._head], self._codes[self._head])
            self._head = (self._head + 1) & (COMMANDS_WAITING - 1)
            self._waiting -= 1
            self._next_command_s = now_s + COMMAND_SPACING_S
            if not self._waiting and not self._on:  # what sets the timeout again switches nothing
                self._done_s = now_s

    @stepped
    def _reapply_timeout(self, now_s: cython.double) -> cython.void:
        """The board cannot be asked for its receive timeout, and a command may be lost: so it is set every second."""
        if now_s >= self._reapply_s:
            self._reapply_s = now_s + TIMEOUT_REAPPLY_PERIOD_S
            self._append(CODE_RECEIVE_TIMEOUT_MS, self._timeout_ms)
        self._pump(now_s)

    @stepped
    def _look_for_timeout(self, now_s: cython.double) -> cython.void:
        """A board that got no current for so long has switched off; its status says so up to a second later."""
        if now_s - self._written_s > self._timeout_s and (self._commanded_1 != 0.0 or self._commanded_2 != 0.0):
            self._latch(BOARD_RECEIVE_TIMEOUT, 0)

    @stepped
    def _switch_off(self) -> cython.void:
        self._on = self._enabling = False
        self._off_wanted = True
        self._waiting = 0
        self._zero_current()
        self.port.send(ID_COMMAND, 0, CODE_ENABLE_SYSTEM)
        # Once more: this one might have met another command in the board's mailbox.
        self._append(CODE_ENABLE_SYSTEM, 0)

    @stepped
    def _zero_current(self) -> cython.void:
        self.port.send(ID_CURRENT_REFERENCE, 0, 0)
        self._commanded_1 = self._commanded_2 = 0.0

    @stepped
    def _insist_on_off(self) -> cython.void:
        seen_s: cython.double = self._telemetry.status_s
        if not self._off_wanted or self._waiting or not self._telemetry.has_status:
            return
        if seen_s > self._done_s + STATUS_SETTLES_S and self._telemetry.status_bits & 1:
            self._zero_current()
            self._append(CODE_ENABLE_SYSTEM, 0)

    # --- the cycle

    @stepped
    def receive(self, arrival_s: cython.double) -> cython.void:
        """Take what arrived here and behind in the chain."""
        self.port.drain(self._telemetry, arrival_s)
        if self.following is not None:
            self.following.receive(arrival_s)

    @stepped
    def cycle(self, now_s: cython.double, arrival_s: cython.double) -> cython.int:
        """Take what arrived, and look for faults, here and behind in the chain: how many are latched."""
        self.port.drain(self._telemetry, arrival_s)
        self.look(now_s, self.port.bus_off, self.port.has_failed())
        if self.following is not None:
            return self._fault_count + self.following.cycle(now_s, arrival_s)
        return self._fault_count

    @stepped
    def has_gone(self) -> cython.bint:
        """Whether a port needs another socket, here or behind in the chain."""
        return self.port.gone or (self.following is not None and self.following.has_gone())

    @stepped
    def write_all(self, wire_a: cython.double[::1], now_s: cython.double) -> cython.void:
        """Send each board of the chain the currents of its two motors, A."""
        self.write(wire_a[self._wire_at], wire_a[self._wire_at + 1], now_s)
        if self.following is not None:
            self.following.write_all(wire_a, now_s)

    @stepped
    def write(self, motor_1_a: cython.double, motor_2_a: cython.double, now_s: cython.double) -> cython.bint:
        """Send currents (A); nothing where the motors are not on, whose mailbox would keep them, nor what Q24 is not.

        Returns
        -------
        whether they were sent
        """
        if not self._on:
            return False
        self._look_for_timeout(now_s)
        first: cython.longlong = q24_counts(motor_1_a)
        second: cython.longlong = q24_counts(motor_2_a)
        if not self._on or first == NO_Q24 or second == NO_Q24:
            return False
        if not self.port.send(ID_CURRENT_REFERENCE, first, second):
            return False
        self._commanded_1 = motor_1_a
        self._commanded_2 = motor_2_a
        self._written_s = now_s
        return True

    @stepped
    def look(self, now_s: cython.double, bus_off: cython.bint, bus_failed: cython.bint) -> cython.void:
        """Look for faults, and send what waits; once in each cycle.

        ``bus_off``: the CAN controller says so; ``bus_failed``: frames can be neither sent nor received.
        """
        if self._on:
            self._look_for_timeout(now_s)
            self._reapply_timeout(now_s)
        elif not self._enabling:
            self._insist_on_off()
            self._pump(now_s)
        stalled: cython.bint = not 0.0 <= now_s - self._looked_s < SILENCE_GRACE_S
        self._looked_s = now_s
        if bus_off:
            self._latch(BOARD_BUS_OFF, 0)
        if bus_failed:
            self._latch(BOARD_BUS_ERROR, 0)
        if self._telemetry.other_host:
            self._latch(BOARD_OTHER_HOST, 0)
        if self._telemetry.jumped:
            self._latch(BOARD_POSITION_JUMP, 0)
        self._look_for_silence(now_s, stalled)
        if stalled or not self._has_window or now_s - self._window_s >= RATE_WINDOW_S:
            self._look_at_rate(now_s, stalled)
        if self._telemetry.has_status:
            self._look_at_status()
        if self._on and self._telemetry.has_sample:
            self._look_at_currents()

    @stepped
    def _latch(self, fault: cython.int, motor: cython.int) -> cython.void:
        number: cython.int = 3 * fault + motor
        mask: cython.longlong = 1
        mask = mask << number
        if not self._latched & mask:
            self._latched = self._latched | mask
            self._fault_order[self._fault_count] = number
            self._fault_count += 1
        if fault <= LAST_WITHOUT_TORQUE and self._on:
            # The board is off already; this empties its mailbox, which would act at once when it is enabled again.
            self._switch_off()

    @stepped
    def _look_for_silence(self, now_s: cython.double, stalled: cython.bint) -> cython.void:
        oldest_s: cython.double = self._telemetry.samples[self._telemetry.at + 1]  # -infinity before the first
        if now_s - oldest_s > BOARD_SILENT_AFTER_S:
            if self._silent_since_s < 0 or stalled:
                self._silent_since_s = now_s
            if now_s - self._silent_since_s >= SILENCE_GRACE_S:
                self._latch(BOARD_SILENT, 0)
        else:
            self._silent_since_s = -1.0
        if not self._telemetry.has_status or now_s - self._telemetry.status_s > STATUS_SILENT_AFTER_S:
            if self._status_silent_since_s < 0 or stalled:
                self._status_silent_since_s = now_s
            if now_s - self._status_silent_since_s >= SILENCE_GRACE_S:
                self._latch(BOARD_SILENT_STATUS, 0)
        else:
            self._status_silent_since_s = -1.0

    @stepped
    def _look_at_rate(self, now_s: cython.double, stalled: cython.bint) -> cython.void:
        """At the end of a window, or where one begins anew."""
        count: cython.longlong = self._telemetry.positions - self._window_positions
        if self._has_window and not stalled and count > ONE_BOARD_HZ * (now_s - self._window_s):
            self._latch(BOARD_IS_TWO, 0)
        self._has_window = True
        self._window_s = now_s
        self._window_positions = self._telemetry.positions

    @stepped
    def _look_at_status(self) -> cython.void:
        bits: cython.int = self._telemetry.status_bits
        error: cython.int = bits >> 5
        if error == 0 and bits & self._wanted_bits == self._wanted_bits:
            return
        if error == BOARD_ENCODER:
            self._latch(BOARD_ENCODER, 0)
        if not self._on or self._telemetry.status_s <= self._done_s + STATUS_SETTLES_S:
            return
        # The other errors stay in the status until the next enable, and say nothing about a board that is off.
        if error == 6:
            self._latch(BOARD_OTHER_ERROR, 0)
        elif error != 0:
            self._latch(error, 0)
        elif bits & self._ready_bits != self._ready_bits:
            self._telemetry.zero_lost = True
            self._latch(BOARD_REBOOTED, 0)
        elif not bits & 1:
            self._latch(BOARD_ESTOP, 0)
        else:
            if self._uses_1 and not bits & 2:
                self._latch(BOARD_MOTOR_OFF, 1)
            if self._uses_2 and not bits & 8:
                self._latch(BOARD_MOTOR_OFF, 2)

    @stepped
    def _look_at_currents(self) -> cython.void:
        at: cython.int = self._telemetry.at
        stamp_s: cython.double = self._telemetry.samples[at]
        if stamp_s == self._mismatch_seen_s:
            return
        self._mismatch_seen_s = stamp_s
        if self._uses_1:
            self._compare(0, self._commanded_1 - self._telemetry.samples[at + 6], stamp_s)
        if self._uses_2:
            self._compare(1, self._commanded_2 - self._telemetry.samples[at + 7], stamp_s)

    @stepped
    def _compare(self, motor: cython.int, difference_a: cython.double, stamp_s: cython.double) -> cython.void:
        if -self._mismatch_a <= difference_a <= self._mismatch_a:
            self._mismatch_since_s[motor] = UNKNOWN
            return
        since_s: cython.double = self._mismatch_since_s[motor]
        if since_s != since_s:  # NaN: it matched until now
            self._mismatch_since_s[motor] = since_s = stamp_s
        if stamp_s - since_s > self._mismatch_time_s:
            self._latch(BOARD_CURRENT_MISMATCH, motor + 1)
