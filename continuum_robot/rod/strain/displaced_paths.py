# SPDX-License-Identifier: Apache-2.0
"""By how much a bent robot shortens the paths of tendons that servos hold at displacements.

Of constant curvature a path shortens by d = D c (muhmann (8), (13)). Tendons that turn about the backbone by a rad/m
have in a segment of length l the angle of its middle, and sin(a l / 2) / (a l / 2) of the lever: the mean of the
direction along it. Between disks h apart they run straight: the chord of an arc of the curvature kappa is shorter by
kappa^2 h^2 / 24 of its length. And the backbone gives way along itself under their tension: by s in a segment, which
takes the energy s^2 / (2 l b) at the compliance b. These three are derived here.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from continuum_robot.robot.coordinates import clarke_from_curvature, clarke_manifold
from continuum_robot.robot.description import Robot
from continuum_robot.robot.segments.displaced_tendons import DisplacedTendons

Array = NDArray[np.float64]


class DisplacedPaths:
    """Paths of N tendons as a function of the shape x of m segments.

    The shape is [kappa_x, kappa_y] of every segment, (2m,), 1/m, and then of each by how much it is shorter, over
    sqrt(l b): half the sum of their squares is that energy, (m,).

    Parameters
    ----------
    robot : with a constant basis
    tendons : of that robot

    Attributes
    ----------
    straight : of straight tendons along the arc, shape (N, 3m)
    by_angle : its derivative by the angle of the tendon's own segment, shape (N, 3m)
    by_spiral : by the turn about the backbone in rad/m, shape (N, 3m)
    by_log_compliance : by the logarithm of the compliance, shape (N, 3m)
    turn_rad : of a segment by its curvature, and the turn of a lever's end by its shortening, per unit of x, (3m,)
    """

    def __init__(self, robot: Robot, tendons: DisplacedTendons) -> None:
        quarter = tuple(
            replace(
                segment, tendons=replace(segment.tendons, angle_offset_rad=_turned(segment.tendons.angle_offset_rad))
            )
            for segment in robot.segments
        )
        along = clarke_manifold(robot).displacement_matrix @ clarke_from_curvature(robot)
        # cos(psi + pi/2) and sin(psi + pi/2) are the derivatives of cos(psi) and sin(psi).
        turned = robot.changed(segments=quarter)
        ahead = clarke_manifold(turned).displacement_matrix @ clarke_from_curvature(turned)
        lengths_m = np.array([segment.length_m for segment in robot.segments])
        owner = np.repeat(np.arange(len(lengths_m)), [rows.stop - rows.start for rows in robot.tendon_slices])
        passing = np.arange(len(lengths_m)) <= owner[:, None]
        softness = np.sqrt(lengths_m * tendons.compliance_per_n)
        straight, by_angle, by_spiral = _spiralling(along, ahead, lengths_m, owner, tendons.spiral_rad_per_m)
        none = np.zeros(passing.shape)
        self.straight = np.hstack([straight, passing * softness])
        self.by_angle, self.by_spiral = np.hstack([by_angle, none]), np.hstack([by_spiral, none])
        self.by_log_compliance = np.hstack([0 * straight, passing * softness / 2])
        self._chords = passing * lengths_m * tendons.straight_over_m**2 / 24
        radii_m = np.array([segment.tendons.pitch_radius_m for segment in robot.segments])
        self.turn_rad = np.concatenate([np.repeat(lengths_m, 2), softness / radii_m])

    def at(self, x: Array) -> Array:
        """What the paths shorten by at a shape ``x``, shape (N,), m."""
        return np.asarray(self.straight @ x + self.chords(x))

    def chords(self, x: Array) -> Array:
        """The part of it that is due to the chords between the disks at a shape ``x``, shape (N,), m."""
        return np.asarray(self._chords @ (x[: 2 * self._chords.shape[1]].reshape(-1, 2) ** 2).sum(axis=1))

    def chord_slope(self, x: Array) -> Array:
        """Derivative of :meth:`chords` by the shape at ``x``, shape (N, 3m)."""
        bent = 2 * np.repeat(self._chords, 2, axis=1) * x[: 2 * self._chords.shape[1]]
        return np.hstack([bent, np.zeros(self._chords.shape)])

    def second(self, pull: Array) -> Array:
        """Second derivative by the shape of the work of a ``pull``, shape (N,), N: the diagonal, shape (3m,), N.m."""
        return np.concatenate([np.repeat(2 * pull @ self._chords, 2), np.zeros(self._chords.shape[1])])


def _spiralling(
    along: Array, ahead: Array, lengths_m: Array, owner: NDArray[np.intp], spiral_rad_per_m: float
) -> tuple[Array, Array, Array]:
    """Paths of tendons that turn about the backbone, and their derivatives by the angle and by the spiral.

    ``along`` are those of parallel ones, ``ahead`` those a quarter of a turn on, both (N, 2m).
    """
    middles_m = np.cumsum(lengths_m) - lengths_m / 2
    away_m = np.repeat(middles_m - middles_m[owner, None], 2, axis=1)  # of each segment, from the tendon's own
    half = np.repeat(spiral_rad_per_m * lengths_m / 2, 2)
    mean = np.sinc(half / np.pi)
    small = np.abs(half) < 1e-4
    by_half = np.where(small, -half / 3, (np.cos(half) - mean) / np.where(small, 1.0, half))
    cosine, sine = np.cos(spiral_rad_per_m * away_m), np.sin(spiral_rad_per_m * away_m)
    turned, turned_ahead = cosine * along + sine * ahead, cosine * ahead - sine * along
    by_spiral = by_half * np.repeat(lengths_m / 2, 2) * turned + mean * away_m * turned_ahead
    return mean * turned, mean * turned_ahead, by_spiral


def _turned(angle_rad: float) -> float:
    """A quarter turn further, within the range that a robot file allows."""
    return float((angle_rad + np.pi / 2 + np.pi) % (2 * np.pi) - np.pi)
