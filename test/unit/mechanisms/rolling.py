# SPDX-License-Identifier: Apache-2.0
"""Rolling-joint mechanisms for the tests, and equations of equilibrium written once more, without the package's."""

from functools import cache

import numpy as np

from continuum_robot.mechanisms.rolling_joint.building import make_linkage
from continuum_robot.mechanisms.rolling_joint.linkage import Link, Linkage
from continuum_robot.mechanisms.rolling_joint.statics import RollingStatics
from continuum_robot.mechanisms.rolling_joint.surfaces import CurvaturePiece, from_curvature
from continuum_robot.robot.loading import load_robot


@cache
def five_links():
    return RollingStatics(make_linkage(load_robot("rolling_five_link").mechanism))


def arc(curvature_per_m, limits_m, zero_position_m, zero_heading_rad=0.0):
    """A surface that is an arc of a circle, or straight."""
    return from_curvature([CurvaturePiece(*limits_m, (curvature_per_m,))], zero_position_m, zero_heading_rad)


def chain(count, lower=-50.0, upper=30.0, half=0.015):
    """Links of two arcs, alike and symmetric."""
    entries = []
    for curvature, y in ((upper, -0.01), (lower, 0.01)):
        surface = arc(curvature, (-0.015, 0.015), [0.0, y])
        entries.append(np.array([surface.point(s) for s in (-0.01, 0.01)]))
    parent, child = (arc(curvature, (-half, half), [0.0, y]) for curvature, y in ((upper, -0.01), (lower, 0.01)))
    return Linkage([Link(parent, child, *entries)] * count)


def potential(linkage, contact, tension, loads):
    """Energy of tendons and world loads at a pose, from lengths and positions alone."""
    poses = linkage.poses(contact)
    value = float(np.dot(tension, linkage.tendon_lengths(contact)))
    for load in loads:
        x, y, angle = poses[load.link - 1]
        turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        place = turn @ load.point_m + [x, y]
        value -= float(np.dot(load.force_n, place)) + load.moment_nm * angle
    return value


def slopes(function, at, step=1e-6):
    return np.array([(function(at + step * e) - function(at - step * e)) / (2 * step) for e in np.eye(len(at))])
