# SPDX-License-Identifier: Apache-2.0
"""Obstacles of a simulated world as markers, for rviz and the page in the browser."""

from __future__ import annotations

import numpy as np
from geometry_msgs.msg import Point
from numpy.typing import NDArray
from std_msgs.msg import ColorRGBA
from visualization_msgs.msg import Marker, MarkerArray

from continuum_robot.errors import ParameterError
from continuum_robot.simulation.mujoco.body import MujocoPlant
from continuum_robot.simulation.plant import Plant

Vector = NDArray[np.float64]

OBSTACLES_TOPIC = "obstacles"
_PREFIX = "obstacles/"
_COLOR = ColorRGBA(r=0.55, g=0.6, b=0.68, a=0.35)


def obstacle_markers(plant: Plant, base_frame: str) -> MarkerArray:
    """A marker of triangles for each obstacle, named by it."""
    if not isinstance(plant, MujocoPlant):
        raise ParameterError("plant", type(plant).__name__, "MuJoCo's, which has obstacles")
    markers = []
    for number, (name, triangles) in enumerate(plant.obstacle_triangles()):
        marker = Marker(ns=f"{_PREFIX}{name}", id=number, type=Marker.TRIANGLE_LIST, action=Marker.ADD, color=_COLOR)
        marker.header.frame_id = base_frame
        marker.pose.orientation.w = 1.0
        marker.scale.x = marker.scale.y = marker.scale.z = 1.0
        marker.points = [Point(x=x, y=y, z=z) for x, y, z in triangles.reshape(-1, 3).tolist()]
        markers.append(marker)
    return MarkerArray(markers=markers)


def obstacle_triangles(message: MarkerArray) -> dict[str, Vector]:
    """Triangles of each obstacle by its name, shape (k, 3, 3), m."""
    return {
        marker.ns.removeprefix(_PREFIX): np.array([[p.x, p.y, p.z] for p in marker.points]).reshape(-1, 3, 3)
        for marker in message.markers
        if marker.type == Marker.TRIANGLE_LIST and len(marker.points) % 3 == 0
    }
