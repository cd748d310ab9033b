# SPDX-License-Identifier: Apache-2.0
"""Kinematics of a rod in CasADi: frames along a segment by Magnus steps, without a special case when straight.

The exponential of a twist is written with the Stumpff functions
c_1(x) = sin(r)/r, c_2(x) = (1 - cos r)/r^2, c_3(x) = (r - sin r)/r^3 of x = r^2, the squared angle of the step. They
are entire functions of x, and x is a polynomial of the strain, so the frames and all their derivatives are exact at
and around the straight configuration.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import casadi as ca

from continuum_robot.robot.description import Basis
from continuum_robot.rod.bases import strain

# The Taylor polynomials reach angles of this many radians in a step to double precision (absolute error < 2e-15).
CONSTANT_REACH_RAD = 2 * math.pi  # bending of a whole segment with constant curvature
MAGNUS_REACH_RAD = 1.6  # bending of one of several steps
_TAYLOR_REACH_RAD = 1.6
_TAYLOR_TERMS = 10
_GAUSS = math.sqrt(3) / 6


def stumpff(x: Any, reach_rad: float) -> tuple[Any, Any, Any]:
    """Stumpff functions c_1, c_2, c_3 of a squared angle, as polynomials.

    Parameters
    ----------
    x : squared angle, rad^2; a number, array or CasADi scalar
    reach_rad : largest angle for which the result must hold to double precision; beyond it the error grows smoothly

    Returns
    -------
    c_1, c_2, c_3
    """
    doublings = max(0, math.ceil(math.log2(reach_rad / _TAYLOR_REACH_RAD)))
    y = x / 4**doublings
    second, third = _taylor(y, 2), _taylor(y, 3)
    for _ in range(doublings):  # angle doubling: sin 2r, 1 - cos 2r, 2r - sin 2r
        cosine, first = 1 - y * second, 1 - y * third
        second, third = first * first / 2, (second + cosine * third) / 4
        y = 4 * y
    return 1 - x * third, second, third


def _taylor(y: Any, index: int) -> Any:
    """c_index(y) = sum over k of (-y)^k / (2 k + index)!, by Horner."""
    value = 1 / math.factorial(2 * (_TAYLOR_TERMS - 1) + index)
    for k in range(_TAYLOR_TERMS - 2, -1, -1):
        value = 1 / math.factorial(2 * k + index) - y * value
    return value


def hat(vector: Any) -> Any:
    """Cross-product matrix of a 3-vector expression, shape (3, 3)."""
    return ca.vertcat(
        ca.horzcat(0, -vector[2], vector[1]),
        ca.horzcat(vector[2], 0, -vector[0]),
        ca.horzcat(-vector[1], vector[0], 0),
    )


def exponential(twist: Any, reach_rad: float) -> tuple[Any, Any]:
    """Exponential of a twist.

    Parameters
    ----------
    twist : (6,) expression, angular part (rad) first, then linear (m)
    reach_rad : largest angle of the twist, see :func:`stumpff`

    Returns
    -------
    rotation (3, 3) and translation (3,)
    """
    omega, v = twist[:3], twist[3:]
    c_1, c_2, c_3 = stumpff(ca.dot(omega, omega), reach_rad)
    cross = ca.cross(omega, v)
    # hat(omega)^2 = omega omega^T - (omega . omega) I needs fewer operations than the product of two hats.
    square = ca.dot(omega, omega)
    rotation = (1 - c_2 * square) * ca.SX.eye(3) + c_1 * hat(omega) + c_2 * (omega @ omega.T)
    translation = (1 - c_3 * square) * v + c_2 * cross + c_3 * ca.dot(omega, v) * omega
    return ca.densify(rotation), translation


def magnus_twist(basis: Basis, coefficients: Any, length_m: float, start_m: Any, step_m: Any) -> Any:
    """Twist of one fourth-order Magnus step along a segment; exact where the strain is constant.

    Parameters
    ----------
    basis : the segment's basis
    coefficients : (k,) expression, 1/m
    length_m : length of the segment, m
    start_m : arc length from the segment's start at which the step begins, m; a number or a CasADi scalar
    step_m : its length, m; a number or a CasADi scalar

    Returns
    -------
    (6,) expression, angular part (rad) first, then linear (m)
    """
    entries = ca.vertsplit(coefficients)
    if basis.order == 0:
        return step_m * ca.vertcat(*strain(basis, entries, 0.0))
    first = ca.vertcat(*strain(basis, entries, (start_m + step_m * (0.5 - _GAUSS)) / length_m))
    second = ca.vertcat(*strain(basis, entries, (start_m + step_m * (0.5 + _GAUSS)) / length_m))
    bracket = ca.vertcat(
        ca.cross(first[:3], second[:3]), ca.cross(first[:3], second[3:]) - ca.cross(second[:3], first[3:])
    )
    return step_m / 2 * (first + second) + math.sqrt(3) / 12 * step_m**2 * bracket


def magnus_step_count(basis: Basis) -> int:
    """Least number of Magnus steps on a whole segment; 1 for constant strain."""
    return 1 if basis.order == 0 else 8 + 4 * basis.order


def step_reach_rad(basis: Basis) -> float:
    """Bending angle of one step up to which the kinematics hold to double precision, rad."""
    return CONSTANT_REACH_RAD if basis.order == 0 else MAGNUS_REACH_RAD


def segment_frames(
    basis: Basis, coefficients: Any, length_m: float, stations_m: Sequence[float]
) -> list[tuple[Any, Any]]:
    """Frames of a segment at given arc lengths, in the frame of its start.

    Parameters
    ----------
    basis : the segment's basis
    coefficients : (k,) expression, 1/m
    length_m : length of the segment, m
    stations_m : increasing arc lengths from the segment's start, m

    Returns
    -------
    rotation (3, 3) and position (3,) at each station
    """
    reach = step_reach_rad(basis)
    if basis.order == 0:
        return [exponential(magnus_twist(basis, coefficients, length_m, 0.0, s), reach) for s in stations_m]
    longest = length_m / magnus_step_count(basis)
    rotation, position, done = ca.SX.eye(3), ca.SX.zeros(3), 0.0
    frames = []
    for station in stations_m:
        steps = max(0, math.ceil((station - done) / longest - 1e-9))
        step = (station - done) / max(1, steps)
        for _ in range(steps):
            step_rotation, step_position = exponential(magnus_twist(basis, coefficients, length_m, done, step), reach)
            position = position + rotation @ step_position
            rotation = rotation @ step_rotation
            done += step
        frames.append((ca.densify(rotation), position))
    return frames


def frame_at(basis: Basis, coefficients: Any, length_m: float, s_m: Any) -> tuple[Any, Any]:
    """Frame of a segment at a symbolic arc length ``s_m`` in [0, length_m], in the frame of its start.

    Returns
    -------
    rotation (3, 3) and position (3,)
    """
    count = magnus_step_count(basis)
    rotation, position = ca.SX.eye(3), ca.SX.zeros(3)
    for k in range(count):
        step_rotation, step_position = exponential(
            magnus_twist(basis, coefficients, length_m, k * s_m / count, s_m / count), step_reach_rad(basis)
        )
        position = position + rotation @ step_position
        rotation = rotation @ step_rotation
    return ca.densify(rotation), position
