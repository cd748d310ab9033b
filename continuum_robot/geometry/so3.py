# SPDX-License-Identifier: Apache-2.0
"""Rotations: exponential, logarithm, Jacobians and quaternions (w first). Leading axes are batch axes.

Nothing here branches at the identity in a way that shows: where a closed form cancels, a series takes over that
agrees with it to rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]

_SERIES_BELOW_RAD = 0.5  # below this angle the closed forms of the Jacobians lose digits, and the series do not


def hat(vector: ArrayLike) -> Array:
    """Cross-product matrix of vectors, (..., 3) to (..., 3, 3): ``hat(a) @ b == cross(a, b)``."""
    vector = np.asarray(vector, dtype=float)
    matrix = np.zeros((*vector.shape[:-1], 3, 3))
    matrix[..., 2, 1], matrix[..., 0, 2], matrix[..., 1, 0] = vector[..., 0], vector[..., 1], vector[..., 2]
    matrix[..., 1, 2], matrix[..., 2, 0], matrix[..., 0, 1] = -vector[..., 0], -vector[..., 1], -vector[..., 2]
    return matrix


def vee(matrix: ArrayLike) -> Array:
    """Vector of the skew part of matrices, (..., 3, 3) to (..., 3); the inverse of :func:`hat`."""
    matrix = np.asarray(matrix, dtype=float)
    skew = (matrix - np.swapaxes(matrix, -1, -2)) / 2
    return np.stack([skew[..., 2, 1], skew[..., 0, 2], skew[..., 1, 0]], axis=-1)


def exp(rotation_vector: ArrayLike) -> Array:
    """Rotation matrix, (..., 3, 3), of a rotation vector, axis times angle, (..., 3), rad, of any angle (Rodrigues)."""
    rotation_vector = np.asarray(rotation_vector, dtype=float)
    angle = _norm(rotation_vector)[..., None, None]
    K = hat(rotation_vector)
    # (1 - cos a) / a^2 as half the square of sinc(a / 2): no difference of near numbers.
    return np.eye(3) + np.sinc(angle / np.pi) * K + 0.5 * np.sinc(angle / (2 * np.pi)) ** 2 * (K @ K)


def log(rotation: ArrayLike) -> Array:
    """Rotation vector, (..., 3), rad, angle in [0, pi], of a rotation matrix, (..., 3, 3); the inverse of :func:`exp`.

    By the quaternion, so it is exact to rounding near the identity and near a half turn alike.
    """
    quaternion = quaternion_from_matrix(rotation)
    w, v = quaternion[..., 0], quaternion[..., 1:]
    sine = _norm(v)
    # angle / sin(angle / 2); at the identity, where it is 0 / 0, its limit 2.
    safe = np.where(sine > 0, sine, 1.0)
    scale = np.where(sine > 0, 2 * np.arctan2(sine, w) / safe, 2.0)
    return np.asarray(scale[..., None] * v)


def left_jacobian(rotation_vector: ArrayLike) -> Array:
    """Matrix J, (..., 3, 3), of a rotation vector, (..., 3), rad, with d exp(r) exp(r)^T = hat(J dr).

    It takes the rate of the rotation vector to the angular velocity in the base frame.
    """
    rotation_vector = np.asarray(rotation_vector, dtype=float)
    angle = _norm(rotation_vector)
    K = hat(rotation_vector)
    b = 0.5 * np.sinc(angle / (2 * np.pi)) ** 2  # (1 - cos a) / a^2
    c = _switched(angle, lambda a: (a - np.sin(a)) / a**3, (1 / 6, -1 / 120, 1 / 5040, -1 / 362880, 1 / 39916800))
    return np.eye(3) + b[..., None, None] * K + c[..., None, None] * (K @ K)


def left_jacobian_inverse(rotation_vector: ArrayLike) -> Array:
    """Inverse of :func:`left_jacobian`, for angles of less than 2 pi, where it ceases to exist."""
    rotation_vector = np.asarray(rotation_vector, dtype=float)
    K = hat(rotation_vector)
    d = _switched(
        _norm(rotation_vector),
        lambda a: (1 - a / 2 / np.tan(a / 2)) / a**2,
        (1 / 12, 1 / 720, 1 / 30240, 1 / 1209600, 1 / 47900160, 691 / 1307674368000),
    )
    return np.eye(3) - 0.5 * K + d[..., None, None] * (K @ K)


def quaternion_from_matrix(rotation: ArrayLike) -> Array:
    """Unit quaternion (w, x, y, z), (..., 4), w >= 0, of a rotation matrix, (..., 3, 3)."""
    r = np.asarray(rotation, dtype=float)
    if r.ndim == 2:
        return np.array(_quaternion(*r.ravel().tolist()))
    ww = 1 + r[..., 0, 0] + r[..., 1, 1] + r[..., 2, 2]
    xx = 1 + r[..., 0, 0] - r[..., 1, 1] - r[..., 2, 2]
    yy = 1 - r[..., 0, 0] + r[..., 1, 1] - r[..., 2, 2]
    zz = 1 - r[..., 0, 0] - r[..., 1, 1] + r[..., 2, 2]
    wx, wy, wz = r[..., 2, 1] - r[..., 1, 2], r[..., 0, 2] - r[..., 2, 0], r[..., 1, 0] - r[..., 0, 1]
    xy, xz, yz = r[..., 1, 0] + r[..., 0, 1], r[..., 2, 0] + r[..., 0, 2], r[..., 2, 1] + r[..., 1, 2]
    # Four times the outer product of the quaternion with itself: every row is the quaternion, scaled; the row with
    # the largest diagonal entry is the one that loses no digits (Shepperd's method).
    rows = np.stack([ww, wx, wy, wz, wx, xx, xy, xz, wy, xy, yy, yz, wz, xz, yz, zz], axis=-1)
    rows = rows.reshape(*r.shape[:-2], 4, 4)
    largest = np.argmax(np.stack([ww, xx, yy, zz], axis=-1), axis=-1)
    row = np.take_along_axis(rows, largest[..., None, None], axis=-2)[..., 0, :]
    row = row / _norm(row)[..., None]
    return np.where(row[..., :1] < 0, -row, row)


def _quaternion(
    xx: float, xy: float, xz: float, yx: float, yy: float, yz: float, zx: float, zy: float, zz: float
) -> tuple[float, float, float, float]:
    """Of the entries of one matrix, row by row: the same in plain numbers is ten times as fast as arrays."""
    diagonal = 1 + xx + yy + zz, 1 + xx - yy - zz, 1 - xx + yy - zz, 1 - xx - yy + zz
    wx, wy, wz, x_y, x_z, y_z = zy - yz, xz - zx, yx - xy, yx + xy, zx + xz, zy + yz
    w, x, y, z = (
        (diagonal[0], wx, wy, wz), (wx, diagonal[1], x_y, x_z), (wy, x_y, diagonal[2], y_z), (wz, x_z, y_z, diagonal[3])
    )[diagonal.index(max(diagonal))]  # fmt: skip
    length = math.copysign(math.sqrt(w * w + x * x + y * y + z * z), w if w else 1.0)
    return w / length, x / length, y / length, z / length


def matrix_from_quaternion(quaternion: ArrayLike) -> Array:
    """Rotation matrix, (..., 3, 3), of a quaternion (w, x, y, z), (..., 4), not zero, which is normalised here."""
    quaternion = np.asarray(quaternion, dtype=float)
    quaternion = quaternion / _norm(quaternion)[..., None]
    w, K = quaternion[..., :1, None], hat(quaternion[..., 1:])
    return np.eye(3) + 2 * w * K + 2 * (K @ K)


def _norm(vector: Array) -> Array:
    return np.asarray(np.sqrt(np.sum(vector * vector, axis=-1)))


def _switched(angle: Array, closed: Callable[[Array], Array], coefficients: tuple[float, ...]) -> Array:
    """A function of the angle, by its power series in angle^2 below 0.5 rad and by its closed form above."""
    small = angle < _SERIES_BELOW_RAD
    square = np.where(small, angle, 0.0) ** 2
    series = np.zeros_like(square)
    for coefficient in reversed(coefficients):
        series = series * square + coefficient
    return np.where(small, series, closed(np.where(small, 1.0, angle)))
