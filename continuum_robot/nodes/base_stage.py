# SPDX-License-Identifier: Apache-2.0
"""The node that owns the stage which carries the robot: it moves it to ``base_stage/command``, within its limits."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import partial

import numpy as np
from diagnostic_msgs.msg import DiagnosticStatus
from sensor_msgs.msg import JointState
from tf2_msgs.msg import TFMessage

from continuum_robot.control.motion import LONGEST_STEP_S
from continuum_robot.drivers import backends
from continuum_robot.drivers.base_stage import StageAxes
from continuum_robot.drivers.protocols import TendonReading
from continuum_robot.drivers.safety.stage_motion import StageMotion
from continuum_robot.msg import DriverStatus
from continuum_robot.nodes.base import component as node
from continuum_robot.nodes.base.diagnostics import Level, StatusBuilder
from continuum_robot.nodes.topics import conversions, qos
from continuum_robot.nodes.topics.owned_topic import subscribe_to_owner
from continuum_robot.robot.base_stage import AXES, STAGE_FRAME
from continuum_robot.robot.description import Robot
from continuum_robot.robot.schema import quantity

_TF_S = 0.05


@dataclass(frozen=True, kw_only=True)
class StageParameters:
    """Of the stage."""

    rate_hz: float = quantity("cycles a second: a reading, and a place to go to", "Hz", default=100.0, ge=1, le=500)
    prefix: str = quantity("put in front of every tf frame, for several robots", default="")


class Stage(node.Component):
    """Publishes ``base_stage/state`` from configure on; while it is active, the stage follows ``base_stage/command``.

    Both are JointStates with the joints ``insertion`` (m) and ``rotation`` (rad). A command is a place to go to;
    without one for ``command_timeout_s`` the stage comes to rest and holds, and so it does while the tendon driver is
    not active, as after an e-stop. A command that cannot be, a carriage that lags, and what the motors report are
    faults: it holds, ``base_stage/status`` names them, and a reset of the stack clears them. One program at a time
    commands.
    """

    name, about, problem_level = "base_stage", "stage", Level.ERROR
    default_robot = "three_segment_servo_stage"
    parameters = StageParameters()
    states = node.output(JointState, "base_stage/state")
    status = node.output(DiagnosticStatus, "base_stage/status", qos.latched(), of_flow=False)
    transforms = node.output(TFMessage, "/tf", qos.visualization(), of_flow=False)
    commands = node.heard(JointState, "base_stage/command", active=True)
    driver = node.heard(DriverStatus, "driver_status", subscribe_to_owner)
    # A simulated stage stands where it stood when the node was cleaned up.
    kept = node.Line[list[StageAxes]](lambda _node, _call: [])
    read = node.Loop("rate_hz")

    reading: TendonReading | None = None
    active = obeys = False
    updated_s = drawn_s = 0.0
    told = ""

    def __init__(self, host: node.ComponentNode, robot: Robot) -> None:
        super().__init__(host, robot)
        if not self.kept:
            self.kept.append(backends.base_stage(robot, simulated=host.simulated))
        (self.axes,) = self.kept
        self.stage = self.axes.stage
        self.motion = StageMotion(self.stage)
        self.axes.motors.open()
        host.closing.callback(self.axes.motors.close)

    def activate(self) -> None:
        """Torque on, at the place where it is."""
        self.axes.motors.clear_faults()
        self.axes.motors.enable()
        self.read.call(self._begin)
        self._tell()

    def _begin(self) -> None:
        self.updated_s = self.host.clock.monotonic_s()
        self.motion.reset(self.axes.read(self.updated_s).displacement_m)
        self.active = True

    def deactivate(self) -> None:
        """Torque off, in whatever state it is."""
        self.active = False
        self.axes.motors.disable()

    @read
    def move_on(self, now_s: float, _elapsed_s: float) -> None:
        """Go to where it is told, and say where it is."""
        reading = self.reading = self.axes.read(now_s)
        if self.active:
            passed_s = min(max(now_s - self.updated_s, 1e-4), LONGEST_STEP_S)
            self.updated_s = now_s
            self.axes.write(self.motion.update(reading, now_s, passed_s), now_s)
            self._tell()
        message = JointState(name=list(AXES))
        message.position = conversions.float_array(reading.displacement_m)
        message.velocity = conversions.float_array(reading.velocity_m_per_s)
        message.header.frame_id = f"{self.parameters.prefix}{STAGE_FRAME}"
        conversions.set_stamp(message.header.stamp, self.host.clock.stamp_ns(reading.stamp_s))
        self.states.publish(message)
        if now_s - self.drawn_s >= _TF_S and self.transforms.get_subscription_count():
            self.drawn_s = now_s
            self._draw(reading, message)

    def _draw(self, reading: TendonReading, message: JointState) -> None:
        if not np.isfinite(reading.displacement_m).all():
            return
        base, header = f"{self.parameters.prefix}base", message.header
        pose = self.stage.pose(reading.displacement_m)
        transform = conversions.stamped_transform(pose, base, header.frame_id, header.stamp)
        self.transforms.publish(TFMessage(transforms=[transform]))

    @commands
    def take_command(self, message: JointState) -> None:
        """Go there, while the driver obeys."""
        if not self.obeys:
            return
        given = dict(zip(message.name, message.position, strict=False))
        missing = [np.nan if has else 0.0 for has in self.stage.has]
        position = [given.get(axis, value) for axis, value in zip(AXES, missing, strict=True)]
        self.motion.command(position, self.host.clock.monotonic_s())

    @driver
    def see_driver(self, message: DriverStatus) -> None:
        self.obeys = message.state == DriverStatus.ACTIVE
        if not self.obeys:
            self.motion.hold()

    def _tell(self) -> None:
        faults = self.motion.faults
        text = f"at fault: {', '.join(faults)}" if faults else "follows base_stage/command"
        if text != self.told:
            self.told = text
            if faults:
                self.host.get_logger().error(text)
            self.status.publish(self.host.diagnostics.status(self.about))

    def health(self, status: StatusBuilder) -> None:
        if self.motion.faults:
            status.summary(Level.ERROR, self.told)
        status.summary(Level.OK, self.told if self.active else self.host.state)
        status.add("faults", self.motion.faults)
        if self.reading is not None:
            status.add("position", self.reading.displacement_m)


BaseStageNode = node.as_node(Stage)
main = partial(node.run, Stage)


if __name__ == "__main__":
    sys.exit(main())
