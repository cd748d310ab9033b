# SPDX-License-Identifier: Apache-2.0
"""Balance of moments at the end of the modulation backbone: wang (1) to (20).

With the curvature of each part as the unknown, a = (theta_s - theta_0) / q_s of the inserted and
b = (theta' - theta_s) / (L - q_s) of the empty one, what wang writes with stiffnesses that become infinite at both ends
of the stroke is smooth on all of it. With F(x) = E_p I_p x + sum of E_i I_i x / (1 + Delta_i x), the moment that bends
all backbones to the curvature x of the central one,

    F(a) + E_s I_s a = m_1 - lambda        (17), which with (7), (13) and (14) no longer holds theta'
    F(b) = m_1 = F((theta - theta_0) / L)  (7), with (11) and (12)

F increases, so each has one solution, and by (7) the empty part keeps the nominal curvature: b = (theta - theta_0) / L.
Of the two lengths that (6) gives the empty part this takes that of the bent shape; appendix A differentiates the other.
Everything runs on arrays, complex ones too: derivatives come from complex steps.
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

_MOST_STEPS = 200  # a bracket halved that often has no width left
_TOLERANCE = 1e-14  # of the moments in the balance


@dataclass(frozen=True)
class ModulatedState:
    """Equilibrium of a segment with its modulation backbone at a depth.

    Attributes
    ----------
    theta_s_rad : angle at the end of the modulation backbone, (...), rad; wang (15), (19)
    theta_end_rad : theta' of the end disk, (...), rad; wang (16)
    theta_epsilon_rad : angle of the empty part, (...), rad; wang (20)
    moment_nm : m_1, (...), N.m; wang (1), (11)
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


def modulated_equilibrium(
    segment: ModulatedSegment,
    theta_rad: ArrayLike,
    delta_rad: ArrayLike,
    insertion_m: ArrayLike,
    moment_error: MomentError,
) -> ModulatedState:
    """The mapping F_eqm of wang (22).

    Returns
    -------
    angles and curvatures; the arguments' shapes broadcast
    """
    theta, delta, insertion = np.broadcast_arrays(*(np.asarray(value) for value in (theta_rad, delta_rad, insertion_m)))
    segment.check(theta, delta, insertion)
    return balanced(segment, theta, delta, insertion, moment_error.value(theta, insertion))


def balanced(
    segment: ModulatedSegment,
    theta: Array,
    delta: Array,
    insertion: Array,
    error_nm: Array,
    near: ModulatedState | None = None,
) -> ModulatedState:
    """:func:`modulated_equilibrium` with a given lambda, without checks of the configuration."""
    if not np.isfinite(error_nm).all():
        raise ParameterError("moment_error", error_nm, "a finite moment lambda")
    offsets = segment.offsets_m(delta)
    nominal = (theta - STRAIGHT_RAD) / segment.length_m
    zero = 0 * (nominal + insertion)
    moment = _moment(segment, nominal, offsets) + zero  # wang (1), (11)
    start = nominal if near is None else near.inserted_curvature
    inserted = _solve(segment, moment - error_nm, offsets, start)
    inserted_angle, empty_angle = insertion * inserted, (segment.length_m - insertion) * nominal
    return ModulatedState(
        theta,
        delta,
        insertion,
        inserted,
        nominal + zero,
        STRAIGHT_RAD + inserted_angle,
        STRAIGHT_RAD + inserted_angle + empty_angle,
        STRAIGHT_RAD + empty_angle,  # wang (20)
        moment,
        error_nm + zero,
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


def _solve(segment: ModulatedSegment, moment: Array, offsets: Array, start: Array) -> Array:
    """The curvature a with F(a) + E_s I_s a = moment: Newton in a bracket, then a complex step where asked for."""
    stiffness = segment.modulation_stiffness_nm2
    desired, real_offsets = np.real(moment), np.real(offsets)
    # F runs from -inf to +inf between the curvatures at which an outer or an inner backbone would have no length.
    low, high = -1 / np.max(real_offsets, axis=-1) + 0 * desired, -1 / np.min(real_offsets, axis=-1) + 0 * desired
    curvature = np.real(start) + 0 * desired
    scale = np.abs(desired) + (segment.bending_stiffness_nm2 + stiffness) * np.abs(curvature)
    for _ in range(_MOST_STEPS):
        excess = _moment(segment, curvature, real_offsets) + stiffness * curvature - desired
        done = np.all((np.abs(excess) <= _TOLERANCE * scale) | (high - low <= np.spacing(np.abs(low))))
        step = excess / (_moment_slope(segment, curvature, real_offsets) + stiffness)
        low, high = np.where(excess < 0, curvature, low), np.where(excess > 0, curvature, high)
        following = curvature - step
        inside = (following >= low) & (following <= high)
        curvature = np.where(inside, following, (low + high) / 2)
        if done:
            break
    else:
        raise ConvergenceError(
            "balance of moments at the modulation backbone's end",
            float(np.max(np.abs(excess))),
            float(np.max(_TOLERANCE * scale)),
            _MOST_STEPS,
        )
    if np.iscomplexobj(moment):
        excess = _moment(segment, curvature, offsets) + stiffness * curvature - moment
        curvature = curvature - excess / (_moment_slope(segment, curvature, offsets) + stiffness)
    return np.asarray(curvature)
