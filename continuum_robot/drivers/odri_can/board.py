# SPDX-License-Identifier: Apache-2.0
"""One dual-motor board as the host sees it: how it is switched on and off, and what is wrong with it.

The time comes in as an argument. The cycle calls what is stepped; all else is called between two of its cycles.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cython

from continuum_robot.drivers.odri_can import faults as board_faults
from continuum_robot.drivers.odri_can.board_watch import BoardWatch
from continuum_robot.drivers.odri_can.codec import ErrorCode
from continuum_robot.drivers.odri_can.command_queue import CommandQueue
from continuum_robot.drivers.odri_can.fault_codes import (
    BOARD_BUS_ERROR,
    BOARD_BUS_OFF,
    BOARD_ENCODER,
    BOARD_ESTOP,
    BOARD_MOTOR_OFF,
    BOARD_OTHER_ERROR,
    BOARD_OTHER_HOST,
    BOARD_POSITION_JUMP,
    BOARD_REBOOTED,
    BOARD_RECEIVE_TIMEOUT,
    LAST_WITHOUT_TORQUE,
    LatchedFaults,
)
from continuum_robot.drivers.odri_can.frame_port import FramePort
from continuum_robot.drivers.odri_can.frames import (
    CODE_ENABLE_MOTOR_1,
    CODE_ENABLE_SYSTEM,
    CODE_RECEIVE_TIMEOUT_MS,
    ID_COMMAND,
    ID_CURRENT_REFERENCE,
    NO_Q24,
    q24_counts,
)
from continuum_robot.drivers.odri_can.settings import OdriCan
from continuum_robot.drivers.odri_can.telemetry import Telemetry
from continuum_robot.errors import DeviceError
from continuum_robot.stepped.buffers import stepped

STATUS_SETTLES_S = cython.declare(cython.double, 0.05)
TIMEOUT_REAPPLY_PERIOD_S = cython.declare(cython.double, 1.0)


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
    _name: str
    _motors: Any
    _wire_at: cython.int
    _ready_bits: cython.int
    _desired_bits: cython.int
    _timeout_ms: cython.int
    _timeout_s: cython.double
    _alignment_timeout_s: cython.double
    _queue: CommandQueue
    _latched: LatchedFaults
    _watch: BoardWatch
    _on: cython.bint
    _enabling: cython.bint
    _off_desired: cython.bint
    _begun_s: cython.double
    _done_s: cython.double
    _reapply_s: cython.double
    _written_s: cython.double
    _commanded_1: cython.double
    _commanded_2: cython.double

    def __init__(self, name: str, motors: Sequence[int], settings: OdriCan, port: FramePort) -> None:
        self._name, self._motors = name, tuple(motors)
        self.port, self._telemetry, self._wire_at = port, Telemetry(), 0
        self.following = None  # type: ignore[assignment]
        self._ready_bits = sum(1 << 2 * motor for motor in self._motors)
        self._desired_bits = 1 | self._ready_bits | self._ready_bits >> 1
        self._timeout_ms, self._timeout_s = settings.receive_timeout_ms, settings.receive_timeout_ms / 1000
        self._alignment_timeout_s = settings.alignment_timeout_s
        self._queue, self._latched = CommandQueue(port), LatchedFaults()
        self._watch = BoardWatch(self._motors, settings)
        self._on = self._enabling = self._off_desired = False
        self._begun_s = self._done_s = self._reapply_s = self._written_s = 0.0
        self._commanded_1 = self._commanded_2 = 0.0
        self.forget()

    def join(self, samples: Any, number: int, following: Any) -> None:
        """Take a place in a chain.

        Parameters
        ----------
        samples : vector of the samples of all boards
        number : of this board in it
        following : the next board; None at the end
        """
        self._telemetry.fraction(samples, number * 8)
        self._wire_at = 2 * number
        self.following = following

    def forget(self) -> None:
        """Forget what was received, as before the first frame."""
        self._telemetry.forget()
        self._watch.forget()

    # --- what is known

    @property
    def name(self) -> str:
        """Of the channel."""
        return self._name

    @property
    def motors(self) -> tuple[int, ...]:
        """Which of its motors pull a tendon."""
        return tuple(self._motors)

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
        places = (self._name, f"{self._name} motor 1", f"{self._name} motor 2")
        return tuple(f"{places[motor]}: {board_faults.BY_CODE[fault]}" for fault, motor in self._latched.all())

    # --- switching it on and off

    def start_streams(self, now_s: float) -> None:
        """Torque off, whatever was before; then currents, positions and velocities a thousand times a second."""
        self.forget()
        self._switch_off()
        self._queue.append_streams()
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
        self._off_desired = False
        self._zero_current()
        self._queue.waiting = 0
        self._queue.append(CODE_RECEIVE_TIMEOUT_MS, 0)
        self._queue.append(CODE_ENABLE_SYSTEM, 1)
        self._queue.append_streams()
        for motor in self._motors:
            self._queue.append(CODE_ENABLE_MOTOR_1 + motor - 1, 1)
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
        if self._queue.waiting:
            return False
        # A status that was on its way may still be from before.
        stamp_s, status = self._telemetry.status or (0.0, None)
        if stamp_s > self._done_s + STATUS_SETTLES_S and status is not None:
            if self._telemetry.status_bits & self._desired_bits == self._desired_bits:
                self._go_on(now_s)
                return True
            if status.error is not ErrorCode.NONE or not status.system_enabled:
                fault = board_faults.BY_CODE[status.error]
                text = board_faults.FAULTS[fault]
                self._fail(f"cannot be enabled: {fault}, {text.meaning}", " ".join(text.cure))
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
        """Currents to zero and the system off, at once; repeated with each status that still reports on."""
        self._switch_off()

    def clear_faults(self) -> None:
        """Forget latched faults; those whose cause is still there come back. What switched it off needs an enable."""
        self._latched.clear()
        self._telemetry.jumped = self._telemetry.other_host = False
        self._watch.begin_anew()

    def _go_on(self, now_s: float) -> None:
        self._zero_current()
        self._watch.forget_mismatch()
        self._reapply_s = now_s
        self._enabling = False
        self._on = True
        self._reapply_timeout(now_s)

    def _fail(self, problem: str, remedy: str) -> None:
        self._switch_off()
        raise DeviceError(f"motor board on {self._name}", problem, remedy)

    # --- commands, in the cycle too

    @stepped
    def _pump(self, now_s: cython.double) -> cython.void:
        if self._queue.pump(now_s) and not self._on:  # what sets the timeout again switches nothing
            self._done_s = now_s

    @stepped
    def _reapply_timeout(self, now_s: cython.double) -> cython.void:
        """The board cannot be asked for its receive timeout, and a command may be lost: so it is set every second."""
        if now_s >= self._reapply_s:
            self._reapply_s = now_s + TIMEOUT_REAPPLY_PERIOD_S
            self._queue.append(CODE_RECEIVE_TIMEOUT_MS, self._timeout_ms)
        if self._queue.waiting:
            self._pump(now_s)

    @stepped
    def _look_for_timeout(self, now_s: cython.double) -> cython.void:
        """A board that got no current for so long has switched off; its status reports it up to a second later."""
        if now_s - self._written_s > self._timeout_s and (self._commanded_1 != 0.0 or self._commanded_2 != 0.0):
            self._latch(BOARD_RECEIVE_TIMEOUT, 0)

    @stepped
    def _switch_off(self) -> cython.void:
        self._on = self._enabling = False
        self._off_desired = True
        self._queue.waiting = 0
        self._zero_current()
        self.port.send(ID_COMMAND, 0, CODE_ENABLE_SYSTEM)
        # Once more: this one might have met another command in the board's mailbox.
        self._queue.append(CODE_ENABLE_SYSTEM, 0)

    @stepped
    def _zero_current(self) -> cython.void:
        self.port.send(ID_CURRENT_REFERENCE, 0, 0)
        self._commanded_1 = self._commanded_2 = 0.0

    @stepped
    def _insist_on_off(self) -> cython.void:
        seen_s: cython.double = self._telemetry.status_s
        if not self._off_desired or self._queue.waiting or not self._telemetry.has_status:
            return
        if seen_s > self._done_s + STATUS_SETTLES_S and self._telemetry.status_bits & 1:
            self._zero_current()
            self._queue.append(CODE_ENABLE_SYSTEM, 0)

    # --- the cycle

    @stepped
    def receive(self, arrival_s: cython.double) -> cython.void:
        """Take what arrived, at ``arrival_s`` (s), here and behind in the chain."""
        self.port.drain(self._telemetry, arrival_s)
        if self.following is not None:
            self.following.receive(arrival_s)

    @stepped
    def cycle(self, now_s: cython.double, arrival_s: cython.double) -> cython.int:
        """Take what arrived, at ``arrival_s`` (s), and look for faults, in all of the chain: how many are latched."""
        self.port.drain(self._telemetry, arrival_s)
        self.look(now_s, self.port.bus_off, self.port.has_failed())
        if self.following is not None:
            return self._latched.count + self.following.cycle(now_s, arrival_s)
        return self._latched.count

    @stepped
    def has_gone(self) -> cython.bint:
        """Whether a port needs another socket, here or behind in the chain."""
        return self.port.gone or (self.following is not None and self.following.has_gone())

    @stepped
    def write_all(self, wire_a: cython.double[::1], now_s: cython.double) -> cython.void:
        """Send each board of the chain the currents of its two motors, which stand in ``wire_a`` (A)."""
        self.write(wire_a[self._wire_at], wire_a[self._wire_at + 1], now_s)
        if self.following is not None:
            self.following.write_all(wire_a, now_s)

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
        if not self._on:
            return False
        self._look_for_timeout(now_s)
        first: cython.longlong = q24_counts(motor_1_a)
        second: cython.longlong = q24_counts(motor_2_a)
        if not self._on or NO_Q24 in (first, second):
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

        ``bus_off``: the CAN controller reports it; ``bus_failed``: frames can be neither sent nor received.
        """
        if self._on:
            self._look_for_timeout(now_s)
            self._reapply_timeout(now_s)
        elif not self._enabling:
            self._insist_on_off()
            self._pump(now_s)
        if bus_off:
            self._latch(BOARD_BUS_OFF, 0)
        if bus_failed:
            self._latch(BOARD_BUS_ERROR, 0)
        if self._telemetry.other_host:
            self._latch(BOARD_OTHER_HOST, 0)
        if self._telemetry.jumped:
            self._latch(BOARD_POSITION_JUMP, 0)
        self._watch.look(self._telemetry, self._latched, now_s)
        if self._telemetry.has_status:
            self._look_at_status()
        if self._on:
            self._watch.compare(self._telemetry, self._latched, self._commanded_1, self._commanded_2)

    @stepped
    def _latch(self, fault: cython.int, motor: cython.int) -> cython.void:
        self._latched.latch(fault, motor)
        if fault <= LAST_WITHOUT_TORQUE and self._on:
            # The board is off already; this empties its mailbox, which would act at once when it is enabled again.
            self._switch_off()

    @stepped
    def _look_at_status(self) -> cython.void:
        bits: cython.int = self._telemetry.status_bits
        error: cython.int = bits >> 5
        if error == 0 and bits & self._desired_bits == self._desired_bits:
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
            if self._desired_bits & 2 and not bits & 2:
                self._latch(BOARD_MOTOR_OFF, 1)
            if self._desired_bits & 8 and not bits & 8:
                self._latch(BOARD_MOTOR_OFF, 2)
