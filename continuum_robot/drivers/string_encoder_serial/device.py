# SPDX-License-Identifier: Apache-2.0
"""The string-encoder board as the nodes see it: on a serial port or over UDP, plugged out and in at will."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuum_robot.drivers.device_clock import DeviceClock, wrapped_difference
from continuum_robot.drivers.framed_serial import FramedSensor, SerialLine
from continuum_robot.drivers.protocols import StringReading
from continuum_robot.drivers.serial_port import DatagramSocket, SerialPort
from continuum_robot.drivers.string_encoder_serial.codec import (
    CHANNELS,
    VERSION,
    BoardFrame,
    Command,
    CommandFrame,
    CountsFrame,
    Frame,
    FrameStream,
    OtherVersionError,
    Status,
    decode_payload,
    encode,
    encode_payload,
    zero_number,
)
from continuum_robot.drivers.string_encoder_serial.settings import StringEncoderSerial
from continuum_robot.drivers.survey import Finding, opened
from continuum_robot.errors import DeviceError, FrameError, ParameterError
from continuum_robot.robot.description import Robot

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


DEVICE = "string-encoder board"
SETTING = "hardware.string_encoders.port"
ANSWER_TIMEOUT_S = 1.0
SILENT_AFTER_S = 1.0


class StringEncoderReader(FramedSensor[StringReading]):
    """All string encoders of a robot behind one board.

    Nothing blocks but :meth:`open` and :meth:`zero`: :meth:`read` takes what arrived since the last call. The board is
    taken up again after it was plugged out and in, without a restart.
    """

    device = DEVICE

    def __init__(
        self,
        settings: StringEncoderSerial,
        string_names: Sequence[str],
        *,
        port: str | None = None,
        simulated: bool = False,
        answer_timeout_s: float = ANSWER_TIMEOUT_S,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self.string_count = len(string_names)
        self.board: BoardFrame | None = None
        self._tracker = StringTracker(settings, string_names)
        name = settings.port if port is None else port
        self._line: Any
        if settings.transport == "udp":
            self._line = _DatagramLine(DatagramSocket(name, device=DEVICE, setting=SETTING))
        else:
            self._line = SerialLine(
                SerialPort(name, settings.baud_bps, device=DEVICE, setting=SETTING), FrameStream(), encode
            )
        super().__init__(self._line, simulated=simulated, clock=clock)
        self._answer_timeout_s, self._arrival_s = answer_timeout_s, -math.inf
        self._command_number = 0

    def begin(self) -> None:
        """Nothing is known of the board."""
        self._tracker.forget()

    def poll(self, now_s: float) -> None:
        """Take what arrived, at ``now_s`` (s)."""
        if self._tracker.silence_s(now_s) > SILENT_AFTER_S:
            self._line.expect_anybody()
        counts = []
        for frame in self._line.poll():
            if isinstance(frame, CountsFrame):
                counts.append(frame)
            elif isinstance(frame, BoardFrame):
                self.board = frame
        self._arrival_s = self.arrival(now_s)
        self._tracker.update(counts, self._arrival_s)

    def reading(self, now_s: float) -> StringReading:  # noqa: ARG002
        """The newest reading, at the time when the frames were read; NaN where unknown, and the faults say why."""
        return self._tracker.reading(self._arrival_s)

    @property
    def warning(self) -> str:
        """What is odd about the board's clock; "" where nothing is."""
        return self._tracker.clock.problem

    @property
    def zeroed(self) -> bool:
        """Whether the extensions are known: a zero was set since the board started."""
        return self._tracker.zeroed

    @property
    def zeros(self) -> int:
        """How many zeros the board has set since it started, modulo 16."""
        return self._tracker.zeros

    def request_zero(self) -> None:
        """Ask the board to count from here; ``zeros`` goes up by one in a reading when it did."""
        self._require_there()
        # The board repeats no command whose number it knows; after a restart of this program any number is as good.
        self._command_number = (self._command_number or time.monotonic_ns()) % 255 + 1
        self._line.send(CommandFrame(Command.ZERO, self._command_number))

    def zero(self, timeout_s: float = 0.5) -> None:
        """Count from here on, and wait until the board does. Not while another thread calls :meth:`read`."""
        before = self.zeros
        self.request_zero()
        if self.read_until(lambda: self.zeroed and self.zeros != before, timeout_s):
            return
        raise DeviceError(
            self.where,
            f"set no zero within {timeout_s:g} s",
            "Check the line towards the board, and that its firmware is that of hardware/string_encoder.",
        )

    def statistics(self) -> dict[str, float]:
        """Numbers for diagnostics, by name."""
        line, tracker = self._line.counters, self._tracker
        return {
            "frames": line.accepted,
            "frames_rejected": line.rejected,
            "frames_lost": tracker.lost,
            "frames_late": tracker.late,
            "frames_dropped_by_board": math.nan if self.board is None else self.board.dropped,
            "board_ticks_missed": tracker.ticks_missed,
            "board_restarts": tracker.restarts,
            "board_uptime_s": math.nan if self.board is None else self.board.uptime_s,
            "clock_drift_ppm": tracker.clock.drift * 1e6,
            "reconnects": self.reconnects,
        }

    def wait_for_first(self) -> None:
        """Wait for the board's first frame; raises :class:`DeviceError`."""
        counters = self._line.counters
        if not self._answer_timeout_s:
            return
        try:
            self.need(
                lambda: self._tracker.last is not None,
                counters,
                self._answer_timeout_s,
                f"Set another baud rate beside {SETTING}, or the port of the board: this may be another device.",
                "Check that this is the board, its power, and that the firmware of hardware/string_encoder runs.",
            )
        except DeviceError:
            if counters.other_version is None:
                raise
            problem = f"its firmware speaks version {counters.other_version} of the frames, this driver {VERSION}"
            raise DeviceError(self.where, problem, "Flash the firmware of hardware/string_encoder.") from None


class _DatagramLine:
    """Payloads as datagrams. The first sender of a frame is the board; others are not heard until it is silent."""

    def __init__(self, connection: DatagramSocket) -> None:
        self._socket, self.counters = connection, FrameStream()
        self._board: tuple[str, int] | None = None

    @property
    def name(self) -> str:
        return self._socket.name

    def open(self) -> None:
        self._board = None
        self._socket.open()

    def expect_anybody(self) -> None:
        """A board that was silent may come back under another address."""
        self._board = None

    def poll(self) -> list[Frame]:
        frames = []
        for data, sender in self._socket.receive():
            self.counters.received_bytes += len(data)
            if self._board not in (None, sender):
                self.counters.rejected += 1
                continue
            try:
                frames.append(decode_payload(data))
            except FrameError as error:
                self.counters.rejected += 1
                if isinstance(error, OtherVersionError):
                    self.counters.other_version = error.version
                continue
            self._board = sender
        self.counters.accepted += len(frames)
        return frames

    def send(self, frame: Frame) -> None:
        if self._board is None:
            raise DeviceError(f"{DEVICE} at {self.name}", "nothing came from it so far", "Switch it on first.")
        self._socket.send(encode_payload(frame), self._board)

    def close(self) -> None:
        self._socket.close()


_LISTEN_S = 1.2
_POLL_S = 0.01


def make(robot: Robot, settings: StringEncoderSerial, port: str = "", **options: Any) -> StringEncoderReader:
    """The driver, not open yet; options as of :class:`.StringEncoderReader`."""
    names = [string.name for string in robot.strings]
    return StringEncoderReader(settings, names, port=port or None, **{"clock": time.monotonic, **options})


def survey(robot: Robot, settings: StringEncoderSerial) -> list[Finding]:
    """Listen to the board."""
    reader = StringEncoderReader(settings, [string.name for string in robot.strings])

    def look() -> str:
        end_s = time.monotonic() + _LISTEN_S
        reading = reader.read(time.monotonic())
        while reader.board is None and time.monotonic() < end_s:
            time.sleep(_POLL_S)
            reading = reader.read(time.monotonic())
        words = []
        if (board := reader.board) is not None:
            version = ".".join(str(board.firmware >> shift & 0xFF) for shift in (16, 8, 0))
            words.append(f"serial number {board.serial_number}, firmware {version}, up for {board.uptime_s} s")
        if rejected := reader.statistics()["frames_rejected"]:
            words.append(f"{rejected:.0f} damaged frames")
        return "; ".join([*words, *reading.device_faults]) or "sends frames"

    return [opened("string-encoder board", settings.port, reader, look)]
