# SPDX-License-Identifier: Apache-2.0
"""The node that shows the robot, at 30 Hz or less.

``/tf``, ``backbone``, ``markers`` and ``robot_description`` for rviz; ``tip_pose`` and
``contact_wrench`` for programs that know the messages of others only.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from geometry_msgs.msg import PoseStamped, TransformStamped
from nav_msgs.msg import Path
from numpy.typing import NDArray
from std_msgs.msg import String
from tf2_msgs.msg import TFMessage
from visualization_msgs.msg import MarkerArray

from continuum_robot.models.drawing import Drawing, Geometry
from continuum_robot.models.making import robot_model
from continuum_robot.models.urdf import robot_description, tendon_ends
from continuum_robot.msg import Contact, DriverStatus, Shape, StackStatus, TendonStates
from continuum_robot.nodes.base import component as node
from continuum_robot.nodes.base.diagnostics import Level, StatusBuilder
from continuum_robot.nodes.robot_markers import RobotMarkers, state_words
from continuum_robot.nodes.topics import conversions, qos
from continuum_robot.nodes.topics.common_topics import CommonTopics
from continuum_robot.nodes.topics.owned_topic import subscribe_to_owner
from continuum_robot.robot.description import Robot
from continuum_robot.robot.schema import quantity

Array = NDArray[np.float64]

_LIFETIME_PERIODS = 3.0  # after which what is not drawn again vanishes: an old shape must not pass for the robot's
_SHORTEST_LIFETIME_S = 1.0


@dataclass(frozen=True, kw_only=True)
class DrawingParameters:
    """Of the drawing."""

    rate_hz: float = quantity("how often tf, path and markers are published", "Hz", default=20.0, ge=0.5, le=30)
    prefix: str = quantity("put in front of every tf frame, for several robots", default="")


class Visualizer(node.Component):
    """Draws the newest shape and tensions in a thread of its own, so that drawing never delays a controller."""

    name, about, activate_at_start = "robot_visualizer", "drawing", True
    parameters = DrawingParameters()
    transforms = node.output(TFMessage, "/tf", qos.visualization(), of_flow=False)
    path = node.output(Path, "backbone", qos.visualization(), of_flow=False)
    markers = node.output(MarkerArray, "markers", qos.visualization(), of_flow=False)
    description = node.output(String, "robot_description", qos.latched(), of_flow=False)
    common = node.Line(lambda host, _call: CommonTopics(host))
    shapes = node.heard(Shape, "shape", lazy=True)
    contacts = node.heard(Contact, "contact", lazy=True)
    states = node.heard(TendonStates, "tendon_states_decimated", raw=True, lazy=True)
    driver = node.heard(DriverStatus, "driver_status", subscribe_to_owner)
    stack = node.heard(StackStatus, "stack_status", subscribe_to_owner)
    draw = node.Loop("rate_hz", while_active=True)

    shape: Shape | None = None
    contact: Contact | None = None
    newest: bytes | TendonStates | None = None
    drawn_sequence = -1
    driver_text, driver_ok, holding = "", True, False

    def __init__(self, host: node.ComponentNode, robot: Robot) -> None:
        super().__init__(host, robot)
        prefix, model = self.parameters.prefix, robot_model(robot)
        self.base = f"{prefix}base"
        lifetime_s = max(_LIFETIME_PERIODS / self.parameters.rate_hz, _SHORTEST_LIFETIME_S)
        self.drawing = model.drawing()
        self.robot_markers = RobotMarkers(robot, self.drawing, self.base, host.get_namespace(), lifetime_s)
        tendons = tendon_ends(model, self.drawing)
        self._describe(robot_description(model, tendons, prefix))
        self.common.prepare(tendons, prefix)
        self.frames = [f"{prefix}{name}" for name in self.drawing.frame_names]

    def _describe(self, urdf: str) -> None:
        """Latched topic and parameter, as robot_state_publisher has them; robot and prefix are read-only, so is it."""
        if not self.host.has_parameter("robot_description"):
            meaning = "URDF of base and tip, from the robot"
            self.host.parameters.declare("robot_description", urdf, meaning, read_only=True)
        self.description.publish(String(data=urdf))

    @shapes
    def keep_shape(self, message: Shape) -> None:
        self.shape = message

    @contacts
    def keep_contact(self, message: Contact) -> None:
        self.contact = message

    @states
    def keep_states(self, data: bytes) -> None:
        self.newest = data

    @driver
    def see_driver(self, message: DriverStatus) -> None:
        self.driver_text, self.driver_ok = message.message, message.level == DriverStatus.OK

    @stack
    def see_stack(self, message: StackStatus) -> None:
        self.holding = message.holding

    @draw
    def draw_newest(self, _now_s: float, _elapsed_s: float) -> None:
        shape = self.shape
        if self.common.desired or self.transforms.get_subscription_count():
            self._publish_common(shape)
        if shape is None or shape.sequence == self.drawn_sequence:
            return
        if not any(drawn.get_subscription_count() for drawn in (self.transforms, self.path, self.markers)):
            return  # nobody looks, and the processor belongs to the loop
        coefficients = conversions.vector(shape.coefficients)
        if coefficients.size != self.drawing.size or not np.all(np.isfinite(coefficients)):
            return
        self.drawn_sequence = shape.sequence
        self._draw(self.drawing, coefficients, shape.header.stamp)

    def _publish_common(self, shape: Shape | None) -> None:
        transforms: list[TransformStamped] = []
        states = self._newest_states()
        if states is not None:
            transforms += self.common.tendon_frames(states)
        if shape is not None:
            self.common.publish_tip(shape)
        if self.contact is not None:
            transforms += self.common.publish_contact(self.contact)
        if transforms:
            self.transforms.publish(TFMessage(transforms=transforms))

    def _draw(self, drawing: Drawing, coefficients: Array, stamp: Any) -> None:
        frames = drawing.frames(coefficients)
        self._publish_frames(frames, stamp)
        if not (self.path.get_subscription_count() or self.markers.get_subscription_count()):
            return
        geometry = drawing.geometry(coefficients)
        if self.path.get_subscription_count():
            path = geometry.backbone if len(geometry.backbone) else np.concatenate([np.eye(4)[None], frames])
            self._publish_path(path, stamp)
        if self.markers.get_subscription_count():
            self._publish_markers(coefficients, geometry, stamp)

    def _publish_frames(self, frames: Array, stamp: Any) -> None:
        named = zip(self.frames, frames, strict=True)
        transforms = [conversions.stamped_transform(pose, name, self.base, stamp) for name, pose in named]
        self.transforms.publish(TFMessage(transforms=transforms))

    def _publish_path(self, backbone: Array, stamp: Any) -> None:
        path = Path()
        path.header.stamp = stamp
        path.header.frame_id = self.base
        path.poses = [PoseStamped(header=path.header, pose=conversions.pose_message(pose)) for pose in backbone]
        self.path.publish(path)

    def _publish_markers(self, coefficients: Array, geometry: Geometry, stamp: Any) -> None:
        tension = self._tension()
        state = state_words(tension, self.driver_text, simulated=self.host.simulated, holding=self.holding)
        markers = self.robot_markers.of(coefficients, geometry, tension, self.contact, state, healthy=self.driver_ok)
        for marker in markers:
            marker.header.stamp = stamp
        self.markers.publish(MarkerArray(markers=markers))

    def _newest_states(self) -> TendonStates | None:
        """Read once, and only where they are looked at: they come five times as often as they are drawn."""
        states = self.newest
        if isinstance(states, bytes):
            read = conversions.message_of(states, TendonStates)
            if self.newest is states:  # others come meanwhile
                self.newest = read
            return read
        return states

    def _tension(self) -> Array:
        states = self._newest_states()
        return np.zeros(0) if states is None else conversions.vector(states.tension)

    def health(self, status: StatusBuilder) -> None:
        if self.shape is None and self.host.active:
            status.summary(Level.OK, "waiting for a shape")
        if self.host.active:
            report = self.draw.statistics.report()
            status.add("rate_hz", report.rate_hz)
            status.add("execution_p99_us", report.execution_p99_us)


RobotVisualizer = node.as_node(Visualizer)
main = partial(node.run, Visualizer, background=True)


if __name__ == "__main__":
    sys.exit(main())
