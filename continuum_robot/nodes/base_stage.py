# SPDX-License-Identifier: Apache-2.0
"""The node that owns the stage which carries the robot: it moves it to ``base_stage/command``, within its limits."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from diagnostic_msgs.msg import DiagnosticStatus
from sensor_msgs.msg import JointState
from tf2_msgs.msg import TFMessage

from continuum_robot.control.motion import LONGEST_STEP_S
from continuum_robot.drivers import backends
from continuum_robot.drivers.base_stage import StageAxes
from continuum_robot.drivers.protocols import TendonReading
from continuum_robot.drivers.safety.stage_motion import StageMotion
from continuum_robot.errors import ParameterError
from continuum_robot.msg import DriverStatus
from continuum_robot.nodes.base.diagnostics import Level, StatusBuilder
from continuum_robot.nodes.base.sensor_node import SensorNode
from continuum_robot.nodes.base.spinning import run_node
from continuum_robot.nodes.topics import conversions, qos
from continuum_robot.nodes.topics.owned_topic import subscribe_to_owner, subscribe_to_stream
from continuum_robot.robot.base_stage import AXES, STAGE_FRAME, BaseStage

_TF_S = 0.05


class BaseStageNode(SensorNode[TendonReading]):
    """Publishes ``base_stage/state`` from configure on; while it is active, the stage follows ``base_stage/command``.

    Both are JointStates with the joints ``insertion`` (m) and ``rotation`` (rad). A command is a place to go to;
    without one for ``command_timeout_s`` the stage comes to rest and holds, and so it does while the tendon driver is
    not active, as after an e-stop. A command that cannot be, a carriage that lags, and what the motors report are
    faults: it holds, ``base_stage/status`` names them, and a reset of the stack clears them. One program at a time
    commands.
    """

    default_robot = "three_segment_servo_stage"

    def __init__(self, **node_options: Any) -> None:
        super().__init__(
            "base_stage",
            sensor="stage's",
            rate_hz=100.0,
            rate_meaning="cycles a second: a reading, and a place to go to",
            fastest_hz=500,
            **node_options,
        )
        self.parameters.declare("prefix", "", "put in front of every tf frame, for several robots", read_only=True)
        self.device: StageAxes | None = None
        self._stage: BaseStage | None = None
        self._motion: StageMotion | None = None
        self._active = self._obeys = False
        self._updated_s = self._drawn_s = 0.0
        self._told = ""
        self._states = self.flow.create_publisher(JointState, "base_stage/state", qos.state_publisher())
        self._status = self.create_publisher(DiagnosticStatus, "base_stage/status", qos.latched())
        self._transforms = self.create_publisher(TFMessage, "/tf", qos.visualization())
        subscribe_to_stream(self, JointState, "base_stage/command", self._on_command)
        subscribe_to_owner(self, DriverStatus, "driver_status", self._on_driver)
        self.diagnostics.add_task("stage", self._diagnose)

    def configure(self) -> None:
        """Open the motors and begin to read them."""
        robot = self.load_robot()
        # Kept when it is cleaned up: a simulated stage stands where it stood.
        device = self.device = self.device or backends.base_stage(robot, simulated=self.simulated)
        device.motors.open()
        self._stage = robot.base_stage
        self._motion = None if self._stage is None else StageMotion(self._stage)
        self.start_reading(device.read)

    def activate(self) -> None:
        """Torque on, at the place where it is."""
        device, motion, loop = self.device, self._motion, self.loop
        if device is None or motion is None or loop is None:
            raise ParameterError("base_stage", self.state, "a node that is configured")
        device.motors.clear_faults()
        device.motors.enable()

        def begin() -> None:
            self._updated_s = self.clock.monotonic_s()
            motion.reset(device.read(self._updated_s).displacement_m)
            self._active = True

        loop.call(begin)
        self._tell()

    def deactivate(self) -> None:
        """Torque off, in whatever state it is."""
        self._active = False
        if self.device is not None:
            self.device.motors.disable()

    def cleanup(self) -> None:
        """Close the motors."""
        self.stop_reading()
        if self.device is not None:
            self.device.motors.close()
        self._motion = None

    def publish(self, reading: TendonReading, before: TendonReading | None) -> None:  # noqa: ARG002
        """Move on, and say where it is."""
        device, motion, now_s = self.device, self._motion, self.clock.monotonic_s()
        if device is None or motion is None:
            return
        if self._active:
            passed_s = min(max(now_s - self._updated_s, 1e-4), LONGEST_STEP_S)
            self._updated_s = now_s
            device.write(motion.update(reading, now_s, passed_s), now_s)
            self._tell()
        message = JointState(name=list(AXES))
        message.position = conversions.float_array(reading.displacement_m)
        message.velocity = conversions.float_array(reading.velocity_m_per_s)
        message.header.frame_id = f"{self.parameters.get('prefix')}{STAGE_FRAME}"
        self.stamp(message.header.stamp, reading.stamp_s)
        self._states.publish(message)
        if now_s - self._drawn_s >= _TF_S and self._transforms.get_subscription_count():
            self._drawn_s = now_s
            self._draw(reading, message)

    def _draw(self, reading: TendonReading, message: JointState) -> None:
        if self._stage is None or not np.isfinite(reading.displacement_m).all():
            return
        base, header = f"{self.parameters.get('prefix')}base", message.header
        pose = self._stage.pose(reading.displacement_m)
        transform = conversions.stamped_transform(pose, base, header.frame_id, header.stamp)
        self._transforms.publish(TFMessage(transforms=[transform]))

    def _on_command(self, message: JointState) -> None:
        motion, stage = self._motion, self._stage
        if motion is None or stage is None or not self._active or not self._obeys:
            return
        given = dict(zip(message.name, message.position, strict=False))
        missing = [np.nan if has else 0.0 for has in stage.has]
        position = [given.get(axis, value) for axis, value in zip(AXES, missing, strict=True)]
        motion.command(position, self.clock.monotonic_s())

    def _on_driver(self, message: DriverStatus) -> None:
        self._obeys = message.state == DriverStatus.ACTIVE
        if not self._obeys and self._motion is not None:
            self._motion.hold()

    def _tell(self) -> None:
        """Publish the status where it is new."""
        faults = [] if self._motion is None else self._motion.faults
        text = f"at fault: {', '.join(faults)}" if faults else "follows base_stage/command"
        if text != self._told:
            self._told = text
            if faults:
                self.get_logger().error(text)
            self._status.publish(self.diagnostics.status("stage"))

    def _diagnose(self, status: StatusBuilder) -> None:
        faults = [] if self._motion is None else self._motion.faults
        if faults:
            status.summary(Level.ERROR, self._told)
        if self.read_problem:
            status.summary(Level.ERROR, self.read_problem)
        status.summary(Level.OK, self._told if self._active else self.state)
        status.add("faults", faults)
        if self.reading is not None:
            status.add("position", self.reading.displacement_m)
        if self.loop is not None:
            self.thresholds.diagnose(status, self.loop.statistics.report(), self.loop.period_s)


def main() -> int:
    """Run the node until SIGINT or SIGTERM."""
    return run_node(BaseStageNode)


if __name__ == "__main__":
    sys.exit(main())
