# SPDX-License-Identifier: Apache-2.0
"""One dual-motor board as the host sees it: how it is switched on and off, and what is wrong with it.

The time comes in as an argument. The cycle calls what is stepped; all else is called between two of its cycles.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import cython

from continuum_robot.drivers.named_faults import faults_of
from continuum_robot.drivers.odri_can.frame_port import FramePort
from continuum_robot.drivers.odri_can.frames import (
    CODE_RECEIVE_TIMEOUT_MS,
    ID_COMMAND,
    ID_CURRENT_REFERENCE,
    NO_Q24,
    q24_counts,
)
from continuum_robot.drivers.odri_can.protocol import FAULT_NAMES, CommandCode, Status, fault_of
from continuum_robot.drivers.odri_can.settings import OdriCan
from continuum_robot.drivers.odri_can.telemetry import CURRENTS, OLDEST, POSITIONS, STAMP, VELOCITIES, Telemetry
from continuum_robot.drivers.reading_buffer import ReadingBuffer
from continuum_robot.errors import DeviceError
from continuum_robot.stepped.buffers import INFINITE, UNKNOWN, indices, integers, stepped, vector

CODE_ENABLE_SYSTEM = cython.declare(cython.int, int(CommandCode.ENABLE_SYSTEM))
CODE_ENABLE_MOTOR_1 = cython.declare(cython.int, int(CommandCode.ENABLE_MOTOR_1))
CODE_SEND_CURRENT = cython.declare(cython.int, int(CommandCode.SEND_CURRENT))
CODE_SEND_ENCODER_INDEX = cython.declare(cython.int, int(CommandCode.SEND_ENCODER_INDEX))
LAST_STREAM_WANTED = cython.declare(cython.int, int(CommandCode.SEND_VELOCITY))
"""Current, position, velocity. Nothing here needs the analog inputs, and the bus is half full without them."""
BOARD_ESTOP = cython.declare(cython.int, FAULT_NAMES.index("estop"))
BOARD_ENCODER = cython.declare(cython.int, FAULT_NAMES.index("encoder_error"))
BOARD_RECEIVE_TIMEOUT = cython.declare(cython.int, FAULT_NAMES.index("receive_timeout"))
BOARD_OTHER_ERROR = cython.declare(cython.int, FAULT_NAMES.index("other_board_error"))
BOARD_MOTOR_OFF = cython.declare(cython.int, FAULT_NAMES.index("motor_off"))
BOARD_REBOOTED = cython.declare(cython.int, FAULT_NAMES.index("rebooted"))
BOARD_POSITION_JUMP = cython.declare(cython.int, FAULT_NAMES.index("position_jump"))
BOARD_SILENT = cython.declare(cython.int, FAULT_NAMES.index("silent_board"))
BOARD_SILENT_STATUS = cython.declare(cython.int, FAULT_NAMES.index("silent_status"))
BOARD_CURRENT_MISMATCH = cython.declare(cython.int, FAULT_NAMES.index("current_mismatch"))
BOARD_IS_TWO = cython.declare(cython.int, FAULT_NAMES.index("two_boards"))
BOARD_OTHER_HOST = cython.declare(cython.int, FAULT_NAMES.index("other_host"))
BOARD_BUS_OFF = cython.declare(cython.int, FAULT_NAMES.index("bus_off"))
BOARD_QUEUE_FULL = cython.declare(cython.int, FAULT_NAMES.index("queue_full"))
BOARD_BUS_ERROR = cython.declare(cython.int, FAULT_NAMES.index("bus_error"))

STATUS_SETTLES_S = cython.declare(cython.double, 0.05)
TIMEOUT_REAPPLY_PERIOD_S = cython.declare(cython.double, 1.0)
COMMAND_SPACING_S = cython.declare(cython.double, 0.002)
"""Commands share one mailbox of the board."""
COMMANDS_WAITING = cython.declare(cython.int, 16)
"""Room for commands, a power of two; nine wait at most, and a receive timeout."""
STATUS_SILENT_AFTER_S = cython.declare(cython.double, 2.5)
SILENCE_GRACE_S = cython.declare(cython.double, 0.02)
"""What looks silent must look so for this long: after a stall of this computer the frames are there, but not read."""
RATE_WINDOW_S = cython.declare(cython.double, 0.25)
ONE_BOARD_HZ = cython.declare(cython.double, 1800.0)


def describe(status: Status) -> str:
    """A status in words."""
    words = ["system on" if status.system_enabled else "system off"]
    for motor, (on, ready) in enumerate((status[1:3], status[3:5]), 1):
        words.append(f"motor {motor} {'on' if on else 'off'} and {'ready' if ready else 'not aligned'}")
    error = f"error {int(status.error)}: {fault_of(status.error)}" if status.error else "no error"
    return ", ".join([*words, error])


@cython.cclass
class Board:
    """A board on its channel, and those behind it in a chain."""

    name = cython.declare(object, visibility="readonly")
    telemetry = cython.declare(Telemetry, visibility="readonly")
    on = cython.declare(cython.bint, visibility="readonly")
    port: FramePort
    following: Board
    _tendon: cython.int[::1]
    _ready_bits: cython.int
    _desired_bits: cython.int
    # Commands that wait, in a ring.
    _codes: cython.int[::1]
    _values: cython.int[::1]
    _head: cython.int
    _waiting: cython.int
    _next_s: cython.double
    # Latched faults, three numbers for each: of the board, of motor 1, of motor 2.
    latched: cython.int
    _seen_faults: cython.longlong
    _order: cython.int[::1]
    _timeout_ms: cython.int
    _timeout_s: cython.double
    _alignment_timeout_s: cython.double
    _enabling: cython.bint
    _off_desired: cython.bint
    _begun_s: cython.double
    _done_s: cython.double
    _reapply_s: cython.double
    _written_s: cython.double
    _commanded_a: cython.double[::1]
    _silent_after_s: cython.double
    _looked_s: cython.double
    _silent_since_s: cython.double
    _status_silent_since_s: cython.double
    _has_window: cython.bint
    _window_s: cython.double
    _window_positions: cython.longlong
    _mismatch_a: cython.double
    _mismatch_time_s: cython.double
    _mismatch_since_s: cython.double[::1]
    _mismatch_seen_s: cython.double

    def __init__(
        self, name: str, tendons: Mapping[int, int], settings: OdriCan, port: FramePort, following: Any = None
    ) -> None:
        self.name, self.port, self.telemetry, self.following = name, port, Telemetry(), following
        self._tendon = integers(tendons.get(motor, -1) for motor in (1, 2))
        self._ready_bits = sum(1 << 2 * motor for motor in tendons)
        self._desired_bits = 1 | self._ready_bits | self._ready_bits >> 1
        self._codes, self._values = integers(COMMANDS_WAITING), integers(COMMANDS_WAITING)
        self._head = self._waiting = 0
        self._order = integers(3 * len(FAULT_NAMES))
        self.latched = self._seen_faults = 0
        self._timeout_ms, self._timeout_s = settings.receive_timeout_ms, settings.receive_timeout_ms / 1000
        self._alignment_timeout_s, self._silent_after_s = settings.alignment_timeout_s, settings.silent_after_s
        self._mismatch_a, self._mismatch_time_s = settings.current_mismatch_a, settings.current_mismatch_time_s
        self.on = self._enabling = self._off_desired = False
        self._begun_s = self._done_s = self._reapply_s = self._written_s = self._next_s = 0.0
        self._commanded_a, self._mismatch_since_s = vector(2), vector(2)
        self.forget()

    def forget(self) -> None:
        """Forget what was received, as before the first frame."""
        self.telemetry.forget()
        self._looked_s = self._silent_since_s = self._status_silent_since_s = -1.0
        self._window_s, self._window_positions, self._mismatch_seen_s = 0.0, 0, 0.0
        self._begin_watch()

    # --- what is known

    @property
    def status(self) -> Status | None:
        """The newest status, None before the first."""
        return Status.of(self.telemetry.status_bits) if self.telemetry.has_status else None

    @property
    def aligned(self) -> bool:
        return bool(self.telemetry.status_bits & self._ready_bits == self._ready_bits)

    @property
    def faults(self) -> tuple[str, ...]:
        """Latched faults as ``channel: name`` or ``channel motor N: name``, in the order in which they came."""
        places = (self.name, f"{self.name} motor 1", f"{self.name} motor 2")
        numbers = list(self._order)[: self.latched]
        return tuple(f"{places[number % 3]}: {FAULT_NAMES[number // 3]}" for number in numbers)

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
        if self.on or self._enabling:
            return
        self._off_desired = False
        self._zero_current()
        self._waiting = 0
        self._append(CODE_RECEIVE_TIMEOUT_MS, 0)
        self._append(CODE_ENABLE_SYSTEM, 1)
        self._append_streams()
        for motor in range(2):
            if self._tendon[motor] >= 0:
                self._append(CODE_ENABLE_MOTOR_1 + motor, 1)
        self._enabling, self._begun_s = True, now_s
        self._pump(now_s)

    def continue_enable(self, now_s: float) -> bool:
        """Go on with enabling."""
        if not self._enabling:
            return bool(self.on)
        self._pump(now_s)
        if self._waiting:
            return False
        # A status that was on its way may still be from before.
        status = self.status if self._is_settled() else None
        if status is not None:
            if self.telemetry.status_bits & self._desired_bits == self._desired_bits:
                self._zero_current()
                self._forget_mismatch()
                self._reapply_s, self._enabling, self.on = now_s, False, True
                self._reapply_timeout(now_s)
                return True
            if status.error or not status.system_enabled:
                fault = fault_of(status.error)
                text = faults_of("odri_can")[fault]
                deaf = "" if status.error else " If it is open, no command reaches the board: check its CAN wire."
                self._fail(f"cannot be enabled: {fault}, {text.meaning}", " ".join(text.cure) + deaf)
        if now_s - self._begun_s > self._alignment_timeout_s:
            seen = "no status came" if self.status is None else describe(self.status)
            motors = " and ".join(str(motor) for motor in (1, 2) if self._tendon[motor - 1] >= 0)
            self._fail(
                f"motor {motors} not ready after {self._alignment_timeout_s:g} s ({seen})",
                "It takes no commands: check its CAN wire and the adapter."
                if self.telemetry.has_status and not self.telemetry.status_bits & self._ready_bits >> 1
                else "Alignment needs slack tendons and the motors' supply: check both, then try again.",
            )
        return False

    def rest(self, now_s: float) -> None:
        """Zero current where it is on."""
        self.write(0.0, 0.0, now_s)

    def disable(self) -> None:
        """Currents to zero and the system off, at once; repeated with each status that still reports on."""
        self._switch_off()

    def clear_faults(self) -> None:
        """Forget latched faults; those whose cause is still there come back. What switched it off needs an enable."""
        self.latched = self._seen_faults = 0
        self.telemetry.jumped = self.telemetry.other_host = False
        self._begin_watch()

    def _fail(self, problem: str, remedy: str) -> None:
        self._switch_off()
        raise DeviceError(f"motor board on {self.name}", problem, remedy)

    # --- commands

    @stepped
    def _append(self, code: cython.int, value: cython.int) -> cython.void:
        at: cython.int = (self._head + self._waiting) & (COMMANDS_WAITING - 1)
        self._codes[at] = code
        self._values[at] = value
        if self._waiting < COMMANDS_WAITING:
            self._waiting += 1

    @stepped
    def _append_streams(self) -> cython.void:
        """Currents, positions and velocities a thousand times a second, nothing else."""
        code: cython.int
        for code in range(CODE_SEND_CURRENT, CODE_SEND_ENCODER_INDEX + 1):
            self._append(code, 1 if code <= LAST_STREAM_WANTED else 0)

    @stepped
    def _pump(self, now_s: cython.double) -> cython.void:
        """Send the next command if it is time."""
        if not self._waiting or now_s < self._next_s:
            return
        self.port.send(ID_COMMAND, self._values[self._head], self._codes[self._head])
        self._head = (self._head + 1) & (COMMANDS_WAITING - 1)
        self._waiting -= 1
        self._next_s = now_s + COMMAND_SPACING_S
        if not self._waiting and not self.on:  # what sets the timeout again switches nothing
            self._done_s = now_s

    @stepped
    def _reapply_timeout(self, now_s: cython.double) -> cython.void:
        """The board cannot be asked for its receive timeout, and a command may be lost: so it is set every second."""
        if now_s >= self._reapply_s:
            self._reapply_s = now_s + TIMEOUT_REAPPLY_PERIOD_S
            self._append(CODE_RECEIVE_TIMEOUT_MS, self._timeout_ms)
        self._pump(now_s)

    @stepped
    def _switch_off(self) -> cython.void:
        self.on = self._enabling = False
        self._off_desired = True
        self._waiting = 0
        self._zero_current()
        self.port.send(ID_COMMAND, 0, CODE_ENABLE_SYSTEM)
        # Once more: this one might have met another command in the board's mailbox.
        self._append(CODE_ENABLE_SYSTEM, 0)

    @stepped
    def _zero_current(self) -> cython.void:
        self.port.send(ID_CURRENT_REFERENCE, 0, 0)
        self._commanded_a[0] = self._commanded_a[1] = 0.0

    @stepped
    def _is_settled(self) -> cython.bint:
        """Whether the newest status came after the commands took effect."""
        return self.telemetry.has_status and self.telemetry.status_s > self._done_s + STATUS_SETTLES_S

    @stepped
    def _insist_on_off(self) -> cython.void:
        if self._off_desired and not self._waiting and self._is_settled() and self.telemetry.status_bits & 1:
            self._zero_current()
            self._append(CODE_ENABLE_SYSTEM, 0)

    # --- the cycle

    @stepped
    def receive(self, arrival_s: cython.double) -> cython.void:
        """Take what arrived, at ``arrival_s`` (s), here and behind in the chain."""
        self.port.drain(self.telemetry, arrival_s)
        if self.following is not None:
            self.following.receive(arrival_s)

    @stepped
    def cycle(self, now_s: cython.double, arrival_s: cython.double) -> cython.int:
        """Take what arrived, at ``arrival_s`` (s), and look for faults, in all of the chain: how many are latched."""
        self.port.drain(self.telemetry, arrival_s)
        self.look(now_s)
        if self.following is not None:
            return self.latched + self.following.cycle(now_s, arrival_s)
        return self.latched

    @stepped
    def has_gone(self) -> cython.bint:
        """Whether a port needs another socket, here or behind in the chain."""
        return self.port.gone or (self.following is not None and self.following.has_gone())

    @stepped
    def newest_s(self) -> cython.double:
        """When the newest sample of the chain came, s; -infinite before the first."""
        own_s: cython.double = self.telemetry.sample[STAMP] if self.telemetry.has_sample else -INFINITE
        behind_s: cython.double = -INFINITE if self.following is None else self.following.newest_s()
        return own_s if own_s > behind_s else behind_s

    @stepped
    def fill(
        self,
        reading: ReadingBuffer,
        m_per_rev: cython.double[::1],
        polarity: cython.double[::1],
        newton_per_ampere: cython.double[::1],
    ) -> cython.void:
        """Put the samples of the chain into a ``reading`` with its stamp; the others: of each tendon's motor."""
        k: cython.int
        j: cython.int
        sample: cython.double[::1] = self.telemetry.sample
        passed_s: cython.double = reading.stamp_s - sample[OLDEST]
        for k in indices(2):
            j = self._tendon[k]
            if j >= 0:
                reading.age_s[j] = passed_s if passed_s > 0.0 else 0.0
                reading.displacement_m[j] = sample[POSITIONS + k] * m_per_rev[j]
                reading.velocity_m_per_s[j] = sample[VELOCITIES + k] * m_per_rev[j]
                reading.tension_n[j] = sample[CURRENTS + k] * newton_per_ampere[j]
                reading.current_a[j] = sample[CURRENTS + k] * polarity[j]
                reading.temperature_c[j] = UNKNOWN
        if self.following is not None:
            self.following.fill(reading, m_per_rev, polarity, newton_per_ampere)

    @stepped
    def write_all(
        self, current_a: cython.double[::1], polarity: cython.double[::1], now_s: cython.double
    ) -> cython.void:
        """Send each board of the chain its motors' currents, of every tendon's ``current_a`` (A) and ``polarity``."""
        first: cython.int = self._tendon[0]
        second: cython.int = self._tendon[1]
        self.write(
            current_a[first] * polarity[first] if first >= 0 else 0.0,
            current_a[second] * polarity[second] if second >= 0 else 0.0,
            now_s,
        )
        if self.following is not None:
            self.following.write_all(current_a, polarity, now_s)

    @stepped
    def switch_off_all(self) -> cython.void:
        """Currents to zero and torque off, here and behind in the chain."""
        self._switch_off()
        if self.following is not None:
            self.following.switch_off_all()

    @stepped
    def write(self, motor_1_a: cython.double, motor_2_a: cython.double, now_s: cython.double) -> cython.bint:
        """Send ``motor_1_a`` and ``motor_2_a`` (A); whether they were sent.

        They are not where the motors are not on, whose mailbox would keep them, nor where no Q24 can hold them.
        """
        if self.on:
            self._look_for_timeout(now_s)
        first: cython.longlong = q24_counts(motor_1_a)
        second: cython.longlong = q24_counts(motor_2_a)
        if not self.on or NO_Q24 in (first, second) or not self.port.send(ID_CURRENT_REFERENCE, first, second):
            return False
        self._commanded_a[0] = motor_1_a
        self._commanded_a[1] = motor_2_a
        self._written_s = now_s
        return True

    # --- what is wrong with it

    @stepped
    def _latch(self, fault: cython.int, motor: cython.int) -> cython.void:
        """Note a fault of motor 1 or 2, or of the board: 0."""
        number: cython.int = 3 * fault + motor
        mask: cython.longlong = 1
        mask = mask << number
        if not self._seen_faults & mask:
            self._seen_faults = self._seen_faults | mask
            self._order[self.latched] = number
            self.latched += 1
        if fault <= BOARD_REBOOTED and self.on:
            # The board is off already; this empties its mailbox, which would act at once when it is enabled again.
            self._switch_off()

    @stepped
    def look(self, now_s: cython.double) -> cython.void:
        """Look for faults, and send what waits; once in each cycle."""
        if self.on:
            self._look_for_timeout(now_s)
            self._reapply_timeout(now_s)
        elif not self._enabling:
            self._insist_on_off()
            self._pump(now_s)
        if self.port.bus_off:
            self._latch(BOARD_BUS_OFF, 0)
        if self.port.is_full():
            self._latch(BOARD_QUEUE_FULL, 0)
        if self.port.has_failed():
            self._latch(BOARD_BUS_ERROR, 0)
        if self.telemetry.other_host:
            self._latch(BOARD_OTHER_HOST, 0)
        if self.telemetry.jumped:
            self._latch(BOARD_POSITION_JUMP, 0)
        self._look_for_silence(now_s)
        if self.telemetry.has_status:
            self._look_at_status()
        if self.on:
            self._compare_currents()

    @stepped
    def _look_for_timeout(self, now_s: cython.double) -> cython.void:
        """A board that got no current for so long has switched off; its status reports it up to a second later."""
        if now_s - self._written_s > self._timeout_s and (self._commanded_a[0] != 0.0 or self._commanded_a[1] != 0.0):
            self._latch(BOARD_RECEIVE_TIMEOUT, 0)

    @stepped
    def _look_at_status(self) -> cython.void:
        bits: cython.int = self.telemetry.status_bits
        error: cython.int = bits >> 5
        if error == BOARD_ENCODER:
            self._latch(BOARD_ENCODER, 0)
        if not self.on or not self._is_settled() or (error == 0 and bits & self._desired_bits == self._desired_bits):
            return
        # The other errors stay in the status until the next enable, and say nothing about a board that is off.
        if error != 0:
            self._latch(error if error < BOARD_OTHER_ERROR else BOARD_OTHER_ERROR, 0)
        elif bits & self._ready_bits != self._ready_bits:
            self.telemetry.zero_lost = True
            self._latch(BOARD_REBOOTED, 0)
        elif not bits & 1:
            self._latch(BOARD_ESTOP, 0)
        else:
            if self._desired_bits & 2 and not bits & 2:
                self._latch(BOARD_MOTOR_OFF, 1)
            if self._desired_bits & 8 and not bits & 8:
                self._latch(BOARD_MOTOR_OFF, 2)

    @stepped
    def _begin_watch(self) -> cython.void:
        """What lasted until now counts no more."""
        self._has_window = False
        self._forget_mismatch()

    @stepped
    def _look_for_silence(self, now_s: cython.double) -> cython.void:
        """Look for silence, and for more frames than one board sends."""
        stalled: cython.bint = not 0.0 <= now_s - self._looked_s < SILENCE_GRACE_S
        self._looked_s = now_s
        if now_s - self.telemetry.sample[OLDEST] <= self._silent_after_s:
            self._silent_since_s = -1.0
        else:
            if self._silent_since_s < 0 or stalled:
                self._silent_since_s = now_s
            if now_s - self._silent_since_s >= SILENCE_GRACE_S:
                self._latch(BOARD_SILENT, 0)
        if self.telemetry.has_status and now_s - self.telemetry.status_s <= STATUS_SILENT_AFTER_S:
            self._status_silent_since_s = -1.0
        else:
            if self._status_silent_since_s < 0 or stalled:
                self._status_silent_since_s = now_s
            if now_s - self._status_silent_since_s >= SILENCE_GRACE_S:
                self._latch(BOARD_SILENT_STATUS, 0)
        passed_s: cython.double = now_s - self._window_s
        if not stalled and self._has_window:
            if passed_s < RATE_WINDOW_S:
                return
            if self.telemetry.positions - self._window_positions > ONE_BOARD_HZ * passed_s:
                self._latch(BOARD_IS_TWO, 0)
        self._has_window, self._window_s, self._window_positions = True, now_s, self.telemetry.positions

    @stepped
    def _forget_mismatch(self) -> cython.void:
        """Currents that did not follow until now count no more."""
        self._mismatch_since_s[0] = self._mismatch_since_s[1] = UNKNOWN

    @stepped
    def _compare_currents(self) -> cython.void:
        """Compare each sample's currents with those commanded."""
        k: cython.int
        sample: cython.double[::1] = self.telemetry.sample
        stamp_s: cython.double = sample[STAMP]
        if not self.telemetry.has_sample or stamp_s == self._mismatch_seen_s:
            return
        self._mismatch_seen_s = stamp_s
        for k in indices(2):
            difference_a: cython.double = self._commanded_a[k] - sample[CURRENTS + k]
            if self._tendon[k] < 0:
                continue
            if -self._mismatch_a <= difference_a <= self._mismatch_a:
                self._mismatch_since_s[k] = UNKNOWN
                continue
            if not self._mismatch_since_s[k] <= stamp_s:  # NaN: it matched until now
                self._mismatch_since_s[k] = stamp_s
            if stamp_s - self._mismatch_since_s[k] > self._mismatch_time_s:
                self._latch(BOARD_CURRENT_MISMATCH, k + 1)
