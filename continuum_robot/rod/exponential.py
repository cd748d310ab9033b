# SPDX-License-Identifier: Apache-2.0
"""Exponential of a twist and Magnus steps in CasADi, for all rods, without a special case when straight.

The exponential of a twist is written with the Stumpff functions
c_1(x) = sin(r)/r, c_2(x) = (1 - cos r)/r^2, c_3(x) = (r - sin r)/r^3 of x = r^2, the squared angle of the step. They
are entire functions of x, and x is a polynomial of the strain, so the frames and all their derivatives are exact at
and around the straight configuration. It is johnston (1) to (3) for any strain. Twists have the angular part first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import casadi as ca


def stumpff(x: Any, reach_rad: float) -> tuple[Any, Any, Any]:
    """Stumpff functions c_1, c_2, c_3 of a squared angle, as polynomials.

    Parameters
    ----------
    x : squared angle, rad^2; a number, array or CasADi scalar
    reach_rad : largest angle for which the result must hold to double precision; beyond it the error grows smoothly
    """
    return _stumpff_functions(x, reach_rad)[1:4]


def stumpff_around(x: Any, x_here: Any, reach_rad: float) -> tuple[Any, Any, Any]:
    """The same by their first two derivatives at ``x_here``, a symbol of its own while derivatives are taken.

    A Stumpff function f of x = x(c) is f(x0) + f'(x0) (x - x0) + f''(x0) (x - x0)^2 / 2, f' and f'' being Stumpff
    functions too. First and second derivatives of that at x0 = x are those of f(x(c)), but no derivative of a
    polynomial is expanded for each coefficient: a third of the operations. Put x(c) for x0 in every result.

    Parameters
    ----------
    x, x_here : squared angles, rad^2
    reach_rad : as of :func:`stumpff`
    """
    c = _stumpff_functions(x_here, reach_rad)
    step = x - x_here
    slopes = [_slope(c, k) for k in range(6)]
    return tuple(c[k] + step * (slopes[k] + step * _slope(slopes, k) / 2) for k in (1, 2, 3))


def tangent_coefficients(x: Any, x_here: Any, reach_rad: float) -> tuple[Any, Any, Any, Any]:
    """c_2 and c_3 with their derivatives by x, all by their own first derivative at ``x_here``, as for :func:`tangent`.

    Parameters
    ----------
    x, x_here, reach_rad : as of :func:`stumpff_around`
    """
    c = _stumpff_functions(x_here, reach_rad)
    step = x - x_here
    slopes = [_slope(c, k) for k in range(6)]
    return (
        c[2] + step * slopes[2],
        c[3] + step * slopes[3],
        slopes[2] + step * _slope(slopes, 2),
        slopes[3] + step * _slope(slopes, 3),
    )


def _slope(c: Sequence[Any], k: int) -> Any:
    """Derivative of c_k by x from the functions; the same relation holds between their derivatives one further."""
    return (k * c[k + 2] - c[k + 1]) / 2


def _stumpff_functions(x: Any, reach_rad: float) -> tuple[Any, ...]:
    """c_0 .. c_7: the last two by their Taylor polynomials, the others by c_k = 1/k! - x c_(k+2)."""
    values = [_taylor(x, 7, reach_rad), _taylor(x, 6, reach_rad)]
    for k in range(5, -1, -1):
        values.append(1 / math.factorial(k) - x * values[-2])
    return tuple(reversed(values))


def _taylor(x: Any, index: int, reach_rad: float) -> Any:
    """c_index(x) = sum over k of (-x)^k / (2 k + index)!, by Horner, to double precision up to the reach."""
    terms = 1
    while reach_rad ** (2 * terms) * math.factorial(index) > 1e-17 * math.factorial(2 * terms + index):
        terms += 1
    value = 1 / math.factorial(2 * (terms - 1) + index)
    for k in range(terms - 2, -1, -1):
        value = 1 / math.factorial(2 * k + index) - x * value
    return value


def hat(vector: Any) -> Any:
    """Cross-product matrix of a 3-vector expression, shape (3, 3)."""
    return ca.vertcat(
        ca.horzcat(0, -vector[2], vector[1]),
        ca.horzcat(vector[2], 0, -vector[0]),
        ca.horzcat(-vector[1], vector[0], 0),
    )


def bracket(x: Any, y: Any) -> Any:
    """Lie bracket [x, y] of twists, (6,)."""
    return ca.vertcat(ca.cross(x[:3], y[:3]), ca.cross(x[:3], y[3:]) + ca.cross(x[3:], y[:3]))


def exponential(twist: Any, coefficients: tuple[Any, Any, Any]) -> tuple[Any, Any]:
    """Exponential of a twist.

    Parameters
    ----------
    twist : (6,) expression, angular part (rad) first, then linear (m)
    coefficients : Stumpff functions of its squared angle

    Returns
    -------
    rotation (3, 3) and translation (3,)
    """
    omega, v = twist[:3], twist[3:]
    square = ca.sumsqr(omega)
    c_1, c_2, c_3 = coefficients
    # hat(omega)^2 = omega omega^T - (omega . omega) I needs fewer operations than the product of two hats.
    rotation = (1 - c_2 * square) * ca.SX.eye(3) + c_1 * hat(omega) + c_2 * (omega @ omega.T)
    translation = (1 - c_3 * square) * v + c_2 * ca.cross(omega, v) + c_3 * ca.dot(omega, v) * omega
    return ca.densify(rotation), translation


def tangent(twist: Any, coefficients: tuple[Any, Any, Any, Any], sign: int) -> Any:
    """Twist of the end of an exponential per change of its argument, (6, 6).

    I + sign c_2 hat + c_3 hat^2 of the angle, with dual numbers for its entries.

    Parameters
    ----------
    twist : (6,) expression, angular part (rad) first, then linear (m)
    coefficients : of :func:`tangent_coefficients` for its squared angle
    sign : 1: about the start's origin in the start's axes; -1: about the end's in the end's
    """
    c_2, c_3, slope_2, slope_3 = coefficients
    omega, v = twist[:3], twist[3:]
    along = ca.dot(omega, v)
    turn, identity = hat(omega), ca.SX.eye(3)
    square = omega @ omega.T - ca.sumsqr(omega) * identity
    turning = identity + sign * c_2 * turn + c_3 * square
    mixed = omega @ v.T
    moving = sign * (c_2 * hat(v) + 2 * along * slope_2 * turn)
    moving += c_3 * (mixed + mixed.T - 2 * along * identity) + 2 * along * slope_3 * square
    return ca.vertcat(ca.horzcat(turning, ca.SX(3, 3)), ca.horzcat(moving, turning))


def magnus_of_sixth_order(first: Any, second: Any, third: Any, step_m: Any) -> Any:
    """Twist (6,) of a step from the strains (6,) at its three Gauss nodes; Blanes, Casas and Ros (2000).

    With the sign of the brackets for g' = g xi.

    Parameters
    ----------
    first, second, third : strains at step_m (1/2 - sqrt(15)/10), step_m / 2 and step_m (1/2 + sqrt(15)/10)
    step_m : length of the step, m
    """
    mean = step_m * second
    slope = math.sqrt(15) / 3 * step_m * (third - first)
    curve = 10 / 3 * step_m * (third - 2 * second + first)
    inner = -bracket(mean, slope)
    outer = slope + bracket(mean, 2 * curve + inner) / 60
    return mean + curve / 12 - bracket(inner - 20 * mean - curve, outer) / 240
