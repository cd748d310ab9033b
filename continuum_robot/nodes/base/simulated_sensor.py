# SPDX-License-Identifier: Apache-2.0
"""What nodes have in common that stand in for a sensor at a simulated robot, which another process moves."""

from __future__ import annotations

from abc import abstractmethod
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import DeviceError, ParameterError
from continuum_robot.nodes.base.sensor_node import SensorNode
from continuum_robot.robot.description import Robot
from continuum_robot.simulation.devices.channel import Dated
from continuum_robot.simulation.devices.plant_link import PlantLinkReader, link_path

Vector = NDArray[np.float64]
Seen = TypeVar("Seen", bound=Dated)

PATIENCE_S = 0.5


class SimulatedSensorNode(SensorNode[Seen]):
    """Receives the simulated robot's measurements from another process, and publishes each once, when it is due."""

    device: str
    program: str
    nothing_yet: Seen
    _link: PlantLinkReader | None = None

    @abstractmethod
    def look(self, time_s: float, linked: Vector) -> bool:
        """See the linked values, (linked_count,), at a time, s; False where they have nothing to see."""

    @abstractmethod
    def reported(self, now_s: float) -> list[Seen]:
        """What comes until now, s, and has not come before."""

    @abstractmethod
    def publish_report(self, report: Seen) -> None:
        """Publish what was seen."""

    def open_link(self, robot: Robot) -> None:
        """Look at the simulated robot."""
        if not self.simulated:
            raise ParameterError("use_fake_hardware", False, f"true: on hardware {self.program} publishes it")
        link = PlantLinkReader(link_path(self.get_namespace(), robot.name))
        link.open()
        self._link = link
        self.start_reading(self._see)

    def cleanup(self) -> None:
        """Look away."""
        self.stop_reading()
        if self._link is not None:
            self._link.close()
        self._link = None

    def publish(self, reading: Seen, before: Seen | None) -> None:
        """Each report once."""
        if reading is not self.nothing_yet and (before is None or reading.time_s != before.time_s):
            self.publish_report(reading)

    def _see(self, now_s: float) -> Seen:
        """The report that comes now, or the last one."""
        last = self.reading
        sample = self._link.read() if self._link is not None else None
        seen = sample is not None and self.look(sample.time_s, np.asarray(sample.extension_m))
        reported = self.reported(now_s)
        if reported:
            return reported[-1]
        # The driver may be at work on the link just now, and a report takes its time or is lost.
        if seen or (last is not None and now_s - last.time_s < PATIENCE_S):
            return self.nothing_yet if last is None else last
        raise DeviceError(self.device, "sees nothing of a simulated robot", "Bring the node simulator up")
