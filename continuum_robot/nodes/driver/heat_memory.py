# SPDX-License-Identifier: Apache-2.0
"""How hot the motors were when the driver was last seen: a driver that starts again must not take them for cold."""

from __future__ import annotations

import contextlib
import json
import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from continuum_robot.drivers.safety.heat_watch import HeatWatch
from continuum_robot.errors import ContinuumRobotError
from continuum_robot.identification.procedures.record import record_path
from continuum_robot.nodes.base.lifecycle import ManagedNode
from continuum_robot.robot.description import Robot
from continuum_robot.runtime.cycle.driver_loop import DriverLoop

WRITE_PERIOD_S = 5.0
"""A driver that is killed forgets at most this much."""


@dataclass(frozen=True, slots=True)
class RememberedHeat:
    """The model's temperatures at a time."""

    time_s: float
    winding_c: list[float]
    housing_c: list[float]


class HeatMemory:
    """Writes the model's temperatures beside the homings, now and then, and reads them at the first configuration.

    What is assumed: motors cooled without a current since the file was written, by the time that the wall clock
    reports, or not at all where that ran backwards. Real motors of which there is no file begin at the warning
    temperature, simulated ones at the ambient one.
    """

    def __init__(self, node: ManagedNode, folder: Callable[[], Path]) -> None:
        self._node, self._folder = node, folder
        self._path: Path | None = None
        self._written_s = -math.inf

    def begin(self, robot: Robot, heat: HeatWatch) -> None:
        """Give a model that has just been made what is known."""
        if self._node.simulated or not heat.modelled or robot.actuators is None:
            return
        try:
            path = record_path(robot, self._folder())
        except ContinuumRobotError:
            return  # without a section hardware there are no real motors
        self._path = path.with_name(path.name.replace(".homing.yaml", ".heat.json"))
        known = self._read(self._path, robot.tendon_count)
        if known is None:
            warm = [robot.actuators.temperature_warn_c] * robot.tendon_count
            heat.take(warm, warm, 0.0)
            self._node.get_logger().info(
                f"nothing is known of the motors' temperatures: they count as {warm[0]:g} degC, the warning temperature"
            )
            return
        heat.take(known.winding_c, known.housing_c, max(0.0, time.time() - known.time_s))
        self._node.get_logger().info(f"motor temperatures go on from {max(heat.winding()):.0f} degC, by {self._path}")

    def keep(self, loop: DriverLoop | None, *, now: bool = False) -> None:
        """Write the temperatures where it is time."""
        if loop is None or self._path is None or (not now and time.monotonic() - self._written_s < WRITE_PERIOD_S):
            return
        self._written_s = time.monotonic()
        heat = loop.safety.heat
        text = json.dumps({"time_s": time.time(), "winding_c": heat.winding(), "housing_c": heat.housing()})
        part = self._path.with_suffix(".part")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            part.write_text(text, encoding="utf-8")
            part.replace(self._path)  # in one step: a kill in between leaves the older one
        except OSError as error:
            with contextlib.suppress(OSError):
                os.unlink(part)
            self._node.get_logger().warning(
                f"the motors' temperatures cannot be kept for a restart: {error}", throttle_duration_sec=60.0
            )

    def _read(self, path: Path, count: int) -> RememberedHeat | None:
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
            known = RememberedHeat(
                float(values["time_s"]),
                [float(value) for value in values["winding_c"]],
                [float(value) for value in values["housing_c"]],
            )
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
            self._node.get_logger().warning(f"{path} is not used: {error!r}")
            return None
        numbers = [known.time_s, *known.winding_c, *known.housing_c]
        if len(known.winding_c) == len(known.housing_c) == count and all(-100 < number < 1e12 for number in numbers):
            return known
        self._node.get_logger().warning(f"{path} is not used: it is not of this robot's {count} motors")
        return None
