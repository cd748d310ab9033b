# SPDX-License-Identifier: Apache-2.0
"""Clarke coordinates of a described robot."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.geometry.clarke import ClarkeManifold, UnrelatedTendons
from continuum_robot.robot.description import Robot

Array = NDArray[np.float64]


def tendon_manifold(robot: Robot) -> ClarkeManifold:
    """What one tendon's displacement shows about the others': the Clarke manifold, or nothing where there is none."""
    return UnrelatedTendons(robot.tendon_count) if robot.traits.without_clarke else clarke_manifold(robot)


def clarke_manifold(robot: Robot) -> ClarkeManifold:
    """The Clarke manifold of a robot's tendons; that of a mechanism with two tendons has one coordinate."""
    reason = robot.traits.without_clarke
    if reason:
        raise ParameterError(
            "robot",
            f"{robot.name}: {reason}",
            "here tendons parallel to the backbone, evenly around it: others have no Clarke coordinates",
        )
    return robot.construction.clarke_manifold


def coordinate_scale_m(robot: Robot) -> Array:
    """What of each Clarke coordinate bends a segment by about a radian; of a mechanism a fraction of its range."""
    if robot.segments:
        scale_m = max(segment.tendons.pitch_radius_m for segment in robot.segments)
    else:
        scale_m = (
            0.01 if robot.limits is None else robot.limits.smallest("maximum_displacement_m", robot.tendon_count) / 2
        )
    return np.full(robot.coordinate_count, scale_m)


def coordinate_limits_m(robot: Robot) -> Array:
    """The smallest largest displacement of the tendons that each coordinate moves, (2m,), m; infinite
    without limits.
    """
    if robot.limits is None:
        return np.full(robot.coordinate_count, np.inf)
    largest_m = robot.limits.each("maximum_displacement_m", robot.tendon_count)
    moved = np.abs(tendon_manifold(robot).displacement_matrix) > 1e-9
    if moved.shape[1] != robot.coordinate_count:  # modes, which move all
        return np.full(robot.coordinate_count, largest_m.min())
    return np.asarray(np.where(moved, largest_m[:, None], np.inf).min(axis=0))
