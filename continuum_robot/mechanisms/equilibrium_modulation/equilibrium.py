# SPDX-License-Identifier: Apache-2.0
"""Balance of moments at the end of the modulation backbone, and its derivatives: wang (1) to (20), appendix A.

With the curvature of each part as the unknown, a = (theta_s - theta_0) / q_s of the inserted and
b = (theta' - theta_s) / (L - q_s) of the empty one, what wang writes with stiffnesses that become infinite at both ends
of the stroke is smooth on all of it. With F(x) = E_p I_p x + sum of E_i I_i x / (1 + Delta_i x), the moment that bends
all backbones to the curvature x of the central one,

    F(a) + E_s I_s a = m_1 - lambda        (17), which with (7), (13) and (14) no longer holds theta'
    F(b) = m_1 = F((theta - theta_0) / L)  (7), with (11) and (12)

F increases, so each has one solution. Everything runs on arrays, complex ones too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ConvergenceError, ParameterError
from continuum_robot.mechanisms.equilibrium_modulation.moment_error import MomentError
from continuum_robot.mechanisms.equilibrium_modulation.segment import STRAIGHT_RAD, ModulatedSegment

Array = NDArray[Any]

VARIABLES = ("theta", "delta", "insertion", "k_lambda0", "k_lambdaq", "k_lambda_theta")
_MOST_STEPS = 200  # a bracket halved that often has no width left
_COMPLEX_STEPS = 3  # the error of a complex step is squared in each
_TOLERANCE = 1e-14  # of the moments in the balance


@dataclass(frozen=True)
class ModulatedState:
    """Equilibrium of a segment with its modulation backbone at a depth.

    Attributes
    ----------
    theta_rad, delta_rad, insertion_m : the configuration psi and q_s that it belongs to, (...)
    inserted_curvature : a, <= 0 where the segment bends as for theta < pi / 2, (...), 1/m
    empty_curvature : b, (...), 1/m
    theta_s_rad : angle at the end of the modulation backbone, (...), rad; wang (15), (19)
    theta_end_rad : theta' of the end disk, (...), rad; wang (16)
    theta_epsilon_rad : angle of the empty part, (...), rad; wang (20)
    moment_nm : m_1, (...), N.m; wang (1), (11)
    moment_error_nm : lambda, (...), N.m
    by_variable : derivatives of phi = (theta_s, theta_epsilon), (..., 2, 6), by :data:`VARIABLES`; wang (35) to (40)
    """

    theta_rad: Array
    delta_rad: Array
    insertion_m: Array
    inserted_curvature: Array
    empty_curvature: Array
    theta_s_rad: Array
    theta_end_rad: Array
    theta_epsilon_rad: Array
    moment_nm: Array
    moment_error_nm: Array
    by_variable: Array


def modulated_equilibrium(
    segment: ModulatedSegment,
    theta_rad: ArrayLike,
    delta_rad: ArrayLike,
    insertion_m: ArrayLike,
    moment_error: MomentError,
) -> ModulatedState:
    """The mapping F_eqm of wang (22), with its derivatives.

    Parameters
    ----------
    segment : what bends
    theta_rad : nominal bending angle theta, pi / 2 for straight, (...), rad
    delta_rad : angle delta from the bending plane to the first backbone, (...), rad
    insertion_m : depth q_s in [0, L], (...), m
    moment_error : lambda

    Returns
    -------
    angles, curvatures and derivatives; the arguments' shapes broadcast

    Raises
    ------
    ParameterError : an insertion outside [0, L], a bend that the backbones cannot have, and with
        ``empty_lengths="locked"`` an insertion so deep that a backbone has no length left in the empty part
    """
    theta, delta, insertion = np.broadcast_arrays(*(np.asarray(value) for value in (theta_rad, delta_rad, insertion_m)))
    segment.check(theta, delta, insertion)
    offsets = segment.offsets_m(delta)
    offsets_by_delta = -segment.pitch_radius_m * np.sin(segment.backbone_angles_rad(delta))
    nominal = (theta - STRAIGHT_RAD) / segment.length_m
    moment = _moment(segment, nominal, offsets)  # wang (1), (11)
    error = moment_error.value(theta, insertion)
    if not np.isfinite(error).all():
        raise ParameterError("moment_error", moment_error, "a finite moment lambda")
    inserted = _solve(segment, moment - error, offsets, nominal)

    zero = 0 * (nominal + insertion)
    one = 1 + zero
    # By theta, delta, q_s, k_lambda0, k_lambdaq, k_lambda_theta.
    moment_by = np.stack(
        [
            _moment_slope(segment, nominal, offsets) / segment.length_m + zero,
            np.sum(_moment_by_offset(segment, nominal, offsets) * offsets_by_delta, axis=-1) + zero,
            *[zero] * 4,
        ],
        axis=-1,
    )
    error_by = np.stack(
        [
            moment_error.by_theta(theta, insertion) + zero,
            zero,
            moment_error.by_insertion(theta, insertion) + zero,
            one,
            insertion + zero,
            theta + zero,
        ],
        axis=-1,
    )
    turned = np.sum(_moment_by_offset(segment, inserted, offsets) * offsets_by_delta, axis=-1)
    other = np.stack([zero, turned, *[zero] * 4], axis=-1)
    slope = _moment_slope(segment, inserted, offsets) + segment.modulation_stiffness_nm2
    inserted_by = (moment_by - error_by - other) / slope[..., None]

    if segment.empty_lengths == "locked":
        empty, empty_by = _locked_empty(
            segment, (theta, insertion, inserted), (offsets, offsets_by_delta), moment, (moment_by, inserted_by)
        )
    else:
        # (7) with (6) of the bent shape gives F(b) = F(nominal): the empty part keeps the nominal curvature.
        empty = nominal + zero
        empty_by = np.stack([one / segment.length_m, *[zero] * 5], axis=-1)

    left = segment.length_m - insertion
    unit = np.stack([zero, zero, one, zero, zero, zero], axis=-1)
    inserted_angle, empty_angle = insertion * inserted, left * empty
    by_variable = np.stack(
        [
            insertion[..., None] * inserted_by + inserted[..., None] * unit,
            left[..., None] * empty_by - empty[..., None] * unit,
        ],
        axis=-2,
    )
    return ModulatedState(
        theta,
        delta,
        insertion,
        inserted,
        empty,
        STRAIGHT_RAD + inserted_angle,
        STRAIGHT_RAD + inserted_angle + empty_angle,
        STRAIGHT_RAD + empty_angle,  # wang (20)
        moment + zero,
        error + zero,
        by_variable,
    )


def _moment(segment: ModulatedSegment, curvature: Array, offsets: Array) -> Array:
    """F: what bends all backbones so that the central one has a curvature, N.m."""
    secondary = np.asarray(segment.secondary_stiffness_nm2)
    fractions = np.sum(secondary / (1 + offsets * curvature[..., None]), axis=-1)  # L / L_i of wang (4) to (6)
    return np.asarray(curvature * (segment.central_stiffness_nm2 + fractions))


def _moment_slope(segment: ModulatedSegment, curvature: Array, offsets: Array) -> Array:
    secondary = np.asarray(segment.secondary_stiffness_nm2)
    return np.asarray(
        segment.central_stiffness_nm2 + np.sum(secondary / (1 + offsets * curvature[..., None]) ** 2, axis=-1)
    )


def _moment_by_offset(segment: ModulatedSegment, curvature: Array, offsets: Array) -> Array:
    secondary = np.asarray(segment.secondary_stiffness_nm2)
    return np.asarray(-secondary * (curvature[..., None] / (1 + offsets * curvature[..., None])) ** 2)


def _solve(segment: ModulatedSegment, moment: Array, offsets: Array, start: Array) -> Array:
    """The curvature a with F(a) + E_s I_s a = moment: Newton in a bracket, then complex steps where asked for."""
    stiffness = segment.modulation_stiffness_nm2
    desired, real_offsets = np.real(moment), np.real(offsets)
    # F runs from -inf to +inf between the curvatures at which an outer or an inner backbone would have no length.
    low, high = -1 / np.max(real_offsets, axis=-1), -1 / np.min(real_offsets, axis=-1)
    curvature = np.array(np.real(start) + 0 * desired)
    low, high = low + 0 * desired, high + 0 * desired
    scale = np.abs(desired) + (segment.bending_stiffness_nm2 + stiffness) * np.abs(curvature)
    done = False
    for _ in range(_MOST_STEPS):
        excess = _moment(segment, curvature, real_offsets) + stiffness * curvature - desired
        done = bool(np.all((np.abs(excess) <= _TOLERANCE * scale) | (high - low <= np.spacing(np.abs(low)))))
        step = excess / (_moment_slope(segment, curvature, real_offsets) + stiffness)
        low, high = np.where(excess < 0, curvature, low), np.where(excess > 0, curvature, high)
        following = curvature - step
        inside = (following >= low) & (following <= high)
        curvature = np.where(inside, following, (low + high) / 2)
        if done:
            break
    if not done:
        raise ConvergenceError(
            "balance of moments at the modulation backbone's end",
            float(np.max(np.abs(excess))),
            float(np.max(_TOLERANCE * scale)),
            _MOST_STEPS,
        )
    if np.iscomplexobj(moment) or np.iscomplexobj(offsets):
        for _ in range(_COMPLEX_STEPS):
            excess = _moment(segment, curvature, offsets) + stiffness * curvature - moment
            curvature = curvature - excess / (_moment_slope(segment, curvature, offsets) + stiffness)
    return np.asarray(curvature)


def _locked_empty(
    segment: ModulatedSegment,
    values: tuple[Array, Array, Array],
    placed: tuple[Array, Array],
    moment: Array,
    slopes: tuple[Array, Array],
) -> tuple[Array, Array]:
    """Curvature b of the empty part and its derivatives with L_epsilon,i = L_i - L_s,i of the nominal theta."""
    theta, insertion, inserted = values
    offsets, offsets_by_delta = placed
    moment_by, inserted_by = slopes
    left = segment.length_m - insertion
    turned = theta - STRAIGHT_RAD - insertion * inserted  # theta - theta_s
    lengths = left[..., None] + offsets * turned[..., None]  # wang (6), second form
    if np.any(np.real(lengths) <= 0):
        short = np.real(np.min(lengths.reshape(-1, segment.count), axis=-1)) <= 0
        raise ParameterError(
            "insertion_m",
            float(np.real(np.ravel(insertion)[short][0])),
            'a depth that leaves each backbone some length in the empty part, or empty_lengths "bent"',
        )
    secondary = np.asarray(segment.secondary_stiffness_nm2)
    fractions = left[..., None] / lengths
    stiffness = segment.central_stiffness_nm2 + np.sum(secondary * fractions, axis=-1)  # wang (12), times L - q_s
    curvature = moment / stiffness
    left_by = np.zeros_like(moment_by)
    left_by[..., 2] = -1.0
    turned_by = -insertion[..., None] * inserted_by
    turned_by[..., 0] += 1.0
    turned_by[..., 2] -= inserted
    offsets_by = np.zeros((*offsets.shape, moment_by.shape[-1]), dtype=moment_by.dtype)
    offsets_by[..., 1] = offsets_by_delta
    lengths_by = (
        left_by[..., None, :] + offsets_by * turned[..., None, None] + offsets[..., None] * turned_by[..., None, :]
    )
    fractions_by = (left_by[..., None, :] - fractions[..., None] * lengths_by) / lengths[..., None]
    stiffness_by = np.sum(secondary[:, None] * fractions_by, axis=-2)
    return curvature, (moment_by - curvature[..., None] * stiffness_by) / stiffness[..., None]
