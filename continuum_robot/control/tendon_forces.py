# SPDX-License-Identifier: Apache-2.0
"""Tendon tensions for a desired generalised force: tendons pull, they do not push.

Muhmann (26) gives the least tensions that make the force, and some of them are negative. Three ways out of it are his,
section III: clip, redistribute, shift. Adding one tension to all tendons of a segment changes no generalised force, so
each of them adds the desired pretension to all tendons, on top. Tendons that do not stand evenly around a circle are
shifted along other tensions that force nothing, the manifold's ``shift_direction``. A fourth way, least_sum, takes of
all tensions that make the force, none below the pretension, those of least sum. Motors that share tendons can only add
the least tensions to their preload: preload.
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.libc.math import atan2, floor, isfinite, sin, sqrt
from numpy.typing import NDArray

from continuum_robot.control.least_sum import LeastSumBases, least_sum_bases
from continuum_robot.errors import ParameterError
from continuum_robot.geometry.clarke import ClarkeManifold
from continuum_robot.robot.control_settings import TENDON_FORCE_STRATEGIES
from continuum_robot.stepped.buffers import INFINITE, UNKNOWN, indices, integers, matrix, stepped, vector
from continuum_robot.stepped.products import multiply_transposed

Vector = NDArray[np.float64]

SHIFT = cython.declare(cython.int, 0)
REDISTRIBUTE = cython.declare(cython.int, 1)
CLIP = cython.declare(cython.int, 2)
LEAST_SUM = cython.declare(cython.int, 3)
PRELOAD = cython.declare(cython.int, 4)
ROUNDING = cython.declare(cython.double, 1e-12)  # fraction of the desired force
FULL_TURN_RAD = cython.declare(cython.double, 6.283185307179586)


@cython.cclass
class TendonForces:
    """Distributes a generalised force over the tendons; see :func:`distribute`."""

    tendon_count: cython.int
    coordinate_count: cython.int
    part_count: cython.int
    strategy: cython.int
    pretension_n: cython.double
    around_circles: cython.bint
    clarke_matrix: cython.double[::1]
    displacement_matrix: cython.double[::1]
    shift_direction: cython.double[::1]
    basis_count: cython.int
    basis_in_use: cython.int
    basis_tendons: cython.int[::1]
    basis_inverses: cython.double[::1]
    rest: cython.double[::1]
    fraction: cython.double[::1]
    _manifold: object
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
        self.around_circles = len(transforms) == self.part_count and all(one.even for one in transforms)
        self.clarke_matrix = matrix(manifold.clarke_matrix.tolist())
        self.displacement_matrix = matrix(manifold.displacement_matrix.tolist())
        self.shift_direction = vector(manifold.shift_direction)
        self.basis_count = self.basis_in_use = 0
        self.rest, self.fraction = vector(self.coordinate_count), vector(self.coordinate_count)
        self._manifold = manifold
        self.bounds = integers([0, *(rows.stop for rows in manifold.tendon_slices)])
        self.offset_rad = vector([one.angle_offset_rad for one in transforms])
        self.cosine = vector([value for one in transforms for value in one.inverse[:, 0].tolist()])
        self.sine = vector([value for one in transforms for value in one.inverse[:, 1].tolist()])
        self.initial, self.tension = vector(self.tendon_count), vector(self.tendon_count)
        self.set(strategy, pretension_n)

    def set(self, strategy: str, pretension_n: float) -> None:
        """Use another strategy or pretension from the next step on; see the class for the arguments."""
        if not pretension_n >= 0:
            raise ParameterError("pretension_n", pretension_n, "a tension of at least 0 N")
        codes = {
            "shift": SHIFT, "redistribute": REDISTRIBUTE, "clip": CLIP, "least_sum": LEAST_SUM, "preload": PRELOAD
        }  # fmt: skip
        if strategy not in codes:
            raise ParameterError("strategy", strategy, f"one of {', '.join(TENDON_FORCE_STRATEGIES)}")
        if strategy == "redistribute" and not self.around_circles:
            expected = "another one for tendons that do not stand evenly around a circle"
            raise ParameterError("strategy", strategy, expected)
        if strategy == "clip" and any(value != 1.0 for value in self.shift_direction):
            raise ParameterError(
                "strategy", strategy, "shift or least_sum: on these tendons a common tension is a force"
            )
        if strategy == "least_sum" and not self.basis_count:
            self._take_bases(least_sum_bases(self._manifold.displacement_matrix))  # type: ignore[attr-defined]
        self.strategy, self.pretension_n = codes[strategy], float(pretension_n)

    @stepped
    def approach(self, pretension_n: cython.double, step_n: cython.double) -> cython.void:
        """Move the pretension towards ``pretension_n`` by ``step_n`` at most, N."""
        away_n: cython.double = pretension_n - self.pretension_n
        if away_n > step_n:
            self.pretension_n += step_n
        elif away_n < -step_n:
            self.pretension_n -= step_n
        else:
            self.pretension_n = pretension_n

    def _take_bases(self, bases: LeastSumBases) -> None:
        self.basis_tendons = integers(bases.tendons.ravel().tolist())
        self.basis_inverses = vector(bases.inverses.ravel().tolist())
        self.basis_count, self.basis_in_use = len(bases.tendons), 0

    @stepped
    def step(self, force: cython.double[::1]) -> cython.void:
        """Tensions for a generalised force, N."""
        i: cython.int
        j: cython.int
        first: cython.int
        last: cython.int
        value: cython.double
        initial: cython.double[::1] = self.initial
        tension: cython.double[::1] = self.tension
        direction: cython.double[::1] = self.shift_direction
        pretension_n: cython.double = self.pretension_n
        self.least(force)
        if self.strategy == LEAST_SUM:
            self.least_sum(force)
            return
        for i in indices(self.part_count):
            first, last = self.bounds[i], self.bounds[i + 1]
            if self.strategy == REDISTRIBUTE:
                self.redistribute(i, first, last)
            elif self.strategy == CLIP:
                for j in range(first, last):
                    value = self.initial[j]
                    if value < 0.0:
                        value = 0.0
                    self.tension[j] = value + self.pretension_n  # muhmann III-A
            elif self.strategy == PRELOAD:
                for j in range(first, last):
                    tension[j] = initial[j] + pretension_n
            else:
                lowest: cython.int = first
                low: cython.double = (initial[first] - pretension_n) / direction[first]
                for j in range(first + 1, last):
                    room: cython.double = (initial[j] - pretension_n) / direction[j]
                    if room < low:
                        low, lowest = room, j
                # The paper prints + min(F); only - min(F) makes every tension >= 0.
                for j in range(first, last):
                    value = initial[j] - low * direction[j]  # muhmann (28), there all directions are 1
                    if value < pretension_n or (j == lowest and isfinite(value)):  # but for rounding it is
                        value = pretension_n
                    tension[j] = value

    @stepped
    def least(self, force: cython.double[::1]) -> cython.void:
        """The least tensions, negative ones among them, that make a generalised force, N: muhmann (26), with (13)."""
        multiply_transposed(self.clarke_matrix, force, self.coordinate_count, self.tendon_count, self.initial)

    @stepped
    def least_sum(self, force: cython.double[::1]) -> cython.void:
        """Of all tensions that make a generalised force, N, none below the pretension, those of least sum.

        A linear program whose optimum pulls as many tendons as there are coordinates, the others being at the
        pretension. Which sets may do so was found ahead; the one of the last step serves nearly always.
        """
        i: cython.int
        j: cython.int
        k: cython.int
        attempt: cython.int
        count: cython.int = self.coordinate_count
        size: cython.double = 0.0
        for k in indices(count):
            held: cython.double = 0.0
            for j in indices(self.tendon_count):
                held += self.displacement_matrix[j * count + k]
            self.rest[k] = force[k] - held * self.pretension_n
            size += abs(self.rest[k])
        if not isfinite(size):
            for j in indices(self.tendon_count):
                self.tension[j] = UNKNOWN
            return
        best: cython.int = self.basis_in_use
        highest: cython.double = -INFINITE
        for attempt in indices(self.basis_count):
            i = (self.basis_in_use + attempt) % self.basis_count
            lowest: cython.double = self.pulled(i)
            if lowest > highest:
                best, highest = i, lowest
            if lowest >= -ROUNDING * size:
                break
        self.basis_in_use = best
        self.pulled(best)
        for j in indices(self.tendon_count):
            self.tension[j] = self.pretension_n
        for k in indices(count):
            if self.fraction[k] > 0.0:
                self.tension[self.basis_tendons[best * count + k]] = self.fraction[k] + self.pretension_n

    @stepped
    def pulled(self, i: cython.int) -> cython.double:
        """Put into ``fraction`` what the tendons of set ``i`` pull to make the force ``rest``; the least of it."""
        k: cython.int
        m: cython.int
        count: cython.int = self.coordinate_count
        at: cython.int = i * count * count
        lowest: cython.double = INFINITE
        for k in indices(count):
            total: cython.double = 0.0
            for m in indices(count):
                total += self.basis_inverses[at + k * count + m] * self.rest[m]
            self.fraction[k] = total
            if total < lowest:
                lowest = total
        return lowest

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
        # Two unit vectors a spacing apart that sum to the desired one: the law of sines. Rounding can put the angle a
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
    strategy : ``shift``, muhmann (28), ``redistribute``, ``clip``, ``least_sum`` or ``preload``
    """
    forces = TendonForces(manifold, strategy, pretension_n)
    forces.step(_checked_force(generalized_force, manifold))
    return np.array(forces.tension)


def initial_tension(generalized_force: Vector, manifold: ClarkeManifold) -> Vector:
    """The least tensions, negative ones among them, that make a generalised force.

    The tendons of a distal segment load the proximal segments too: tau_k = sum over i >= k of (r_i / r_k) w_i with
    w_i = n_i / 2 M_P F_i. Solving that from the tip to the base and F_i = (2 / n_i) M_P^-1 w_i, muhmann (26), are one
    product with the transposed Jacobian of the Clarke coordinates.
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
