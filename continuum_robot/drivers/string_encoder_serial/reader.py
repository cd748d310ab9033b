# SPDX-License-Identifier: Apache-2.0
"""The string-encoder board as the nodes see it: on a serial port or over UDP, plugged out and in at will."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from continuum_robot.drivers.protocols import StringReading
from continuum_robot.drivers.reconnection import Reconnection
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
from continuum_robot.errors import DeviceError, FrameError

DEVICE = "string-encoder board"
SETTING = "hardware.string_encoders.port"
ANSWER_TIMEOUT_S = 1.0
SILENT_AFTER_S = 1.0
_POLL_S = 0.005


class StringEncoderReader:
    """All string encoders of a robot behind one board.

    Nothing blocks but :meth:`open` and :meth:`zero`: :meth:`read` takes what arrived since the last call. The board is
    taken up again after it was plugged out and in, without a restart.

    Parameters
    ----------
    settings : of the board
    string_names : in the order of the readings
    port : instead of ``settings.port``
    simulated : whether a simulated board stands behind the port
    answer_timeout_s : how long :meth:`open` waits for a first frame, s; 0: it does not
    clock : monotonic time, s, the one of ``now_s``. It is asked when the frames were read: a computer that stalls
        between ``now_s`` and then would seem to have them before they were sampled, and the board silent for 16 s
        after. None: no time passes while it reads, as in virtual time

    Attributes
    ----------
    string_count : number of strings
    board : what the board reported last about itself, None before
    reconnects : how often it was plugged in again

    Raises
    ------
    ParameterError : a string that no channel reads, or an address that is none
    """

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
        self.simulated, self.string_count = simulated, len(string_names)
        self.board: BoardFrame | None = None
        self.reconnects = 0
        self._tracker = StringTracker(settings, string_names)
        name = settings.port if port is None else port
        self._line: _Line
        if settings.transport == "udp":
            self._line = _DatagramLine(DatagramSocket(name, device=DEVICE, setting=SETTING))
        else:
            self._line = _SerialLine(SerialPort(name, settings.baud_bps, device=DEVICE, setting=SETTING))
        self._answer_timeout_s, self._clock = answer_timeout_s, clock
        self._command_number = 0
        self._is_open = False
        self._reconnection = Reconnection()

    def open(self) -> None:
        """Open the line and wait for the board's first frame.

        Raises
        ------
        DeviceError : no such port, no permission, open elsewhere; nothing comes; what comes are no frames of the board
        """
        if self._is_open:
            return
        self._line.open()
        self._tracker.forget()
        self._reconnection.found()
        self._is_open = True
        if self._answer_timeout_s > 0:
            try:
                self._wait_for_answer()
            except BaseException:
                self.close()
                raise

    def read(self, now_s: float) -> StringReading:
        """The newest reading; values are NaN where unknown, and the faults say why.

        Parameters
        ----------
        now_s : monotonic or virtual time, s

        Raises
        ------
        DeviceError : not open, or the board is unplugged (it is looked for twice a second)
        """
        if not self._is_open:
            raise DeviceError(f"{DEVICE} at {self._line.name}", "is not open", "Open it first.")
        if self._reconnection.attempt(now_s, self._line.open):
            self.reconnects += 1
            self._tracker.forget()
        try:
            if self._tracker.silence_s(now_s) > SILENT_AFTER_S:
                self._line.expect_anybody()
            frames = self._line.poll()
        except DeviceError as error:
            self._line.close()
            self._reconnection.lose(error, now_s)
            raise
        counts = []
        for frame in frames:
            if isinstance(frame, CountsFrame):
                counts.append(frame)
            elif isinstance(frame, BoardFrame):
                self.board = frame
        arrival_s = now_s if self._clock is None else self._clock()
        self._tracker.update(counts, arrival_s)
        return self._tracker.reading(arrival_s)

    @property
    def zeroed(self) -> bool:
        """Whether the extensions are known: a zero was set since the board started."""
        return self._tracker.zeroed

    @property
    def zeros(self) -> int:
        """How many zeros the board has set since it started, modulo 16."""
        return self._tracker.zeros

    def request_zero(self) -> None:
        """Ask the board to count from here; ``zeros`` goes up by one in a reading when it did.

        Raises
        ------
        DeviceError : not open, unplugged, or the board takes no bytes
        """
        if not self._is_open:
            raise DeviceError(f"{DEVICE} at {self._line.name}", "is not open", "Open it first.")
        if self._reconnection.lost is not None:
            raise self._reconnection.lost
        # The board repeats no command whose number it knows; after a restart of this program any number is as good.
        self._command_number = (self._command_number or time.monotonic_ns()) % 255 + 1
        self._line.send(CommandFrame(Command.ZERO, self._command_number))

    def zero(self, timeout_s: float = 0.5) -> None:
        """Count from here on, and wait until the board does. Not while another thread calls :meth:`read`.

        Parameters
        ----------
        timeout_s : how long the board may take, s

        Raises
        ------
        DeviceError : not open, unplugged, or no answer in time
        """
        before = self.zeros
        self.request_zero()
        end_s = time.monotonic() + timeout_s
        while time.monotonic() < end_s:
            self.read(time.monotonic())
            if self.zeroed and self.zeros != before:
                return
            time.sleep(_POLL_S)
        raise DeviceError(
            f"{DEVICE} at {self._line.name}",
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
            "clock_drift_ppm": tracker.drift * 1e6,
            "reconnects": self.reconnects,
        }

    def close(self) -> None:
        """End. Safe to call at any time."""
        self._is_open = False
        self._line.close()

    def _wait_for_answer(self) -> None:
        received = self._line.counters.received_bytes
        end_s = time.monotonic() + self._answer_timeout_s
        while True:
            self.read(time.monotonic())
            if self._tracker.last is not None:
                return
            if time.monotonic() >= end_s:
                break
            time.sleep(_POLL_S)
        counters, where = self._line.counters, f"{DEVICE} at {self._line.name}"
        if counters.other_version is not None:
            raise DeviceError(
                where,
                f"its firmware speaks version {counters.other_version} of the frames, this driver version {VERSION}",
                "Flash the firmware of hardware/string_encoder.",
            )
        received = counters.received_bytes - received
        if received:
            raise DeviceError(
                where,
                f"{received} bytes came and no frame among them",
                f"Set another baud rate beside {SETTING}, or the port of the board: this may be another device.",
            )
        raise DeviceError(
            where,
            f"nothing came for {self._answer_timeout_s:g} s",
            "Check that this is the board, that it has power and that the firmware of hardware/string_encoder runs.",
        )


class _Counters(Protocol):
    accepted: int
    rejected: int
    received_bytes: int
    other_version: int | None


class _Line(Protocol):
    """A way for frames to the board and back; errors are :class:`DeviceError`."""

    @property
    def name(self) -> str: ...

    @property
    def counters(self) -> _Counters: ...

    def open(self) -> None: ...

    def expect_anybody(self) -> None: ...

    def poll(self) -> list[Frame]: ...

    def send(self, frame: Frame) -> None: ...

    def close(self) -> None: ...


class _SerialLine:
    def __init__(self, port: SerialPort) -> None:
        self._port, self.counters = port, FrameStream()

    @property
    def name(self) -> str:
        return self._port.name

    def open(self) -> None:
        self.counters.restart()
        self._port.open()

    def expect_anybody(self) -> None:
        """Nothing to do: a port has one device."""

    def poll(self) -> list[Frame]:
        data = self._port.read()
        return self.counters.feed(data) if data else []

    def send(self, frame: Frame) -> None:
        self._port.write(encode(frame))

    def close(self) -> None:
        self._port.close()


class _DatagramCounters:
    def __init__(self) -> None:
        self.accepted = self.rejected = self.received_bytes = 0
        self.other_version: int | None = None


class _DatagramLine:
    """Payloads as datagrams. The first sender of a frame is the board; others are not heard until it is silent."""

    def __init__(self, connection: DatagramSocket) -> None:
        self._socket, self.counters = connection, _DatagramCounters()
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
