# SPDX-License-Identifier: Apache-2.0
"""Steps of a Cosserat rod's integration, cuts between them, and what jumps there: rucker (18) to (20)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.rod.cosserat.description import CosseratRod
from continuum_robot.rod.loads import DistributedLoad, Load

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Step:
    """A step of integration: what it needs besides the state. See :func:`.equations.step`.

    Attributes
    ----------
    start_m : arc length of its beginning, m
    length_m : arc length that it covers, m
    section : stiffnesses and rest strain of the cross-section, shape (12,): K_se (N), K_bt (N.m^2), v*, u* (1/m)
    running : which tendons run along it, shape (N,)
    tension : of the tendons that do, else 0, shape (N,), N
    routing : r, r', r'' of every tendon at each stage, shape (12, 6 N): m, 1, 1/m
    loads : force and moment per length at each stage, in base axes and then in body axes, shape (12, 12), N/m and N
    """

    start_m: float
    length_m: float
    section: Vector
    running: NDArray[np.bool_]
    tension: Vector
    routing: Vector
    loads: Vector


@dataclass(frozen=True, slots=True)
class Cut:
    """One side of a cut: what bears the wrench there.

    Attributes
    ----------
    section : as of :class:`Step`, shape (12,)
    tension_force : tension of each tendon whose force the rod bears there, else 0, shape (N,), N
    tension_moment : the same for its moment, shape (N,), N
    routing : r, r', r'' of every tendon there, shape (6 N,): m, 1, 1/m
    load : point loads there, as :func:`.equations.wrench` takes them, shape (21,), N and N.m
    """

    section: Vector
    tension_force: Vector
    tension_moment: Vector
    routing: Vector
    load: Vector


@dataclass(frozen=True, slots=True)
class Jump:
    """A place where the internal wrench jumps."""

    place_m: float
    before: Cut
    after: Cut


def breaks_m(rod: CosseratRod, loads: Sequence[Load]) -> Vector:
    """Arc lengths between which everything is smooth, from 0 to the length, m.

    Returns
    -------
    increasing, shape (k,), m
    """
    places = [0.0, *rod.section_ends_m]
    for tendon in rod.tendons:
        inside = (place for place in tendon.path.kinks_m if tendon.begin_m < place < tendon.end_m)
        places += [tendon.begin_m, tendon.end_m, *inside]
    for load in loads:
        if isinstance(load, DistributedLoad):
            places += [load.start_m, rod.length_m if load.end_m is None else load.end_m]
            continue
        if not 0 < load.s_m <= rod.length_m * (1 + 1e-9):
            raise ParameterError("s_m of a point load", load.s_m, f"above 0 and at most {rod.length_m:g} m")
        places.append(load.s_m)
    if min(places) < 0 or max(places) > rod.length_m * (1 + 1e-9):
        raise ParameterError("arc lengths of loads", (min(places), max(places)), f"0 to {rod.length_m:g} m")
    kept = [0.0]
    for place in sorted(places):
        if place - kept[-1] > 1e-9 * rod.length_m:
            kept.append(float(place))
    kept[-1] = rod.length_m
    return np.array(kept)
