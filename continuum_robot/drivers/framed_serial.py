# SPDX-License-Identifier: Apache-2.0
"""What drivers of framed sensors share: a line of frames, opened, read without waiting, lost and taken up again."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from continuum_robot.drivers.reconnection import Reconnection
from continuum_robot.drivers.serial_port import SerialPort
from continuum_robot.errors import DeviceError

POLL_S = 0.005

Reading = TypeVar("Reading")
Frame = TypeVar("Frame")


class Line(Protocol):
    """What carries the bytes of a sensor; errors are :class:`DeviceError`."""

    @property
    def name(self) -> str:
        """Port or address, for messages."""

    def open(self) -> None:
        """Open it; nothing where it is open."""

    def close(self) -> None:
        """End. Safe to call at any time."""


class Stream(Generic[Frame]):
    """Cuts what comes over a line into frames; a damaged one costs itself and nothing else. Never raises.

    A device's folder gives :meth:`cut`, and perhaps more in :meth:`restart`.
    """

    def __init__(self) -> None:
        self.accepted = self.rejected = self.received_bytes = 0
        self.restart()

    def restart(self) -> None:
        """Forget an unfinished frame: the line was opened again, perhaps in the middle of one."""
        self._rest, self._is_first = b"", True

    def feed(self, data: bytes) -> list[Frame]:
        """Frames that ``data`` completes, in order."""
        self.received_bytes += len(data)
        found, self._rest = self.cut(self._rest + data)
        self.accepted += len(found)
        return found

    def cut(self, data: bytes) -> tuple[list[Frame], bytes]:
        """Frames in ``data``, and the beginning of the next."""
        raise NotImplementedError


class SerialLine(Generic[Frame]):
    """Frames on a serial port."""

    def __init__(self, port: SerialPort, counters: Any, encode: Callable[[Any], bytes] | None = None) -> None:
        self.name, self.counters = port.name, counters
        self._port, self._encode = port, encode

    def open(self) -> None:
        self.counters.restart()
        self._port.open()

    def expect_anybody(self) -> None:
        """Nothing to do: a port has one device."""

    def poll(self) -> list[Frame]:
        """Frames that arrived; never waits. Raises :class:`DeviceError`."""
        data = self._port.read()
        return self.counters.feed(data) if data else []

    def send(self, frame: Any) -> None:
        """Send a frame. Raises :class:`DeviceError`."""
        if self._encode is not None:
            self._port.write(self._encode(frame))

    def close(self) -> None:
        self._port.close()


class FramedSensor(Generic[Reading]):
    """A sensor that sends frames. Nothing blocks but :meth:`open`.

    A subclass gives ``device``, for messages, and :meth:`begin`, :meth:`poll` and :meth:`reading`. A sensor that was
    plugged out is looked for twice a second and taken up again without a restart.
    """

    device = "sensor"

    @property
    def warning(self) -> str:
        """What is odd and does no harm; "" where nothing is."""
        return ""

    def __init__(self, line: Line, *, simulated: bool = False, clock: Callable[[], float] | None = None) -> None:
        self.simulated, self.reconnects = simulated, 0
        self._wire, self._host_clock = line, clock
        self._is_open, self._reconnection = False, Reconnection()

    # --- what a subclass gives

    def begin(self) -> None:
        """The line was opened, perhaps again: nothing is known of the sensor."""
        raise NotImplementedError

    def poll(self, now_s: float) -> None:
        """Take what arrived, at ``now_s`` (s). Raises :class:`DeviceError` where the line is gone."""
        raise NotImplementedError

    def reading(self, now_s: float) -> Reading:
        """The newest reading at ``now_s`` (s); NaN where unknown, and its faults say why."""
        raise NotImplementedError

    def wait_for_first(self) -> None:
        """Wait for a first answer in :meth:`open`. Raises :class:`DeviceError` with what to do where none comes."""

    def on_lost(self) -> None:
        """The line is gone."""

    # --- what all share

    def open(self) -> None:
        if self._is_open:
            return
        self._wire.open()
        self._reconnection.found()
        self._is_open = True
        try:
            self.begin()
            self.wait_for_first()
        except BaseException:
            self.close()
            raise

    def read(self, now_s: float) -> Reading:
        self._require_open()
        if self._reconnection.attempt(now_s, self._wire.open):
            self.reconnects += 1
            self.begin()
        try:
            self.poll(now_s)
        except DeviceError as error:
            self._wire.close()
            self._reconnection.lose(error, now_s)
            self.on_lost()
            raise
        return self.reading(now_s)

    def close(self) -> None:
        self._is_open = False
        self._wire.close()

    @property
    def where(self) -> str:
        """The sensor and its line, for messages."""
        return f"{self.device} at {self._wire.name}"

    def arrival(self, now_s: float) -> float:
        """When frames that were read just now arrived, in a cycle that began at ``now_s`` (s)."""
        return now_s if self._host_clock is None else self._host_clock()

    def read_until(self, done: Callable[[], bool], timeout_s: float) -> bool:
        """Read until ``done``, for ``timeout_s`` (s) at most; whether it is."""
        end_s = time.monotonic() + timeout_s
        while True:
            self.read(time.monotonic())
            if done():
                return True
            if time.monotonic() >= end_s:
                return False
            time.sleep(POLL_S)

    def need(self, done: Callable[[], bool], counters: Any, timeout_s: float, no_frame: str, nothing: str) -> None:
        """Wait for a first frame."""
        before = counters.received_bytes
        if self.read_until(done, timeout_s):
            return
        if received := counters.received_bytes - before:
            raise DeviceError(self.where, f"{received} bytes came and no frame among them", no_frame)
        raise DeviceError(self.where, f"nothing came for {timeout_s:g} s", nothing)

    def _require_open(self) -> None:
        if not self._is_open:
            raise DeviceError(self.where, "is not open", "Open it first.")

    def _require_there(self) -> None:
        self._require_open()
        if self._reconnection.lost is not None:
            raise self._reconnection.lost
