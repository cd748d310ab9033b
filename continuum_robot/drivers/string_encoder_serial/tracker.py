# SPDX-License-Identifier: Apache-2.0
"""From frames of the string-encoder board to extensions of strings: wraps, lost frames, restarts, jumps, zero."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from continuum_robot.drivers.device_clock import DeviceClock, wrapped_difference
from continuum_robot.drivers.protocols import StringReading
from continuum_robot.drivers.string_encoder_serial.codec import CHANNELS, CountsFrame, Status, zero_number
from continuum_robot.drivers.string_encoder_serial.settings import StringEncoderSerial
from continuum_robot.errors import ParameterError

STALE_AFTER_S = 0.05
# Strings of a continuum robot move at less than 1 m/s.
LARGEST_SPEED_M_PER_S = 5.0
_JITTER_COUNTS = 4
# Datagrams that overtook each other are nearer to each other than this.
_LATE_FRAMES = 256
_LATE_US = 500_000

# Plain numbers: arithmetic of flags costs a microsecond each time.
_MAGNET_FAULT, _JUMP = int(Status.MAGNET_FAULT_0), int(Status.JUMP_0)
_ANY_DOUBT = 0xFF
_ZEROED, _JUST_BOOTED, _MISSED_TICK = int(Status.ZEROED), int(Status.JUST_BOOTED), int(Status.MISSED_TICK)


class StringTracker:
    """Follows the counts of the board.

    An extension is known from the zero on; the board keeps the zero until it loses power. A count that moves faster
    than a string can, or a magnet out of reach of its encoder, means that turns may be missing: that string is unknown,
    latched, until the next zero.
    """

    def __init__(
        self,
        settings: StringEncoderSerial,
        string_names: Sequence[str],
        *,
        largest_speed_m_per_s: float = LARGEST_SPEED_M_PER_S,
        stale_after_s: float = STALE_AFTER_S,
    ) -> None:
        by_name = {entry.string: entry for entry in settings.strings}
        missing = [name for name in string_names if name not in by_name]
        if missing:
            raise ParameterError("string_names", string_names, f"a channel of the board for {', '.join(missing)} too")
        entries = [by_name[name] for name in string_names]
        self.string_names = tuple(string_names)
        self._channels = [entry.channel for entry in entries]
        self._meter_per_count = np.array(
            [2 * math.pi * entry.pulley_radius_m / settings.counts_per_turn * entry.polarity for entry in entries]
        )
        self._counts_per_us = [math.inf] * CHANNELS
        for channel, meter in zip(self._channels, np.abs(self._meter_per_count), strict=True):
            self._counts_per_us[channel] = float(largest_speed_m_per_s * 1e-6 / meter)
        self._stale_after_s = stale_after_s
        self._clock = DeviceClock()
        self.lost = self.late = self.restarts = self.ticks_missed = 0
        self._had_zero = False
        self.forget()

    def forget(self) -> None:
        """The line was opened again: nothing is known about the board but that it may be another one."""
        self._clock.reset()
        self._last: CountsFrame | None = None
        self._stamp_s = -math.inf
        self._position = [0] * CHANNELS
        self._unsure = [""] * CHANNELS

    @property
    def last(self) -> CountsFrame | None:
        """The newest frame, None before the first."""
        return self._last

    @property
    def zeroed(self) -> bool:
        """Whether a zero was set since the board started, and the counts are from there."""
        return self._last is not None and bool(self._last.status & _ZEROED)

    @property
    def zeros(self) -> int:
        """How many zeros were set since the board started, modulo 16."""
        return 0 if self._last is None else zero_number(self._last.status)

    @property
    def clock(self) -> DeviceClock:
        """The board's clock against the host's."""
        return self._clock

    def silence_s(self, now_s: float) -> float:
        """How long ago the newest frame was sampled, s; infinite before the first."""
        return now_s - self._stamp_s

    def update(self, frames: Sequence[CountsFrame], arrival_s: float) -> None:
        """Take frames in the order in which they came."""
        newest = None
        for frame in frames:
            if self._take(frame):
                newest = frame
        # Those before it waited for it: only the newest carries information on the delay of the line.
        if newest is not None:
            self._stamp_s = self._clock.update(newest.time_us, arrival_s)

    def reading(self, now_s: float) -> StringReading:
        """The newest reading; NaN where unknown, with the reason among the faults."""
        faults = self._faults()
        last, silence_s = self._last, self.silence_s(now_s)
        if last is None or silence_s > self._stale_after_s:
            text = "board sends nothing" if last is None else f"board silent for more than {self._stale_after_s:g} s"
            unknown = np.full(len(self.string_names), math.nan)
            return StringReading(now_s, unknown, np.full(len(self.string_names), silence_s), (text, *faults))
        extension = self._extension() if last.status & _ZEROED else np.full(len(self.string_names), math.nan)
        return StringReading(self._stamp_s, extension, np.zeros(len(self.string_names)), faults)

    def _extension(self) -> NDArray[np.float64]:
        counts = [math.nan if self._unsure[channel] else self._position[channel] for channel in self._channels]
        return np.asarray(counts) * self._meter_per_count

    def _faults(self) -> tuple[str, ...]:
        found = []
        if self._last is not None and not self.zeroed:
            found.append("board started again: its zero is lost" if self._had_zero else "no zero was set")
        for name, channel in zip(self.string_names, self._channels, strict=True):
            if self._unsure[channel]:
                found.append(f"{name}: {self._unsure[channel]}")
        return tuple(found) if self._clock.followed else (*found, self._clock.problem)

    def _take(self, frame: CountsFrame) -> bool:
        """Whether a frame is a new one."""
        last = self._last
        if last is None:
            self._begin(frame)
            return True
        elapsed_us = wrapped_difference(frame.time_us, last.time_us)
        gone_by = (frame.sequence - last.sequence) & 0xFFFF
        booted = frame.status & ~last.status & _JUST_BOOTED
        if elapsed_us <= 0 or gone_by == 0:
            behind = (last.sequence - frame.sequence) & 0xFFFF
            if behind < _LATE_FRAMES and elapsed_us > -_LATE_US and not booted:
                self.late += 1
                return False
        if booted or elapsed_us <= 0 or last.status & ~frame.status & _ZEROED:
            self.restarts += 1
            self.forget()
            self._begin(frame)
            return True
        self.lost += gone_by - 1 if gone_by else 0
        if frame.status & _MISSED_TICK:
            self.ticks_missed += 1
        if zero_number(frame.status) != zero_number(last.status):
            self._begin(frame)
            return True
        for channel in range(CHANNELS):
            moved = wrapped_difference(frame.counts[channel], last.counts[channel])
            if abs(moved) > self._counts_per_us[channel] * elapsed_us + _JITTER_COUNTS:
                self._unsure[channel] = "position jumped"
            self._position[channel] += moved
        self._last = frame
        self._look_at_status(frame.status)
        return True

    def _begin(self, frame: CountsFrame) -> None:
        """Take the counts as they are: the first frame, or the first after a zero."""
        self._position = list(frame.counts)
        self._unsure = [""] * CHANNELS
        self._last = frame
        self._had_zero = self._had_zero or self.zeroed
        self._look_at_status(frame.status)

    def _look_at_status(self, status: int) -> None:
        if not status & _ANY_DOUBT:
            return
        for channel in range(CHANNELS):
            if status & _JUMP << channel:
                self._unsure[channel] = "position jumped"
            if status & _MAGNET_FAULT << channel:
                self._unsure[channel] = "magnet out of reach of its encoder"
