# SPDX-License-Identifier: Apache-2.0
"""SE(2) with its adjoints. Twist (w, vx, vy) and wrench (moment, fx, fy), the angular part first, as in ha."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]

_SMALL_RAD = 1e-4


def rotation(angle_rad: ArrayLike) -> Array:
    """Rotation matrix of an angle.

    Parameters
    ----------
    angle_rad : shape (...), rad, counter-clockwise

    Returns
    -------
    shape (..., 2, 2)
    """
    angle = np.asarray(angle_rad, dtype=float)
    cosine, sine = np.cos(angle), np.sin(angle)
    return np.stack([np.stack([cosine, -sine], -1), np.stack([sine, cosine], -1)], -2)


def transform(angle_rad: ArrayLike, position: ArrayLike) -> Array:
    """Homogeneous transformation: ha (1).

    Parameters
    ----------
    angle_rad : shape (...), rad
    position : shape (..., 2), m

    Returns
    -------
    shape (..., 3, 3)
    """
    angle, place = np.asarray(angle_rad, dtype=float), np.asarray(position, dtype=float)
    shape = np.broadcast_shapes(angle.shape, place.shape[:-1])
    result = np.zeros((*shape, 3, 3))
    result[..., :2, :2] = rotation(angle)
    result[..., :2, 2] = place
    result[..., 2, 2] = 1.0
    return result


def inverse(pose: ArrayLike) -> Array:
    """Inverse of transformations, shape (..., 3, 3) -> (..., 3, 3).

    Parameters
    ----------
    pose : the second frame in the first, shape (..., 3, 3)
    """
    pose = np.asarray(pose, dtype=float)
    result = np.zeros(pose.shape)
    result[..., :2, :2] = np.swapaxes(pose[..., :2, :2], -1, -2)
    result[..., :2, 2] = -np.einsum("...ji,...j->...i", pose[..., :2, :2], pose[..., :2, 2])
    result[..., 2, 2] = 1.0
    return result


def angle_of(pose: ArrayLike) -> Array:
    """Angle of transformations, shape (..., 3, 3) -> (...), rad in (-pi, pi].

    Parameters
    ----------
    pose : the second frame in the first, shape (..., 3, 3)
    """
    pose = np.asarray(pose, dtype=float)
    return np.asarray(np.arctan2(pose[..., 1, 0], pose[..., 0, 0]))


def hat(twist: ArrayLike) -> Array:
    """Matrix of a twist, shape (..., 3) -> (..., 3, 3): ha (2), (3)."""
    twist = np.asarray(twist, dtype=float)
    result = np.zeros((*twist.shape[:-1], 3, 3))
    result[..., 0, 1], result[..., 1, 0] = -twist[..., 0], twist[..., 0]
    result[..., :2, 2] = twist[..., 1:]
    return result


def vee(matrix: ArrayLike) -> Array:
    """Twist of a matrix, the inverse of :func:`hat`; shape (..., 3, 3) -> (..., 3)."""
    matrix = np.asarray(matrix, dtype=float)
    return np.stack([matrix[..., 1, 0], matrix[..., 0, 2], matrix[..., 1, 2]], -1)


def exp(twist: ArrayLike) -> Array:
    """Exponential of twists: the arc that is driven at constant twist for a unit of time.

    Parameters
    ----------
    twist : shape (..., 3): rad, m, m

    Returns
    -------
    shape (..., 3, 3)
    """
    twist = np.asarray(twist, dtype=float)
    angle = twist[..., 0]
    along, across = _arc_factors(angle)
    x = along * twist[..., 1] - across * twist[..., 2]
    y = across * twist[..., 1] + along * twist[..., 2]
    return transform(angle, np.stack([x, y], -1))


def log(pose: ArrayLike) -> Array:
    """Logarithm of transformations, the inverse of :func:`exp` for angles within (-pi, pi).

    Parameters
    ----------
    pose : shape (..., 3, 3)

    Returns
    -------
    shape (..., 3): rad, m, m
    """
    pose = np.asarray(pose, dtype=float)
    angle = angle_of(pose)
    along, across = _arc_factors(angle)
    square = along**2 + across**2
    x, y = pose[..., 0, 2], pose[..., 1, 2]
    return np.stack([angle, (along * x + across * y) / square, (along * y - across * x) / square], -1)


def adjoint(pose: ArrayLike) -> Array:
    """Ad_T, which turns twists of the second frame into the first's: xi_1 = Ad_T xi_2. ha (5), (44).

    Parameters
    ----------
    pose : T, the second frame in the first, shape (..., 3, 3)

    Returns
    -------
    shape (..., 3, 3)
    """
    pose = np.asarray(pose, dtype=float)
    result = np.zeros(pose.shape)
    result[..., 0, 0] = 1.0
    result[..., 1, 0], result[..., 2, 0] = pose[..., 1, 2], -pose[..., 0, 2]
    result[..., 1:, 1:] = pose[..., :2, :2]
    return result


def wrench_adjoint(pose: ArrayLike) -> Array:
    """Ad*_T, which turns wrenches of the second frame into the first's: F_1 = Ad*_T F_2. ha (7), (47).

    Parameters
    ----------
    pose : T, the second frame in the first, shape (..., 3, 3)

    Returns
    -------
    shape (..., 3, 3), the inverse transpose of :func:`adjoint`
    """
    pose = np.asarray(pose, dtype=float)
    result = np.zeros(pose.shape)
    result[..., 0, 0] = 1.0
    turn, place = pose[..., :2, :2], pose[..., :2, 2]
    result[..., 0, 1:] = place[..., :1] * turn[..., 1, :] - place[..., 1:] * turn[..., 0, :]
    result[..., 1:, 1:] = turn
    return result


def small_wrench_adjoint(twist: ArrayLike) -> Array:
    """ad*_xi, with which Ad*_T changes along a twist: d/dt Ad*_T = Ad*_T ad*_xi. ha (8), (50).

    Parameters
    ----------
    twist : body twist of T, shape (..., 3)

    Returns
    -------
    shape (..., 3, 3)
    """
    twist = np.asarray(twist, dtype=float)
    result = np.zeros((*twist.shape[:-1], 3, 3))
    result[..., 0, 1], result[..., 0, 2] = -twist[..., 2], twist[..., 1]
    result[..., 1, 2], result[..., 2, 1] = -twist[..., 0], twist[..., 0]
    return result


def _arc_factors(angle: Array) -> tuple[Array, Array]:
    """sin(a)/a and (1 - cos(a))/a, smooth through 0."""
    small = np.abs(angle) < _SMALL_RAD
    safe = np.where(small, 1.0, angle)
    along = np.where(small, 1 - angle**2 / 6, np.sin(safe) / safe)
    across = np.where(small, angle / 2 * (1 - angle**2 / 12), 2 * np.sin(safe / 2) ** 2 / safe)
    return along, across
