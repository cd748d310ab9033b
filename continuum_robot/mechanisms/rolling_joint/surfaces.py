# SPDX-License-Identifier: Apache-2.0
"""Contact surfaces as curves by arc length: arcs, given curvature, splines, sampled points. ha section III-A."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from continuum_robot.mechanisms.rolling_joint.problems import OffSurfaceError, SurfaceError

Array = NDArray[np.float64]

INTERVALS = 60
"""Intervals of the table of a surface: the error of its quintics falls with the sixth power."""
_GAUSS_NODES, _GAUSS_WEIGHTS = np.polynomial.legendre.leggauss(8)
_DEGREE = 5
_POWERS = np.arange(_DEGREE + 1.0)
_PLANE = 2
_CUBIC = 3


@dataclass(frozen=True, slots=True)
class CurvaturePiece:
    """Curvature as a polynomial on a stretch of arc length.

    Attributes
    ----------
    start_m, end_m : arc lengths between which it holds, m
    coefficients : of 1, s, s^2, ... with s the arc length of the surface in m; 1/m, 1/m^2, ...
    """

    start_m: float
    end_m: float
    coefficients: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Surface:
    """A curve of unit speed: its tangent is the x axis of the contact frame, its normal the y axis.

    Attributes
    ----------
    knots_m : ends of the intervals of its table, shape (k + 1,), m
    coefficients : x (m), y (m), heading (rad) on each interval as polynomials in the distance from the interval's
        start, constant first; shape (k, 3, 6)
    """

    knots_m: Array
    coefficients: Array

    @property
    def limits_m(self) -> tuple[float, float]:
        """Arc lengths of both ends, m."""
        return float(self.knots_m[0]), float(self.knots_m[-1])

    def frame(self, arc_length_m: ArrayLike) -> Array:
        """Contact frame in the link's frame, with its curvature.

        Parameters
        ----------
        arc_length_m : shape (...), m; at a jump of curvature the side of greater arc lengths counts

        Returns
        -------
        shape (..., 4): x (m), y (m), heading (rad), curvature (1/m)

        Raises
        ------
        OffSurfaceError : an arc length beyond an end of the surface
        """
        s = np.asarray(arc_length_m, dtype=float)
        low, high = self.limits_m
        if not np.all((s >= low) & (s <= high)):
            wrong = s[~((s >= low) & (s <= high))].ravel()[0]
            raise OffSurfaceError("arc_length_m", float(wrong), f"on the surface, in [{low:g}, {high:g}] m")
        index = np.clip(np.searchsorted(self.knots_m, s, side="right") - 1, 0, len(self.knots_m) - 2)
        return evaluate(with_curvature(self.coefficients)[index], s - self.knots_m[index])

    def point(self, arc_length_m: float) -> Array:
        """Point of the surface in the link's frame, shape (2,), m.

        Parameters
        ----------
        arc_length_m : on the surface, m
        """
        return self.frame(arc_length_m)[:2]


def with_curvature(coefficients: Array) -> Array:
    """The table with a fourth polynomial, the curvature: the derivative of the heading.

    Parameters
    ----------
    coefficients : as in :class:`Surface`, shape (k, 3, 6)

    Returns
    -------
    shape (k, 4, 6)
    """
    slope = np.zeros((len(coefficients), 1, _DEGREE + 1))
    slope[:, 0, :-1] = coefficients[:, 2, 1:] * _POWERS[1:]
    return np.concatenate([coefficients, slope], axis=1)


def evaluate(rows: Array, distance: Array) -> Array:
    """Frames from rows of a table.

    Parameters
    ----------
    rows : of :func:`with_curvature`, shape (..., 4, 6)
    distance : from the start of the interval, shape (...), m

    Returns
    -------
    shape (..., 4): x (m), y (m), heading (rad), curvature (1/m)
    """
    return np.asarray((rows @ np.power.outer(distance, _POWERS)[..., None])[..., 0])


def arc(
    curvature_per_m: float, limits_m: tuple[float, float], zero_position_m: ArrayLike, zero_heading_rad: float = 0.0
) -> Surface:
    """A surface that is an arc of a circle, or straight.

    Parameters
    ----------
    curvature_per_m : > 0 bends to the left of the direction of increasing arc length, 1/m
    limits_m : arc lengths of its ends, around 0, m
    zero_position_m : where its arc length is 0, in the link's frame, shape (2,), m
    zero_heading_rad : its heading there, rad
    """
    piece = CurvaturePiece(limits_m[0], limits_m[1], (curvature_per_m,))
    return from_curvature([piece], zero_position_m, zero_heading_rad)


def from_curvature(
    pieces: Sequence[CurvaturePiece], zero_position_m: ArrayLike, zero_heading_rad: float = 0.0
) -> Surface:
    """A surface from its curvature; the curvature may jump between pieces.

    Parameters
    ----------
    pieces : in order, each beginning where the one before ends, with 0 within
    zero_position_m : where the arc length is 0, in the link's frame, shape (2,), m
    zero_heading_rad : heading there, rad

    Raises
    ------
    SurfaceError : pieces that do not follow each other or leave 0 out, or values that are not finite
    """
    position = np.asarray(zero_position_m, dtype=float)
    _check_pieces(pieces, position, zero_heading_rad)
    ends = np.unique([0.0, *(piece.start_m for piece in pieces), pieces[-1].end_m])
    per_metre = INTERVALS / (ends[-1] - ends[0])
    counts = [max(1, int(np.ceil((b - a) * per_metre))) for a, b in pairwise(ends)]
    knots = np.concatenate(
        [np.linspace(a, b, count + 1)[:-1] for a, b, count in zip(ends[:-1], ends[1:], counts, strict=True)]
        + [ends[-1:]]
    )
    middles = (knots[:-1] + knots[1:]) / 2
    starts = np.array([piece.start_m for piece in pieces])
    owner = [pieces[index] for index in np.clip(np.searchsorted(starts, middles, side="right") - 1, 0, None)]
    curvature = [np.polynomial.Polynomial(piece.coefficients) for piece in owner]
    heading = [one.integ() for one in curvature]
    steps = np.array([one(b) - one(a) for one, a, b in zip(heading, knots[:-1], knots[1:], strict=True)])
    zero = int(np.argmin(np.abs(knots)))
    at_knots = np.concatenate([[0.0], np.cumsum(steps)])
    at_knots += zero_heading_rad - at_knots[zero]
    coefficients = np.zeros((len(owner), 3, _DEGREE + 1))
    moved = np.zeros((len(owner), 2))
    for index, (one, a, b) in enumerate(zip(heading, knots[:-1], knots[1:], strict=True)):
        local = np.polynomial.Polynomial([at_knots[index] - one(a)]) + one(np.polynomial.Polynomial([a, 1.0]))
        terms = np.zeros(max(_DEGREE + 1, len(local.coef)))
        terms[: len(local.coef)] = local.coef
        if np.any(terms[_DEGREE + 1 :]):
            raise SurfaceError("pieces", pieces[0].coefficients, f"curvature of degree {_DEGREE - 1} at most")
        coefficients[index, 2] = terms[: _DEGREE + 1]
        half = (b - a) / 2
        angles = local(half * (_GAUSS_NODES + 1))
        moved[index] = half * np.array([np.cos(angles) @ _GAUSS_WEIGHTS, np.sin(angles) @ _GAUSS_WEIGHTS])
    places = np.concatenate([np.zeros((1, 2)), np.cumsum(moved, axis=0)])
    places += position - places[zero]
    ends_u = np.array([[one(a), one(b)] for one, a, b in zip(curvature, knots[:-1], knots[1:], strict=True)])
    _fill_positions(coefficients, knots, places, at_knots, ends_u)
    return Surface(knots, coefficients)


def spline(points_m: ArrayLike, zero_m: ArrayLike | None = None, deviation_m: float = 0.0) -> Surface:
    """A surface through points: a cubic spline, by arc length.

    Parameters
    ----------
    points_m : in the link's frame in the direction of increasing arc length, shape (k, 2), m, k >= 4
    zero_m : the point of the surface next to this one gets the arc length 0, shape (2,), m; the middle by default
    deviation_m : 0: through all points; else the rms distance from noisy points, such as sampled ones, that a
        smoother curve may keep, m

    Raises
    ------
    SurfaceError : fewer than four points, points that repeat, or values that are not finite
    """
    points = np.asarray(points_m, dtype=float)
    if (
        points.ndim != _PLANE
        or points.shape[1:] != (_PLANE,)
        or len(points) <= _CUBIC
        or not np.all(np.isfinite(points))
    ):
        raise SurfaceError("points_m", points.shape, "four finite points or more, shape (k, 2)")
    chords = np.linalg.norm(np.diff(points, axis=0), axis=1)
    if np.min(chords) <= 1e-9 * np.sum(chords):
        raise SurfaceError("points_m", float(np.min(chords)), "a distance between one point and the next")
    parameter = np.concatenate([[0.0], np.cumsum(chords)])
    if deviation_m > 0:
        curve, _ = scipy.interpolate.make_splprep(points.T, u=parameter, s=len(points) * deviation_m**2)
        curve = scipy.interpolate.CubicSpline(parameter, np.asarray(curve(parameter)).T)
    else:
        curve = scipy.interpolate.CubicSpline(parameter, points)
    fine = np.linspace(parameter[0], parameter[-1], 8 * INTERVALS + 1)
    length = np.concatenate([[0.0], np.cumsum(_lengths(curve, fine[:-1], fine[1:]))])
    knots = np.linspace(0.0, length[-1], 2 * INTERVALS + 1)
    at = np.interp(knots, length, fine)
    for _ in range(4):
        index = np.clip(np.searchsorted(fine, at, side="right") - 1, 0, len(fine) - 2)
        error = length[index] + _lengths(curve, fine[index], at) - knots
        at = np.clip(at - error / np.linalg.norm(curve(at, 1), axis=-1), fine[0], fine[-1])
    first, second, third = curve(at, 1), curve(at, 2), curve(at, 3)
    speed = np.linalg.norm(first, axis=-1)
    turning = first[:, 0] * second[:, 1] - first[:, 1] * second[:, 0]
    curvature = turning / speed**3
    slope = (first[:, 0] * third[:, 1] - first[:, 1] * third[:, 0]) / speed**3 - 3 * turning * np.sum(
        first * second, axis=-1
    ) / speed**5
    slope = slope / speed
    heading = np.unwrap(np.arctan2(first[:, 1], first[:, 0]))
    coefficients = np.zeros((len(knots) - 1, 3, _DEGREE + 1))
    coefficients[:, 2] = _quintic(
        np.diff(knots),
        np.stack([heading[:-1], curvature[:-1], slope[:-1]], -1),
        np.stack([heading[1:], curvature[1:], slope[1:]], -1),
    )
    _fill_positions(coefficients, knots, curve(at), heading, np.stack([curvature[:-1], curvature[1:]], -1))
    surface = Surface(knots, coefficients)
    nearest = curve(at) - np.asarray(zero_m, dtype=float) if zero_m is not None else None
    middle = length[-1] / 2 if nearest is None else _nearest(surface, np.asarray(zero_m, dtype=float))
    return Surface(knots - middle, coefficients)


def _nearest(surface: Surface, point: Array) -> float:
    """Arc length of the point of a surface that is next to a given one."""
    low, high = surface.limits_m
    s = np.linspace(low, high, 2001)
    best = float(s[np.argmin(np.linalg.norm(surface.frame(s)[:, :2] - point, axis=1))])
    for _ in range(8):
        x, y, heading, curvature = surface.frame(best)
        tangent, away = np.array([np.cos(heading), np.sin(heading)]), point - [x, y]
        normal = np.array([-tangent[1], tangent[0]])
        best = float(np.clip(best + tangent @ away / max(1 - curvature * (normal @ away), 0.1), low, high))
    return best


def _check_pieces(pieces: Sequence[CurvaturePiece], position: Array, heading_rad: float) -> None:
    if not pieces or position.shape != (2,) or not np.all(np.isfinite([*position, heading_rad])):
        raise SurfaceError("pieces", len(pieces), "one piece or more, a finite position of shape (2,) and heading")
    for piece in pieces:
        if not np.all(np.isfinite([piece.start_m, piece.end_m, *piece.coefficients])) or piece.start_m >= piece.end_m:
            raise SurfaceError("pieces", (piece.start_m, piece.end_m), "finite values, start_m below end_m")
    for before, after in pairwise(pieces):
        if before.end_m != after.start_m:
            raise SurfaceError("pieces", (before.end_m, after.start_m), "pieces that begin where the one before ends")
    if not pieces[0].start_m < 0 < pieces[-1].end_m:
        raise SurfaceError("pieces", (pieces[0].start_m, pieces[-1].end_m), "arc lengths around 0")


def _fill_positions(coefficients: Array, knots: Array, places: Array, heading: Array, curvature: Array) -> None:
    """Quintics of x and y that meet position, tangent and curvature at both ends of each interval."""
    tangent = np.stack([np.cos(heading), np.sin(heading)], -1)
    normal = np.stack([-tangent[:, 1], tangent[:, 0]], -1)
    for axis in range(2):
        coefficients[:, axis] = _quintic(
            np.diff(knots),
            np.stack([places[:-1, axis], tangent[:-1, axis], curvature[:, 0] * normal[:-1, axis]], -1),
            np.stack([places[1:, axis], tangent[1:, axis], curvature[:, 1] * normal[1:, axis]], -1),
        )


def _quintic(width: Array, start: Array, end: Array) -> Array:
    """Coefficients, shape (k, 6), of quintics with given value, first and second derivative at both ends, (k, 3)."""
    h = width
    p0, v0, a0 = start.T
    p1, v1, a1 = end.T
    gap, slope, bend = p1 - p0 - v0 * h - a0 * h**2 / 2, (v1 - v0 - a0 * h) * h, (a1 - a0) * h**2
    return np.stack(
        [
            p0,
            v0,
            a0 / 2,
            (10 * gap - 4 * slope + bend / 2) / h**3,
            (-15 * gap + 7 * slope - bend) / h**4,
            (6 * gap - 3 * slope + bend / 2) / h**5,
        ],
        -1,
    )


def _lengths(curve: scipy.interpolate.CubicSpline, start: Array, end: Array) -> Array:
    """Arc length of a spline between parameters, by Gauss's rule."""
    half = (end - start) / 2
    at = start[..., None] + half[..., None] * (_GAUSS_NODES + 1)
    return np.asarray(half * (np.linalg.norm(curve(at, 1), axis=-1) @ _GAUSS_WEIGHTS))
