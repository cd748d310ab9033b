# SPDX-License-Identifier: Apache-2.0
"""A simulated string-encoder board: what the firmware in hardware/string_encoder does, on a pty or over UDP."""

from __future__ import annotations

import math
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from continuum_robot.drivers.emulated_sensor import EmulatedSensor
from continuum_robot.drivers.local_port import Pty
from continuum_robot.drivers.string_encoder_serial.codec import (
    CHANNELS,
    BoardFrame,
    Command,
    CommandFrame,
    CountsFrame,
    FrameStream,
    Status,
    encode,
    encode_payload,
    status_word,
    stuffed,
)
from continuum_robot.drivers.string_encoder_serial.settings import StringEncoderSerial
from continuum_robot.errors import ParameterError
from continuum_robot.robot.description import Robot

Vector = NDArray[np.float64]

PERIOD_US = 1000
FIRMWARE = (1 << 16) + (0 << 8) + 0
# hardware/string_encoder/string_encoder.ino: counts in a tick above which a counter cannot be trusted.
LARGEST_STEP_COUNTS = 1024
BOOT_FLAG_US = 1_000_000
_MOST_TICKS = 500
_UNKNOWN_GAINS = (255, 255, 255, 255)


class SimulatedStringEncoderBoard(EmulatedSensor):
    """The board, its line and what may go wrong with both. It sends the frames that its own clock has made due."""

    faults: ClassVar = {
        "magnet_fault": "a magnet is out of reach of its encoder, which keeps its count",
        "freeze": "a counter stands still",
        "jump": "a counter jumps by the magnitude in counts",
    }

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
        per_radian = settings.counts_per_turn / math.tau
        self._wiring = [
            (entry.channel, order.index(entry.string), entry.polarity * per_radian / entry.pulley_radius_m)
            for entry in settings.strings
        ]
        udp = settings.transport == "udp"
        super().__init__(_UdpLine(settings.port) if udp else Pty(link), rng, CHANNELS)
        self._encode = encode_payload if udp else encode
        self._extension = extension
        self._rate = 1.0 + clock_drift
        self._serial_number = serial_number
        self._turned = self._before = np.zeros(CHANNELS)
        self._skipped = np.zeros(CHANNELS)
        self._is_zeroed = self._has_booted = zeroed
        self._ticks = self._sequence = 0
        self._begin(zeroed=zeroed)

    def start(self, now_s: float) -> None:
        """Count from here, or from the zero of before."""
        del now_s
        self._begin(zeroed=self._is_zeroed)

    def boot(self, boot_s: float) -> None:
        """Its zero is gone."""
        del boot_s
        self._begin(zeroed=False)

    def look(self) -> None:
        """Counters of the strings."""
        extension, self._before = np.asarray(self._extension(), dtype=float), self._turned
        self._turned = self._turned.copy()
        for channel, index, counts_per_meter in self._wiring:
            if math.isfinite(extension[index]):
                self._turned[channel] = extension[index] * counts_per_meter

    def strike(self, fault: str, target: int, magnitude: float) -> float:
        """A counter jumps, or is held where it is."""
        if fault == "jump":
            self._skipped[target] += magnitude
        return float(self._turned[target] + self._skipped[target])

    def advance(self, now_s: float, received: bytes) -> None:
        """Obey, and send a frame for each tick."""
        if not self._has_booted:
            self._has_booted = True
            self._origin = self._shown(now_s)
            self._last_counts = np.zeros(CHANNELS)
        for command in self._commands.feed(received):
            if isinstance(command, CommandFrame):
                self._obey(command, now_s)
        due = int((now_s - self._boot_s) * self._rate * 1e6 / PERIOD_US + 1e-6)
        first = max(self._ticks, due - _MOST_TICKS)
        for tick in range(first + 1, due + 1):
            fraction = (tick - self._ticks) / (due - self._ticks)
            turned = self._before + fraction * (self._turned - self._before)
            self._tick(tick, turned, now_s, missed=first > self._ticks)
        self._ticks = max(self._ticks, due)

    def _begin(self, *, zeroed: bool) -> None:
        """What power-up sets; the board is silent until then."""
        self._ticks = self._sequence = 0
        self._is_zeroed, self._zeros = zeroed, int(zeroed)
        # With a zero from before, counts are from extension 0 on; otherwise from where the strings are.
        self._has_booted = zeroed
        self._origin = np.zeros(CHANNELS)
        self._last_counts = np.floor(self._turned + self._skipped + 0.5)
        self._jumped = self._command_number = self._dropped_since = 0
        self._uptime_sent_s = -1
        self._commands = FrameStream()

    def _shown(self, now_s: float, turned: Vector | None = None) -> Vector:
        """What the hardware counters would say had they counted from extension 0 on."""
        value = (self._turned if turned is None else turned) + self._skipped
        for channel in range(CHANNELS):
            if (held := self.struck("freeze", now_s, channel)) is not None:
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
            if self.struck("magnet_fault", now_s, channel) is not None:
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
        if self.emit(self._encode(frame), now_s):
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
            self.emit(self._encode(about), now_s)


class _UdpLine:
    """The board's end of its datagrams: what comes is given as on a serial line."""

    def __init__(self, name: str) -> None:
        address, _, port = name.rpartition(":")
        self.path, self._host = name, (address, int(port))
        self._plug: socket.socket | None = None
        self.plug_in()

    def send(self, data: bytes) -> bool:
        """Send a datagram; whether it went out."""
        try:
            return self._plug is not None and self._plug.sendto(data, self._host) > 0
        except OSError:
            return False

    def receive(self) -> bytes:
        """Datagrams of the host, each as a serial frame."""
        found = b""
        while self._plug is not None:
            try:
                found += stuffed(self._plug.recv(64))
            except ParameterError:
                continue
            except OSError:
                break
        return found

    def wait_delivered(self) -> None:
        """Datagrams on the loopback are there at once."""

    def plug_in(self) -> None:
        """Open a socket, if there is none."""
        if self._plug is None:
            self._plug = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            self._plug.setblocking(False)

    def hang_up(self) -> None:
        """Close it."""
        plug, self._plug = self._plug, None
        if plug is not None:
            plug.close()

    close = hang_up


def emulator(
    robot: Robot, settings: StringEncoderSerial, extension: Callable[[], Vector], **options: Any
) -> SimulatedStringEncoderBoard:
    """An emulated board on the strings' extensions, shape (k,), m; options as of the board."""
    names = [string.name for string in robot.strings]
    return SimulatedStringEncoderBoard(settings, names, extension, **options)
