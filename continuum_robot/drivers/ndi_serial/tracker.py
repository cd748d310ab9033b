# SPDX-License-Identifier: Apache-2.0
"""An NDI Polaris or Aurora that sees a tool at the robot's tip, over the library ndicapi (extra ``ndi``)."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuum_robot.drivers.device_clock import DeviceClock
from continuum_robot.drivers.ndi_serial.settings import NDI_BAUD_CODES, NdiSerial
from continuum_robot.drivers.protocols import TrackedPose
from continuum_robot.errors import DeviceError
from continuum_robot.geometry.so3 import matrix_from_quaternion

try:
    import ndicapy
except ImportError:  # an extra: without it only opening such a tracker fails
    ndicapy = None

Vector = NDArray[np.float64]

SETTING = "hardware.tracker"
_MM = 1e-3
_LARGEST_DRIFT = 0.01  # of the tracker's clock and of the frame rate that is stated
_LATEST_S = 0.25  # that a pose waits to be read; if it seems longer, frames are not counted as stated
_RECOUNTS = 3  # after which poses are stamped when they are read
_FIRST_BPS = 9600  # of a tracker that was switched on or reset
_TRANSFORMS = "0801"  # TX: transforms, of tools outside of the characterised volume too
_TO_BE_FREED, _TO_BE_INITIALISED, _TO_BE_ENABLED = "01", "02", "03"  # PHSR
_PASSIVE = "*********1****"  # PHRQ: a tool without a wire, which its definition file describes


class NdiTracker:
    """Reads the newest pose of one tool, and makes it the tip's in the robot's base frame.

    Without a tool definition file the first tool that is plugged in is read. The line stays the tracker's own: what is
    sent and received is the library's affair.

    Parameters
    ----------
    settings : the section of the robot file
    port : instead of the settings' one; empty: that

    Attributes
    ----------
    simulated : False
    frame : number of the newest pose's frame, of the tracker's own clock
    missed : readings in which the tool was not seen
    recounted : times that the frames did not fit the stated rate, and their clock was begun anew
    """

    simulated = False

    def __init__(self, settings: NdiSerial, port: str = "") -> None:
        self.settings, self.port = settings, port or settings.port
        self.frame = self.missed = self.recounted = 0
        self._clock = DeviceClock(_LARGEST_DRIFT)
        self._device: Any = None
        self._handle = 0
        self._line = threading.Lock()
        base, tip = np.eye(4), np.eye(4)
        base[:3, :3], base[:3, 3] = matrix_from_quaternion(settings.base_quaternion), settings.base_position_m
        tip[:3, :3], tip[:3, 3] = matrix_from_quaternion(settings.tip_quaternion), settings.tip_position_m
        self._to_base, self._tip_in_tool = np.linalg.inv(base), tip

    @property
    def name(self) -> str:
        """For messages."""
        return f"NDI tracker at {self.port}"

    def open(self) -> None:
        """Open the port, set the tracker up, and begin to track.

        Raises
        ------
        DeviceError : the library is not installed, the port cannot be opened, the tracker does not answer or refuses,
            or no tool is there
        """
        if self._device is not None:
            return
        if ndicapy is None:
            raise DeviceError(
                self.name, "the library ndicapi is not installed", "Run: pip install 'continuum-robot[ndi]'."
            )
        if self.settings.tool_file and not Path(self.settings.tool_file).is_file():
            raise DeviceError(
                self.name, f"no tool definition file {self.settings.tool_file}", f"Correct {SETTING}.tool_file."
            )
        if not Path(self.port).exists():
            raise DeviceError(self.name, "there is no such port", f"Plug it in, or correct {SETTING}.port.")
        device = ndicapy.ndiOpen(self.port)
        if device is None:
            raise DeviceError(
                self.name, "the port cannot be opened", f"Close the other program, or correct {SETTING}.port."
            )
        self._device = device
        try:
            self._set_up()
        except DeviceError:
            self.close()
            raise

    def read(self, now_s: float) -> TrackedPose | None:
        """The pose of a new frame, stamped with its exposure; None without a new one, or if the tool is not seen.

        Parameters
        ----------
        now_s : time of the reading, s

        Raises
        ------
        DeviceError : not open, or the tracker does not answer or refuses
        """
        self._ask(f"TX:{_TRANSFORMS}")
        with self._line:
            handle = bytes([self._handle])
            seen = ndicapy.ndiGetTXTransform(self._device, handle)
            frame = int(ndicapy.ndiGetTXFrame(self._device, handle))
        if isinstance(seen, str) or len(seen) < 7:
            self.missed += 1
            return None
        if frame == self.frame:
            return None
        stamp_s = self._exposed_s(frame, now_s)
        self.frame = frame
        tool = np.eye(4)
        tool[:3, :3] = matrix_from_quaternion(seen[:4])
        tool[:3, 3] = _MM * np.asarray(seen[4:7], dtype=float)
        return TrackedPose(stamp_s, self._to_base @ tool @ self._tip_in_tool)

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
        """Counters by name, for the diagnostics."""
        return {"frame": float(self.frame), "missed": float(self.missed), "recounted": float(self.recounted)}

    def close(self) -> None:
        """End tracking and close the port. Safe to call at any time."""
        with self._line:
            device, self._device = self._device, None
            if device is None:
                return
            # At the rate of a tracker that was switched on, so that it answers whoever opens the port next.
            for command in ("TSTOP:", f"COMM:{NDI_BAUD_CODES[_FIRST_BPS]}0000"):
                with contextlib.suppress(OSError):
                    ndicapy.ndiCommand(device, command)
            ndicapy.ndiClose(device)

    def _set_up(self) -> None:
        try:
            self._ask("INIT:")
        except DeviceError as silent:
            # Left at another rate by a program that was killed: a break on the line resets it.
            try:
                with self._line:
                    ndicapy.ndiCommand(self._device, None)
            except OSError:
                raise silent from None
            self._ask("INIT:")
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
        self._ask(f"PHSR:{which}")
        with self._line:
            count = ndicapy.ndiGetPHSRNumberOfHandles(self._device)
            return [int(ndicapy.ndiGetPHSRHandle(self._device, k)) for k in range(count)]

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
                return str(ndicapy.ndiCommand(self._device, command))
            except OSError as error:
                what = f"{command.split(':', maxsplit=1)[0]}: {error}"
                raise DeviceError(self.name, what, "Look at the tracker's power, cable and lights.") from error
