# SPDX-License-Identifier: Apache-2.0
"""An NDI tracker that sees a tool at the robot's tip: by the library ndicapi on a serial port, by TCP on a network."""

from __future__ import annotations

import contextlib
import re
import socket
import threading
from pathlib import Path
from typing import Any, Protocol

from continuum_robot.drivers.device_clock import DeviceClock
from continuum_robot.drivers.mounted_tracker import pose_of
from continuum_robot.drivers.ndi_serial.settings import NDI_BAUD_CODES, NdiSerial
from continuum_robot.drivers.protocols import TrackedPose, Tracker
from continuum_robot.drivers.reconnection import Reconnection
from continuum_robot.errors import DeviceError
from continuum_robot.robot.description import Robot

PORT = 8765
"""The Polaris Vega's own."""
CONNECT_S = 2.0
SET_UP_S = 5.0
TRACK_S = 0.5
_LONGEST = 65536


def check_sum(data: bytes) -> int:
    """The CRC of commands and answers: polynomial x^16 + x^15 + x^2 + 1, least bit first, from 0."""
    found = 0
    for byte in data:
        found ^= byte
        for _ in range(8):
            found = (found >> 1) ^ (0xA001 if found & 1 else 0)
    return found


def network_address(name: str) -> tuple[str, int] | None:
    """Address and TCP port of ``ADDRESS:PORT``; None for the path of a serial port."""
    address, _, port = name.rpartition(":")
    return (address, int(port)) if address and port.isdigit() and not name.startswith("/") else None


class NetworkLine:
    """A connection to a tracker."""

    def __init__(self, address: str, port: int) -> None:
        self._socket = socket.create_connection((address, port), CONNECT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, command: str) -> str:
        """Send a command, and take its answer."""
        sent = command.encode()
        self._socket.settimeout(TRACK_S if command.startswith("TX") else SET_UP_S)
        self._socket.sendall(sent + b"%04X\r" % check_sum(sent))
        answer = b""
        while not answer.endswith(b"\r"):
            data = self._socket.recv(_LONGEST)
            if not data or len(answer) > _LONGEST:
                raise OSError("the tracker closed the connection" if not data else "an answer without an end")
            answer += data
        text, check = answer[:-5], answer[-5:-1]
        if check != b"%04X" % check_sum(text):
            raise OSError("an answer with a wrong check sum")
        if text.startswith(b"ERROR"):
            raise OSError(f"the tracker refuses: {text.decode('ascii', 'replace')}")
        return text.decode("ascii", "replace")

    def close(self) -> None:
        self._socket.close()


try:
    import ndicapy
except ImportError:  # an extra: without it only opening such a tracker fails
    ndicapy = None

SETTING = "hardware.tracker"
_PLACE_M = 1e-5
_LARGEST_DRIFT = 0.01  # of the tracker's clock and of the frame rate that is stated
_LATEST_S = 0.25  # that a pose waits to be read; if it seems longer, frames are not counted as stated
_RECOUNTS = 3  # after which poses are stamped when they are read
_FIRST_BPS = 9600  # of a tracker that was switched on or reset
_TRANSFORMS = "0801"  # TX: transforms, of tools outside of the characterised volume too
_TO_BE_FREED, _TO_BE_INITIALISED, _TO_BE_ENABLED = "01", "02", "03"  # PHSR
_PASSIVE = "*********1****"  # PHRQ: a tool without a wire, which its definition file describes
# Of a tool in the answer to TX: handle, quaternion (1e-4), place (0.01 mm), error, or none; status, frame.
_TOOL = re.compile(r"([0-9A-F]{2})(?:((?:[+-]\d{5}){4})((?:[+-]\d{6}){3})[+-]\d{5}|MISSING)[0-9A-F]{8}([0-9A-F]{8})")


class _Line(Protocol):
    """Sends a command and takes its answer; OSError where none comes, or the tracker refuses."""

    def ask(self, command: str) -> str: ...

    def close(self) -> None: ...


class _SerialLine:
    """The library's."""

    def __init__(self, device: Any) -> None:
        self.device = device

    def ask(self, command: str | None) -> str:
        return str(ndicapy.ndiCommand(self.device, command))

    def close(self) -> None:
        # At the rate of a tracker that was switched on, so that it answers whoever opens the port next.
        with contextlib.suppress(OSError):
            self.ask(f"COMM:{NDI_BAUD_CODES[_FIRST_BPS]}0000")
        ndicapy.ndiClose(self.device)


class NdiTracker:
    """Reads the newest pose of one tool, and makes it the tip's in the robot's base frame.

    Without a tool definition file the first tool that is plugged in is read. A tracker on a network that was lost is
    connected and set up again, twice a second at most.
    """

    simulated = False

    def __init__(self, settings: NdiSerial, port: str = "") -> None:
        self.settings, self.port = settings, port or settings.port
        self.frame = self.missed = self.recounted = 0
        self._clock = DeviceClock(_LARGEST_DRIFT)
        self._device: _Line | None = None
        self._reconnection = Reconnection()
        self._handle = 0
        self._line = threading.Lock()

    @property
    def name(self) -> str:
        """For messages."""
        return f"NDI tracker at {self.port}"

    def open(self) -> None:
        if self._device is not None:
            return
        if self.settings.tool_file and not Path(self.settings.tool_file).is_file():
            raise DeviceError(
                self.name, f"no tool definition file {self.settings.tool_file}", f"Correct {SETTING}.tool_file."
            )
        self._device = self._opened()
        try:
            self._set_up()
        except DeviceError:
            self.close()
            raise
        self._reconnection.found()

    def _opened(self) -> _Line:
        address = network_address(self.port)
        if address is not None:
            try:
                return NetworkLine(*address)
            except OSError as error:
                problem = f"nothing answers there ({error})"
                raise DeviceError(
                    self.name, problem, f"Check its power and the network, or correct {SETTING}.port."
                ) from error
        if ndicapy is None:
            raise DeviceError(
                self.name, "the library ndicapi is not installed", "Run: pip install 'continuum-robot[ndi]'."
            )
        if not Path(self.port).exists():
            raise DeviceError(self.name, "there is no such port", f"Plug it in, or correct {SETTING}.port.")
        device = ndicapy.ndiOpen(self.port)
        if device is None:
            raise DeviceError(
                self.name, "the port cannot be opened", f"Close the other program, or correct {SETTING}.port."
            )
        return _SerialLine(device)

    def read(self, now_s: float) -> TrackedPose | None:
        """The pose of a new frame, stamped with its exposure; None without a new one, or if the tool is not seen."""
        self._reconnection.attempt(now_s, self.open)
        try:
            answer = self._ask(f"TX:{_TRANSFORMS}")
        except DeviceError as error:
            if isinstance(self._device, NetworkLine):  # an answer that comes late would be taken for the next one's
                self._drop()
                self._reconnection.lose(error, now_s)
            raise
        tools = (_TOOL.fullmatch(line) for line in answer[2:].split("\n"))
        seen = next((tool for tool in tools if tool is not None and int(tool[1], 16) == self._handle), None)
        if seen is None or seen[2] is None:
            self.missed += 1
            return None
        frame = int(seen[4], 16)
        if frame == self.frame:
            return None
        stamp_s = self._exposed_s(frame, now_s)
        self.frame = frame
        turn = tuple(float(seen[2][k : k + 6]) for k in range(0, 24, 6))
        place = tuple(_PLACE_M * float(seen[3][k : k + 7]) for k in range(0, 21, 7))
        return TrackedPose(stamp_s, self.settings.tip_in_base(pose_of(place, turn)))

    def _exposed_s(self, frame: int, now_s: float) -> float:
        """When a frame was exposed: frames come evenly, whenever they are read."""
        latency_s = self.settings.latency_s
        time_us = round(1e6 * frame / self.settings.frame_hz) % (1 << 32)
        if self.recounted > _RECOUNTS:
            return now_s - latency_s
        if frame > self.frame:
            ready_s = self._clock.update(time_us, now_s)
            if now_s - ready_s < _LATEST_S:
                return ready_s - latency_s
        self.recounted += 1
        self._clock.reset()
        return self._clock.update(time_us, now_s) - latency_s

    def statistics(self) -> dict[str, float]:
        return {"frame": float(self.frame), "missed": float(self.missed), "recounted": float(self.recounted)}

    def close(self) -> None:
        if self._device is not None:
            with contextlib.suppress(DeviceError):
                self._ask("TSTOP:")
        self._drop()
        self._reconnection.found()

    def _drop(self) -> None:
        with self._line:
            device, self._device = self._device, None
            if device is not None:
                device.close()

    def _set_up(self) -> None:
        try:
            self._ask("INIT:")
        except DeviceError as silent:
            # Left at another rate by a program that was killed: a break on the line resets it.
            if not isinstance(self._device, _SerialLine):
                raise
            try:
                with self._line:
                    self._device.ask(None)
            except OSError:
                raise silent from None
            self._ask("INIT:")
        if isinstance(self._device, _SerialLine):
            self._ask(f"COMM:{NDI_BAUD_CODES[self.settings.baud_bps]}0000")
        for handle in self._handles(_TO_BE_FREED):
            self._ask(f"PHF:{handle:02X}")
        if self.settings.tool_file:
            self._load_tool(self.settings.tool_file)
        for handle in self._handles(_TO_BE_INITIALISED):
            self._ask(f"PINIT:{handle:02X}")
        found = self._handles(_TO_BE_ENABLED)
        if not found:
            raise DeviceError(
                self.name, "no tool is there", f"Plug one in, or give a definition file as {SETTING}.tool_file."
            )
        self._handle = found[0]
        self._ask(f"PENA:{self._handle:02X}D")
        self._ask("TSTART:")

    def _handles(self, which: str) -> list[int]:
        answer = self._ask(f"PHSR:{which}")  # how many, and of each its handle and three digits of status
        return [int(answer[k : k + 2], 16) for k in range(2, 2 + 5 * int(answer[:2], 16), 5)]

    def _load_tool(self, file: str) -> None:
        handle = int(self._ask(f"PHRQ:{_PASSIVE}")[:2], 16)
        data = Path(file).read_bytes()
        padded = data + bytes(-len(data) % 64)  # PVWR takes 64 bytes at a time
        for address in range(0, len(padded), 64):
            self._ask(f"PVWR:{handle:02X}{address:04X}{padded[address : address + 64].hex().upper()}")

    def _ask(self, command: str) -> str:
        """Send a command, and take its answer."""
        with self._line:
            if self._device is None:
                raise DeviceError(self.name, "the port is not open", "Open it first.")
            try:
                return self._device.ask(command)
            except OSError as error:
                what = f"{command.split(':', maxsplit=1)[0]}: {error}"
                raise DeviceError(self.name, what, "Look at the tracker's power, cable and lights.") from error


def make(_robot: Robot, settings: NdiSerial, port: str = "") -> Tracker:
    """The driver, not open yet."""
    return NdiTracker(settings, port)
