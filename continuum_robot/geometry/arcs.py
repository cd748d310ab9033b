# SPDX-License-Identifier: Apache-2.0
"""Constant-curvature arcs: poses along a segment and along a chain of segments, smooth through the straight one.

Source: Webster and Jones, Design and kinematic modeling of constant curvature continuum robots: a review, 2010.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ParameterError

Array = NDArray[np.float64]

_ARC_LENGTH_TOLERANCE = 1e-9  # of the total length: sums of segment lengths are not exact


def arc_pose(phi: ArrayLike, theta: ArrayLike, length_m: ArrayLike, s_m: ArrayLike) -> Array:
    """Pose at an arc length of one constant-curvature segment, in the frame of its start.

    The curvature is u = theta / length [-sin phi, cos phi, 0], so that R' = R hat(u), p' = R e_z.

    Parameters
    ----------
    phi : direction towards which the tip moves, shape (...), rad
    theta : bending angle of the whole segment, shape (...), rad; any sign and size, 0 is not special
    length_m : length of the segment, shape (...), m, positive
    s_m : arc length from the segment's start, shape (...), m

    Returns
    -------
    shape (..., 4, 4), batch axes broadcast over the arguments
    """
    phi, theta, length_m, s_m = (np.asarray(value, dtype=float) for value in (phi, theta, length_m, s_m))
    if np.any(length_m <= 0):
        raise ParameterError("length_m", float(np.min(length_m)), "a positive length in m")
    angle = theta * s_m / length_m
    cos_phi, sin_phi = np.cos(phi), np.sin(phi)
    sine, half = np.sin(angle), np.sin(angle / 2)
    versine = 2 * half * half  # 1 - cos(angle), without the difference
    # (1 - cos a) / a = a / 2 sinc(a / 2)^2 and sin(a) / a = sinc(a): whole functions, nothing to divide by.
    sideways = s_m * angle / 2 * np.sinc(angle / (2 * np.pi)) ** 2
    along = s_m * np.sinc(angle / np.pi)
    pose = np.zeros((*np.broadcast_shapes(phi.shape, angle.shape), 4, 4))
    pose[..., 0, 0] = 1 - cos_phi * cos_phi * versine
    pose[..., 1, 1] = 1 - sin_phi * sin_phi * versine
    pose[..., 0, 1] = pose[..., 1, 0] = -cos_phi * sin_phi * versine
    pose[..., 0, 2], pose[..., 1, 2] = cos_phi * sine, sin_phi * sine
    pose[..., 2, 0], pose[..., 2, 1] = -cos_phi * sine, -sin_phi * sine
    pose[..., 2, 2] = 1 - versine
    pose[..., 0, 3], pose[..., 1, 3], pose[..., 2, 3] = cos_phi * sideways, sin_phi * sideways, along
    pose[..., 3, 3] = 1.0
    return pose


def backbone_poses(phi: ArrayLike, theta: ArrayLike, lengths: ArrayLike, s: ArrayLike) -> Array:
    """Poses along the backbone of a chain of constant-curvature segments, in the base frame.

    Parameters
    ----------
    phi : bending direction of each segment in the frame of its start, shape (m,), rad
    theta : bending angle of each segment, shape (m,), rad
    lengths : shape (m,), m
    s : arc lengths from the base, shape (k,), m, within the backbone

    Returns
    -------
    shape (k, 4, 4); at a junction, its pose belongs to both segments
    """
    phi, theta, lengths = (np.atleast_1d(np.asarray(value, dtype=float)) for value in (phi, theta, lengths))
    s = np.atleast_1d(np.asarray(s, dtype=float))
    if not phi.shape == theta.shape == lengths.shape:
        raise ParameterError("phi, theta, lengths", (phi.shape, theta.shape, lengths.shape), "one value a segment each")
    ends = np.cumsum(lengths)
    slack = _ARC_LENGTH_TOLERANCE * ends[-1]
    outside = ~((s >= -slack) & (s <= ends[-1] + slack))
    if np.any(outside):
        raise ParameterError("s", float(s[outside][0]), f"an arc length in [0, {ends[-1]:g}] m")
    starts = ends - lengths
    bases = [np.eye(4)]
    for tip in arc_pose(phi, theta, lengths, lengths)[:-1]:
        bases.append(bases[-1] @ tip)
    segment = np.minimum(np.searchsorted(ends, s), len(lengths) - 1)
    own = arc_pose(phi[segment], theta[segment], lengths[segment], s - starts[segment])
    return np.stack(bases)[segment] @ own
