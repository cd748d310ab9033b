# SPDX-License-Identifier: Apache-2.0
"""A robot's rod as a chain of steps in expressions of its coefficients: frames, Jacobians, velocity and acceleration.

The steps are those of rod/step.py, for the strains alone that the segment's basis has. All is in the axes of the frame
that it is about, angular part first. With X, which takes a twist of a step's start to its end, and the twist
w = D c' of the end against the start,

    J' = X J + D,   V' = X V + w,   A' = X A + dw + [X V, w]   (c'' = 0).

Derived here for a step; summed, J is that of johnston (7) to (9). Where the strain is constant, steps of equal length
are the same expressions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from continuum_robot.robot.basis import Basis
from continuum_robot.robot.description import Robot
from continuum_robot.robot.segments.segment import Segment
from continuum_robot.rod.bases import REFERENCE_STRAIN, basis_matrix
from continuum_robot.rod.code.shared import Code, repeated_code, shared_code, sparse
from continuum_robot.rod.step import (
    GAUSS_RATIOS,
    StrainPattern,
    drift_function,
    frame_function,
    tangent_function,
)

Vector = NDArray[np.float64]


CONSTANT_REACH_RAD = 2 * math.pi
"""Bending of a whole segment of constant strain to which its frames hold to double precision, rad."""


STEP_REACH_RAD = 1.6
"""Bending of one step to which its frames hold to double precision, rad."""


def longest_step(basis: Basis) -> float:
    """Longest step along a segment, as a fraction of its length: all of it where the strain is constant."""
    return 1.0 if pattern_of(basis).constant_alone and not basis.breaks else 1 / (4 + 2 * basis.highest_order)


def step_reach_rad(basis: Basis, step: float) -> float:
    """Turn of a step to which its frame is exact to double precision, rad.

    Parameters
    ----------
    step : length of the step, as a fraction of the segment's
    """
    if longest_step(basis) < 1:
        return STEP_REACH_RAD
    return CONSTANT_REACH_RAD * max(step, 0.05)  # the strain is the same all along, so short steps bend less


def step_ends(basis: Basis, length_m: float, places_m: Sequence[float]) -> list[float]:
    """Ends of the steps along a segment, increasing, the last its end, m.

    Parameters
    ----------
    basis : of the segment
    length_m : its length, m
    places_m : from its start, at which frames are desired, m
    """
    marks = {length_m, *(ratio * length_m for ratio in basis.breaks), *(place for place in places_m if place > 0)}
    ends: list[float] = []
    begin_m, longest_m = 0.0, length_m * longest_step(basis)
    for mark_m in sorted(marks):
        if ends and mark_m - begin_m <= 1e-12 * length_m:
            continue
        count = max(1, math.ceil((mark_m - begin_m) / longest_m - 1e-9))
        ends += [begin_m + (mark_m - begin_m) * k / count for k in range(1, count)] + [mark_m]
        begin_m = mark_m
    return ends


@lru_cache(maxsize=64)
def pattern_of(basis: Basis) -> StrainPattern:
    """Which strains a basis has, and which of them vary within a step that crosses no break."""
    constant: list[int] = []
    varying: list[int] = []
    for row in sorted(set(basis.rows)):
        changes = False
        for low, high in zip((0.0, *basis.breaks), (*basis.breaks, 1.0), strict=True):
            inside = np.linspace(low, high, 7)[1:-1]
            values = np.array([basis_matrix(basis, float(ratio))[row] for ratio in inside])
            changes = changes or bool(np.ptp(values, axis=0).max() > 1e-12)
        (varying if changes else constant).append(row)
    return StrainPattern(tuple(constant), tuple(varying), REFERENCE_STRAIN)


def code_of(basis: Basis, kind: type[ca.SX | ca.MX]) -> Code:
    """How the formulas of a segment's steps are written: out in ``SX`` where the strain is constant, else once.

    What the numbers of equal steps leave of the formulas is less than calls.

    Parameters
    ----------
    kind : of the expressions
    """
    return repeated_code if kind is ca.SX and pattern_of(basis).constant_alone else shared_code


def expressions_of(robot: Robot) -> type[ca.SX | ca.MX]:
    """Kind of expressions for all of a robot: ``MX``, in which calls of shared code cost least, if a strain varies."""
    return ca.SX if all(pattern_of(segment.basis).constant_alone for segment in robot.segments) else ca.MX


@dataclass(frozen=True, slots=True)
class _Step:
    """A step of a segment.

    Attributes
    ----------
    nodal : B at its nodes, rows of the strains picked, (m, k)
    length_m, reach_rad : its length, and the turn to which its frame holds
    key : equal for equal steps
    """

    nodal: Any
    length_m: Any
    reach_rad: float
    key: Any = None


class SegmentSteps:
    """Steps along one segment, of its coefficients.

    Parameters
    ----------
    segment : of the rod
    own : (k,) its coefficients, expression
    own_rate : (k,) their rates; None where nothing moves
    """

    def __init__(self, segment: Segment, own: Any, own_rate: Any = None) -> None:
        self.segment, self._own = segment, own
        self._rate = type(own)(own.shape[0], 1) if own_rate is None else own_rate
        self._pattern, self._code = pattern_of(segment.basis), code_of(segment.basis, type(own))

    def frames(self, ends_m: Sequence[float]) -> list[tuple[Any, Any]]:
        """Rotation (3, 3) and position (3,) of the end of each step in its start.

        Parameters
        ----------
        ends_m : of the steps, from the segment's start, where the first begins, increasing, m
        """
        return self._frames(self._steps(ends_m))

    def motions(self, ends_m: Sequence[float]) -> list[StepMotion]:
        """What each step does by itself; arguments as of :meth:`frames`."""
        return self._motions(self._steps(ends_m))

    def frames_to(self, s_m: Any) -> list[tuple[Any, Any]]:
        """Rotation and position of each of the steps that lead to an arc length, empty beyond it.

        Parameters
        ----------
        s_m : from the segment's start, expression, m
        """
        return self._frames(list(self._steps_to(s_m)))

    def motions_to(self, s_m: Any) -> list[StepMotion]:
        """The motion of each of these steps.

        Parameters
        ----------
        s_m : from the segment's start, expression, m
        """
        return self._motions(list(self._steps_to(s_m)))

    def _frames(self, steps: list[_Step]) -> list[tuple[Any, Any]]:
        found = self._at_steps(frame_function, steps, [self._strains(step.nodal) for step in steps])
        return [(rotation, position) for rotation, position in found]

    def _motions(self, steps: list[_Step]) -> list[StepMotion]:
        strains, rates = ([f(step.nodal) for step in steps] for f in (self._strains, lambda nodal: nodal @ self._rate))
        drifts: list[tuple[Any, ...]] = [(type(self._own)(6, 1),)] * len(steps)
        if self._rate.nnz():
            drifts = self._at_steps(drift_function, steps, strains, rates)
        motions = []
        for step, found, (drift,) in zip(steps, self._at_steps(tangent_function, steps, strains), drifts, strict=True):
            rotation, position, by_strain = found
            if self._code is repeated_code:
                by_strain = ca.sparsify(by_strain)
            motions.append(StepMotion(rotation, position, by_strain, step.nodal, self._rate, drift, self._code))
        return motions

    def _at_steps(
        self, function_of: Callable[[StrainPattern, float], ca.Function], steps: list[_Step], *columns: list[Any]
    ) -> list[tuple[Any, ...]]:
        """Results of a function of each step's columns and length; all steps in one call where expressions are ``MX``.

        The compiler then takes several at once.
        """
        if isinstance(self._own, ca.MX) and len(steps) > 1:
            function = function_of(self._pattern, max(step.reach_rad for step in steps)).map(len(steps))
            lengths = ca.DM([step.length_m for step in steps]).T
            results = function.call([*(ca.horzcat(*column) for column in columns), lengths])
            return list(zip(*(ca.horzsplit(value, value.shape[1] // len(steps)) for value in results), strict=True))
        known: dict[Any, tuple[Any, ...]] = {}
        found = []
        for at, (step, *given) in enumerate(zip(steps, *columns, strict=True)):
            key = at if step.key is None else step.key
            if key not in known:
                known[key] = tuple(function_of(self._pattern, step.reach_rad).call([*given, step.length_m]))
            found.append(known[key])
        return found

    def _strains(self, nodal: Any) -> Any:
        rest = np.tile(np.array(self._pattern.rest), len(GAUSS_RATIOS))[list(self._pattern.picked)]
        return nodal @ self._own + ca.DM(rest)

    def _steps(self, ends_m: Sequence[float]) -> list[_Step]:
        steps, whole_m = [], self.segment.length_m
        for start_m, end_m in pairwise([0.0, *ends_m]):
            length_m = end_m - start_m
            rows = [self._basis((start_m + ratio * length_m) / whole_m) for ratio in GAUSS_RATIOS]
            nodal = np.concatenate(rows)[list(self._pattern.picked)]
            key = (round(length_m / whole_m, 11), nodal.round(11).tobytes())
            steps.append(_Step(sparse(nodal), length_m, self._reach_rad(length_m), key))
        return steps

    def _steps_to(self, s_m: Any) -> Iterator[_Step]:
        """The steps to an arc length, by polynomials within each step."""
        basis, length_m, start_m = self.segment.basis, self.segment.length_m, 0.0
        places = (1 + np.cos(np.pi * (np.arange(basis.degree, -1, -1) + 0.5) / (basis.degree + 1))) / 2
        for end_m in step_ends(basis, length_m, []):
            whole_m = end_m - start_m
            covered_m = ca.fmin(ca.fmax(s_m - start_m, 0), whole_m)
            known = [self._basis((start_m + place * whole_m) / length_m) for place in places]
            rows = []
            for ratio in GAUSS_RATIOS:
                weights = _lagrange(places, ratio * covered_m / whole_m)
                rows.append(sum(w * ca.SX(sparse(B)) for w, B in zip(weights, known, strict=True)))
            yield _Step(ca.vertcat(*rows)[list(self._pattern.picked), :], covered_m, self._reach_rad(whole_m))
            start_m = end_m

    def _reach_rad(self, step_m: float) -> float:
        return step_reach_rad(self.segment.basis, round(step_m / self.segment.length_m, 9))

    def _basis(self, ratio: float) -> Vector:
        return basis_matrix(self.segment.basis, float(ratio))


def _lagrange(places: Vector, x: Any) -> list[Any]:
    """Values at x, an expression, of the polynomials that are 1 at one of the places and 0 at the others."""
    values: list[Any] = []
    for k, own in enumerate(places):
        value: Any = ca.SX(1)
        for j, other in enumerate(places):
            if j != k:
                value *= (x - float(other)) / float(own - other)
        values.append(value)
    return values


@dataclass(frozen=True, slots=True)
class StepMotion:
    """A step by itself, for k coefficients of its segment and m strains at its nodes.

    Attributes
    ----------
    rotation, position : (3, 3) and (3,) of its end in its start
    by_strain : (6, m) twist of its end against its start in the end's axes, angular part first, per strain rate
    nodal : (m, k) strains per coefficient
    rate : (k,) of the coefficients
    drift : (6,) derivative of the end's twist against the start for c'' = 0, dw
    code : how its formulas are written
    """

    rotation: Any
    position: Any
    by_strain: Any
    nodal: Any
    rate: Any
    drift: Any
    code: Code

    @property
    def tangent(self) -> Any:
        """D, (6, k) twist of its end against its start in the end's axes, angular part first, per rate."""
        return self.code("tangent", _product, self.by_strain, self.nodal)[0]


def _product(left: Any, right: Any) -> tuple[Any]:
    return (left @ right,)
