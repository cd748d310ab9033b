# SPDX-License-Identifier: Apache-2.0
"""Poses and all Jacobians of a modulated segment: wang (24) to (28), (30) to (34), (53) to (71), appendix B.

Poses are in the base frame, twists (linear, angular) too. wang's angle delta runs from the bending plane to +x, so the
tip moves towards phi = -delta, by the bend pi / 2 - theta. Written with x = theta - pi / 2 and sinc, nothing is divided
by x: the straight segment is no special case.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.mechanisms.equilibrium_modulation.equilibrium import ModulatedState, modulated_equilibrium
from continuum_robot.mechanisms.equilibrium_modulation.moment_error import MomentError
from continuum_robot.mechanisms.equilibrium_modulation.segment import STRAIGHT_RAD, ModulatedSegment

Array = NDArray[Any]

_SERIES_BELOW_RAD = 0.5
_SINC_SERIES_BELOW_RAD = 1e-3


@dataclass(frozen=True)
class ModulatedJacobians:
    """Derivatives of the end disk's pose, twists (linear, angular) in the base frame; names and shapes as in wang.

    Attributes
    ----------
    state : the equilibrium
    pose : of the end disk, (..., 4, 4); wang (28)
    phi_theta, phi_delta, phi_insertion : derivatives of (theta_s, theta_epsilon), (..., 2); rad/rad, rad/rad, rad/m;
        wang (37) to (39)
    phi_k : by k_lambda0, k_lambdaq, k_lambda_theta, (..., 2, 3); wang (40)
    xi_phi : Jacobian J_xi_phi, (..., 6, 2); wang (67)
    xi_delta : Jacobian J_xi_delta at fixed phi, (..., 6); wang (71)
    xi_insertion : Jacobian J_xi_qs at fixed phi, (..., 6); wang (34)
    macro_psi : Jacobian J_M_psi by theta and delta, (..., 6, 2); wang (55)
    micro : Jacobian J_mu by the insertion, (..., 6); wang (61)
    identification : J_k by k_lambda0 (N.m), k_lambdaq (N), k_lambda_theta (N.m/rad), (..., 6, 3); wang (62)
    """

    state: ModulatedState
    pose: Array
    phi_theta: Array
    phi_delta: Array
    phi_insertion: Array
    phi_k: Array
    xi_phi: Array
    xi_delta: Array
    xi_insertion: Array
    macro_psi: Array
    micro: Array
    identification: Array


def arc_pose(theta_rad: ArrayLike, delta_rad: ArrayLike, length_m: ArrayLike) -> Array:
    """Pose of the end of a part with constant curvature, (..., 4, 4); wang (24), (25).

    Parameters
    ----------
    theta_rad : its end's angle theta_x, pi / 2 for straight, (...), rad
    delta_rad : angle of the bending plane, (...), rad
    length_m : L_x, 0 or more, (...), m
    """
    return _arc(np.asarray(theta_rad) - STRAIGHT_RAD, np.asarray(delta_rad), np.asarray(length_m))


def end_pose(state: ModulatedState, segment: ModulatedSegment) -> Array:
    """Pose of the end disk, (..., 4, 4); wang (26) to (29).

    Parameters
    ----------
    state : from :func:`~continuum_robot.mechanisms.equilibrium_modulation.equilibrium.modulated_equilibrium`
    segment : the same segment
    """
    return np.asarray(np.matmul(*(_arc(turn, state.delta_rad, length) for turn, length in _parts(state, segment))))


def backbone_poses(state: ModulatedState, segment: ModulatedSegment, s_m: ArrayLike) -> Array:
    """Poses along the central backbone of one equilibrium, (k, 4, 4).

    Parameters
    ----------
    state : of a single configuration
    segment : the same segment
    s_m : arc lengths from the base in [0, L], (k,), m

    Raises
    ------
    ParameterError : an arc length outside the segment
    """
    s = np.atleast_1d(np.asarray(s_m, dtype=float))
    if not ((s >= 0) & (s <= segment.length_m)).all():
        raise ParameterError("s_m", s.tolist(), f"arc lengths in [0, {segment.length_m:g}] m")
    below = np.minimum(s, state.insertion_m)
    above = s - below
    inserted = arc_pose(STRAIGHT_RAD + below * state.inserted_curvature, state.delta_rad, below)
    return np.asarray(inserted @ arc_pose(STRAIGHT_RAD + above * state.empty_curvature, state.delta_rad, above))


def jacobians(
    segment: ModulatedSegment,
    theta_rad: ArrayLike,
    delta_rad: ArrayLike,
    insertion_m: ArrayLike,
    moment_error: MomentError,
) -> ModulatedJacobians:
    """Pose and all Jacobians of wang's section 3, except J_M: see :func:`macro_jacobian`.

    Parameters
    ----------
    segment : what bends
    theta_rad : nominal bending angle theta, pi / 2 for straight, (...), rad
    delta_rad : angle delta from the bending plane to the first backbone, (...), rad
    insertion_m : depth q_s in [0, L], (...), m
    moment_error : lambda

    Raises
    ------
    ParameterError : as :func:`~continuum_robot.mechanisms.equilibrium_modulation.equilibrium.modulated_equilibrium`
    """
    state = modulated_equilibrium(segment, theta_rad, delta_rad, insertion_m, moment_error)
    delta = state.delta_rad
    first, second = _parts(state, segment)
    inserted, empty = (_arc(turn, delta, length) for turn, length in (first, second))
    rotation = inserted[..., :3, :3]  # bR_c
    lever = np.einsum("...ij,...j->...i", rotation, empty[..., :3, 3])

    def at_end(twist: Array) -> Array:
        """A twist of frame C moves the end disk with it."""
        return np.concatenate([twist[..., :3] - np.cross(lever, twist[..., 3:]), twist[..., 3:]], axis=-1)

    def in_base(twist: Array) -> Array:
        turned = np.einsum("...ij,...kj->...ki", rotation, twist.reshape(*twist.shape[:-1], 2, 3))
        return np.asarray(turned.reshape(twist.shape))

    theta_1, delta_1 = _part_twists(first[0], delta, first[1])
    theta_2, delta_2 = _part_twists(second[0], delta, second[1])
    xi_phi = np.stack([at_end(theta_1), in_base(theta_2)], axis=-1)  # wang (67)
    xi_delta = at_end(delta_1) + in_base(delta_2)  # wang (70), (71)
    tangents = _chord(first[0], delta) - np.einsum("...ij,...j->...i", rotation, _chord(second[0], delta))
    xi_insertion = np.concatenate([tangents, 0 * tangents], axis=-1)  # wang (34)

    by = state.by_variable
    through = xi_phi @ by
    macro_psi = through[..., :2].copy()
    macro_psi[..., 1] += xi_delta  # wang (55)
    return ModulatedJacobians(
        state,
        inserted @ empty,  # wang (26), (27)
        by[..., 0],
        by[..., 1],
        by[..., 2],
        by[..., 3:],
        xi_phi,
        xi_delta,
        xi_insertion,
        macro_psi,
        through[..., 2] + xi_insertion,  # wang (61)
        through[..., 3:],  # wang (62)
    )


def backbone_jacobian(segment: ModulatedSegment, theta_rad: ArrayLike, delta_rad: ArrayLike) -> Array:
    """J_q_psi: lengths q_i = L_i - L of the secondary backbones by theta and delta, (..., n, 2); wang (57).

    Parameters
    ----------
    segment : what bends
    theta_rad, delta_rad : configuration, (...), rad
    """
    sigma = segment.backbone_angles_rad(delta_rad)
    bend = STRAIGHT_RAD - np.asarray(theta_rad)[..., None]
    return segment.pitch_radius_m * np.stack([np.cos(sigma), bend * np.sin(sigma)], axis=-1)  # wang (57)


def macro_jacobian(segment: ModulatedSegment, found: ModulatedJacobians) -> Array:
    """J_M by the lengths q_i = L_i - L of the secondary backbones, (..., 6, n), twist in the base frame; wang (60).

    wang prints 6 x 2 where it has a column for each backbone. In the straight configuration both J_M_psi and J_q_psi
    lose the column of delta; their quotient has a limit where lambda is 0 there, and that is returned.

    Parameters
    ----------
    segment : what bends
    found : from :func:`jacobians`

    Raises
    ------
    ParameterError : a straight configuration with a moment error: it would bend the segment in the plane of delta,
        which the backbones' lengths do not define
    """
    bend = STRAIGHT_RAD - found.state.theta_rad
    straight = bend == 0
    if np.any(straight & (found.state.inserted_curvature * found.state.insertion_m != 0)):
        raise ParameterError(
            "theta_rad",
            STRAIGHT_RAD,
            "a bend, where lambda is not 0: it bends in the plane of delta, which a straight segment does not have",
        )
    column = found.macro_psi[..., 0]
    # In the limit the column of delta over the bend is that of theta, turned by a right angle about z.
    turned = np.stack(
        [-column[..., 1], column[..., 0], column[..., 2], -column[..., 4], column[..., 3], column[..., 5]], axis=-1
    )
    over = found.macro_psi[..., 1] / np.where(straight, 1.0, bend)[..., None]
    quotient = np.where(straight[..., None], turned, over)
    sigma = segment.backbone_angles_rad(found.state.delta_rad)
    # The pseudo-inverse of (57) in closed form: its columns are orthogonal for evenly spread backbones.
    columns = np.stack([np.cos(sigma), np.sin(sigma)], axis=-2) * 2 / (segment.count * segment.pitch_radius_m)
    return np.asarray(np.stack([column, quotient], axis=-1) @ columns)


def _parts(state: ModulatedState, segment: ModulatedSegment) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """By how much each part is turned, theta_x - pi / 2, and its length; no digits lost near the straight one."""
    left = segment.length_m - state.insertion_m
    return (state.insertion_m * state.inserted_curvature, state.insertion_m), (left * state.empty_curvature, left)


def _arc(x: Array, delta: Array, length: Array) -> Array:
    c, s = np.cos(delta), np.sin(delta)
    cosine, sine = np.cos(x), np.sin(x)
    versine = 2 * np.sin(x / 2) ** 2
    kind = np.result_type(x, delta, length, float)
    pose = np.zeros((*np.broadcast_shapes(x.shape, delta.shape, length.shape), 4, 4), dtype=kind)
    pose[..., 0, 0], pose[..., 1, 1] = 1 - c * c * versine, 1 - s * s * versine  # wang (25)
    pose[..., 0, 1] = pose[..., 1, 0] = c * s * versine
    pose[..., 0, 2], pose[..., 1, 2] = -c * sine, s * sine
    pose[..., 2, 0], pose[..., 2, 1], pose[..., 2, 2] = c * sine, -s * sine, cosine
    sideways = length * _versine_over(x)
    pose[..., 0, 3], pose[..., 1, 3], pose[..., 2, 3] = -c * sideways, s * sideways, length * _sinc(x)  # wang (24)
    pose[..., 3, 3] = 1.0
    return pose


def _part_twists(x: Array, delta: Array, length: Array) -> tuple[Array, Array]:
    """Twists of a part's end by its theta and its delta, each (..., 6), in the frame of its start; wang (64), B."""
    c, s = np.cos(delta), np.sin(delta)
    zero = 0 * (x + delta + length)
    chi_a = _sinc(x / 2) ** 2 / 2 - _sinc(x)  # wang (B.3)
    # wang (B.4) prints the cosine twice; the first must be the sine: ((theta - theta_0) sin + cos) / (...)^2.
    chi_b = _chi_b(x)
    chi_c = _versine_over(x)  # wang (B.4)
    by_theta = np.stack([length * c * chi_a, -length * s * chi_a, length * chi_b, -s + zero, -c + zero, zero], axis=-1)
    # wang (B.2) prints cos delta sin theta for the first entry of the rotation; it is cos delta cos theta.
    by_delta = np.stack(
        [
            length * s * chi_c,
            length * c * chi_c,
            zero,
            -c * np.sin(x) + zero,
            s * np.sin(x) + zero,
            -2 * np.sin(x / 2) ** 2 + zero,
        ],
        axis=-1,
    )
    return by_theta, by_delta


def _chord(x: Array, delta: Array) -> Array:
    """Derivative of (24) by the part's length at fixed angle: its chord over its length, (..., 3)."""
    sideways = _versine_over(x)
    return np.stack([-np.cos(delta) * sideways, np.sin(delta) * sideways, _sinc(x) + 0 * delta], axis=-1)


def _sinc(x: Array) -> Array:
    """sin(x) / x; also of complex steps, whose quotient overflows near 0."""
    square = x * x
    small = np.abs(x) < _SINC_SERIES_BELOW_RAD
    far = np.where(small, 1.0, x)
    return np.asarray(np.where(small, 1 - square / 6 * (1 - square / 20), np.sin(far) / far))


def _versine_over(x: Array) -> Array:
    """(1 - cos x) / x."""
    return x / 2 * _sinc(x / 2) ** 2


def _chi_b(x: Array) -> Array:
    """(x cos x - sin x) / x^2."""
    small = np.abs(x) < _SERIES_BELOW_RAD
    square = x * x
    series = x * (-1 / 3 + square * (1 / 30 + square * (-1 / 840 + square * (1 / 45360 - square / 3991680))))
    far = np.where(small, 1.0, x)
    return np.where(small, series, (far * np.cos(far) - np.sin(far)) / far**2)
