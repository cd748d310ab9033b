# SPDX-License-Identifier: Apache-2.0
"""The node that shows the robot, at 30 Hz or less.

``/tf``, ``backbone``, ``markers`` and ``robot_description`` for rviz; ``tip_pose`` and
``contact_wrench`` for programs that know the messages of others only.
"""

from __future__ import annotations

import colorsys
import itertools
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from geometry_msgs.msg import Point, PoseStamped, TransformStamped
from nav_msgs.msg import Path
from numpy.typing import NDArray
from rclpy.duration import Duration
from std_msgs.msg import ColorRGBA, String
from tf2_msgs.msg import TFMessage
from visualization_msgs.msg import Marker, MarkerArray

from continuum_robot.models.drawing import Drawing, Geometry
from continuum_robot.models.making import robot_model
from continuum_robot.models.urdf import robot_description, tendon_ends
from continuum_robot.msg import Contact, DriverStatus, Shape, StackStatus, TendonStates
from continuum_robot.nodes.base import component as node
from continuum_robot.nodes.base.diagnostics import Level, StatusBuilder
from continuum_robot.nodes.reference.lines import HOLDING
from continuum_robot.nodes.topics import conversions, qos
from continuum_robot.nodes.topics.common_topics import CommonTopics
from continuum_robot.nodes.topics.owned_topic import subscribe_to_owner
from continuum_robot.robot.description import Robot
from continuum_robot.robot.reading_thresholds import spread
from continuum_robot.robot.schema import quantity

Array = NDArray[np.float64]

_GREY = ColorRGBA(r=0.75, g=0.75, b=0.78, a=1.0)
_DARK = ColorRGBA(r=0.2, g=0.2, b=0.25, a=1.0)
_BLUE_HUE = 2 / 3
_RED = ColorRGBA(r=0.9, g=0.15, b=0.1, a=1.0)
_FAINT_RED = ColorRGBA(r=0.9, g=0.15, b=0.1, a=0.4)
# A metre of robot. Forces are some newtons: an arrow for 10 N is as long as half the robot.
_METRES_PER_NEWTON = 0.05
_BAR_HEIGHT, _BAR_WIDTH, _BARS_BESIDE, _TEXT_HEIGHT = 0.4, 0.02, -0.4, 0.05
_TENDON_WIDTH, _LINK_WIDTH, _ARROW_WIDTHS = 0.004, 0.008, (0.015, 0.035, 0.05)
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
        self.lifetime = Duration(seconds=lifetime_s).to_msg()
        self.drawing = model.drawing()
        tendons = tendon_ends(model, self.drawing)
        self._describe(robot_description(model, tendons, prefix))
        self.common.prepare(tendons, prefix)
        self.frames = [f"{prefix}{name}" for name in self.drawing.frame_names]
        self._prepare_markers(robot, self.drawing)

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
        self._draw(self.drawing, self.robot, coefficients, shape.header.stamp)

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

    def _draw(self, drawing: Drawing, robot: Robot, coefficients: Array, stamp: Any) -> None:
        frames = drawing.frames(coefficients)
        self._publish_frames(frames, stamp)
        if not (self.path.get_subscription_count() or self.markers.get_subscription_count()):
            return
        geometry = drawing.geometry(coefficients)
        if self.path.get_subscription_count():
            path = geometry.backbone if len(geometry.backbone) else np.concatenate([np.eye(4)[None], frames])
            self._publish_path(path, stamp)
        if self.markers.get_subscription_count():
            self._publish_markers(robot, drawing, geometry, stamp)

    def _publish_frames(self, frames: Array, stamp: Any) -> None:
        named = zip(self.frames, frames, strict=True)
        transforms = [conversions.stamped_transform(pose, name, self.base, stamp) for name, pose in named]
        self.transforms.publish(TFMessage(transforms=transforms))

    def _set_lines(self, marker: Marker, paths: Sequence[Array], colors: Sequence[ColorRGBA]) -> None:
        """Pieces of straight lines along paths, one colour a path."""
        marker.points, marker.colors = [], []
        for path, color in zip(paths, colors, strict=True):
            for first, second in itertools.pairwise([conversions.point_message(point) for point in path]):
                marker.points += [first, second]
                marker.colors += [color, color]

    def _publish_path(self, backbone: Array, stamp: Any) -> None:
        path = Path()
        path.header.stamp = stamp
        path.header.frame_id = self.base
        path.poses = [PoseStamped(header=path.header, pose=conversions.pose_message(pose)) for pose in backbone]
        self.path.publish(path)

    def _prepare_markers(self, robot: Robot, drawing: Drawing) -> None:
        self._tube = self._marker("backbone", 0, Marker.LINE_STRIP, _DARK)
        self._tube.scale.x = 2.0 * drawing.tube_radius_m
        self._disk_markers: list[Marker] = []
        for radius_m, thickness_m in zip(drawing.disk_radii_m, drawing.disk_thickness_m, strict=True):
            disk = self._marker("disks", len(self._disk_markers), Marker.CYLINDER, _GREY)
            disk.scale.x = disk.scale.y = 2.0 * float(radius_m)
            disk.scale.z = float(thickness_m)
            self._disk_markers.append(disk)
        self._outlines = self._marker("links", 0, Marker.LINE_LIST, _DARK)
        self._outlines.scale.x = _LINK_WIDTH * robot.length_m
        self._force = self._marker("contact", 0, Marker.ARROW, _RED)
        scale = self._force.scale
        scale.x, scale.y, scale.z = (width * robot.length_m for width in _ARROW_WIDTHS)
        self._both = [self._marker("contact", number, Marker.ARROW, _RED) for number in (3, 4)]
        for arrow in self._both:
            arrow.scale = scale
        self._where = self._marker("contact", 1, Marker.LINE_STRIP, _FAINT_RED)
        self._where.scale.x = 2.5 * self._tube.scale.x
        self._detected = self._marker("contact", 2, Marker.TEXT_VIEW_FACING, _RED)
        self._detected.scale.z = _TEXT_HEIGHT * robot.length_m
        self._prepare_common_markers(robot)

    def _prepare_common_markers(self, robot: Robot) -> None:
        length_m = robot.length_m
        self._tendon_lines = self._marker("tendons", 0, Marker.LINE_LIST, _GREY)
        self._tendon_lines.scale.x = _TENDON_WIDTH * length_m
        self._text = self._marker("state", 0, Marker.TEXT_VIEW_FACING, _DARK)
        self._text.scale.z = _TEXT_HEIGHT * length_m
        self._text.pose.position.x = 0.4 * length_m
        self._bars = self._marker("tension", 0, Marker.LINE_LIST, _GREY)
        self._full = self._marker("tension", 1, Marker.LINE_STRIP, _DARK)
        self._bar_text = self._marker("tension", 2, Marker.TEXT_VIEW_FACING, _DARK)
        self._bars.scale.x, self._full.scale.x = _BAR_WIDTH * length_m, _LINK_WIDTH / 2 * length_m
        self._bar_text.scale.z = _TEXT_HEIGHT * length_m
        half_m = 1.5 * _BAR_WIDTH * length_m * (robot.tendon_count - 1) / 2
        self._bar_places = np.linspace(-half_m, half_m, robot.tendon_count)
        beside, top = _BARS_BESIDE * length_m, _BAR_HEIGHT * length_m
        margin = _BAR_WIDTH * length_m
        self._full.points = [
            Point(x=beside, y=float(y), z=top) for y in (self._bar_places[0] - margin, self._bar_places[-1] + margin)
        ]
        place = self._bar_text.pose.position
        place.x, place.z = beside, top + 1.5 * self._bar_text.scale.z
        self._limits_n = np.ones(robot.tendon_count)
        if robot.limits is not None:
            self._limits_n = robot.limits.each("maximum_n", robot.tendon_count)
        self._bar_text.text = f"tensions, full: {spread(self._limits_n)} N"
        self._common_markers = [self._bars, self._full, self._bar_text, self._text]

    def _marker(self, kind: str, number: int, shape: int, color: ColorRGBA) -> Marker:
        marker = Marker(ns=f"{self.host.get_namespace()}/{kind}".lstrip("/"), id=number, type=shape, action=Marker.ADD)
        marker.header.frame_id = self.base
        marker.color = color
        marker.pose.orientation.w = 1.0
        marker.lifetime = self.lifetime
        return marker

    def _publish_markers(self, robot: Robot, drawing: Drawing, geometry: Geometry, stamp: Any) -> None:
        markers = [self._tendon_lines]
        if len(geometry.backbone):
            self._tube.points = [conversions.point_message(pose[:3, 3]) for pose in geometry.backbone]
            for marker, pose in zip(self._disk_markers, geometry.disks, strict=True):
                marker.pose = conversions.pose_message(pose)
            markers += [self._tube, *self._disk_markers]
        if geometry.outlines:
            self._set_lines(self._outlines, geometry.outlines, [_DARK] * len(geometry.outlines))
            markers.append(self._outlines)
        tension = self._tension(robot)
        colours = [tension_color(value, limit) for value, limit in zip(tension, self._limits_n, strict=True)]
        self._set_lines(self._tendon_lines, geometry.tendons, colours)
        self._tell_state(robot, tension)
        if not robot.traits.without_contact:
            self._draw_contact(robot, drawing)
            markers += [self._force, self._where, self._detected, *self._both]
        self._publish_stamped([*markers, *self._common_markers], stamp)

    def _tell_state(self, robot: Robot, tension: Array) -> None:
        largest = f", {np.nanmax(tension):.1f} N at most" if np.any(np.isfinite(tension)) else ""
        self._text.text = f"{robot.name}{' (simulated)' if self.host.simulated else ''}\n{self.driver_text}{largest}"
        self._text.text += f"\n{HOLDING}" if self.holding else ""
        self._text.color = _DARK if self.driver_ok else _RED
        beside, top = _BARS_BESIDE * robot.length_m, _BAR_HEIGHT * robot.length_m
        self._bars.points, self._bars.colors = [], []
        for value, limit, y in zip(tension, self._limits_n, self._bar_places, strict=True):
            height = top * float(np.clip(value / limit, 0.0, 1.0)) if np.isfinite(value) else 0.0
            self._bars.points += [Point(x=beside, y=float(y), z=z) for z in (0.0, height)]
            self._bars.colors += [tension_color(value, limit)] * 2

    def _publish_stamped(self, markers: list[Marker], stamp: Any) -> None:
        for marker in markers:
            marker.header.stamp = stamp
        self.markers.publish(MarkerArray(markers=markers))

    def _draw_contact(self, robot: Robot, drawing: Drawing) -> None:
        """The force as an arrow at its place; the stretch of backbone within a deviation of it, where it was found."""
        contact, shape = self.contact, self.shape
        detected = contact is not None and contact.in_contact
        self._force.action = Marker.ADD if detected else Marker.DELETE
        found = contact is not None and detected and contact.location_observable
        self._where.action = Marker.ADD if found else Marker.DELETE
        self._detected.action = self._force.action
        for arrow in self._both:
            arrow.action = Marker.DELETE
        if contact is None or shape is None or not detected or len(contact.wrench) != 6:
            return
        coefficients = conversions.vector(shape.coefficients)
        if coefficients.size != drawing.size:  # a newer shape than the drawn one
            return
        if self._draw_both(robot, drawing, coefficients, contact):
            return
        pose = drawing.pose(coefficients, contact.wrench_arc_length)
        force = pose[:3, :3] @ np.nan_to_num(conversions.vector(contact.wrench)[:3])
        tail = pose[:3, 3] - _METRES_PER_NEWTON * robot.length_m * force
        self._force.points = [conversions.point_message(tail), conversions.point_message(pose[:3, 3])]
        self._detected.pose.position = conversions.point_message(tail)
        where = f" at {1e3 * contact.arc_length:.0f} mm" if found else ""
        moved = f"\nby its motion on segment {contact.screw_segment + 1}" if contact.screw_segment >= 0 else ""
        self._detected.text = f"{np.linalg.norm(force):.1f} N{where}{moved}"
        if found:
            half_m = contact.arc_length_deviation
            first_m, last_m = np.clip(contact.arc_length + np.array([-half_m, half_m]), 0.0, robot.length_m)
            stretch = [drawing.pose(coefficients, float(place_m)) for place_m in np.linspace(first_m, last_m, 8)]
            self._where.points = [conversions.point_message(place[:3, 3]) for place in stretch]

    def _draw_both(self, robot: Robot, drawing: Drawing, coefficients: Array, contact: Contact) -> bool:
        """The forces of two contacts in place of one; whether both are located."""
        places, forces = conversions.vector(contact.pair_arc_lengths), conversions.vector(contact.pair_forces)
        if places.size != len(self._both) or forces.size != 3 * places.size or not np.isfinite(places).all():
            return False
        self._force.action = self._where.action = Marker.DELETE
        texts = []
        for arrow, place_m, force_there in zip(self._both, places, forces.reshape(-1, 3), strict=True):
            pose = drawing.pose(coefficients, float(place_m))
            force = pose[:3, :3] @ np.nan_to_num(force_there)
            tail = pose[:3, 3] - _METRES_PER_NEWTON * robot.length_m * force
            arrow.action = Marker.ADD
            arrow.points = [conversions.point_message(tail), conversions.point_message(pose[:3, 3])]
            self._detected.pose.position = conversions.point_message(tail)
            texts.append(f"{np.linalg.norm(force):.1f} N at {1e3 * place_m:.0f} mm")
        self._detected.text = "\n".join(texts)
        return True

    def _newest_states(self) -> TendonStates | None:
        """Read once, and only where they are looked at: they come five times as often as they are drawn."""
        states = self.newest
        if isinstance(states, bytes):
            read = conversions.message_of(states, TendonStates)
            if self.newest is states:  # others come meanwhile
                self.newest = read
            return read
        return states

    def _tension(self, robot: Robot) -> Array:
        states = self._newest_states()
        if states is not None:
            tension = conversions.vector(states.tension)
            if tension.size == robot.tendon_count:
                return tension
        return np.full(robot.tendon_count, np.nan)

    def health(self, status: StatusBuilder) -> None:
        if self.shape is None and self.host.active:
            status.summary(Level.OK, "waiting for a shape")
        if self.host.active:
            report = self.draw.statistics.report()
            status.add("rate_hz", report.rate_hz)
            status.add("execution_p99_us", report.execution_p99_us)


def tension_color(tension_n: float, limit_n: float) -> ColorRGBA:
    """Grey where unknown, blue at 0 N, over green and yellow, to red at ``limit_n``."""
    if not np.isfinite(tension_n):
        return _GREY
    fraction = float(np.clip(tension_n / limit_n, 0.0, 1.0))
    red, green, blue = colorsys.hsv_to_rgb(_BLUE_HUE * (1.0 - fraction), 1.0, 0.9)
    return ColorRGBA(r=red, g=green, b=blue, a=1.0)


RobotVisualizer = node.as_node(Visualizer)
main = partial(node.run, Visualizer, background=True)


if __name__ == "__main__":
    sys.exit(main())
