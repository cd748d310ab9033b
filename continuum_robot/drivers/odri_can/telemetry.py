# SPDX-License-Identifier: Apache-2.0
"""What a dual-motor board sends: its frames put together to samples of both motors, continuous over the rollover."""

from __future__ import annotations

from typing import Any

import cython

from continuum_robot.drivers.odri_can.codec import STATUSES, Status
from continuum_robot.drivers.odri_can.frames import (
    FRAME_SOUND,
    FRAME_UNKNOWN,
    HEAD_CURRENT,
    HEAD_POSITION,
    HEAD_VELOCITY,
    HIGHEST_POSITION_REV,
    ID_COMMAND,
    ID_CURRENT_REFERENCE,
    ID_STATUS,
    Q24_STEP,
    ROLLOVER_REV,
    are_positions,
    frame_problem,
)
from continuum_robot.stepped.buffers import INFINITE, UNKNOWN, stepped, vector
from continuum_robot.stepped.system_calls import CanFrame, signed_word

FASTEST_REV_PER_S = cython.declare(cython.double, 200.0)
POSITION_JUMP_REV = cython.declare(cython.double, 0.5)
POSITION_JUMP_SAMPLES = cython.declare(cython.int, 3)
KRPM_REV_PER_S = cython.declare(cython.double, 1000.0 / 60.0)

SAMPLE_SIZE = cython.declare(cython.int, 8)
"""Numbers of a sample: its stamp, its oldest value's stamp; positions, velocities and currents of both motors."""


@stepped
def shortest_turn(turns: cython.double) -> cython.double:
    """``turns``, a difference of two positions of the wire (rev), the shorter way round the rollover."""
    if turns > HIGHEST_POSITION_REV:
        return turns - ROLLOVER_REV
    if turns < -HIGHEST_POSITION_REV:
        return turns + ROLLOVER_REV
    return turns


@cython.cclass
class Telemetry:
    """Takes the frames of a board.

    Attributes
    ----------
    samples : the newest sample, ``SAMPLE_SIZE`` numbers from ``at`` on; others have theirs in the same vector
    at : see there
    has_sample, has_status : whether one came
    status_s, status_bits : time of arrival of the newest status, and its byte
    positions : how many came
    zero_lost : the board's count of revolutions jumped, or restarted
    jumped : it jumped since this was cleared
    other_host : somebody else sends commands on its channel since this was cleared
    """

    samples: cython.double[::1]
    at: cython.int
    has_sample: cython.bint
    has_status: cython.bint
    status_s: cython.double
    status_bits: cython.int
    zero_lost: cython.bint
    jumped: cython.bint
    other_host: cython.bint
    positions: cython.longlong
    bad_frames: cython.longlong
    unknown_identifiers: cython.longlong
    incomplete_ticks: cython.longlong
    refused_positions: cython.longlong
    statuses: cython.longlong
    _pending: cython.bint
    _has_current: cython.bint
    _has_velocity: cython.bint
    _has_position: cython.bint
    _current_1: cython.double
    _current_2: cython.double
    _current_s: cython.double
    _velocity_1: cython.double
    _velocity_2: cython.double
    _velocity_s: cython.double
    _raw_1: cython.double
    _raw_2: cython.double
    _position_1: cython.double
    _position_2: cython.double
    _position_s: cython.double
    _doubts: cython.int
    _doubted_1: cython.double
    _doubted_2: cython.double

    def __init__(self) -> None:
        self.samples, self.at = vector(SAMPLE_SIZE), 0
        self.positions = self.statuses = self.bad_frames = self.unknown_identifiers = 0
        self.incomplete_ticks = self.refused_positions = 0
        self.forget()

    def fraction(self, samples: Any, at: int) -> None:
        """Put samples into a vector that others use too, from now on.

        Parameters
        ----------
        samples : the vector
        at : where this one begins in it
        """
        self.samples, self.at = samples, at
        self.forget()

    def forget(self) -> None:
        """Forget what was received, as before the first frame."""
        j: cython.int
        for j in range(SAMPLE_SIZE):
            self.samples[self.at + j] = UNKNOWN
        self.samples[self.at + 1] = -INFINITE
        self.has_sample = self.has_status = False
        self.status_s, self.status_bits = 0.0, 0
        self.zero_lost = self.jumped = self.other_host = False
        self._pending = self._has_current = self._has_velocity = self._has_position = False
        self._current_1 = self._current_2 = self._current_s = 0.0
        self._velocity_1 = self._velocity_2 = self._velocity_s = 0.0
        self._raw_1 = self._raw_2 = self._position_1 = self._position_2 = self._position_s = 0.0
        self._doubts = 0
        self._doubted_1 = self._doubted_2 = 0.0

    # --- in the cycle

    @stepped
    def take_usual(self, frame: CanFrame, stamp_s: cython.double) -> cython.bint:
        """Take a sound ``frame`` of those that come a thousand times a second; False where it is none of them.

        It arrived at ``stamp_s`` (s).
        """
        head: cython.longlong = frame.head
        if frame.length != 8:
            return False
        if head == HEAD_CURRENT:
            # Lowest identifier first: a new tick begins, and the velocity of the one before was lost.
            if self._pending:
                self._finish_tick(False)
            self._current_1 = frame.first * Q24_STEP
            self._current_2 = frame.second * Q24_STEP
            self._current_s = stamp_s
            self._has_current = True
        elif head == HEAD_POSITION and are_positions(frame.first, frame.second):
            if self._pending:
                self._finish_tick(False)
            self._take_position(frame.first * Q24_STEP, frame.second * Q24_STEP, stamp_s)
        elif head == HEAD_VELOCITY:
            self._velocity_1 = frame.first * Q24_STEP * KRPM_REV_PER_S
            self._velocity_2 = frame.second * Q24_STEP * KRPM_REV_PER_S
            self._velocity_s = stamp_s
            self._has_velocity = True
            if self._pending:
                self._finish_tick(True)
        else:
            return False
        return True

    @stepped
    def take(
        self,
        identifier: cython.int,
        length: cython.int,
        first: cython.int,
        second: cython.int,
        stamp_s: cython.double,
    ) -> cython.void:
        """Take any other frame, with ``identifier`` and ``length``, that arrived at ``stamp_s`` (s).

        ``first`` and ``second`` are the words of its 8 bytes, whatever the length. One that is not of the protocol is
        counted and otherwise ignored.
        """
        if length == 5:
            second = second >> 24 & 255
        problem: cython.int = frame_problem(identifier, length, first, second)
        if problem == FRAME_UNKNOWN:
            self.unknown_identifiers += 1
        elif problem != FRAME_SOUND:
            self.bad_frames += 1
        elif identifier == ID_STATUS:
            self.statuses += 1
            self.status_s = stamp_s
            self.status_bits = first >> 24 & 255
            self.has_status = True
        elif identifier in (ID_COMMAND, ID_CURRENT_REFERENCE):
            self.other_host = True

    @stepped
    def _take_position(self, first: cython.double, second: cython.double, stamp_s: cython.double) -> cython.void:
        self.positions += 1
        if not self._has_position:
            self._has_position = True
            self._position_1 = first
            self._position_2 = second
        else:
            turns_1: cython.double = first - self._raw_1
            turns_2: cython.double = second - self._raw_2
            if not (-HIGHEST_POSITION_REV <= turns_1 <= HIGHEST_POSITION_REV >= turns_2 >= -HIGHEST_POSITION_REV):
                turns_1 = shortest_turn(turns_1)
                turns_2 = shortest_turn(turns_2)
            reach: cython.double = POSITION_JUMP_REV + FASTEST_REV_PER_S * (stamp_s - self._position_s)
            if turns_1 > reach or turns_1 < -reach or turns_2 > reach or turns_2 < -reach:
                if not self._is_true_jump(first, second):
                    self.refused_positions += 1
                    return
                self._position_1 = first
                self._position_2 = second
                self.jumped = self.zero_lost = True
            else:
                self._position_1 = self._position_1 + turns_1
                self._position_2 = self._position_2 + turns_2
        self._raw_1 = first
        self._raw_2 = second
        self._doubts = 0
        self._position_s = stamp_s
        self._pending = True

    @stepped
    def _is_true_jump(self, first: cython.double, second: cython.double) -> cython.bint:
        """Whether some positions in a row say the same, so that it was no corrupted frame."""
        turns_1: cython.double = shortest_turn(first - self._doubted_1)
        turns_2: cython.double = shortest_turn(second - self._doubted_2)
        same: cython.bint = (
            -POSITION_JUMP_REV <= turns_1 <= POSITION_JUMP_REV and -POSITION_JUMP_REV <= turns_2 <= POSITION_JUMP_REV
        )
        self._doubts = self._doubts + 1 if self._doubts > 0 and same else 1
        self._doubted_1 = first
        self._doubted_2 = second
        return self._doubts >= POSITION_JUMP_SAMPLES

    @stepped
    def _finish_tick(self, complete: cython.bint) -> cython.void:
        self._pending = False
        if not complete:
            self.incomplete_ticks += 1
        if not (self._has_current and self._has_velocity):
            return
        oldest_s: cython.double = self._position_s
        if self._current_s < oldest_s:
            oldest_s = self._current_s
        if self._velocity_s < oldest_s:
            oldest_s = self._velocity_s
        samples: cython.double[::1] = self.samples
        at: cython.int = self.at
        samples[at] = self._position_s
        samples[at + 1] = oldest_s
        samples[at + 2] = self._position_1
        samples[at + 3] = self._position_2
        samples[at + 4] = self._velocity_1
        samples[at + 5] = self._velocity_2
        samples[at + 6] = self._current_1
        samples[at + 7] = self._current_2
        self.has_sample = True

    # --- for Python code

    def receive(self, identifier: int, data: bytes, stamp_s: float) -> None:
        """Take a frame, as in the cycle.

        Parameters
        ----------
        identifier : 11 bits
        data : its bytes
        stamp_s : when it arrived
        """
        words = bytearray(data[:8]).ljust(8, b"\0")
        frame = CanFrame()
        frame.head = (identifier & 255) << 24 | (identifier >> 8) << 16
        frame.length, frame.first, frame.second = len(data), signed_word(words, 0), signed_word(words, 4)
        if not self.take_usual(frame, stamp_s):
            self.take(identifier, len(data), frame.first, frame.second, stamp_s)

    @property
    def status(self) -> tuple[float, Status] | None:
        """Time of arrival and the newest status, None before the first."""
        return (self.status_s, STATUSES[self.status_bits]) if self.has_status else None

    @property
    def counters(self) -> dict[str, int]:
        """What came since it was made, for the diagnostics.

        ``bad_frames``, ``unknown_identifiers``: none of the protocol. ``incomplete_ticks``: of which a frame was lost.
        ``refused_positions``: farther from the one before than a motor can turn. ``positions``, ``statuses``: frames.
        """
        return {
            "bad_frames": self.bad_frames,
            "unknown_identifiers": self.unknown_identifiers,
            "incomplete_ticks": self.incomplete_ticks,
            "refused_positions": self.refused_positions,
            "positions": self.positions,
            "statuses": self.statuses,
        }

    def flags(self) -> tuple[bool, bool, bool]:
        """``zero_lost``, ``jumped`` and ``other_host``."""
        return bool(self.zero_lost), bool(self.jumped), bool(self.other_host)

    def missing(self) -> str:
        """What is missing for a board that answers; "" where nothing is."""
        streams = (
            ("current", self._has_current),
            ("position", self._has_position),
            ("velocity", self._has_velocity),
        )
        missing = [name for name, here in streams if not here] if not self.has_sample else []
        if not self.has_status:
            missing.append("status")
        if len(missing) == len(streams) + 1:
            return "does not answer"
        return f"sends no {' and no '.join(missing)}" if missing else ""
