# SPDX-License-Identifier: Apache-2.0
"""A motion capture system that sees a rigid body at the robot's tip, and perhaps one on its base."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from importlib.util import find_spec

from continuum_robot.drivers.framed_serial import FramedSensor
from continuum_robot.drivers.motion_capture.settings import MotionCapture
from continuum_robot.drivers.mounted_tracker import Pose, pose_of
from continuum_robot.drivers.protocols import TrackedPose, Tracker
from continuum_robot.errors import DeviceError, ParameterError
from continuum_robot.robot.description import Robot

SETTING = "hardware.tracker"
LIBRARY = "motioncapture"
FIRST_FRAME_S = 5.0
SILENT_AFTER_S = 2.0
_POLL_S = 0.01
_LARGEST_READ = 1 << 20
_END_S = 2.0


class _Receiver:
    """The process that receives frames, as the line of a sensor."""

    def __init__(self, device: str, settings: MotionCapture) -> None:
        self.name, self._device, self._system = settings.hostname, device, settings.system
        self._process: subprocess.Popen[bytes] | None = None
        self._rest = b""

    def open(self) -> None:
        """Start it. Raises :class:`DeviceError` where the library is missing."""
        if self._process is not None:
            return
        if find_spec(LIBRARY) is None:
            raise self._error(f"the library {LIBRARY} is not installed", "Run: pip install 'continuum-robot[mocap]'.")
        self._rest = b""
        self._process = subprocess.Popen(
            [sys.executable, "-m", f"{__package__}.receiver", self._system, self.name],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        )
        if self._process.stdout is not None:
            os.set_blocking(self._process.stdout.fileno(), False)

    def close(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()  # it waits inside the library, which hears no gentler word
        process.wait(_END_S)
        if process.stdout is not None:
            process.stdout.close()

    def lines(self) -> list[bytes]:
        """Frames that arrived. Raises :class:`DeviceError` where the process ended."""
        process = self._process
        if process is None or process.stdout is None:
            return []
        *lines, self._rest = (self._rest + _waiting(process.stdout.fileno())).split(b"\n")
        last = json.loads(lines[-1]) if lines else None
        if isinstance(last, str) or (last is None and process.poll() is not None):
            problem = f"its receiver ended: {last or process.returncode}"
            raise self._error(problem, f"Check {SETTING}.system and hostname.")
        return lines

    def _error(self, problem: str, remedy: str) -> DeviceError:
        return DeviceError(f"{self._device} at {self.name}", problem, remedy)


class MotionCaptureTracker(FramedSensor[TrackedPose | None]):
    """Reads the newest frame, which another process receives: the library's waits never hold this one.

    A pose is stamped when its frame arrived there, less ``latency_s``. A body that is not in a frame, is not a number,
    or has not moved by a bit since the frame before (a system that repeats what it last saw) is not seen. A system that
    falls silent, or whose process ends, is connected again, twice a second at most.
    """

    def __init__(self, settings: MotionCapture) -> None:
        self.settings, self.device = settings, f"motion capture ({settings.system})"
        self._receiver = _Receiver(self.device, settings)
        super().__init__(self._receiver)
        self.frames = self.missed = 0
        self._seen: set[str] = set()

    def begin(self) -> None:
        """Nothing was seen yet."""
        self._last: dict[str, list[float]] = {}
        self._found: tuple[float, dict[str, list[float]]] | None = None
        self._newest_s = -math.inf

    def wait_for_first(self) -> None:
        """Wait until tip and base were seen. Raises :class:`DeviceError`."""
        wanted = {self.settings.tip_body, self.settings.base_body} - {""}
        end_s = time.monotonic() + FIRST_FRAME_S
        while not wanted <= self._seen:
            if time.monotonic() > end_s:
                raise self._nothing(wanted)
            time.sleep(_POLL_S)
            self._receive()

    def _nothing(self, wanted: set[str]) -> DeviceError:
        if not self.frames:
            problem, key = f"no frame came for {FIRST_FRAME_S:g} s", "hostname"
            return DeviceError(self.where, problem, f"Switch its streaming on, or correct {SETTING}.{key}.")
        missing, seen = ", ".join(sorted(wanted - self._seen)), ", ".join(sorted(self._seen)) or "none"
        return DeviceError(
            self.where,
            f"sees no rigid body {missing} (it sees: {seen})",
            f"Show it to the cameras, or correct {SETTING}.tip_body and base_body.",
        )

    def poll(self, now_s: float) -> None:
        """Take the newest frame. Raises :class:`DeviceError` where none came for long."""
        self._found = self._receive()
        if self._found is not None or self._newest_s == -math.inf:
            self._newest_s = now_s
        elif now_s - self._newest_s > SILENT_AFTER_S:
            problem = f"sent nothing for {SILENT_AFTER_S:g} s"
            raise DeviceError(self.where, problem, "Look at the capturing computer and the network.")

    def reading(self, now_s: float) -> TrackedPose | None:  # noqa: ARG002
        """The tip in the newest frame; None without a new one, or if tip or base is not seen."""
        if self._found is None:
            return None
        stamp_s, bodies = self._found
        tip, base = self._pose(bodies, self.settings.tip_body), self._pose(bodies, self.settings.base_body)
        self._last = bodies
        if tip is None or (self.settings.base_body and base is None):
            self.missed += 1
            return None
        return TrackedPose(stamp_s - self.settings.latency_s, self.settings.tip_in_base(tip, base))

    def _pose(self, bodies: dict[str, list[float]], name: str) -> Pose | None:
        pose = bodies.get(name)
        still = name == self.settings.tip_body and pose == self._last.get(name)
        if pose is None or still or not all(map(math.isfinite, pose)) or math.hypot(*pose[3:]) == 0:
            return None
        return pose_of(tuple(pose[:3]), tuple(pose[3:]))

    def _receive(self) -> tuple[float, dict[str, list[float]]] | None:
        """The newest frame that was not read; None without one."""
        lines = self._receiver.lines()
        if not lines:
            return None
        self.frames += len(lines)
        stamp_s, bodies = json.loads(lines[-1])
        self._seen |= bodies.keys()
        return stamp_s, bodies

    def statistics(self) -> dict[str, float]:
        return {"frames": float(self.frames), "missed": float(self.missed)}


def _waiting(descriptor: int) -> bytes:
    """What waits in a non-blocking pipe; empty where nothing does, or its other end is closed."""
    try:
        return os.read(descriptor, _LARGEST_READ)
    except BlockingIOError:
        return b""


def make(_robot: Robot, settings: MotionCapture, port: str = "") -> Tracker:
    """The driver, not open yet."""
    if port:
        raise ParameterError("port", port, "none: hardware.tracker.hostname says where motion capture streams")
    return MotionCaptureTracker(settings)
