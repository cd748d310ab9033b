# SPDX-License-Identifier: Apache-2.0
"""Load cells behind OpenScale boards as the robot's tension sensors."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import numpy as np

from continuum_robot.drivers.device_clock import DeviceClock
from continuum_robot.drivers.framed_serial import FramedSensor, SerialLine
from continuum_robot.drivers.openscale.codec import LineStream, ScaleLine
from continuum_robot.drivers.openscale.settings import LoadCell, OpenScale
from continuum_robot.drivers.protocols import TensionReading, TensionSensors
from continuum_robot.drivers.reconnection import open_all
from continuum_robot.drivers.serial_port import SerialPort
from continuum_robot.drivers.survey import Finding, opened
from continuum_robot.errors import DeviceError, ParameterError
from continuum_robot.robot.description import Robot

SETTING = "hardware.tension_sensors.cells"


class ScaleReader(FramedSensor[tuple[float, float]]):
    """One board. A reading is when it was measured (s) and the tendon's tension (N), NaN where unknown."""

    device = "OpenScale board"

    def __init__(
        self, cell: LoadCell, settings: OpenScale, *, simulated: bool, clock: Callable[[], float] | None
    ) -> None:
        port = SerialPort(cell.port, settings.baud_bps, device=self.device, setting=SETTING)
        self._line: SerialLine[ScaleLine] = SerialLine(port, LineStream())
        super().__init__(self._line, simulated=simulated, clock=clock)
        self.cell, self._settings, self._clock = cell, settings, DeviceClock()
        self._stamp_s, self._tension_n = -math.inf, math.nan

    @property
    def warning(self) -> str:
        """What is odd about the board's clock; "" where nothing is."""
        return self._clock.problem

    def begin(self) -> None:
        """Nothing is known of the board."""
        self._clock.reset()
        self._time_ms: int | None = None
        self._stamp_s, self._tension_n = -math.inf, math.nan

    def poll(self, now_s: float) -> None:
        """Take the lines that arrived, at ``now_s`` (s)."""
        lines = self._line.poll()
        if not lines:
            return
        newest, arrival_s = lines[-1], self.arrival(now_s)
        self._tension_n = newest.force_n * self.cell.newton_per_newton
        if newest.time_ms is None:
            self._stamp_s = arrival_s
            return
        if self._time_ms is not None and newest.time_ms < self._time_ms:
            self._clock.reset()  # it started again; or its count wrapped, after 49 days
        self._time_ms = newest.time_ms
        self._stamp_s = self._clock.update(1000 * newest.time_ms % (1 << 32), arrival_s)

    def reading(self, now_s: float) -> tuple[float, float]:
        """When the newest value was measured, and the tension; NaN where it is older than it may be."""
        known = now_s - self._stamp_s <= self._settings.stale_after_s
        return self._stamp_s, self._tension_n if known else math.nan

    def wait_for_first(self) -> None:
        """Wait for a first reading; raises :class:`DeviceError`."""
        counters = self._line.counters
        self.need(
            lambda: counters.accepted > 0 and math.isfinite(self._tension_n),
            counters,
            2 * self._settings.stale_after_s + 1.0,  # the first line may be cut
            "Set its own baud_bps, and leave its menu (x); units must be kg or lbs.",
            "Check its cable, and that its menu has no serial trigger on.",
        )

    def words(self) -> str:
        """What it measures now."""
        return f"{self.read(time.monotonic())[1]:.2f} N"

    def counters(self) -> dict[str, float]:
        """Numbers for diagnostics, by name."""
        lines = self._line.counters
        return {"lines": lines.accepted, "lines_rejected": lines.rejected, "reconnects": self.reconnects}


class OpenScaleSensors:
    """The tension sensors of a robot: some or all tendons have a board."""

    def __init__(
        self,
        settings: OpenScale,
        tendon_count: int,
        *,
        simulated: bool = False,
        clock: Callable[[], float] | None = None,
    ) -> None:
        for index, cell in enumerate(settings.cells):
            if cell.tendon > tendon_count:
                raise ParameterError(f"{SETTING}[{index}].tendon", cell.tendon, f"1 to {tendon_count}")
        self.simulated, self.tendon_count = simulated, tendon_count
        self.boards = [ScaleReader(cell, settings, simulated=simulated, clock=clock) for cell in settings.cells]

    def open(self) -> None:
        """Open all ports. Raises :class:`DeviceError` that names every board which does not answer; all are closed."""
        try:
            open_all(self.boards, "load cells")
        except DeviceError:
            self.close()
            raise

    def read(self, now_s: float) -> TensionReading:
        """The newest tensions, at ``now_s`` (s); a board that is gone or silent is NaN and a fault."""
        tension, stamps, faults = np.full(self.tendon_count, math.nan), [], []
        for board in self.boards:
            try:
                stamp_s, tension_n = board.read(now_s)
            except DeviceError as error:
                faults.append(f"load cell of tendon {board.cell.tendon}: {error.problem}")
                continue
            if math.isnan(tension_n):
                faults.append(f"load cell of tendon {board.cell.tendon}: silent")
            else:
                tension[board.cell.tendon - 1] = tension_n
                stamps.append(stamp_s)
        return TensionReading(min(stamps, default=now_s), tension, tuple(faults))

    def statistics(self) -> dict[str, float]:
        return {
            f"tendon_{board.cell.tendon}_{name}": value
            for board in self.boards
            for name, value in board.counters().items()
        }

    def close(self) -> None:
        for board in self.boards:
            board.close()


def make(robot: Robot, settings: OpenScale) -> TensionSensors:
    """The driver, not open yet."""
    return OpenScaleSensors(settings, robot.tendon_count, clock=time.monotonic)


def survey(robot: Robot, settings: OpenScale) -> list[Finding]:
    """Open each board and read it."""
    boards = OpenScaleSensors(settings, robot.tendon_count).boards
    return [opened(f"load cell of tendon {one.cell.tendon}", one.cell.port, one, one.words) for one in boards]
