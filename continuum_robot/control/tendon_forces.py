# SPDX-License-Identifier: Apache-2.0
"""Tendon tensions for a wanted generalised force on the Clarke manifold: tendons pull, they do not push.

Muhmann (26) gives the least tensions that make the force, and some of them are negative. Three ways out of it, section
III: clip, redistribute, shift. Adding one tension to all tendons of a segment changes no generalised force, so each of
them adds the wanted pretension to all tendons, on top.
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.libc.math import atan2, floor, isfinite, sin, sqrt
from numpy.typing import NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.geometry.clarke import ClarkeManifold
from continuum_robot.robot.control_settings import TENDON_FORCE_STRATEGIES
from continuum_robot.stepped.buffers import UNKNOWN, indices, integers, matrix, stepped, vector

Vector = NDArray[np.float64]

SHIFT = cython.declare(cython.int, 0)
REDISTRIBUTE = cython.declare(cython.int, 1)
CLIP = cython.declare(cython.int, 2)
FULL_TURN_RAD = cython.declare(cython.double, 6.283185307179586)


@cython.cclass
class TendonForces:
    """Distributes a generalised force over the tendons; see :func:`distribute`.

    Parameters
    ----------
    manifold : of the robot's tendons
    strategy : ``shift``, ``redistribute`` or ``clip``
    pretension_n : least tension that is left on every tendon, N, at least 0

    Attributes
    ----------
    initial : least tensions that make the force, negative ones among them, N
    tension : of all tendons, N

    Raises
    ------
    ParameterError : as :meth:`set`
    """

    tendon_count: cython.int
    coordinate_count: cython.int
    part_count: cython.int
    strategy: cython.int
    pretension_n: cython.double
    around_circles: cython.bint
    clarke_matrix: cython.double[::1]
    bounds: cython.int[::1]
    offset_rad: cython.double[::1]
    cosine: cython.double[::1]
    sine: cython.double[::1]
    initial: cython.double[::1]
    tension: cython.double[::1]

    def __init__(self, manifold: ClarkeManifold, strategy: str = "shift", pretension_n: float = 0.0) -> None:
        transforms = manifold.transforms
        self.tendon_count, self.coordinate_count = manifold.tendon_count, manifold.coordinate_count
        self.part_count = len(manifold.tendon_slices)
        self.around_circles = len(transforms) == self.part_count
        self.clarke_matrix = matrix(manifold.clarke_matrix.tolist())
        self.bounds = integers([0, *(rows.stop for rows in manifold.tendon_slices)])
        self.offset_rad = vector([one.angle_offset_rad for one in transforms])
        self.cosine = vector([value for one in transforms for value in one.inverse[:, 0].tolist()])
        self.sine = vector([value for one in transforms for value in one.inverse[:, 1].tolist()])
        self.initial, self.tension = vector(self.tendon_count), vector(self.tendon_count)
        self.set(strategy, pretension_n)

    def set(self, strategy: str, pretension_n: float) -> None:
        """Use another strategy or pretension from the next step on; see the class for the arguments.

        Raises
        ------
        ParameterError : unknown strategy, negative pretension, or ``redistribute`` for tendons that do not stand around
            a circle
        """
        if not pretension_n >= 0:
            raise ParameterError("pretension_n", pretension_n, "a tension of at least 0 N")
        codes = {"shift": SHIFT, "redistribute": REDISTRIBUTE, "clip": CLIP}
        if strategy not in codes:
            raise ParameterError("strategy", strategy, f"one of {', '.join(TENDON_FORCE_STRATEGIES)}")
        if strategy == "redistribute" and not self.around_circles:
            raise ParameterError("strategy", strategy, "shift or clip for tendons that do not stand around a circle")
        self.strategy, self.pretension_n = codes[strategy], float(pretension_n)

    @stepped
    def step(self, force: cython.double[::1]) -> cython.void:
        """Tensions for a generalised force, N."""
        i: cython.int
        j: cython.int
        first: cython.int
        last: cython.int
        initial: cython.double[::1] = self.initial
        tension: cython.double[::1] = self.tension
        pretension_n: cython.double = self.pretension_n
        self.least(force)
        for i in indices(self.part_count):
            first, last = self.bounds[i], self.bounds[i + 1]
            if self.strategy == REDISTRIBUTE:
                self.redistribute(i, first, last)
            elif self.strategy == CLIP:
                for j in range(first, last):
                    value: cython.double = self.initial[j]
                    if value < 0.0:
                        value = 0.0
                    self.tension[j] = value + self.pretension_n  # muhmann III-A
            else:
                low: cython.double = initial[first]
                for j in range(first + 1, last):
                    if initial[j] < low:
                        low = initial[j]
                # The paper prints + min(F); only - min(F) makes every tension >= 0.
                for j in range(first, last):
                    tension[j] = (initial[j] - low) + pretension_n  # muhmann (28)

    @stepped
    def least(self, force: cython.double[::1]) -> cython.void:
        """The least tensions, negative ones among them, that make a generalised force, N: muhmann (26), with (13)."""
        j: cython.int
        k: cython.int
        tendons: cython.int = self.tendon_count
        coordinates: cython.int = self.coordinate_count
        clarke_matrix: cython.double[::1] = self.clarke_matrix
        initial: cython.double[::1] = self.initial
        for j in indices(tendons):
            total: cython.double = 0.0
            for k in indices(coordinates):
                total += force[k] * clarke_matrix[k * tendons + j]
            initial[j] = total

    @stepped
    def redistribute(self, i: cython.int, first: cython.int, last: cython.int) -> cython.void:
        """All of the force of segment ``i``, of the tendons from ``first`` to before ``last`` (indices), on the two
        tendons on either side of its direction, muhmann III-B.
        """
        j: cython.int
        count: cython.int = last - first
        force_re: cython.double = 0.0
        force_im: cython.double = 0.0
        for j in range(first, last):  # n / 2 M_P F, muhmann (27)
            force_re += self.initial[j] * self.cosine[j]
            force_im += self.initial[j] * self.sine[j]
        size: cython.double = sqrt(force_re * force_re + force_im * force_im)
        if not isfinite(size):
            for j in range(first, last):
                self.tension[j] = UNKNOWN
            return
        for j in range(first, last):
            self.tension[j] = self.pretension_n
        spacing: cython.double = FULL_TURN_RAD / count
        angle: cython.double = atan2(force_im, force_re) - self.offset_rad[i]
        angle = angle - FULL_TURN_RAD * floor(angle / FULL_TURN_RAD)
        before: cython.int = int(angle / spacing)
        past: cython.double = angle - before * spacing
        # Two unit vectors a spacing apart that sum to the wanted one: the law of sines. Rounding can put the angle a
        # hair outside of its sector, or of the turn; a tension is not negative for that.
        behind: cython.double = size * sin(spacing - past) / sin(spacing)
        ahead: cython.double = size * sin(past) / sin(spacing)
        if before >= count:
            before -= count
        if behind > 0.0:
            self.tension[first + before] = behind + self.pretension_n
        j = before + 1
        if j == count:
            j = 0
        if ahead > 0.0:
            self.tension[first + j] = ahead + self.pretension_n


def distribute(strategy: str, generalized_force: Vector, manifold: ClarkeManifold, pretension_n: float = 0.0) -> Vector:
    """Tensions of all tendons for a generalised force.

    Parameters
    ----------
    strategy : ``shift``, muhmann (28), ``redistribute`` or ``clip``
    generalized_force : wanted, shape (2m,), N
    manifold : of the robot's tendons
    pretension_n : least tension that is left on every tendon, N, at least 0

    Returns
    -------
    tensions, shape (N,), N, all >= pretension_n; NaN where the force is NaN. Their generalised force is the wanted one
    with ``shift`` and ``redistribute``, and differs from it with ``clip`` wherever something was clipped

    Raises
    ------
    ParameterError : unknown strategy, negative pretension, or a force of the wrong shape
    """
    forces = TendonForces(manifold, strategy, pretension_n)
    forces.step(_checked_force(generalized_force, manifold))
    return np.array(forces.tension)


def initial_tension(generalized_force: Vector, manifold: ClarkeManifold) -> Vector:
    """The least tensions, negative ones among them, that make a generalised force.

    The tendons of a distal segment load the proximal segments too: tau_k = sum over i >= k of (r_i / r_k) w_i with
    w_i = n_i / 2 M_P F_i. Solving that from the tip to the base and F_i = (2 / n_i) M_P^-1 w_i, muhmann (26), are one
    product with the transposed Jacobian of the Clarke coordinates.

    Parameters
    ----------
    generalized_force : shape (2m,), N
    manifold : of the robot's tendons

    Returns
    -------
    shape (N,), N; sums to zero over each segment

    Raises
    ------
    ParameterError : a force of the wrong shape
    """
    forces = TendonForces(manifold)
    forces.least(_checked_force(generalized_force, manifold))
    return np.array(forces.initial)


def _checked_force(generalized_force: Vector, manifold: ClarkeManifold) -> object:
    if np.shape(generalized_force) != (manifold.coordinate_count,):
        raise ParameterError(
            "generalized_force", np.shape(generalized_force), f"an array of shape ({manifold.coordinate_count},)"
        )
    return vector(generalized_force)
