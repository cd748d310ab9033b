# SPDX-License-Identifier: Apache-2.0
"""Contact surfaces as curves by arc length: arcs, given curvature, splines, sampled points. ha section III-A."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ContinuumRobotError, ParameterError

Array = NDArray[np.float64]

INTERVALS = 60
"""Intervals of the table of a surface: the error of its quintics falls with the sixth power."""
_GAUSS_NODES, _GAUSS_WEIGHTS = np.polynomial.legendre.leggauss(8)
_DEGREE = 5
_FEWEST_POINTS = 4


@dataclass(frozen=True, slots=True)
class CurvaturePiece:
    """Curvature as a polynomial on a stretch of arc length."""

    start_m: float
    end_m: float
    coefficients: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Surface:
    """A curve of unit speed: its tangent is the x axis of the contact frame, its normal the y axis."""

    curve: scipy.interpolate.PPoly

    @property
    def limits_m(self) -> tuple[float, float]:
        """Arc lengths of both ends, m."""
        return float(self.curve.x[0]), float(self.curve.x[-1])

    def frame(self, arc_length_m: ArrayLike) -> Array:
        """Contact frame in the link's frame, with its curvature.

        Parameters
        ----------
        arc_length_m : shape (...), m; at a jump of curvature the side of greater arc lengths counts

        Returns
        -------
        shape (..., 4): x (m), y (m), heading (rad), curvature (1/m)
        """
        s = np.asarray(arc_length_m, dtype=float)
        low, high = self.limits_m
        beyond = ~((s >= low) & (s <= high))
        if beyond.any():
            raise OffSurfaceError("arc_length_m", float(s[beyond][0]), f"on the surface, in [{low:g}, {high:g}] m")
        return np.concatenate([self.curve(s), self.curve(s, 1)[..., 2:]], axis=-1)

    def point(self, arc_length_m: float) -> Array:
        """Point of the surface in the link's frame, shape (2,), m."""
        return self.frame(arc_length_m)[:2]


def from_curvature(
    pieces: Sequence[CurvaturePiece], zero_position_m: ArrayLike, zero_heading_rad: float = 0.0
) -> Surface:
    """A surface from its curvature; the curvature may jump between pieces.

    Parameters
    ----------
    zero_position_m : where the arc length is 0, in the link's frame, shape (2,), m
    """
    position = np.asarray(zero_position_m, dtype=float)
    _check_pieces(pieces, position, zero_heading_rad)
    headings: list[np.polynomial.Polynomial] = []
    for piece in pieces:
        heading = np.polynomial.Polynomial(piece.coefficients).integ()
        headings.append(heading + (headings[-1](piece.start_m) - heading(piece.start_m) if headings else 0.0))
    at_zero = next(one(0.0) for piece, one in zip(pieces, headings, strict=True) if piece.end_m >= 0)
    per_metre = INTERVALS / (pieces[-1].end_m - pieces[0].start_m)
    tables, place = [], 0j
    for piece, unturned in zip(pieces, headings, strict=True):
        heading = unturned + (zero_heading_rad - at_zero)
        knots = np.linspace(
            piece.start_m, piece.end_m, 1 + int(np.ceil((piece.end_m - piece.start_m) * per_metre - 1e-9))
        )
        half = np.diff(knots)[:, None] / 2
        moved = half[:, 0] * (np.exp(1j * heading(knots[:-1, None] + half * (_GAUSS_NODES + 1))) @ _GAUSS_WEIGHTS)
        places = place + np.concatenate([[0j], np.cumsum(moved)])
        place = places[-1]
        tables.append(_quintics(knots, places, np.stack([heading.deriv(n)(knots) for n in range(3)], axis=-1)))
    curve = tables[0]
    for table in tables[1:]:
        curve.extend(table.c, table.x[1:])
    curve.c[-1, :, :2] += position - curve(0.0)[:2]
    return Surface(curve)


def spline(points_m: ArrayLike, zero_m: ArrayLike | None = None, deviation_m: float = 0.0) -> Surface:
    """A surface through points: a cubic spline, by arc length.

    Parameters
    ----------
    points_m : in the link's frame in the direction of increasing arc length, shape (k, 2), m, k >= 4
    zero_m : the point of the surface next to this one gets the arc length 0, shape (2,), m; the middle by default
    """
    points = np.asarray(points_m, dtype=float)
    if points.shape != (len(points), 2) or len(points) < _FEWEST_POINTS or not np.all(np.isfinite(points)):
        raise SurfaceError("points_m", points.shape, "four finite points or more, shape (k, 2)")
    chords = np.linalg.norm(np.diff(points, axis=0), axis=1)
    if np.min(chords) <= 1e-9 * np.sum(chords):
        raise SurfaceError("points_m", float(np.min(chords)), "a distance between one point and the next")
    parameter = np.concatenate([[0.0], np.cumsum(chords)])
    if deviation_m > 0:
        smooth, _ = scipy.interpolate.make_splprep(points.T, u=parameter, s=len(points) * deviation_m**2)
        points = np.asarray(smooth(parameter)).T
    curve = scipy.interpolate.CubicSpline(parameter, points @ [1, 1j])
    fine = np.linspace(0.0, parameter[-1], 16 * INTERVALS + 1)
    length = scipy.interpolate.make_interp_spline(fine, np.abs(curve(fine, 1)), k=_DEGREE).antiderivative()(fine)
    length -= length[0]
    knots = np.linspace(0.0, length[-1], 2 * INTERVALS + 1)
    at = scipy.interpolate.make_interp_spline(length, fine, k=_DEGREE)(knots)
    at[[0, -1]] = fine[[0, -1]]
    first, second, third = (curve(at, order) for order in (1, 2, 3))
    speed = np.abs(first)
    stretch, turn = (first.conj() * second).real / speed**3, (first.conj() * second).imag / speed**3
    slope = (first.conj() * third).imag / speed**4 - 3 * turn * stretch
    angles = np.stack([np.unwrap(np.angle(first)), turn, slope], axis=-1)
    table = _quintics(knots, curve(at), angles)
    table.x = table.x - (length[-1] / 2 if zero_m is None else _nearest(table, np.asarray(zero_m, dtype=float)))
    return Surface(table)


def _quintics(knots: Array, places: NDArray[np.complex128], angles: Array) -> scipy.interpolate.PPoly:
    """Quintics of x, y, heading that meet two derivatives at the knots; ``angles`` is heading, curvature, its slope."""
    tangent = np.exp(1j * angles[:, 0])
    position = np.stack([places, tangent, 1j * angles[:, 1] * tangent], axis=-1)
    values = np.stack([position.real, position.imag, angles], axis=-1)
    return scipy.interpolate.PPoly.from_bernstein_basis(scipy.interpolate.BPoly.from_derivatives(knots, values))


def _nearest(curve: scipy.interpolate.PPoly, point: Array) -> float:
    """Arc length of the point of a curve that is next to a given one."""
    low, high = curve.x[[0, -1]]
    s = np.linspace(low, high, 2001)
    best = float(s[np.argmin(np.linalg.norm(curve(s)[:, :2] - point, axis=1))])
    for _ in range(8):
        x, y, heading = curve(best)
        away = complex(*(point - [x, y])) * np.exp(-1j * heading)
        best = float(np.clip(best + away.real / max(1 - curve(best, 1)[2] * away.imag, 0.1), low, high))
    return best


def _check_pieces(pieces: Sequence[CurvaturePiece], position: Array, heading_rad: float) -> None:
    if not pieces or position.shape != (2,) or not np.all(np.isfinite([*position, heading_rad])):
        raise SurfaceError("pieces", len(pieces), "one piece or more, a finite position of shape (2,) and heading")
    for piece in pieces:
        if not np.all(np.isfinite([piece.start_m, piece.end_m, *piece.coefficients])) or piece.start_m >= piece.end_m:
            raise SurfaceError("pieces", (piece.start_m, piece.end_m), "finite values, start_m below end_m")
        if np.any(piece.coefficients[_DEGREE:]):
            raise SurfaceError("pieces", piece.coefficients, f"curvature of degree {_DEGREE - 1} at most")
    for before, after in pairwise(pieces):
        if before.end_m != after.start_m:
            raise SurfaceError("pieces", (before.end_m, after.start_m), "pieces that begin where the one before ends")
    if not pieces[0].start_m < 0 < pieces[-1].end_m:
        raise SurfaceError("pieces", (pieces[0].start_m, pieces[-1].end_m), "arc lengths around 0")


class SurfaceError(ParameterError):
    """A contact surface that cannot be used; ``name`` is its name."""


class IntersectingSurfacesError(SurfaceError):
    """Two surfaces that would cut into each other, or lie flat on each other, where they touch."""


class OffSurfaceError(ParameterError):
    """An arc length that is not on the surface."""


class NoEquilibriumError(ContinuumRobotError, ArithmeticError):
    """No equilibrium was found within the surfaces: the links roll to the end of one."""

    def __init__(self, joint: int, arc_length_m: float, starts: int) -> None:
        self.joint, self.arc_length_m, self.starts = joint, arc_length_m, starts
        super().__init__(
            f"no equilibrium found within the surfaces (starts tried: {starts}): joint {joint} rolls to the end of its"
            f" surface, s = {arc_length_m * 1e3:.4g} mm. Lower the load, raise the tensions, or make the surface longer"
        )
