# SPDX-License-Identifier: Apache-2.0
"""The node that owns a force-torque sensor and publishes ``wrench``."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import partial

import numpy as np
from geometry_msgs.msg import WrenchStamped
from std_srvs.srv import Trigger

from continuum_robot.drivers import backends
from continuum_robot.drivers.assumed_wiring import with_force_sensor
from continuum_robot.drivers.framed_serial import FramedSensor
from continuum_robot.drivers.protocols import CountsFrames, ForceReading, ForceSensor
from continuum_robot.nodes.base import component as node
from continuum_robot.nodes.base.diagnostics import Level, StatusBuilder
from continuum_robot.nodes.stack.choices import ON_WIRES, SIMULATION_LEVELS
from continuum_robot.nodes.topics import conversions
from continuum_robot.robot.description import Robot
from continuum_robot.robot.schema import quantity
from continuum_robot.simulation.devices.sensors import SimulatedForceSensor
from continuum_robot.simulation.wire.ports import Pacer

UNLOADED = np.zeros(6)


@dataclass(frozen=True, kw_only=True)
class ForceSensorParameters:
    """Of the force sensor."""

    rate_hz: float = quantity("how often the sensor is asked for something new", "Hz", default=200.0, ge=1, le=1000)
    simulation_level: str = quantity(
        "wire: the real driver reads a simulated sensor; not in lock-step",
        default="dynamics",
        choices=SIMULATION_LEVELS,
    )
    serial_port: str = quantity("port of the sensor instead of the robot file's, empty: that", default="")
    tare_samples: int = quantity(
        "measurements whose mean becomes zero when it is tared", default=200, ge=1, le=10000, live=True
    )


class ForceSensorReader(node.Component):
    """Reads the sensor at a fixed rate and publishes each new measurement once, in the sensor's own frame.

    A simulated sensor feels no load: it shows noise, and what faults make of it.
    """

    name, about, problem_level = "force_sensor", "sensor", Level.ERROR
    parameters = ForceSensorParameters()
    wrench = node.output(WrenchStamped, "wrench")
    tare = node.service(Trigger, "~/tare")
    read = node.Loop("rate_hz")

    reading: ForceReading | None = None

    def __init__(self, host: node.ComponentNode, robot: Robot) -> None:
        super().__init__(host, robot)
        self.sensor = self._make_sensor()
        self.sensor.open()
        host.closing.callback(self.sensor.close)

    def _make_sensor(self) -> ForceSensor:
        robot, host = self.robot, self.host
        if not host.simulated:
            return backends.force_sensor(robot, self.parameters.serial_port)
        settings = with_force_sensor(robot)
        # The real driver sets the sensor up while it opens it, which takes time; in lock-step there is none.
        if self.parameters.simulation_level in ON_WIRES and not host.clock.stepped:
            kind = backends.device_of(settings.kind)
            device = backends.emulator_of(settings.kind)(robot, settings, lambda: UNLOADED)
            host.closing.callback(device.close)
            pacer = Pacer(device.step, 0.5 / settings.rate_hz)
            host.closing.callback(pacer.stop)
            pacer.start()
            made: ForceSensor = kind.make(robot, settings, device.port, simulated=True, clock=host.clock.monotonic_s)
            return made
        return SimulatedForceSensor(lambda: UNLOADED, settings.frame_id)

    @read
    def publish_new(self, now_s: float, _elapsed_s: float) -> None:
        """Each measurement once."""
        before, self.reading = self.reading, self.sensor.read(now_s)
        if before is not None and self.reading.stamp_s == before.stamp_s:
            return
        message = WrenchStamped()
        message.header.frame_id = self.sensor.frame_id
        force, torque = message.wrench.force, message.wrench.torque
        force.x, force.y, force.z, torque.x, torque.y, torque.z = self.reading.wrench.tolist()
        conversions.set_stamp(message.header.stamp, self.host.clock.stamp_ns(self.reading.stamp_s))
        self.wrench.publish(message)

    @tare
    def start_tare(self, _request: Trigger.Request) -> str:
        self.read.call(lambda: self.sensor.start_tare(self.parameters.tare_samples))
        return "taring: nothing may touch the sensor meanwhile"

    def health(self, status: StatusBuilder) -> None:
        reading, sensor = self.reading, self.sensor
        if reading is None:
            status.summary(Level.OK, "no readings")
            return
        if reading.device_faults:
            status.summary(Level.ERROR, "the sensor reports " + ", ".join(reading.device_faults))
        if not np.isfinite(reading.wrench).all():
            status.summary(Level.WARN, "the wrench is unknown")
        status.add("wrench", reading.wrench)
        status.add("age_s", reading.age_s)
        status.add("temperature_c", reading.temperature_c)
        status.add("taring", sensor.taring)
        if isinstance(sensor, FramedSensor) and sensor.warning:
            status.summary(Level.WARN, sensor.warning)
        if isinstance(sensor, CountsFrames):
            status.add_all(sensor.statistics())


ForceSensorNode = node.as_node(ForceSensorReader)
main = partial(node.run, ForceSensorReader)


if __name__ == "__main__":
    sys.exit(main())
