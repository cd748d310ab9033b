# SPDX-License-Identifier: Apache-2.0
"""Rigid transforms as 4x4 matrices. Twists are (linear, angular). Leading axes are batch axes.

``tip_in_base`` is the pose of the tip frame in the base frame: it takes coordinates in the tip frame to the base frame.
Source: Lynch and Park, Modern Robotics, chapter 3, whose twists have the angular part first.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.geometry import so3

Array = NDArray[np.float64]


def transform(rotation: ArrayLike, position: ArrayLike) -> Array:
    """Pose, (..., 4, 4), of a rotation, (..., 3, 3), and a position, (..., 3), m."""
    rotation, position = np.asarray(rotation, dtype=float), np.asarray(position, dtype=float)
    batch = np.broadcast_shapes(rotation.shape[:-2], position.shape[:-1])
    matrix = np.zeros((*batch, 4, 4))
    matrix[..., :3, :3], matrix[..., :3, 3], matrix[..., 3, 3] = rotation, position, 1.0
    return matrix


def inverse(pose: ArrayLike) -> Array:
    """Inverse of a pose, (..., 4, 4)."""
    pose = np.asarray(pose, dtype=float)
    transposed = np.swapaxes(pose[..., :3, :3], -1, -2)
    return transform(transposed, -(transposed @ pose[..., :3, 3:])[..., 0])


def apply(pose: ArrayLike, points: ArrayLike) -> Array:
    """Points, (..., 3), m, of the frame of the pose, (..., 4, 4), in the frame that the pose is given in; they
    broadcast.
    """
    pose, points = np.asarray(pose, dtype=float), np.asarray(points, dtype=float)
    return np.asarray((pose[..., :3, :3] @ points[..., None])[..., 0] + pose[..., :3, 3])


def hat(twist: ArrayLike) -> Array:
    """Matrix, (..., 4, 4), last row zero, of a twist (linear, angular), (..., 6)."""
    twist = np.asarray(twist, dtype=float)
    matrix = np.zeros((*twist.shape[:-1], 4, 4))
    matrix[..., :3, :3], matrix[..., :3, 3] = so3.hat(twist[..., 3:]), twist[..., :3]
    return matrix


def vee(matrix: ArrayLike) -> Array:
    """Twist (linear, angular), (..., 6), of a matrix, (..., 4, 4); the inverse of :func:`hat`."""
    matrix = np.asarray(matrix, dtype=float)
    return np.concatenate([matrix[..., :3, 3], so3.vee(matrix[..., :3, :3])], axis=-1)


def exp(twist: ArrayLike) -> Array:
    """Pose, (..., 4, 4), reached by a constant body twist (linear, angular), (..., 6), m and rad, in unit time."""
    twist = np.asarray(twist, dtype=float)
    linear, angular = twist[..., :3], twist[..., 3:]
    return transform(so3.exp(angular), (so3.left_jacobian(angular) @ linear[..., None])[..., 0])


def log(pose: ArrayLike) -> Array:
    """Twist (linear, angular), (..., 6), m and rad, whose :func:`exp` is the pose, (..., 4, 4); rotation of at most
    pi.
    """
    pose = np.asarray(pose, dtype=float)
    angular = so3.log(pose[..., :3, :3])
    linear = (so3.left_jacobian_inverse(angular) @ pose[..., :3, 3:])[..., 0]
    return np.concatenate([linear, angular], axis=-1)


def adjoint(pose: ArrayLike) -> Array:
    """Matrix, (..., 6, 6), from twists (linear, angular) in the frame of a pose, (..., 4, 4), to the outer one.

    Its transpose takes a wrench the other way.
    """
    pose = np.asarray(pose, dtype=float)
    R = pose[..., :3, :3]
    matrix = np.zeros((*pose.shape[:-2], 6, 6))
    matrix[..., :3, :3] = matrix[..., 3:, 3:] = R
    matrix[..., :3, 3:] = so3.hat(pose[..., :3, 3]) @ R
    return matrix
