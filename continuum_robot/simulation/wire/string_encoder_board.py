# SPDX-License-Identifier: Apache-2.0
"""A simulated string-encoder board: what the firmware in hardware/string_encoder does, on a pty or over UDP."""

from __future__ import annotations

import math
import socket
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from continuum_robot.drivers.string_encoder_serial.codec import (
    CHANNELS,
    BoardFrame,
    Command,
    CommandFrame,
    CountsFrame,
    FrameStream,
    Status,
    decode_payload,
    encode,
    encode_payload,
    status_word,
)
from continuum_robot.drivers.string_encoder_serial.settings import StringEncoderSerial
from continuum_robot.errors import FrameError, ParameterError
from continuum_robot.simulation.wire.line_faults import LINE_FAULTS, LineFaults
from continuum_robot.simulation.wire.pty import Pty

Vector = NDArray[np.float64]

PERIOD_US = 1000
FIRMWARE = (1 << 16) + (0 << 8) + 0
# hardware/string_encoder/string_encoder.ino: counts in a tick above which a counter cannot be trusted.
LARGEST_STEP_COUNTS = 1024
BOOT_FLAG_US = 1_000_000
_MOST_TICKS = 500
_UNKNOWN_GAINS = (255, 255, 255, 255)

BOARD_FAULTS = {
    "reboot": "the board starts again: silent meanwhile (0.3 s, or the duration), then its zero is gone",
    "magnet_fault": "a magnet is out of reach of its encoder, which keeps its count",
    "freeze": "a counter stands still",
    "jump": "a counter jumps by the magnitude in counts",
    "hang_up": "the plug is out, for the duration or until plug_in()",
    "power_cycle": "the plug is out for the duration (0.3 s without), and the board starts again",
}


class SimulatedStringEncoderBoard:
    """The board, its line and what may go wrong with both.

    It is stepped by :meth:`step`, in virtual time or by a :class:`~continuum_robot.simulation.wire.pacing.Pacer`, and
    sends the frames that its own clock has made due by then.

    Parameters
    ----------
    settings : of the board in the robot file; with transport "udp" it sends to ``settings.port``
    string_names : in the order in which ``extension`` gives them
    extension : the strings' extensions now, shape (k,), m; NaN: unknown, counters stay
    link : name of its port, see :class:`Pty`
    zeroed : whether the zero was set at extension 0 already; otherwise it counts from its start, and its status says so
    clock_drift : its clock runs faster by this, s/s
    serial_number : that it shows
    rng : draws what line faults need

    Attributes
    ----------
    dropped : frames that nobody took

    Raises
    ------
    ParameterError : strings of the settings that are not in ``string_names``
    """

    def __init__(
        self,
        settings: StringEncoderSerial,
        string_names: Sequence[str],
        extension: Callable[[], Vector],
        *,
        link: Path | None = None,
        zeroed: bool = True,
        clock_drift: float = 0.0,
        serial_number: int = 1,
        rng: np.random.Generator | None = None,
    ) -> None:
        order = list(string_names)
        missing = [entry.string for entry in settings.strings if entry.string not in order]
        if missing:
            raise ParameterError("string_names", string_names, f"{', '.join(missing)} among them")
        self._wiring = [
            (
                entry.channel,
                order.index(entry.string),
                entry.polarity * settings.counts_per_turn / math.tau / entry.pulley_radius_m,
            )
            for entry in settings.strings
        ]
        self._extension = extension
        self._rate = 1.0 + clock_drift
        self._serial_number = serial_number
        self._end: _End = _UdpEnd(settings.port) if settings.transport == "udp" else _PtyEnd(Pty(link))
        self._faults = LineFaults(np.random.default_rng(0) if rng is None else rng)
        self._lock = threading.Lock()
        self.dropped = 0
        self._turned = np.zeros(CHANNELS)
        self._skipped = np.zeros(CHANNELS)
        self._frozen: dict[int, tuple[float, float]] = {}
        self._magnets: dict[int, float] = {}
        self._plug_in_s = math.inf
        self._now_s: float | None = None
        self._is_zeroed = self._has_booted = zeroed
        self._ticks = 0
        self._begin(0.0, zeroed=zeroed)

    @property
    def port(self) -> str:
        """What a driver opens."""
        return self._end.name

    def step(self, now_s: float) -> None:
        """Let time pass.

        Parameters
        ----------
        now_s : s, monotonic or virtual; the first call starts the board
        """
        with self._lock:
            before = self._turned
            self._turned = self._counters()
            if self._now_s is None:
                self._now_s = now_s
                self._begin(now_s, zeroed=self._is_zeroed)
            self._now_s = now_s
            if now_s >= self._plug_in_s:
                self._plug_in_s = math.inf
                self._end.plug_in()
            if now_s < self._boot_s:
                self._end.receive()
                return
            if not self._has_booted:
                self._has_booted = True
                self._origin = self._shown(now_s)
                self._last_counts = np.zeros(CHANNELS)
            for command in self._end.receive():
                self._obey(command, now_s)
            due = int((now_s - self._boot_s) * self._rate * 1e6 / PERIOD_US + 1e-6)
            first = max(self._ticks, due - _MOST_TICKS)
            for tick in range(first + 1, due + 1):
                fraction = (tick - self._ticks) / (due - self._ticks)
                self._tick(tick, before + fraction * (self._turned - before), now_s, missed=first > self._ticks)
            self._ticks = max(self._ticks, due)

    def inject(
        self,
        name: str,
        channel: int = -1,
        magnitude: float = 0.0,
        *,
        count: int = 1,
        duration_s: float = 0.0,
    ) -> None:
        """Inject a fault now.

        Parameters
        ----------
        name : of :data:`BOARD_FAULTS` or of a line; "" ends all but what the board latched
        channel : of the board, -1: all
        magnitude : counts of a jump; fraction of frames that a fault of the line touches, 0: all
        count : frames that a fault of the line touches, where there is no duration
        duration_s : s; 0: until "" for faults of the board

        Raises
        ------
        ParameterError : unknown name, or a channel that is not there
        """
        if not -1 <= channel < CHANNELS:
            raise ParameterError("channel", channel, f"-1 for all, or 0 to {CHANNELS - 1}")
        with self._lock:
            now_s = 0.0 if self._now_s is None else self._now_s
            channels = range(CHANNELS) if channel < 0 else [channel]
            until_s = now_s + duration_s if duration_s > 0 else math.inf
            if name in LINE_FAULTS:
                self._faults.inject(name, count=count, duration_s=duration_s, fraction=magnitude or 1.0)
            elif name == "":
                self._faults.inject("")
                self._frozen.clear()
                self._magnets.clear()
                self._plug_in()
            elif name == "reboot":
                self._begin(now_s + (duration_s or 0.3), zeroed=False)
            elif name == "magnet_fault":
                self._magnets.update(dict.fromkeys(channels, until_s))
            elif name == "freeze":
                self._frozen.update(
                    {index: (self._turned[index] + self._skipped[index], until_s) for index in channels}
                )
            elif name == "jump":
                self._skipped[list(channels)] += magnitude
            elif name in ("hang_up", "power_cycle"):
                self._end.hang_up()
                self._plug_in_s = until_s
                if name == "power_cycle":
                    self._plug_in_s = now_s + (duration_s or 0.3)
                    self._begin(self._plug_in_s, zeroed=False)
            else:
                raise ParameterError("fault", name, "one of " + ", ".join([*BOARD_FAULTS, *LINE_FAULTS]))

    def wait_delivered(self) -> None:
        """In simulated time: wait until the driver can read what was sent in :meth:`step`."""
        self._end.wait_delivered()

    def plug_in(self) -> None:
        """Connect the line again, if it is not."""
        with self._lock:
            self._plug_in()

    def close(self) -> None:
        """End. Safe to call at any time."""
        with self._lock:
            self._end.close()

    def _plug_in(self) -> None:
        self._plug_in_s = math.inf
        self._end.plug_in()

    def _begin(self, boot_s: float, *, zeroed: bool) -> None:
        """What power-up sets; the board is silent until then."""
        self._boot_s, self._ticks, self._sequence = boot_s, 0, 0
        self._is_zeroed, self._zeros = zeroed, int(zeroed)
        # With a zero from before, counts are from extension 0 on; otherwise from where the strings are.
        self._has_booted = zeroed
        self._origin = np.zeros(CHANNELS)
        self._last_counts = np.floor(self._turned + self._skipped + 0.5)
        self._jumped = self._command_number = self._dropped_since = 0
        self._uptime_sent_s = -1
        self._commands = FrameStream()

    def _counters(self) -> Vector:
        extension = np.asarray(self._extension(), dtype=float)
        turned = self._turned.copy()
        for channel, index, counts_per_meter in self._wiring:
            if math.isfinite(extension[index]):
                turned[channel] = extension[index] * counts_per_meter
        return turned

    def _shown(self, now_s: float, turned: Vector | None = None) -> Vector:
        """What the hardware counters would say had they counted from extension 0 on."""
        value = (self._turned if turned is None else turned) + self._skipped
        for channel, (held, until_s) in list(self._frozen.items()):
            if now_s >= until_s:
                del self._frozen[channel]
            else:
                value[channel] = held
        return np.floor(value + 0.5)

    def _obey(self, command: CommandFrame, now_s: float) -> None:
        if command.number == self._command_number or command.command != Command.ZERO:
            return
        self._command_number = command.number
        self._origin = self._shown(now_s)
        self._last_counts = np.zeros(CHANNELS)
        self._zeros, self._is_zeroed, self._jumped = self._zeros + 1, True, 0

    def _tick(self, tick: int, turned: Vector, now_s: float, *, missed: bool) -> None:
        time_us = tick * PERIOD_US
        counts = self._shown(now_s, turned) - self._origin
        steps = np.abs(counts - self._last_counts)
        self._last_counts = counts
        flags = 0
        for channel in range(CHANNELS):
            if steps[channel] > LARGEST_STEP_COUNTS:
                self._jumped |= Status.JUMP_0.value << channel
            if self._magnets.get(channel, -math.inf) > now_s:
                flags |= Status.MAGNET_FAULT_0.value << channel
        flags |= self._jumped
        flags |= Status.ZEROED.value if self._is_zeroed else 0
        flags |= Status.JUST_BOOTED.value if time_us < BOOT_FLAG_US else 0
        flags |= Status.MISSED_TICK.value if missed else 0
        flags |= Status.FRAMES_DROPPED.value if self._dropped_since else 0
        c0, c1, c2, c3 = ((int(count) + 0x80000000) % (1 << 32) - 0x80000000 for count in counts)
        frame = CountsFrame(
            self._sequence & 0xFFFF, time_us & 0xFFFFFFFF, (c0, c1, c2, c3), status_word(flags, self._zeros)
        )
        self._sequence += 1
        if self._end.send(frame, self._faults, now_s):
            self._dropped_since = 0
        else:
            self._dropped_since += 1
            self.dropped += 1
        uptime_s = time_us // 1_000_000
        if uptime_s != self._uptime_sent_s:
            self._uptime_sent_s = uptime_s
            about = BoardFrame(
                frame.sequence, frame.time_us, FIRMWARE, uptime_s, self.dropped, _UNKNOWN_GAINS, self._serial_number
            )
            self._end.send(about, self._faults, now_s)


class _End(Protocol):
    """The board's end of its line."""

    @property
    def name(self) -> str: ...

    def send(self, frame: CountsFrame | BoardFrame, faults: LineFaults, now_s: float) -> bool: ...

    def receive(self) -> list[CommandFrame]: ...

    def wait_delivered(self) -> None: ...

    def hang_up(self) -> None: ...

    def plug_in(self) -> None: ...

    def close(self) -> None: ...


class _PtyEnd:
    def __init__(self, line: Pty) -> None:
        self._line, self._stream = line, FrameStream()

    @property
    def name(self) -> str:
        return str(self._line.path)

    def send(self, frame: CountsFrame | BoardFrame, faults: LineFaults, now_s: float) -> bool:
        pieces = faults.apply(encode(frame), now_s)
        return not pieces or self._line.send(b"".join(pieces))

    def receive(self) -> list[CommandFrame]:
        return [frame for frame in self._stream.feed(self._line.receive()) if isinstance(frame, CommandFrame)]

    def wait_delivered(self) -> None:
        self._line.wait_delivered()

    def hang_up(self) -> None:
        self._line.hang_up()

    def plug_in(self) -> None:
        self._stream.restart()
        self._line.plug_in()

    def close(self) -> None:
        self._line.close()


class _UdpEnd:
    def __init__(self, name: str) -> None:
        address, _, port = name.rpartition(":")
        self.name = name
        self._host = (address, int(port))
        self._plug: socket.socket | None = None
        self.plug_in()

    def send(self, frame: CountsFrame | BoardFrame, faults: LineFaults, now_s: float) -> bool:
        pieces = faults.apply(encode_payload(frame), now_s)
        if self._plug is None:
            return False
        try:
            for piece in pieces:
                self._plug.sendto(piece, self._host)
        except OSError:
            return False
        return True

    def receive(self) -> list[CommandFrame]:
        found: list[CommandFrame] = []
        while self._plug is not None:
            try:
                frame = decode_payload(self._plug.recv(64))
            except FrameError:
                continue
            except OSError:
                break
            if isinstance(frame, CommandFrame):
                found.append(frame)
        return found

    def wait_delivered(self) -> None:
        """Datagrams on the loopback are there at once."""

    def hang_up(self) -> None:
        self.close()

    def plug_in(self) -> None:
        if self._plug is None:
            self._plug = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            self._plug.setblocking(False)

    def close(self) -> None:
        plug, self._plug = self._plug, None
        if plug is not None:
            plug.close()
