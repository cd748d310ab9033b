# SPDX-License-Identifier: Apache-2.0
"""Kinematics of a rod in CasADi: frames along a segment by Magnus steps, without a special case when straight.

The exponential of a twist is written with the Stumpff functions
c_1(x) = sin(r)/r, c_2(x) = (1 - cos r)/r^2, c_3(x) = (r - sin r)/r^3 of x = r^2, the squared angle of the step. They
are entire functions of x, and x is a polynomial of the strain, so the frames and all their derivatives are exact at
and around the straight configuration. It is johnston (1) to (3) for any strain.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import casadi as ca

from continuum_robot.robot.basis import Basis
from continuum_robot.robot.segment import Segment
from continuum_robot.rod.bases import strain

# The polynomials reach angles of this many radians in a step to double precision (absolute error < 1e-14).
CONSTANT_REACH_RAD = 2 * math.pi  # bending of a whole segment with constant curvature
MAGNUS_REACH_RAD = 1.6  # bending of one of several steps
_GAUSS = math.sqrt(3) / 6


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
    x0 = frozen.freeze(x)
    c = _stumpff_functions(x0, reach_rad)
    step = x - x0

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


def exponential(twist: Any, reach_rad: float, frozen: Frozen | None = None) -> tuple[Any, Any]:
    """Exponential of a twist.

    Parameters
    ----------
    twist : (6,) expression, angular part (rad) first, then linear (m)
    reach_rad, frozen : see :func:`stumpff`

    Returns
    -------
    rotation (3, 3) and translation (3,)
    """
    omega, v = twist[:3], twist[3:]
    square = ca.dot(omega, omega)
    c_1, c_2, c_3 = stumpff(square, reach_rad, frozen)
    cross = ca.cross(omega, v)
    # hat(omega)^2 = omega omega^T - (omega . omega) I needs fewer operations than the product of two hats.
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


def stretch_nodes(basis: Basis, length_m: float, stations_m: Sequence[float]) -> list[tuple[float, list[float]]]:
    """Cut a segment into stretches on each of which one exponential gives the frames.

    Parameters
    ----------
    basis : the segment's basis
    length_m : length of the segment, m
    stations_m : increasing arc lengths from the segment's start at which frames are wanted, m; the last is the end

    Returns
    -------
    for each stretch its start and the arc lengths of frames in it, the last at its end: the whole segment with all
    stations where the strain is constant, else one Magnus step with one frame
    """
    if basis.order == 0:
        return [(0.0, list(stations_m))]
    longest_m = length_m / magnus_step_count(basis)
    stretches: list[tuple[float, list[float]]] = []
    done_m = 0.0
    for station_m in sorted(set(stations_m)):
        count = max(1, math.ceil((station_m - done_m) / longest_m - 1e-9))
        nodes = [done_m + (station_m - done_m) * k / count for k in range(count + 1)]
        stretches += [(start, [end]) for start, end in zip(nodes[:-1], [*nodes[1:-1], station_m], strict=True)]
        done_m = station_m
    return stretches


def stretch_frame(segment: Segment, coefficients: Any, start_m: Any, step_m: Any, frozen: Frozen) -> tuple[Any, Any]:
    """Frame at the end of one exponential, in the frame of its start.

    Parameters
    ----------
    segment : the segment
    coefficients : (k,) expression, 1/m
    start_m : arc length from the segment's start, m
    step_m : length of the stretch, m; both numbers or CasADi scalars
    frozen : see :func:`stumpff`

    Returns
    -------
    rotation (3, 3) and position (3,)
    """
    basis, length_m = segment.basis, segment.length_m
    reach_rad = step_reach_rad(basis)
    if basis.order == 0 and isinstance(step_m, float):
        reach_rad *= max(step_m / length_m, 0.05)  # the strain is the same all along, so short stretches bend less
    return exponential(magnus_twist(basis, coefficients, length_m, start_m, step_m), reach_rad, frozen)
