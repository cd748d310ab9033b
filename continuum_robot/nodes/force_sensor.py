# SPDX-License-Identifier: Apache-2.0
"""The node that owns a force-torque sensor and publishes ``wrench``."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from geometry_msgs.msg import WrenchStamped
from std_srvs.srv import Trigger

from continuum_robot.drivers import backends
from continuum_robot.drivers.protocols import ForceReading, ForceSensor
from continuum_robot.drivers.rokubi_serial.reader import RokubiForceSensor
from continuum_robot.errors import ContinuumRobotError
from continuum_robot.nodes import conversions, qos
from continuum_robot.nodes.diagnostics import Level, LoopThresholds, StatusBuilder
from continuum_robot.nodes.lifecycle import ManagedNode
from continuum_robot.nodes.periodic import PeriodicThread
from continuum_robot.nodes.spinning import run_node
from continuum_robot.robot.description import Robot
from continuum_robot.robot.hardware import ROKUBI_SERIAL, RokubiSerial
from continuum_robot.robot.schema import Quantity
from continuum_robot.simulation.force_sensor import SimulatedForceSensor
from continuum_robot.simulation.wire.pacing import Pacer
from continuum_robot.simulation.wire.rokubi import FakeRokubi

FAKE_LEVELS = ("dynamics", "mirror", "wire")
UNLOADED = np.zeros(6)
SIMULATED_FRAME = "force_sensor"


class ForceSensorNode(ManagedNode):
    """Reads the sensor at a fixed rate and publishes each new measurement once, in the sensor's own frame.

    A simulated sensor feels no load: it shows noise, and what faults make of it.
    """

    def __init__(self, **node_options: Any) -> None:
        super().__init__("force_sensor", **node_options)
        declare = self.parameters.declare
        declare(
            "rate_hz",
            200.0,
            "how often the sensor is asked for something new",
            rules=Quantity("", "Hz", ge=1, le=1000),
            read_only=True,
        )
        declare(
            "fake_level",
            "dynamics",
            "wire: the real driver reads a simulated sensor",
            rules=Quantity("", choices=FAKE_LEVELS),
            read_only=True,
        )
        declare("serial_port", "", "port of the sensor instead of the robot file's, empty: that", read_only=True)
        declare(
            "tare_samples",
            200,
            "measurements whose mean becomes zero when it is tared",
            rules=Quantity("", "", ge=1, le=10000),
        )
        self._thresholds = LoopThresholds(self)
        self._sensor: ForceSensor | None = None
        self._fake: tuple[FakeRokubi, Pacer] | None = None
        self._loop: PeriodicThread | None = None
        self._reading: ForceReading | None = None
        self._problem = ""
        self._problems = 0
        self._publisher = self.create_publisher(WrenchStamped, "wrench", qos.state_publisher())
        self.create_service(Trigger, "~/tare", self._serve_tare)
        self.diagnostics.add_task("sensor", self._diagnose)

    def configure(self) -> None:
        """Open the sensor, set it up, and start to read."""
        sensor = self._make_sensor(self.load_robot())
        sensor.open()
        self._sensor = sensor
        self._problem = ""
        self._loop = PeriodicThread(
            "force_sensor",
            1.0 / self.parameters.get("rate_hz"),
            self._cycle,
            on_failure=self._on_loop_failure,
            on_refused=self._on_realtime_refused,
        )
        self._loop.start()

    def cleanup(self) -> None:
        """Stop reading and close the sensor."""
        loop, self._loop = self._loop, None
        if loop is not None and not loop.stop():
            self.get_logger().error("the sensor's loop hangs in a call to the device")
        if self._sensor is not None:
            self._sensor.close()
        if self._fake is not None:
            fake, pacer = self._fake
            pacer.stop()
            fake.close()
        self._sensor = self._reading = self._fake = None

    def _cycle(self, now_s: float, _elapsed_s: float) -> None:
        sensor, before = self._sensor, self._reading
        if sensor is None:
            return
        try:
            reading = sensor.read(now_s)
        except ContinuumRobotError as error:
            # Nothing is published: the age of the last message tells consumers, an old value would not.
            self._problems += 1
            if str(error) != self._problem:
                self._problem = str(error)
                self.get_logger().error(self._problem)
            return
        self._problem, self._reading = "", reading
        if before is not None and reading.stamp_s == before.stamp_s:
            return
        message = WrenchStamped()
        message.header.frame_id = sensor.frame_id
        force, torque = message.wrench.force, message.wrench.torque
        force.x, force.y, force.z, torque.x, torque.y, torque.z = reading.wrench.tolist()
        since_ns = time.monotonic_ns() - round(reading.stamp_s * 1e9)
        conversions.set_stamp(message.header.stamp, conversions.now_ns(self.get_clock()) - since_ns)
        self._publisher.publish(message)

    def _on_loop_failure(self, error: BaseException) -> None:
        self.defect = repr(error)
        self.report_error("the sensor's loop failed", error)

    def _on_realtime_refused(self, sentences: Sequence[str]) -> None:
        for sentence in sentences:
            self.get_logger().warning(sentence)

    def _make_sensor(self, robot: Robot) -> ForceSensor:
        if not self.simulated:
            return backends.force_sensor(robot, str(self.parameters.get("serial_port")))
        given = None if robot.hardware is None else robot.hardware.force_sensor
        settings = given or RokubiSerial(kind=ROKUBI_SERIAL, port="simulated", frame_id=SIMULATED_FRAME)
        if self.parameters.get("fake_level") == "wire":
            fake = FakeRokubi(lambda: UNLOADED)
            pacer = Pacer(fake.step, 0.5 / settings.rate_hz)
            self._fake = fake, pacer
            pacer.start()
            return RokubiForceSensor(settings, port=fake.port, simulated=True)
        return SimulatedForceSensor(lambda: UNLOADED, settings.frame_id)

    def _serve_tare(self, _request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        sensor, loop = self._sensor, self._loop
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
        if self._problem:
            status.summary(Level.ERROR, self._problem)
        loop, reading, sensor = self._loop, self._reading, self._sensor
        if loop is None or reading is None or sensor is None:
            status.summary(Level.OK, "no readings")
            return
        if reading.device_faults:
            status.summary(Level.ERROR, "the sensor reports " + ", ".join(reading.device_faults))
        if not np.isfinite(reading.wrench).all():
            status.summary(Level.WARN, "the wrench is unknown")
        self._thresholds.diagnose(status, loop.statistics.report(), loop.period_s)
        status.add("wrench", reading.wrench)
        status.add("age_s", reading.age_s)
        status.add("temperature_c", reading.temperature_c)
        status.add("taring", sensor.taring)
        status.add("read_errors", self._problems)
        if isinstance(sensor, RokubiForceSensor):
            for name, value in sensor.statistics().items():
                status.add(name, value)


def main() -> int:
    """Run the node until SIGINT or SIGTERM."""
    return run_node(ForceSensorNode, background=True)


if __name__ == "__main__":
    sys.exit(main())
