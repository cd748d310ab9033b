# SPDX-License-Identifier: Apache-2.0
"""The node that owns the string encoders and publishes ``string_lengths``."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from continuum_robot.drivers.protocols import StringEncoders, StringReading
from continuum_robot.errors import ContinuumRobotError, DeviceError
from continuum_robot.msg import StringLengths
from continuum_robot.nodes import conversions, qos
from continuum_robot.nodes.diagnostics import Level, LoopThresholds, StatusBuilder
from continuum_robot.nodes.lifecycle import ManagedNode
from continuum_robot.nodes.periodic import PeriodicThread
from continuum_robot.nodes.spinning import run_node
from continuum_robot.robot.description import Robot
from continuum_robot.robot.schema import Quantity
from continuum_robot.simulation.devices import SimulatedStringEncoders
from continuum_robot.simulation.plant_link import PlantLink


class StringEncoder(ManagedNode):
    """Reads all strings at a fixed rate. A robot without strings is fine: the node is silent and says so."""

    def __init__(self, **node_options: Any) -> None:
        super().__init__("string_encoder", **node_options)
        self.parameters.declare(
            "rate_hz", 100.0, "rate of the readings", rules=Quantity("", "Hz", ge=1, le=2000), read_only=True
        )
        self._thresholds = LoopThresholds(self)
        self._encoders: StringEncoders | None = None
        self._loop: PeriodicThread | None = None
        self._reading: StringReading | None = None
        self._sequence = 0
        self._problem = ""
        self._problems = 0
        self._absent = False
        self._lengths = self.create_publisher(StringLengths, "string_lengths", qos.state_publisher())
        self.diagnostics.add_task("encoders", self._diagnose)

    def configure(self) -> None:
        """Open the encoders and start to read."""
        robot = self.load_robot()
        self._absent = not robot.strings
        if self._absent:
            self.get_logger().info(f"robot {robot.name} has no strings: string_lengths stays silent")
            return
        encoders = self._make_encoders(robot)
        encoders.open()
        self._encoders = encoders
        self._message = StringLengths(simulated=self.simulated)
        self._extension = conversions.preallocate(self._message, "extension", len(robot.strings))
        self._age = conversions.preallocate(self._message, "age", len(robot.strings))
        self._problem = ""
        self._loop = PeriodicThread(
            "string_encoder",
            1.0 / self.parameters.get("rate_hz"),
            self._cycle,
            on_failure=self._on_loop_failure,
            on_refused=self._on_realtime_refused,
        )
        self._loop.start()

    def cleanup(self) -> None:
        """Stop reading and close the encoders."""
        loop, self._loop = self._loop, None
        if loop is not None and not loop.stop():
            self.get_logger().error("the encoders' loop hangs in a call to the device")
        if self._encoders is not None:
            self._encoders.close()
        self._encoders = self._reading = None

    def _cycle(self, now_s: float, _elapsed_s: float) -> None:
        encoders = self._encoders
        if encoders is None:
            return
        try:
            reading = encoders.read(now_s)
        except ContinuumRobotError as error:
            # Nothing is published: the age of the last message tells consumers, an old value would not.
            self._problems += 1
            if str(error) != self._problem:
                self._problem = str(error)
                self.get_logger().error(self._problem)
            return
        self._problem = ""
        self._reading = reading
        self._sequence += 1
        message = self._message
        message.sequence = self._sequence
        self._extension[:] = reading.extension_m
        self._age[:] = reading.age_s
        since_ns = time.monotonic_ns() - round(reading.stamp_s * 1e9)
        conversions.set_stamp(message.header.stamp, conversions.now_ns(self.get_clock()) - since_ns)
        self._lengths.publish(message)

    def _on_loop_failure(self, error: BaseException) -> None:
        self.defect = repr(error)
        self.report_error("the encoders' loop failed", error)

    def _on_realtime_refused(self, sentences: Sequence[str]) -> None:
        for sentence in sentences:
            self.get_logger().warning(sentence)

    def _make_encoders(self, robot: Robot) -> StringEncoders:
        if not self.simulated:
            raise DeviceError(
                f"string encoders of {robot.name}",
                "this release has no driver for a string-encoder board",
                "Set use_fake_hardware to true; drivers/protocols.py says what a driver must offer",
            )
        return SimulatedStringEncoders(robot, PlantLink.reader(self.get_namespace(), robot=robot.name))

    def _diagnose(self, status: StatusBuilder) -> None:
        if self._absent:
            status.summary(Level.OK, "the robot has no strings")
            return
        if self._problem:
            status.summary(Level.ERROR, self._problem)
        loop, reading = self._loop, self._reading
        if loop is None or reading is None:
            status.summary(Level.OK, "no readings")
            return
        unknown = int(np.count_nonzero(~np.isfinite(reading.extension_m)))
        if unknown:
            status.summary(Level.WARN, f"{unknown} strings unknown")
        self._thresholds.diagnose(status, loop.statistics.report(), loop.period_s)
        status.add("extension_m", reading.extension_m)
        status.add("age_s", reading.age_s)
        status.add("read_errors", self._problems)


def main() -> int:
    """Run the node until SIGINT or SIGTERM."""
    return run_node(StringEncoder, background=True)


if __name__ == "__main__":
    sys.exit(main())
