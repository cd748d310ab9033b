# SPDX-License-Identifier: Apache-2.0
"""The string-encoder board as the nodes see it: on a serial port or over UDP, plugged out and in at will."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

from continuum_robot.drivers.framed_serial import FramedSensor, SerialLine
from continuum_robot.drivers.protocols import StringReading
from continuum_robot.drivers.serial_port import DatagramSocket, SerialPort
from continuum_robot.drivers.string_encoder_serial.codec import (
    VERSION,
    BoardFrame,
    Command,
    CommandFrame,
    CountsFrame,
    Frame,
    FrameStream,
    OtherVersionError,
    decode_payload,
    encode,
    encode_payload,
)
from continuum_robot.drivers.string_encoder_serial.settings import StringEncoderSerial
from continuum_robot.drivers.string_encoder_serial.tracker import StringTracker
from continuum_robot.drivers.survey import FOUND, Finding, absent
from continuum_robot.errors import DeviceError, FrameError
from continuum_robot.robot.description import Robot

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
    name = "string-encoder board"
    reader = StringEncoderReader(settings, [string.name for string in robot.strings])
    try:
        reader.open()
        end_s = time.monotonic() + _LISTEN_S
        reading = reader.read(time.monotonic())
        while reader.board is None and time.monotonic() < end_s:
            time.sleep(_POLL_S)
            reading = reader.read(time.monotonic())
    except DeviceError as error:
        return [absent(name, settings.port, error)]
    finally:
        reader.close()
    words = []
    if (board := reader.board) is not None:
        version = ".".join(str(board.firmware >> shift & 0xFF) for shift in (16, 8, 0))
        words.append(f"serial number {board.serial_number}, firmware {version}, up for {board.uptime_s} s")
    rejected = reader.statistics()["frames_rejected"]
    if rejected:
        words.append(f"{rejected:.0f} damaged frames")
    words += reading.device_faults
    return [Finding(name, settings.port, FOUND, "; ".join(words) or "sends frames")]
