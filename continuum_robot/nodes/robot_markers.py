# SPDX-License-Identifier: Apache-2.0
"""A robot as markers (visualization_msgs), for rviz and Foxglove: from a running stack, and from recordings."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from builtin_interfaces.msg import Duration as DurationMessage
from geometry_msgs.msg import Point
from numpy.typing import NDArray
from std_msgs.msg import ColorRGBA
from visualization_msgs.msg import Marker

from continuum_robot.models.colors import tension_colors
from continuum_robot.models.drawing import Drawing, Geometry
from continuum_robot.nodes.reference.lines import HOLDING
from continuum_robot.nodes.topics import conversions
from continuum_robot.robot.description import Robot
from continuum_robot.robot.reading_thresholds import spread

Array = NDArray[np.float64]

_GREY = ColorRGBA(r=0.75, g=0.75, b=0.78, a=1.0)
_DARK = ColorRGBA(r=0.2, g=0.2, b=0.25, a=1.0)
_RED = ColorRGBA(r=0.9, g=0.15, b=0.1, a=1.0)
_FAINT_RED = ColorRGBA(r=0.9, g=0.15, b=0.1, a=0.4)
# A metre of robot. Forces are some newtons: an arrow for 10 N is as long as half the robot.
_METRES_PER_NEWTON = 0.05
_BAR_HEIGHT, _BAR_WIDTH, _BARS_BESIDE, _TEXT_HEIGHT = 0.4, 0.02, -0.4, 0.05
_TENDON_WIDTH, _LINK_WIDTH, _ARROW_WIDTHS = 0.004, 0.008, (0.015, 0.035, 0.05)


class RobotMarkers:
    """Backbone, disks or links, tendons by their tension, contacts, and the state in words."""

    def __init__(self, robot: Robot, drawing: Drawing, base_frame: str, namespace: str, lifetime_s: float) -> None:
        self._robot, self._drawing, self._base, self._namespace = robot, drawing, base_frame, namespace
        seconds, fraction = divmod(lifetime_s, 1.0)
        self._lifetime = DurationMessage(sec=int(seconds), nanosec=round(1e9 * fraction))
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
        marker = Marker(ns=f"{self._namespace}/{kind}".lstrip("/"), id=number, type=shape, action=Marker.ADD)
        marker.header.frame_id = self._base
        marker.color = color
        marker.pose.orientation.w = 1.0
        marker.lifetime = self._lifetime
        return marker

    def of(
        self, coefficients: Array, geometry: Geometry, tension: Array, contact: Any, state: str, *, healthy: bool
    ) -> list[Marker]:
        """The markers of a shape, of tensions (N) and of what the contact monitor reports (Contact, None: nothing).

        ``state``: lines of text under the robot's name. The markers are the same objects at every call.
        """
        robot = self._robot
        markers = [self._tendon_lines]
        if len(geometry.backbone):
            self._tube.points = [conversions.point_message(pose[:3, 3]) for pose in geometry.backbone]
            for marker, pose in zip(self._disk_markers, geometry.disks, strict=True):
                marker.pose = conversions.pose_message(pose)
            markers += [self._tube, *self._disk_markers]
        if geometry.outlines:
            self._set_lines(self._outlines, geometry.outlines, [_DARK] * len(geometry.outlines))
            markers.append(self._outlines)
        if tension.size != robot.tendon_count:
            tension = np.full(robot.tendon_count, np.nan)
        tints = [_color(*rgb) for rgb in tension_colors(tension, self._limits_n) / 255]
        self._set_lines(self._tendon_lines, geometry.tendons, tints)
        self._tell_state(tension, tints, state, healthy)
        if not robot.traits.without_contact:
            self._draw_contact(coefficients, contact)
            markers += [self._force, self._where, self._detected, *self._both]
        return [*markers, *self._common_markers]

    def _tell_state(self, tension: Array, tints: Sequence[ColorRGBA], state: str, healthy: bool) -> None:
        robot = self._robot
        self._text.text = f"{robot.name}{state}"
        self._text.color = _DARK if healthy else _RED
        beside, top = _BARS_BESIDE * robot.length_m, _BAR_HEIGHT * robot.length_m
        self._bars.points, self._bars.colors = [], []
        for value, limit, tint, y in zip(tension, self._limits_n, tints, self._bar_places, strict=True):
            height = top * float(np.clip(value / limit, 0.0, 1.0)) if np.isfinite(value) else 0.0
            self._bars.points += [Point(x=beside, y=float(y), z=z) for z in (0.0, height)]
            self._bars.colors += [tint] * 2

    def _draw_contact(self, coefficients: Array, contact: Any) -> None:
        """The force as an arrow at its place; the stretch of backbone within a deviation of it, where it was found."""
        robot, drawing = self._robot, self._drawing
        detected = contact is not None and contact.in_contact
        self._force.action = Marker.ADD if detected else Marker.DELETE
        found = contact is not None and detected and contact.location_observable
        self._where.action = Marker.ADD if found else Marker.DELETE
        self._detected.action = self._force.action
        for arrow in self._both:
            arrow.action = Marker.DELETE
        if contact is None or not detected or len(contact.wrench) != 6:
            return
        if self._draw_both(coefficients, contact):
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

    def _draw_both(self, coefficients: Array, contact: Any) -> bool:
        """The forces of two contacts in place of one; whether both are located."""
        robot, drawing = self._robot, self._drawing
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

    def _set_lines(self, marker: Marker, paths: Sequence[Array], colors: Sequence[ColorRGBA]) -> None:
        """Pieces of straight lines along paths, one colour a path."""
        marker.points, marker.colors = [], []
        for path, color in zip(paths, colors, strict=True):
            for first, second in itertools.pairwise([conversions.point_message(point) for point in path]):
                marker.points += [first, second]
                marker.colors += [color, color]


def state_words(tension: Array, driver: str, *, simulated: bool, holding: bool) -> str:
    """What stands behind the robot's name: the driver's sentence, the largest tension, whether it holds."""
    largest = f", {np.nanmax(tension):.1f} N at most" if np.any(np.isfinite(tension)) else ""
    return f"{' (simulated)' if simulated else ''}\n{driver}{largest}" + (f"\n{HOLDING}" if holding else "")


def _color(red: float, green: float, blue: float) -> ColorRGBA:
    return ColorRGBA(r=red, g=green, b=blue, a=1.0)
