# SPDX-License-Identifier: Apache-2.0
"""The node that owns the string encoders and publishes ``string_lengths``."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import partial

import numpy as np
from std_srvs.srv import Trigger

from continuum_robot.drivers import backends
from continuum_robot.drivers.framed_serial import FramedSensor
from continuum_robot.drivers.protocols import CountsFrames, SetsZero, StringEncoders, StringReading
from continuum_robot.errors import ContinuumRobotError
from continuum_robot.identification.procedures.record import load_record, record_path
from continuum_robot.msg import StringLengths
from continuum_robot.nodes.base import component as node
from continuum_robot.nodes.base.diagnostics import Level, StatusBuilder
from continuum_robot.nodes.recordings.records import RecordFolder, record_folder
from continuum_robot.nodes.simulated.device import TrueRobot, answer_injection
from continuum_robot.nodes.stack.choices import HOMING_POLICIES, ON_WIRES, SIMULATION_LEVELS
from continuum_robot.nodes.topics import conversions
from continuum_robot.robot.description import Robot
from continuum_robot.robot.schema import quantity
from continuum_robot.simulation.devices.plant_link import PlantLinkReader, link_path
from continuum_robot.simulation.devices.sensors import SimulatedStringEncoders
from continuum_robot.simulation.truth import true_robot
from continuum_robot.simulation.wire.link_strings import LinkedStringBoard
from continuum_robot.srv import InjectFault

NOT_SIMULATED = "faults are injected into simulated string encoders only, once configured"


@dataclass(frozen=True, kw_only=True)
class StringParameters(TrueRobot, RecordFolder):
    """Of the string encoders."""

    rate_hz: float = quantity("rate of the readings", "Hz", default=100.0, ge=1, le=2000)
    simulation_level: str = quantity(
        "wire: the real driver reads a simulated board", default="dynamics", choices=SIMULATION_LEVELS
    )
    homing: str = quantity(
        "whether strings count from a stored homing; auto: on hardware", default="auto", choices=HOMING_POLICIES
    )
    serial_port: str = quantity("port of the board instead of the robot file's, empty: that", default="")


class Strings(node.Component):
    """Reads all strings at a fixed rate. Without strings the node is silent and its diagnostics say so."""

    name, about, problem_level = "string_encoder", "encoders", Level.ERROR
    parameters = StringParameters()
    lengths = node.output(StringLengths, "string_lengths")
    zero = node.service(Trigger, "~/zero")
    apply_homing = node.service(Trigger, "~/apply_homing")
    inject_fault = node.service(InjectFault, "~/inject_fault", unconfigured=NOT_SIMULATED)
    read = node.Loop("rate_hz")

    reading: StringReading | None = None
    board: LinkedStringBoard | None = None
    not_homed = ""

    def __init__(self, host: node.ComponentNode, robot: Robot) -> None:
        super().__init__(host, robot)
        count = len(robot.strings)
        if not count:
            raise node.NothingToDoError(f"robot {robot.name} has no strings: string_lengths stays silent")
        self.encoders = self._make_encoders()
        self.encoders.open()
        host.closing.callback(self.encoders.close)
        self.zero_m = np.zeros(count)
        self._apply_homing()
        self.message = StringLengths(simulated=host.simulated)
        self.extension = conversions.preallocate(self.message, "extension", count)
        self.age = conversions.preallocate(self.message, "age", count)

    def _make_encoders(self) -> StringEncoders:
        robot, host, parameters = self.robot, self.host, self.parameters
        if not host.simulated:
            return backends.string_encoders(robot, parameters.serial_port)
        truth = true_robot(robot, parameters.true_robot)
        source = PlantLinkReader(link_path(host.get_namespace(), robot.name), strings_only=True)
        if parameters.simulation_level in ON_WIRES and LinkedStringBoard.can_read(robot):
            self.board = LinkedStringBoard(robot, truth, source, host.clock)
            host.closing.callback(self.board.close)
            self.board.start()
            return self.board.string_encoders()
        return SimulatedStringEncoders(truth, source)

    def _apply_homing(self) -> None:
        """Count from the stored homing where one is needed; the raw reading, and a warning, where there is none."""
        policy, robot, host = self.parameters.homing, self.robot, self.host
        self.not_homed = ""
        if policy == "ignored" or (policy == "auto" and host.simulated):
            return
        try:
            record = load_record(robot, record_path(robot, record_folder(host)))
            # A string that was not measured stays unknown.
            self.zero_m = record.string_zero(tuple(string.name for string in robot.strings))
        except ContinuumRobotError as error:
            self.not_homed = str(error)
            host.get_logger().warning(self.not_homed)

    @read
    def publish_all(self, now_s: float, _elapsed_s: float) -> None:
        """Every reading, repeated ones too: their age grows."""
        if self.board is not None:
            self.board.step()
        reading = self.reading = self.encoders.read(now_s)
        message = self.message
        message.sequence += 1
        self.extension[:] = reading.extension_m - self.zero_m
        self.age[:] = reading.age_s
        conversions.set_stamp(message.header.stamp, self.host.clock.stamp_ns(reading.stamp_s))
        self.lengths.publish(message)

    @zero
    def count_from_here(self, _request: Trigger.Request) -> None:
        """An earlier homing is void."""
        if isinstance(self.encoders, SetsZero):
            self.encoders.request_zero()
        self.zero_m = np.zeros_like(self.zero_m)

    @apply_homing
    def count_from_homing(self, _request: Trigger.Request) -> Trigger.Response:
        self._apply_homing()
        return Trigger.Response(success=not self.not_homed, message=self.not_homed)

    @inject_fault
    def inject(self, request: InjectFault.Request) -> InjectFault.Response:
        device = self.board if self.board is not None else self.encoders
        if not isinstance(device, (LinkedStringBoard, SimulatedStringEncoders)):
            raise ContinuumRobotError(NOT_SIMULATED)
        return answer_injection(device.inject, request, InjectFault.Response())

    def health(self, status: StatusBuilder) -> None:
        reading = self.reading
        if reading is None:
            status.summary(Level.OK, "no readings")
            return
        unknown = int(np.count_nonzero(~np.isfinite(reading.extension_m)))
        if unknown:
            status.summary(Level.WARN, f"{unknown} strings unknown")
        if reading.device_faults:
            status.summary(Level.ERROR, "the board reports " + ", ".join(reading.device_faults))
        if self.not_homed:
            status.summary(Level.WARN, self.not_homed)
        status.add("extension_m", reading.extension_m)
        status.add("age_s", reading.age_s)
        if isinstance(self.encoders, FramedSensor) and self.encoders.warning:
            status.summary(Level.WARN, self.encoders.warning)
        if isinstance(self.encoders, CountsFrames):
            status.add_all(self.encoders.statistics())


StringEncoder = node.as_node(Strings)
main = partial(node.run, Strings)


if __name__ == "__main__":
    sys.exit(main())
