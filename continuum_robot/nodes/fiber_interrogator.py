# SPDX-License-Identifier: Apache-2.0
"""The node that stands in for the interrogator of a fibre with Bragg gratings at a simulated robot."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuum_robot.msg import FiberCurvature
from continuum_robot.nodes.base.diagnostics import Level, StatusBuilder
from continuum_robot.nodes.base.simulated_sensor import SimulatedSensorNode
from continuum_robot.nodes.base.spinning import run_node
from continuum_robot.nodes.topics import conversions, qos
from continuum_robot.robot.description import Robot
from continuum_robot.simulation.bodies.choosing import linked_curvature
from continuum_robot.simulation.devices.fiber import FiberErrors, MeasuredCurvature, SimulatedFiber

Vector = NDArray[np.float64]


class FiberInterrogator(SimulatedSensorNode[MeasuredCurvature]):
    """Publishes ``fiber_curvature`` of the simulated robot, as an interrogator does: late, with noise and offsets.

    On hardware there is no such node: the interrogator's own program publishes the topic.
    """

    device, program = "fiber interrogator", "the interrogator's program"
    nothing_yet = MeasuredCurvature(-np.inf, np.zeros(0))

    def __init__(self, **node_options: Any) -> None:
        super().__init__(
            "fiber_interrogator",
            sensor="fibre's",
            rate_hz=100.0,
            rate_meaning="readings of all gratings a second",
            fastest_hz=1000,
            **node_options,
        )
        self._fiber: SimulatedFiber | None = None
        self._robot: Robot | None = None
        self._message = FiberCurvature()
        self._curvatures = self.flow.create_publisher(FiberCurvature, "fiber_curvature", qos.state_publisher())
        self.diagnostics.add_task("fiber", self._diagnose)

    def configure(self) -> None:
        """Look at the simulated robot; raises ParameterError on hardware."""
        robot = self._robot = self.load_robot()
        self._message = FiberCurvature(simulated=True)
        self._errors = self.parameters.declare_settings("", FiberErrors(), all_live=True)
        if robot.fiber is None:
            self.get_logger().info(f"robot {robot.name} has no fiber: fiber_curvature stays silent")
            return
        self._fiber = SimulatedFiber(self._errors.value, np.random.default_rng([robot.simulation.seed, 3]))
        self.open_link(robot)

    def cleanup(self) -> None:
        """Look away."""
        super().cleanup()
        self._fiber = None

    def look(self, time_s: float, linked: Vector) -> bool:
        """Read the gratings."""
        found = None if self._robot is None else linked_curvature(self._robot, linked)
        if found is not None and self._fiber is not None:
            self._fiber.errors = self._errors.value
            self._fiber.look(time_s, found)
        return found is not None

    def reported(self, now_s: float) -> list[MeasuredCurvature]:
        """Readings that come until now, s."""
        return [] if self._fiber is None else self._fiber.reported(now_s)

    def publish_report(self, report: MeasuredCurvature) -> None:
        """Publish the curvatures; arguments as of :class:`SimulatedSensorNode`."""
        message = self._message
        message.sequence += 1
        message.curvature = conversions.float_array(report.curvature)
        self.stamp(message.header.stamp, report.time_s)
        self._curvatures.publish(message)

    def _diagnose(self, status: StatusBuilder) -> None:
        if self.read_problem:
            status.summary(Level.WARN, self.read_problem)
        status.summary(Level.OK, self.state)
        if self.reading is not None and self.reading.curvature.size:
            status.add("largest_curvature_per_m", float(np.abs(self.reading.curvature).max()))
        if self.loop is not None:
            self.thresholds.diagnose(status, self.loop.statistics.report(), self.loop.period_s)


def main() -> int:
    """Run the node until SIGINT or SIGTERM."""
    return run_node(FiberInterrogator)


if __name__ == "__main__":
    sys.exit(main())
