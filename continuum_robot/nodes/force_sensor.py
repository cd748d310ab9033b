# SPDX-License-Identifier: Apache-2.0
"""The node that owns a force-torque sensor and publishes ``wrench``."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from geometry_msgs.msg import WrenchStamped
from std_srvs.srv import Trigger

from continuum_robot.drivers import backends
from continuum_robot.drivers.assumed_wiring import with_force_sensor
from continuum_robot.drivers.emulated_sensor import EmulatedSensor
from continuum_robot.drivers.framed_serial import FramedSensor
from continuum_robot.drivers.protocols import CountsFrames, ForceReading, ForceSensor
from continuum_robot.errors import ContinuumRobotError
from continuum_robot.nodes.base.diagnostics import Level, StatusBuilder
from continuum_robot.nodes.base.sensor_node import SensorNode
from continuum_robot.nodes.base.spinning import run_node
from continuum_robot.nodes.stack.choices import ON_WIRES, SIMULATION_LEVELS
from continuum_robot.nodes.topics import qos
from continuum_robot.robot.description import Robot
from continuum_robot.robot.schema import Quantity
from continuum_robot.simulation.devices.force_sensor import SimulatedForceSensor
from continuum_robot.simulation.wire.pacing import Pacer

UNLOADED = np.zeros(6)
SIMULATED_FRAME = "force_sensor"


class ForceSensorNode(SensorNode[ForceReading]):
    """Reads the sensor at a fixed rate and publishes each new measurement once, in the sensor's own frame.

    A simulated sensor feels no load: it shows noise, and what faults make of it.
    """

    def __init__(self, **node_options: Any) -> None:
        super().__init__(
            "force_sensor",
            sensor="sensor's",
            rate_hz=200.0,
            rate_meaning="how often the sensor is asked for something new",
            fastest_hz=1000,
            **node_options,
        )
        declare = self.parameters.declare
        declare(
            "simulation_level",
            "dynamics",
            "wire: the real driver reads a simulated sensor; not in lock-step",
            rules=Quantity("", choices=SIMULATION_LEVELS),
            read_only=True,
        )
        declare("serial_port", "", "port of the sensor instead of the robot file's, empty: that", read_only=True)
        declare(
            "tare_samples",
            200,
            "measurements whose mean becomes zero when it is tared",
            rules=Quantity("", "", ge=1, le=10000),
        )
        self._sensor: ForceSensor | None = None
        self._device: tuple[EmulatedSensor, Pacer] | None = None
        self._publisher = self.flow.create_publisher(WrenchStamped, "wrench", qos.state_publisher())
        self.create_service(Trigger, "~/tare", self._serve_tare)
        self.diagnostics.add_task("sensor", self._diagnose)

    def configure(self) -> None:
        """Open the sensor, set it up, and start to read."""
        sensor = self._make_sensor(self.load_robot())
        sensor.open()
        self._sensor = sensor
        self.start_reading(sensor.read)

    def cleanup(self) -> None:
        """Stop reading and close the sensor."""
        self.stop_reading()
        if self._sensor is not None:
            self._sensor.close()
        if self._device is not None:
            device, pacer = self._device
            pacer.stop()
            device.close()
        self._sensor = self._device = None

    def publish(self, reading: ForceReading, before: ForceReading | None) -> None:
        """Each measurement once."""
        sensor = self._sensor
        if sensor is None or (before is not None and reading.stamp_s == before.stamp_s):
            return
        message = WrenchStamped()
        message.header.frame_id = sensor.frame_id
        force, torque = message.wrench.force, message.wrench.torque
        force.x, force.y, force.z, torque.x, torque.y, torque.z = reading.wrench.tolist()
        self.stamp(message.header.stamp, reading.stamp_s)
        self._publisher.publish(message)

    def _make_sensor(self, robot: Robot) -> ForceSensor:
        if not self.simulated:
            return backends.force_sensor(robot, str(self.parameters.get("serial_port")))
        settings = with_force_sensor(robot)
        # The real driver sets the sensor up while it opens it, which takes time; in lock-step there is none.
        if self.parameters.get("simulation_level") in ON_WIRES and not self.clock.stepped:
            kind = backends.device_of(settings.kind)
            device = kind.emulator(robot, settings, lambda: UNLOADED)
            pacer = Pacer(device.step, 0.5 / settings.rate_hz)
            self._device = device, pacer
            pacer.start()
            made: ForceSensor = kind.make(robot, settings, device.port, simulated=True, clock=self.clock.monotonic_s)
            return made
        return SimulatedForceSensor(lambda: UNLOADED, settings.frame_id)

    def _serve_tare(self, _request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        sensor, loop = self._sensor, self.loop
        if sensor is None or loop is None:
            response.message = "refused: configure the force sensor first"
            return response
        try:
            loop.call(lambda: sensor.start_tare(int(self.parameters.get("tare_samples"))))
        except ContinuumRobotError as error:
            response.message = f"refused: {error}"
            return response
        response.success, response.message = True, "taring: nothing may touch the sensor meanwhile"
        return response

    def _diagnose(self, status: StatusBuilder) -> None:
        if self.read_problem:
            status.summary(Level.ERROR, self.read_problem)
        loop, reading, sensor = self.loop, self.reading, self._sensor
        if loop is None or reading is None or sensor is None:
            status.summary(Level.OK, "no readings")
            return
        if reading.device_faults:
            status.summary(Level.ERROR, "the sensor reports " + ", ".join(reading.device_faults))
        if not np.isfinite(reading.wrench).all():
            status.summary(Level.WARN, "the wrench is unknown")
        self.thresholds.diagnose(status, loop.statistics.report(), loop.period_s)
        status.add("wrench", reading.wrench)
        status.add("age_s", reading.age_s)
        status.add("temperature_c", reading.temperature_c)
        status.add("taring", sensor.taring)
        status.add("read_errors", self.read_errors)
        if isinstance(sensor, FramedSensor) and sensor.warning:
            status.summary(Level.WARN, sensor.warning)
        if isinstance(sensor, CountsFrames):
            for name, value in sensor.statistics().items():
                status.add(name, value)


def main() -> int:
    """Run the node until SIGINT or SIGTERM."""
    return run_node(ForceSensorNode)


if __name__ == "__main__":
    sys.exit(main())
