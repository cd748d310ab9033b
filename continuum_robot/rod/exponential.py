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


class Frozen:
    """Squared angles that stand as symbols of their own while derivatives are taken.

    A Stumpff function f of x = x(c) enters an expression as f(x0) + f'(x0) (x - x0) + f''(x0) (x - x0)^2 / 2 with a
    symbol x0, f' and f'' being Stumpff functions too. First and second derivatives of that expression at x0 = x are
    those of f(x(c)), but no derivative of a polynomial is expanded for each coefficient: a third of the operations.
    Every result must pass :meth:`thaw`, which puts x(c) in the place of x0; more derivatives may be taken after that.
    """

    def __init__(self) -> None:
        self._symbols: list[Any] = []
        self._values: list[Any] = []

    def freeze(self, x: Any) -> Any:
        """A symbol that stands for ``x``."""
        symbol = ca.SX.sym(f"x{len(self._symbols)}")
        self._symbols.append(symbol)
        self._values.append(x)
        return symbol

    def thaw(self, expressions: Sequence[Any]) -> list[Any]:
        """The expressions in terms of the coefficients alone."""
        thawed: list[Any] = ca.substitute(list(expressions), self._symbols, self._values)
        return thawed


def stumpff(x: Any, reach_rad: float, frozen: Frozen | None = None) -> tuple[Any, Any, Any]:
    """Stumpff functions c_1, c_2, c_3 of a squared angle, as polynomials.

    Parameters
    ----------
    x : squared angle, rad^2; a number, array or CasADi scalar
    reach_rad : largest angle for which the result must hold to double precision; beyond it the error grows smoothly
    frozen : where to keep ``x`` while derivatives are taken; None: the result is a plain expression

    Returns
    -------
    c_1, c_2, c_3
    """
    if frozen is None:
        return _stumpff_functions(x, reach_rad)[1:4]
    return stumpff_around(x, frozen.freeze(x), reach_rad)


def stumpff_around(x: Any, x_here: Any, reach_rad: float) -> tuple[Any, Any, Any]:
    """The same by their first two derivatives at ``x_here``, a symbol that :class:`Frozen` explains.

    Parameters
    ----------
    x, x_here : squared angles, rad^2
    reach_rad : as of :func:`stumpff`
    """
    c = _stumpff_functions(x_here, reach_rad)
    step = x - x_here

    def first(k: int) -> Any:
        return (k * c[k + 2] - c[k + 1]) / 2

    def second(k: int) -> Any:
        return (k * first(k + 2) - first(k + 1)) / 2

    return tuple(c[k] + step * (first(k) + step * second(k) / 2) for k in (1, 2, 3))


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


def magnus_of_fourth_order(first: Any, second: Any, step_m: Any) -> Any:
    """Twist (6,) of a step from the strains (6,) at its two Gauss nodes; Blanes, Casas and Ros (2000).

    Parameters
    ----------
    first, second : strains at step_m (1/2 -+ sqrt(3)/6), 1/m and dimensionless
    step_m : length of the step, m
    """
    return step_m / 2 * (first + second) + math.sqrt(3) / 12 * step_m**2 * bracket(first, second)


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
