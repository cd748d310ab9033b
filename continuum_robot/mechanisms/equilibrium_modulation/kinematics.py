# SPDX-License-Identifier: Apache-2.0
"""Poses and Jacobians of a modulated segment: wang (24) to (28), (53) to (62).

Derivatives are complex steps through the equilibrium and the poses. They give at once what wang (30) to (41) and
wang (63) to (71) compose, and the tests compare them with these matrices.
Poses are in the base frame, twists (linear, angular) too. wang's angle delta runs from the bending plane to +x, so the
tip moves towards phi = -delta, by the bend pi / 2 - theta. Written with x = theta - pi / 2 and sinc, nothing is divided
by x: the straight segment is no special case.

What the drives must hold is the backbones' elastic force: derived here by virtual work with the moment m_1 of wang (1).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.mechanisms.equilibrium_modulation.equilibrium import (
    ModulatedState,
    balanced,
    modulated_equilibrium,
)
from continuum_robot.mechanisms.equilibrium_modulation.moment_error import MomentError
from continuum_robot.mechanisms.equilibrium_modulation.segment import (
    STRAIGHT_RAD,
    ModulatedSegment,
    make_segment,
    modulation_of,
)
from continuum_robot.robot.description import Robot

Array = NDArray[Any]

_STEP = 1e-30  # of complex steps: nothing is subtracted
_SINC_SERIES_BELOW_RAD = 1e-3


@dataclass(frozen=True)
class ModulatedJacobians:
    """Derivatives of the end disk's pose, twists (linear, angular) in the base frame; names and shapes as in wang.

    Attributes
    ----------
    pose : of the end disk, (..., 4, 4); wang (28)
    macro_psi : Jacobian J_M_psi by theta and delta, (..., 6, 2); wang (55)
    micro : Jacobian J_mu by the insertion, (..., 6); wang (61)
    identification : J_k by k_lambda0 (N.m), k_lambdaq (N), k_lambda_theta (N.m/rad), (..., 6, 3); wang (62)
    """

    state: ModulatedState
    pose: Array
    macro_psi: Array
    micro: Array
    identification: Array


def arc_pose(theta_rad: ArrayLike, delta_rad: ArrayLike, length_m: ArrayLike) -> Array:
    """Pose of the end of a part with constant curvature, (..., 4, 4); wang (24), (25)."""
    return _arc(np.asarray(theta_rad) - STRAIGHT_RAD, np.asarray(delta_rad), np.asarray(length_m))


def end_pose(state: ModulatedState, segment: ModulatedSegment) -> Array:
    """Pose of the end disk, (..., 4, 4); wang (26) to (29)."""
    return np.asarray(np.matmul(*(_arc(turn, state.delta_rad, length) for turn, length in _parts(state, segment))))


def backbone_poses(state: ModulatedState, segment: ModulatedSegment, s_m: ArrayLike) -> Array:
    """Poses along the central backbone of one equilibrium, (k, 4, 4)."""
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
    """Pose and all Jacobians of wang's section 3, except J_M: see :func:`macro_jacobian`."""
    state = modulated_equilibrium(segment, theta_rad, delta_rad, insertion_m, moment_error)
    pose = end_pose(state, segment)
    # By theta, delta, q_s, lambda: a complex step in one of them in each row.
    steps = 1j * _STEP * np.eye(4).reshape(4, 4, *np.ones(state.theta_rad.ndim, dtype=int))
    theta, delta, insertion = state.theta_rad + steps[0], state.delta_rad + steps[1], state.insertion_m + steps[2]
    error = moment_error.value(theta, insertion) + steps[3]
    slope = np.imag(end_pose(balanced(segment, theta, delta, insertion, error, state), segment)) / _STEP
    spin = slope[..., :3, :3] @ np.swapaxes(pose[..., :3, :3], -1, -2)
    twists = [*np.moveaxis(slope[..., :3, 3], -1, 0), spin[..., 2, 1], spin[..., 0, 2], spin[..., 1, 0]]
    by = np.moveaxis(np.stack(twists), (0, 1), (-2, -1))
    error_by = np.stack([np.ones(pose.shape[:-2]), state.insertion_m, state.theta_rad], axis=-1)  # wang (18)
    return ModulatedJacobians(state, pose, by[..., :2], by[..., 2], by[..., 3:] * error_by[..., None, :])


def macro_jacobian(segment: ModulatedSegment, found: ModulatedJacobians) -> Array:
    """J_M by the lengths q_i = L_i - L of the secondary backbones, (..., 6, n), twist in the base frame; wang (60).

    wang prints 6 x 2 where it has a column for each backbone. In the straight configuration both J_M_psi and J_q_psi
    lose the column of delta; their quotient has a limit where lambda is 0 there, and that is returned.
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


def _sinc(x: Array) -> Array:
    """sin(x) / x; also of complex steps, whose quotient overflows near 0."""
    square = x * x
    small = np.abs(x) < _SINC_SERIES_BELOW_RAD
    far = np.where(small, 1.0, x)
    return np.asarray(np.where(small, 1 - square / 6 * (1 - square / 20), np.sin(far) / far))


def _versine_over(x: Array) -> Array:
    """(1 - cos x) / x."""
    return x / 2 * _sinc(x / 2) ** 2


class ModulationForce:
    """Elastic force on [q_Re, q_Im, insertion] by virtual work: m_1 / r against the bend.

    The paper's model states nothing of the force that insertion needs; it is small beside the bend's, and taken as 0.
    """

    def __init__(self, robot: Robot) -> None:
        self._segment = make_segment(modulation_of(robot))
        own = self._segment
        self.stiffness_n_per_m = own.bending_stiffness_nm2 / (own.length_m * own.pitch_radius_m**2)

    def __call__(self, coordinate_m: Array) -> tuple[Array, Array]:
        """Force that holds coordinates."""
        # A constant stiffness: the secondary backbones' lengths change it by (r theta / L)^2 / 2, 0.4 % at 80 degrees.
        force = np.zeros(3)
        force[:2] = self.stiffness_n_per_m * np.asarray(coordinate_m)[:2]
        return force, np.zeros(3)
