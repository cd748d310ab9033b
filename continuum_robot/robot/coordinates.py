# SPDX-License-Identifier: Apache-2.0
"""Clarke coordinates of a described robot, and how they depend on the curvature of its segments."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.geometry.clarke import ClarkeManifold, UnrelatedTendons
from continuum_robot.robot.description import Robot

Array = NDArray[np.float64]


def tendon_manifold(robot: Robot) -> ClarkeManifold:
    """What one tendon's displacement shows about the others': the Clarke manifold, or nothing where there is none.

    Parameters
    ----------
    robot : any robot
    """
    return UnrelatedTendons(robot.tendon_count) if robot.traits.without_clarke else clarke_manifold(robot)


def clarke_manifold(robot: Robot) -> ClarkeManifold:
    """The Clarke manifold of a robot's tendons; that of a mechanism with two tendons has one coordinate.

    Parameters
    ----------
    robot : with m segments and N tendons

    Returns
    -------
    maps between N displacements or tensions and 2m Clarke coordinates

    Raises
    ------
    ParameterError : tendons that are not parallel to the backbone
    """
    reason = robot.traits.without_clarke
    if reason:
        raise ParameterError(
            "robot",
            f"{robot.name}: {reason}",
            "here tendons parallel to the backbone, evenly around it: others have no Clarke coordinates",
        )
    return robot.construction.clarke_manifold


def clarke_from_curvature(robot: Robot) -> Array:
    """Matrix from the constant curvature of each segment to its Clarke coordinates.

    A curvature [kappa_x, kappa_y] in the segment's own frame bends it by theta = length |kappa| towards
    phi = atan2(-kappa_x, kappa_y), so q_Re = r_d l kappa_y and q_Im = -r_d l kappa_x: muhmann (8).

    Parameters
    ----------
    robot : with m segments

    Returns
    -------
    shape (2m, 2m), m^2: clarke (m) = matrix @ [kappa_x,1, kappa_y,1, ...] (1/m). For a basis with more functions than
    the constant one, this is the fraction of the constant one alone
    """
    matrix = np.zeros((robot.coordinate_count, robot.coordinate_count))
    for index, segment in enumerate(robot.segments):
        scale = segment.tendons.pitch_radius_m * segment.length_m
        matrix[2 * index, 2 * index + 1] = scale
        matrix[2 * index + 1, 2 * index] = -scale
    return matrix


def curvature_from_clarke(robot: Robot) -> Array:
    """Matrix from the Clarke coordinates to the constant curvature of each segment.

    Parameters
    ----------
    robot : with m segments

    Returns
    -------
    shape (2m, 2m), 1/m^2: [kappa_x,1, kappa_y,1, ...] (1/m) = matrix @ clarke (m); the inverse of
    :func:`clarke_from_curvature`
    """
    matrix = np.zeros((robot.coordinate_count, robot.coordinate_count))
    for index, segment in enumerate(robot.segments):
        scale = segment.tendons.pitch_radius_m * segment.length_m
        matrix[2 * index + 1, 2 * index] = 1 / scale
        matrix[2 * index, 2 * index + 1] = -1 / scale
    return matrix


def coordinate_scale_m(robot: Robot) -> Array:
    """What of each Clarke coordinate bends a segment by about a radian; of a mechanism a fraction of its range.

    Parameters
    ----------
    robot : any

    Returns
    -------
    shape (2m,), m
    """
    if robot.segments:
        scale_m = max(segment.tendons.pitch_radius_m for segment in robot.segments)
    else:
        scale_m = 0.01 if robot.limits is None else robot.limits.maximum_displacement_m / 2
    return np.full(robot.coordinate_count, scale_m)
