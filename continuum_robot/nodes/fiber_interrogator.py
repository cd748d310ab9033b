# SPDX-License-Identifier: Apache-2.0
"""The node that stands in for the interrogator of a fibre with Bragg gratings at a simulated robot."""

from __future__ import annotations

import sys
from collections.abc import Collection
from dataclasses import dataclass
from functools import partial

import numpy as np

from continuum_robot.msg import FiberCurvature
from continuum_robot.nodes.base import component as node
from continuum_robot.nodes.base.diagnostics import Level, StatusBuilder
from continuum_robot.nodes.simulated.device import Sight
from continuum_robot.nodes.topics import conversions
from continuum_robot.robot.description import Robot
from continuum_robot.robot.schema import quantity
from continuum_robot.simulation.bodies.mechanisms import linked_curvature
from continuum_robot.simulation.devices.sensors import FiberErrors, MeasuredCurvature, SimulatedFiber


@dataclass(frozen=True, kw_only=True)
class FiberParameters(FiberErrors):
    """Of the fibre."""

    rate_hz: float = quantity("readings of all gratings a second", "Hz", default=100.0, ge=1, le=1000)


class Fiber(node.Component):
    """Publishes ``fiber_curvature`` of the simulated robot, as an interrogator does: late, with noise and offsets.

    On hardware there is no such node: the interrogator's own program publishes the topic.
    """

    name, about = "fiber_interrogator", "fiber"
    parameters = FiberParameters()
    curvatures = node.output(FiberCurvature, "fiber_curvature")
    read = node.Loop("rate_hz")

    newest: MeasuredCurvature | None = None

    def __init__(self, host: node.ComponentNode, robot: Robot) -> None:
        super().__init__(host, robot)
        if robot.fiber is None:
            raise node.NothingToDoError(f"robot {robot.name} has no fiber: fiber_curvature stays silent")
        self.fiber = SimulatedFiber(self.parameters, np.random.default_rng([robot.simulation.seed, 3]))
        device, program = "fiber interrogator", "the interrogator's program"
        self.sight = Sight(host, robot, self.fiber, partial(linked_curvature, robot), device=device, program=program)
        self.message = FiberCurvature(simulated=True)

    def parameters_changed(self, _names: Collection[str] = ()) -> None:
        self.fiber.errors = self.parameters

    @read
    def publish_new(self, now_s: float, _elapsed_s: float) -> None:
        """Each report once."""
        report = self.sight.new(now_s)
        if report is None:
            return
        self.newest, message = report, self.message
        message.sequence += 1
        message.curvature = conversions.float_array(report.curvature)
        conversions.set_stamp(message.header.stamp, self.host.clock.stamp_ns(report.time_s))
        self.curvatures.publish(message)

    def health(self, status: StatusBuilder) -> None:
        status.summary(Level.OK, self.host.state)
        if self.newest is not None and self.newest.curvature.size:
            status.add("largest_curvature_per_m", float(np.abs(self.newest.curvature).max()))


FiberInterrogator = node.as_node(Fiber)
main = partial(node.run, Fiber)


if __name__ == "__main__":
    sys.exit(main())
