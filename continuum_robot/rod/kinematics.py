# SPDX-License-Identifier: Apache-2.0
"""Kinematics of a rod that only bends, in CasADi: frames along a segment by Magnus steps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import casadi as ca

from continuum_robot.robot.basis import Basis
from continuum_robot.robot.segment import Segment
from continuum_robot.rod.bases import strain
from continuum_robot.rod.exponential import Frozen, exponential, magnus_of_fourth_order, stumpff

# The polynomials reach angles of this many radians in a step to double precision (absolute error < 1e-14).
CONSTANT_REACH_RAD = 2 * math.pi  # bending of a whole segment with constant curvature
MAGNUS_REACH_RAD = 1.6  # bending of one of several steps
_GAUSS = math.sqrt(3) / 6


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
    return magnus_of_fourth_order(first, second, step_m)


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
    frozen : see :func:`~continuum_robot.rod.exponential.stumpff`

    Returns
    -------
    rotation (3, 3) and position (3,)
    """
    basis, length_m = segment.basis, segment.length_m
    reach_rad = step_reach_rad(basis)
    if basis.order == 0 and isinstance(step_m, float):
        reach_rad *= max(step_m / length_m, 0.05)  # the strain is the same all along, so short stretches bend less
    twist = magnus_twist(basis, coefficients, length_m, start_m, step_m)
    return exponential(twist, stumpff(ca.sumsqr(twist[:3]), reach_rad, frozen))
