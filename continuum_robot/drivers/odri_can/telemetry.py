# SPDX-License-Identifier: Apache-2.0
"""What a dual-motor board sends: its frames put together to samples of both motors, continuous over the rollover."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from continuum_robot.drivers.odri_can import codec
from continuum_robot.drivers.odri_can.codec import Status
from continuum_robot.errors import FrameError

FASTEST_REV_PER_S = 200.0
JUMP_REV = 0.5
JUMP_SAMPLES = 3
KRPM_REV_PER_S = 1000 / 60


class Sample(NamedTuple):
    """Values of both motors in one tick of the board.

    Attributes
    ----------
    stamp_s : when its position arrived
    oldest_s : when the oldest of its values arrived; a lost frame leaves the value of the tick before
    position_rev : motor revolutions, continuous over the rollover of the wire
    velocity_rev_per_s : motor revolutions a second
    current_a : measured currents
    """

    stamp_s: float
    oldest_s: float
    position_rev: tuple[float, float]
    velocity_rev_per_s: tuple[float, float]
    current_a: tuple[float, float]


@dataclass(slots=True)
class BoardCounters:
    """What a board sent since it was made; read by the diagnostics.

    Attributes
    ----------
    bad_frames, unknown_identifiers : frames that are none of the protocol
    incomplete_ticks : ticks of which a frame was lost
    refused_positions : positions farther from the one before than a motor can turn
    positions, statuses : frames of these kinds
    """

    bad_frames: int = 0
    unknown_identifiers: int = 0
    incomplete_ticks: int = 0
    refused_positions: int = 0
    positions: int = 0
    statuses: int = 0


class Telemetry:
    """Takes the frames of a board, from a receive thread too.

    Attributes
    ----------
    counters : see :class:`BoardCounters`
    sample : the newest :class:`Sample`, None before the first
    status : time of arrival and newest :class:`Status`, None before the first
    zero_lost : the board's count of revolutions jumped, or began anew
    jumped : it jumped since this was cleared
    other_host : somebody else sends commands on its channel since this was cleared
    """

    def __init__(self) -> None:
        self.counters = BoardCounters()
        self.forget()

    def forget(self) -> None:
        """Forget what was received, as before the first frame."""
        self.sample: Sample | None = None
        self.status: tuple[float, Status] | None = None
        self.zero_lost = self.jumped = self.other_host = False
        self._current: tuple[float, float] | None = None
        self._velocity: tuple[float, float] | None = None
        self._raw: codec.Position | None = None
        self._position = (0.0, 0.0)
        self._current_s = self._position_s = self._velocity_s = 0.0
        self._pending = False
        self._doubted: tuple[codec.Position, int] | None = None

    def receive(self, identifier: int, data: bytes, stamp_s: float) -> None:
        """Take a frame; one that is not of the protocol is counted and otherwise ignored.

        Parameters
        ----------
        identifier : 11 bits
        data : its bytes
        stamp_s : when it arrived
        """
        try:
            frame = codec.decode(identifier, data)
        except FrameError:
            if identifier in codec.KNOWN_IDS:
                self.counters.bad_frames += 1
            else:
                self.counters.unknown_identifiers += 1
            return
        if isinstance(frame, codec.Current):
            # Lowest identifier first: a new tick begins, and the velocity of the one before was lost.
            self._finish_tick(complete=False)
            self._current, self._current_s = (frame[0], frame[1]), stamp_s
        elif isinstance(frame, codec.Position):
            self._finish_tick(complete=False)
            self._take_position(frame, stamp_s)
        elif isinstance(frame, codec.Velocity):
            first, second = frame
            self._velocity, self._velocity_s = (first * KRPM_REV_PER_S, second * KRPM_REV_PER_S), stamp_s
            self._finish_tick(complete=True)
        elif isinstance(frame, Status):
            self.counters.statuses += 1
            self.status = (stamp_s, frame)
        elif isinstance(frame, (codec.Command, codec.CurrentReference)):
            self.other_host = True

    def _take_position(self, frame: codec.Position, stamp_s: float) -> None:
        self.counters.positions += 1
        before = self._raw
        if before is None:
            self._raw, self._position = frame, (frame[0], frame[1])
        else:
            turns = (_shortest(frame[0] - before[0]), _shortest(frame[1] - before[1]))
            reach = JUMP_REV + FASTEST_REV_PER_S * (stamp_s - self._position_s)
            if max(abs(turns[0]), abs(turns[1])) > reach:
                if not self._is_true_jump(frame):
                    self.counters.refused_positions += 1
                    return
                self._position = (frame[0], frame[1])
                self.jumped = self.zero_lost = True
            else:
                self._position = (self._position[0] + turns[0], self._position[1] + turns[1])
            self._raw = frame
        self._doubted = None
        self._position_s = stamp_s
        self._pending = True

    def _is_true_jump(self, frame: codec.Position) -> bool:
        """Whether some positions in a row say the same, so that it was no corrupted frame."""
        count = 1
        if self._doubted is not None:
            last, seen = self._doubted
            if max(abs(_shortest(frame[0] - last[0])), abs(_shortest(frame[1] - last[1]))) <= JUMP_REV:
                count = seen + 1
        self._doubted = (frame, count)
        return count >= JUMP_SAMPLES

    def _finish_tick(self, *, complete: bool) -> None:
        if not self._pending:
            return
        self._pending = False
        if not complete:
            self.counters.incomplete_ticks += 1
        if self._current is not None and self._velocity is not None:
            oldest_s = min(self._current_s, self._position_s, self._velocity_s)
            self.sample = Sample(self._position_s, oldest_s, self._position, self._velocity, self._current)

    def missing(self) -> str:
        """What is missing for a board that answers; "" where nothing is."""
        streams = (("current", self._current), ("position", self._raw), ("velocity", self._velocity))
        missing = [name for name, value in streams if value is None] if self.sample is None else []
        if self.status is None:
            missing.append("status")
        if len(missing) == len(streams) + 1:
            return "does not answer"
        return f"sends no {' and no '.join(missing)}" if missing else ""


def _shortest(turns: float) -> float:
    """A difference of two positions of the wire, the shorter way round the rollover."""
    return turns - codec.ROLLOVER_REV * round(turns / codec.ROLLOVER_REV)
