# SPDX-License-Identifier: Apache-2.0
"""By how much a bent robot shortens the paths of tendons that servos hold at displacements.

Of constant curvature a path shortens by d = D c (muhmann (8), (13)). Tendons that turn about the backbone by a rad/m
have in a segment of length l the angle of its middle, and sin(a l / 2) / (a l / 2) of the lever: the mean of the
direction along it. Between disks h apart they run straight: the chord of an arc of the curvature kappa is shorter by
kappa^2 h^2 / 24 of its length. And the backbone gives way along itself under their tension: by s in a segment, which
takes the energy s^2 / (2 l b) at the compliance b. These three are derived here.
"""

from __future__ import annotations

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
    parameters : number of those on which they depend, m + 3: the angle of each segment's tendons, the turn about the
        backbone in rad/m, and the logarithms of the compliance and of the distance over which tendons run straight
    turn_rad : of a segment by its curvature, and the turn of a lever's end by its shortening, per unit of x, (3m,)
    """

    def __init__(self, robot: Robot, tendons: DisplacedTendons) -> None:
        along = clarke_manifold(robot).displacement_matrix @ clarke_from_curvature(robot)
        lengths_m = np.array([segment.length_m for segment in robot.segments])
        count = len(lengths_m)
        owner = np.repeat(np.arange(count), [rows.stop - rows.start for rows in robot.tendon_slices])
        passing = np.arange(count) <= owner[:, None]
        softness = np.sqrt(lengths_m * tendons.compliance_per_n)
        shortening = passing * softness
        straight, by_angle, by_spiral = _spiralling(along, lengths_m, owner, tendons.spiral_rad_per_m)
        own = np.eye(count)[:, owner]  # which tendons are each segment's
        no_bending, no_shortening = np.zeros(straight.shape), np.zeros(passing.shape)
        self._straight = np.hstack([straight, shortening])
        chords = passing * lengths_m * tendons.straight_over_m**2 / 24
        self._bending = np.hstack([np.repeat(2 * chords, 2, axis=1), no_shortening])
        self._by_parameter = np.stack(
            [
                *(np.hstack([mine[:, None] * by_angle, no_shortening]) for mine in own),
                np.hstack([by_spiral, no_shortening]),
                np.hstack([no_bending, shortening / 2]),
            ]
        )
        self.parameters = len(self._by_parameter) + 1
        radii_m = np.array([segment.tendons.pitch_radius_m for segment in robot.segments])
        self.turn_rad = np.concatenate([np.repeat(lengths_m, 2), softness / radii_m])

    def at(self, x: Array) -> Array:
        """What the paths shorten by at a shape ``x``, shape (N,), m."""
        return np.asarray((self._straight + self._bending * x / 2) @ x)

    def lever(self, x: Array) -> Array:
        """Derivative of :meth:`at` by the shape at ``x``, shape (N, 3m)."""
        return np.asarray(self._straight + self._bending * x)

    def bent_work(self, pull: Array) -> Array:
        """Second derivative by the shape of the work of a ``pull``, shape (N,), N: the diagonal, shape (3m,), N.m."""
        return np.asarray(pull @ self._bending)

    def by_parameter(self, x: Array) -> tuple[Array, Array]:
        """Derivatives of :meth:`at`, (N, m + 3), and of :meth:`lever`, (m + 3, N, 3m), by the parameters at ``x``."""
        bent = self._bending * x
        levers = np.concatenate([self._by_parameter, 2 * bent[None]])
        return np.column_stack([(self._by_parameter @ x).T, bent @ x]), levers


def _spiralling(
    along: Array, lengths_m: Array, owner: NDArray[np.intp], spiral_rad_per_m: float
) -> tuple[Array, Array, Array]:
    """Paths of tendons that turn about the backbone, and their derivatives by the angle and by the spiral.

    ``along`` are those of parallel ones, (N, 2m).
    """
    # (-sin psi, cos psi) a quarter of a turn on, which is its derivative, is (-cos psi, -sin psi).
    ahead = np.stack([-along[:, 1::2], along[:, ::2]], axis=2).reshape(along.shape)
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
