# SPDX-License-Identifier: Apache-2.0
"""The node that owns the string encoders and publishes ``string_lengths``."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from std_srvs.srv import Trigger

from continuum_robot.drivers import backends
from continuum_robot.drivers.framed_serial import FramedSensor
from continuum_robot.drivers.protocols import CountsFrames, SetsZero, StringEncoders, StringReading
from continuum_robot.errors import ContinuumRobotError
from continuum_robot.identification.procedures.record import (
    load_record,
    record_path,
)
from continuum_robot.msg import StringLengths
from continuum_robot.nodes.base.diagnostics import Level, StatusBuilder
from continuum_robot.nodes.base.sensor_node import SensorNode
from continuum_robot.nodes.base.spinning import run_node
from continuum_robot.nodes.recordings.records import declare_record_folder, record_folder
from continuum_robot.nodes.simulated.fault_injection import answer_injection
from continuum_robot.nodes.simulated.truth import declare_true_robot
from continuum_robot.nodes.stack.choices import HOMING_POLICIES, ON_WIRES, SIMULATION_LEVELS
from continuum_robot.nodes.topics import conversions, qos
from continuum_robot.robot.description import Robot
from continuum_robot.robot.schema import Quantity
from continuum_robot.simulation.devices.plant_link import PlantLinkReader, link_path
from continuum_robot.simulation.devices.string_encoders import SimulatedStringEncoders
from continuum_robot.simulation.truth import true_robot
from continuum_robot.simulation.wire.link_strings import LinkedStringBoard
from continuum_robot.srv import InjectFault


class StringEncoder(SensorNode[StringReading]):
    """Reads all strings at a fixed rate. Without strings the node is silent and its diagnostics say so."""

    def __init__(self, **node_options: Any) -> None:
        super().__init__(
            "string_encoder",
            sensor="encoders'",
            rate_hz=100.0,
            rate_meaning="rate of the readings",
            fastest_hz=2000,
            **node_options,
        )
        declare = self.parameters.declare
        declare(
            "simulation_level",
            "dynamics",
            "wire: the real driver reads a simulated board",
            rules=Quantity("", choices=SIMULATION_LEVELS),
            read_only=True,
        )
        declare(
            "homing",
            "auto",
            "whether strings count from a stored homing; auto: on hardware",
            rules=Quantity("", choices=HOMING_POLICIES),
            read_only=True,
        )
        declare_true_robot(self.parameters)
        declare_record_folder(self.parameters)
        declare("serial_port", "", "port of the board instead of the robot file's, empty: that", read_only=True)
        self._device: LinkedStringBoard | None = None
        self._zero = np.zeros(0)
        self._not_homed = ""
        self._encoders: StringEncoders | None = None
        self._sequence = 0
        self._absent = False
        self._lengths = self.flow.create_publisher(StringLengths, "string_lengths", qos.state_publisher())
        self.create_service(Trigger, "~/zero", self._serve_zero)
        self.create_service(Trigger, "~/apply_homing", self._serve_apply_homing)
        self.create_service(InjectFault, "~/inject_fault", self._serve_inject_fault)
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
        self._zero = np.zeros(len(robot.strings))
        self._apply_homing()
        self._message = StringLengths(simulated=self.simulated)
        self._extension = conversions.preallocate(self._message, "extension", len(robot.strings))
        self._age = conversions.preallocate(self._message, "age", len(robot.strings))
        board = self._device
        if board is None:
            self.start_reading(encoders.read)
        else:
            self.start_reading(lambda now_s: _read_behind(board, encoders, now_s))

    def cleanup(self) -> None:
        """Stop reading and close the encoders."""
        self.stop_reading()
        if self._encoders is not None:
            self._encoders.close()
        if self._device is not None:
            self._device.close()
        self._encoders = self._device = None

    def publish(self, reading: StringReading, _before: StringReading | None) -> None:
        """Every reading, repeated ones too: their age grows."""
        self._sequence += 1
        message = self._message
        message.sequence = self._sequence
        self._extension[:] = reading.extension_m - self._zero
        self._age[:] = reading.age_s
        self.stamp(message.header.stamp, reading.stamp_s)
        self._lengths.publish(message)

    def _make_encoders(self, robot: Robot) -> StringEncoders:
        get = self.parameters.get
        if not self.simulated:
            return backends.string_encoders(robot, str(get("serial_port")))
        truth = true_robot(robot, str(get("true_robot")))
        source = PlantLinkReader(link_path(self.get_namespace(), robot.name))
        if get("simulation_level") in ON_WIRES and LinkedStringBoard.can_read(robot):
            self._device = LinkedStringBoard(robot, truth, source, self.clock)
            self._device.start()
            return self._device.string_encoders()
        return SimulatedStringEncoders(truth, source)

    # Homing

    def _apply_homing(self) -> None:
        """Count from the stored homing where one is needed; the raw reading, and a warning, where there is none."""
        policy = self.parameters.get("homing")
        self._not_homed = ""
        if policy == "ignored" or (policy == "auto" and self.simulated):
            return
        robot = self.load_robot()
        try:
            record = load_record(robot, record_path(robot, record_folder(self)))
            # A string that was not measured stays unknown.
            self._zero = record.string_zero(tuple(string.name for string in robot.strings))
        except ContinuumRobotError as error:
            self._not_homed = str(error)
            self.get_logger().warning(self._not_homed)

    def _serve_zero(self, _request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        """The strings count from here; an earlier homing is void."""
        encoders = self._encoders
        if encoders is None:
            response.message = "refused: configure the string encoder first"
            return response
        if isinstance(encoders, SetsZero):
            encoders.request_zero()
        self._zero = np.zeros_like(self._zero)
        response.success = True
        return response

    def _serve_apply_homing(self, _request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        if self._encoders is None:
            response.message = "refused: configure the string encoder first"
            return response
        self._apply_homing()
        response.success, response.message = not self._not_homed, self._not_homed
        return response

    def _serve_inject_fault(self, request: InjectFault.Request, response: InjectFault.Response) -> InjectFault.Response:
        device = self._device if self._device is not None else self._encoders
        if not isinstance(device, (LinkedStringBoard, SimulatedStringEncoders)):
            response.message = "refused: faults are injected into simulated string encoders only, once configured"
            return response
        return answer_injection(device.inject, request, response)

    def _diagnose(self, status: StatusBuilder) -> None:
        if self._absent:
            status.summary(Level.OK, "the robot has no strings")
            return
        if self.read_problem:
            status.summary(Level.ERROR, self.read_problem)
        loop, reading = self.loop, self.reading
        if loop is None or reading is None:
            status.summary(Level.OK, "no readings")
            return
        unknown = int(np.count_nonzero(~np.isfinite(reading.extension_m)))
        if unknown:
            status.summary(Level.WARN, f"{unknown} strings unknown")
        if reading.device_faults:
            status.summary(Level.ERROR, "the board reports " + ", ".join(reading.device_faults))
        if self._not_homed:
            status.summary(Level.WARN, self._not_homed)
        self.thresholds.diagnose(status, loop.statistics.report(), loop.period_s)
        status.add("extension_m", reading.extension_m)
        status.add("age_s", reading.age_s)
        status.add("read_errors", self.read_errors)
        if isinstance(self._encoders, FramedSensor) and self._encoders.warning:
            status.summary(Level.WARN, self._encoders.warning)
        if isinstance(self._encoders, CountsFrames):
            for name, value in self._encoders.statistics().items():
                status.add(name, value)


def _read_behind(board: LinkedStringBoard, encoders: StringEncoders, now_s: float) -> StringReading:
    """What a simulated board has sent by now."""
    board.step()
    return encoders.read(now_s)


def main() -> int:
    """Run the node until SIGINT or SIGTERM."""
    return run_node(StringEncoder)


if __name__ == "__main__":
    sys.exit(main())
