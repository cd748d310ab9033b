# SPDX-License-Identifier: Apache-2.0
"""From the description of a rolling-joint robot to its linkage."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from continuum_robot.errors import ParameterError
from continuum_robot.mechanisms.rolling_joint.linkage import Link, Linkage
from continuum_robot.mechanisms.rolling_joint.statics import RollingStatics
from continuum_robot.mechanisms.rolling_joint.surfaces import CurvaturePiece, Surface, from_curvature, spline
from continuum_robot.robot.description import Robot
from continuum_robot.robot.mechanism import CurvatureSurface, PointSurface, RollingJoint


def rolling_joint_of(robot: Robot) -> RollingJoint:
    """The mechanism of a robot; raises ParameterError where it is none of rolling joints."""
    if not isinstance(robot.mechanism, RollingJoint):
        raise ParameterError("robot", robot.name, "a robot whose mechanism is of the kind rolling_joint")
    return robot.mechanism


def make_linkage(mechanism: RollingJoint) -> Linkage:
    """The linkage of a described mechanism."""
    links = []
    for link in mechanism.links:
        parent, child = make_surface(link.parent), make_surface(link.child)
        entries = [np.array([surface.point(s) for s in link.entry_arc_lengths_m]) for surface in (parent, child)]
        links.append(Link(parent, child, *entries))
    return Linkage(links)


def statics_of(robot: Robot) -> RollingStatics:
    """Statics of a robot's mechanism; raises ParameterError where it has no rolling joints."""
    return RollingStatics(make_linkage(rolling_joint_of(robot)))


def make_surface(described: CurvatureSurface | PointSurface) -> Surface:
    """A described surface as a curve; raises SurfaceError."""
    if isinstance(described, PointSurface):
        points = np.stack([described.x_m, described.y_m], -1)
        return spline(points, described.zero_position_m, described.deviation_m)
    ends = [described.start_m, *(stretch.end_m for stretch in described.stretches)]
    pieces = [
        CurvaturePiece(start, end, stretch.coefficients)
        for (start, end), stretch in zip(pairwise(ends), described.stretches, strict=True)
    ]
    return from_curvature(pieces, described.zero_position_m, described.zero_heading_rad)
