# SPDX-License-Identifier: Apache-2.0
"""What a dual-motor board sends: its frames put together to samples of both motors, continuous over the rollover."""

from __future__ import annotations

import cython

from continuum_robot.drivers.odri_can import protocol
from continuum_robot.drivers.odri_can.frames import (
    ID_COMMAND,
    ID_CURRENT_REFERENCE,
    ID_STATUS,
    are_positions,
    is_possible,
)
from continuum_robot.stepped.buffers import INFINITE, UNKNOWN, copy_into, integers, stepped, vector
from continuum_robot.stepped.system_calls import CanFrame, signed_word

# Identifiers as the head of a frame, see CanFrame.
HEAD_CURRENT = cython.declare(cython.longlong, protocol.CURRENT_ID << 24)
HEAD_POSITION = cython.declare(cython.longlong, protocol.POSITION_ID << 24)
HEAD_VELOCITY = cython.declare(cython.longlong, protocol.VELOCITY_ID << 24)
IDENTIFIERS = cython.declare(cython.int, len(protocol.LENGTHS))
Q24_STEP = cython.declare(cython.double, protocol.Q24)
KRPM_REV_PER_S = cython.declare(cython.double, 1000.0 / 60.0)
HIGHEST_REV = cython.declare(cython.double, protocol.HIGHEST_POSITION_REV)
FASTEST_REV_PER_S = cython.declare(cython.double, 200.0)
POSITION_JUMP_REV = cython.declare(cython.double, 0.5)
POSITION_JUMP_SAMPLES = cython.declare(cython.int, 3)
# Places in a sample. Positions, velocities and currents are of both motors.
STAMP = cython.declare(cython.int, 0)
OLDEST = cython.declare(cython.int, 1)
POSITIONS = cython.declare(cython.int, 2)
VELOCITIES = cython.declare(cython.int, 4)
CURRENTS = cython.declare(cython.int, 6)
SAMPLE_SIZE = cython.declare(cython.int, 8)


@stepped
def shortest_turn(turns: cython.double) -> cython.double:
    """``turns``, a difference of two positions of the wire (rev), the shorter way round the rollover."""
    if turns > HIGHEST_REV:
        return turns - 2.0 * HIGHEST_REV
    if turns < -HIGHEST_REV:
        return turns + 2.0 * HIGHEST_REV
    return turns


@cython.cclass
class Telemetry:
    """Takes the frames of a board."""

    sample: cython.double[::1]
    has_sample = cython.declare(cython.bint, visibility="readonly")
    has_status = cython.declare(cython.bint, visibility="readonly")
    status_bits = cython.declare(cython.int, visibility="readonly")
    zero_lost = cython.declare(cython.bint, visibility="public")
    other_host = cython.declare(cython.bint, visibility="public")
    jumped = cython.declare(cython.bint, visibility="public")
    status_s: cython.double
    positions: cython.longlong
    bad_frames: cython.longlong
    unknown_identifiers: cython.longlong
    incomplete_ticks: cython.longlong
    refused_positions: cython.longlong
    statuses: cython.longlong
    _lengths: cython.int[::1]
    _coming: cython.double[::1]
    _raw: cython.double[::1]
    _doubted: cython.double[::1]
    _doubts: cython.int
    _pending: cython.bint
    _has_current: cython.bint
    _has_velocity: cython.bint
    _has_position: cython.bint
    _current_s: cython.double
    _velocity_s: cython.double

    def __init__(self) -> None:
        self._lengths = integers(protocol.LENGTHS)
        self.sample, self._coming = vector(SAMPLE_SIZE), vector(SAMPLE_SIZE)
        self._raw, self._doubted = vector(2), vector(2)
        self.positions = self.statuses = self.bad_frames = self.unknown_identifiers = 0
        self.incomplete_ticks = self.refused_positions = 0
        self.forget()

    def forget(self) -> None:
        """Forget what was received, as before the first frame."""
        j: cython.int
        for j in range(SAMPLE_SIZE):
            self.sample[j] = UNKNOWN
        self.sample[OLDEST] = -INFINITE
        self.has_sample = self.has_status = False
        self.status_s, self.status_bits = 0.0, 0
        self.zero_lost = self.jumped = self.other_host = False
        self._pending = self._has_current = self._has_velocity = self._has_position = False
        self._current_s = self._velocity_s = 0.0
        self._doubts = 0

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
            self._coming[CURRENTS] = frame.first * Q24_STEP
            self._coming[CURRENTS + 1] = frame.second * Q24_STEP
            self._current_s = stamp_s
            self._has_current = True
        elif head == HEAD_POSITION and are_positions(frame.first, frame.second):
            if self._pending:
                self._finish_tick(False)
            self._take_position(frame.first * Q24_STEP, frame.second * Q24_STEP, stamp_s)
        elif head == HEAD_VELOCITY:
            self._coming[VELOCITIES] = frame.first * Q24_STEP * KRPM_REV_PER_S
            self._coming[VELOCITIES + 1] = frame.second * Q24_STEP * KRPM_REV_PER_S
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
        if identifier >= IDENTIFIERS or self._lengths[identifier] == 0:
            self.unknown_identifiers += 1
        elif length != self._lengths[identifier] or not is_possible(identifier, first, second):
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
        place: cython.double[::1] = self._coming
        self.positions += 1
        if not self._has_position:
            self._has_position = True
            place[POSITIONS] = first
            place[POSITIONS + 1] = second
        else:
            turns_1: cython.double = first - self._raw[0]
            turns_2: cython.double = second - self._raw[1]
            if not (-HIGHEST_REV <= turns_1 <= HIGHEST_REV >= turns_2 >= -HIGHEST_REV):
                turns_1 = shortest_turn(turns_1)
                turns_2 = shortest_turn(turns_2)
            reach: cython.double = POSITION_JUMP_REV + FASTEST_REV_PER_S * (stamp_s - place[STAMP])
            if turns_1 > reach or turns_1 < -reach or turns_2 > reach or turns_2 < -reach:
                if not self._is_true_jump(first, second):
                    self.refused_positions += 1
                    return
                place[POSITIONS] = first
                place[POSITIONS + 1] = second
                self.jumped = self.zero_lost = True
            else:
                place[POSITIONS] += turns_1
                place[POSITIONS + 1] += turns_2
        self._raw[0] = first
        self._raw[1] = second
        self._doubts = 0
        place[STAMP] = stamp_s
        self._pending = True

    @stepped
    def _is_true_jump(self, first: cython.double, second: cython.double) -> cython.bint:
        """Whether some positions in a row say the same, so that it was no corrupted frame."""
        turns_1: cython.double = shortest_turn(first - self._doubted[0])
        turns_2: cython.double = shortest_turn(second - self._doubted[1])
        same: cython.bint = (
            -POSITION_JUMP_REV <= turns_1 <= POSITION_JUMP_REV and -POSITION_JUMP_REV <= turns_2 <= POSITION_JUMP_REV
        )
        self._doubts = self._doubts + 1 if self._doubts > 0 and same else 1
        self._doubted[0] = first
        self._doubted[1] = second
        return self._doubts >= POSITION_JUMP_SAMPLES

    @stepped
    def _finish_tick(self, complete: cython.bint) -> cython.void:
        self._pending = False
        if not complete:
            self.incomplete_ticks += 1
        if not (self._has_current and self._has_velocity):
            return
        oldest_s: cython.double = self._coming[STAMP]
        if self._current_s < oldest_s:
            oldest_s = self._current_s
        if self._velocity_s < oldest_s:
            oldest_s = self._velocity_s
        self._coming[OLDEST] = oldest_s
        copy_into(self.sample, self._coming, SAMPLE_SIZE)
        self.has_sample = True

    # --- for Python code

    def receive(self, identifier: int, data: bytes, stamp_s: float) -> None:
        """Take a frame, as in the cycle."""
        words = bytearray(data[:8]).ljust(8, b"\0")
        frame = CanFrame()
        frame.head = (identifier & 255) << 24 | (identifier >> 8) << 16
        frame.length, frame.first, frame.second = len(data), signed_word(words, 0), signed_word(words, 4)
        if not self.take_usual(frame, stamp_s):
            self.take(identifier, len(data), frame.first, frame.second, stamp_s)

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

    def missing(self) -> str:
        """What is missing for a board that answers; "" where nothing is."""
        seen = {
            "current": self._has_current,
            "position": self._has_position,
            "velocity": self._has_velocity,
            "status": self.has_status,
        }
        missing = [name for name, here in seen.items() if not (here or (self.has_sample and name != "status"))]
        if len(missing) == len(seen):
            return "does not answer"
        if missing == ["current", "position", "velocity"]:
            return "sends its status only, so that the host's commands do not reach it"
        return f"sends no {' and no '.join(missing)}" if missing else ""
