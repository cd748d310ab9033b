# SPDX-License-Identifier: Apache-2.0
"""A robot's rod as a chain of steps in expressions of its coefficients: frames, Jacobians, velocity and acceleration.

The steps are those of rod/step.py, for the strains alone that the segment's basis has. All is in the axes of the frame
that it is about, angular part first. With X, which takes a twist of a step's start to its end, and the twist
w = D c' of the end against the start,

    J' = X J + D,   V' = X V + w,   A' = X A + dw + [X V, w]   (c'' = 0).

Where the strain is constant, steps of equal length are the same expressions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from continuum_robot.robot.basis import Basis
from continuum_robot.robot.description import Robot
from continuum_robot.robot.segment import Segment
from continuum_robot.rod.bases import REFERENCE_STRAIN, basis_matrix
from continuum_robot.rod.exponential import bracket
from continuum_robot.rod.step import GAUSS_RATIOS, StrainPattern, drift_function, frame_function, tangent_function
from continuum_robot.rod.tendons import coefficient_slices

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
    places_m : from its start, at which frames are wanted, m
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
        self._rate = ca.SX(own.shape[0], 1) if own_rate is None else own_rate
        self._pattern = pattern_of(segment.basis)
        self._frames: dict[tuple[float, bytes], tuple[Any, Any]] = {}
        self._motions: dict[tuple[float, bytes], StepMotion] = {}

    def frame(self, start_m: float, end_m: float) -> tuple[Any, Any]:
        """Rotation (3, 3) and position (3,) of a step's end in its start.

        Parameters
        ----------
        start_m, end_m : arc lengths from the segment's start, m
        """
        key, nodal = self._nodal(start_m, end_m)
        if key not in self._frames:
            self._frames[key] = self._frame(nodal, end_m - start_m, self._reach_rad(end_m - start_m))
        return self._frames[key]

    def motion(self, start_m: float, end_m: float) -> StepMotion:
        """What a step does by itself.

        Parameters
        ----------
        start_m, end_m : arc lengths from the segment's start, m
        """
        key, nodal = self._nodal(start_m, end_m)
        if key not in self._motions:
            self._motions[key] = self._motion(nodal, end_m - start_m, self._reach_rad(end_m - start_m))
        return self._motions[key]

    def frames_to(self, s_m: Any) -> list[tuple[Any, Any]]:
        """Rotation and position of each of the steps that lead to an arc length, empty beyond it.

        Parameters
        ----------
        s_m : from the segment's start, expression, m
        """
        return [self._frame(*step) for step in self._steps_to(s_m)]

    def motions_to(self, s_m: Any) -> list[StepMotion]:
        """The motion of each of these steps.

        Parameters
        ----------
        s_m : from the segment's start, expression, m
        """
        return [self._motion(*step) for step in self._steps_to(s_m)]

    def _frame(self, nodal: Any, step_m: Any, reach_rad: float) -> tuple[Any, Any]:
        rotation, position = frame_function(self._pattern, reach_rad)(self._strains(nodal), step_m)
        return rotation, position

    def _motion(self, nodal: Any, step_m: Any, reach_rad: float) -> StepMotion:
        strains, rates = self._strains(nodal), nodal @ self._rate
        rotation, position, by_strain = tangent_function(self._pattern, reach_rad)(strains, step_m)
        tangent = ca.sparsify(by_strain) @ nodal
        drift = ca.SX(6, 1)
        if rates.nnz():
            drift = drift_function(self._pattern, reach_rad)(strains, rates, step_m)
        return StepMotion(rotation, position, tangent, tangent @ self._rate, drift)

    def _strains(self, nodal: Any) -> Any:
        rest = np.tile(np.array(self._pattern.rest), len(GAUSS_RATIOS))[list(self._pattern.picked)]
        return nodal @ self._own + ca.DM(rest)

    def _nodal(self, start_m: float, end_m: float) -> tuple[tuple[float, bytes], Any]:
        """B at the nodes of a step, rows of the strains picked, (m, k), and what is equal for equal steps."""
        length_m = self.segment.length_m
        rows = [self._basis((start_m + ratio * (end_m - start_m)) / length_m) for ratio in GAUSS_RATIOS]
        nodal = np.concatenate(rows)[list(self._pattern.picked)]
        return (round((end_m - start_m) / length_m, 11), nodal.round(11).tobytes()), ca.SX(ca.sparsify(ca.DM(nodal)))

    def _steps_to(self, s_m: Any) -> Iterator[tuple[Any, Any, float]]:
        """B at the nodes, length and reach of the steps to an arc length, by polynomials within each step."""
        basis, length_m, start_m = self.segment.basis, self.segment.length_m, 0.0
        places = (1 + np.cos(np.pi * (np.arange(basis.degree, -1, -1) + 0.5) / (basis.degree + 1))) / 2
        for end_m in step_ends(basis, length_m, []):
            whole_m = end_m - start_m
            covered_m = ca.fmin(ca.fmax(s_m - start_m, 0), whole_m)
            known = [self._basis((start_m + place * whole_m) / length_m) for place in places]
            rows = []
            for ratio in GAUSS_RATIOS:
                weights = _lagrange(places, ratio * covered_m / whole_m)
                rows.append(sum(w * ca.SX(ca.sparsify(ca.DM(B))) for w, B in zip(weights, known, strict=True)))
            yield ca.vertcat(*rows)[list(self._pattern.picked), :], covered_m, self._reach_rad(whole_m)
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
    """A step by itself, for k coefficients of its segment.

    Attributes
    ----------
    rotation, position : (3, 3) and (3,) of its end in its start
    tangent : D, (6, k) twist of its end against its start in the end's axes, angular part first, per rate
    twist : (6,) that twist, w
    drift : (6,) its derivative for c'' = 0, dw
    """

    rotation: Any
    position: Any
    tangent: Any
    twist: Any
    drift: Any


@dataclass(frozen=True, slots=True)
class MovingFrame:
    """A frame of the backbone, and its motion in its own axes, angular part first.

    Attributes
    ----------
    rotation, position : (3, 3) and (3,) in the base frame
    jacobian : (6, n) of its twist; johnston (7) to (9)
    twist : (6,)
    acceleration : (6,) derivative of the twist's components for c'' = 0
    """

    rotation: Any
    position: Any
    jacobian: Any
    twist: Any
    acceleration: Any

    def moved(self, step: StepMotion, place: slice) -> MovingFrame:
        """The frame at the end of a step that starts here.

        Parameters
        ----------
        step : from here
        place : of its segment's coefficients among all
        """
        jacobian, twist = _carried(step, self.jacobian), _carried(step, self.twist)
        jacobian[:, place] += step.tangent
        return MovingFrame(
            self.rotation @ step.rotation,
            self.position + self.rotation @ step.position,
            jacobian,
            twist + step.twist,
            _carried(step, self.acceleration) + step.drift + bracket(twist, step.twist),
        )


def _carried(step: StepMotion, twists: Any) -> Any:
    """Twists (6, k) of a step's start, of a frame fixed to it at the step's end."""
    back, turning = step.rotation.T, twists[:3, :]
    return ca.vertcat(back @ turning, back @ (twists[3:, :] - ca.skew(step.position) @ turning))


def frame_at(robot: Robot, c: Any, s_m: Any) -> tuple[Any, Any]:
    """Frame of the backbone at a symbolic arc length (m), in the base frame.

    Parameters
    ----------
    c : (n,) coefficients

    Returns
    -------
    rotation (3, 3) and position (3,)
    """
    rotation, position = ca.SX.eye(3), ca.SX.zeros(3)
    for segment, base_m, place in zip(robot.segments, robot.segment_starts_m, coefficient_slices(robot), strict=True):
        for turn, shift in SegmentSteps(segment, c[place]).frames_to(s_m - float(base_m)):
            rotation, position = rotation @ turn, position + rotation @ shift
    return ca.densify(rotation), ca.densify(position)


def moving_frame_at(robot: Robot, c: Any, s_m: Any) -> MovingFrame:
    """Motion of the frame of the backbone at a symbolic arc length (m); of rest.

    Parameters
    ----------
    c : (n,) coefficients
    """
    frame = base_frame(robot.coefficient_count)
    for segment, base_m, place in zip(robot.segments, robot.segment_starts_m, coefficient_slices(robot), strict=True):
        for step in SegmentSteps(segment, c[place]).motions_to(s_m - float(base_m)):
            frame = frame.moved(step, place)
    return frame


def base_frame(size: int, gravity_m_per_s2: Any = None) -> MovingFrame:
    """The base, which does not move; accelerated against gravity, all on it feels its weight.

    Parameters
    ----------
    size : number n of coefficients
    gravity_m_per_s2 : (3,); None: none
    """
    acceleration = ca.SX(6, 1)
    if gravity_m_per_s2 is not None:
        acceleration = ca.vertcat(ca.SX(3, 1), -ca.sparsify(ca.DM(gravity_m_per_s2)))
    return MovingFrame(ca.SX.eye(3), ca.SX.zeros(3), ca.SX(6, size), ca.SX(6, 1), acceleration)
