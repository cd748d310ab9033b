# SPDX-License-Identifier: Apache-2.0
"""Contact wrench from the generalised force r = J^T w: the weighted minimum-norm problem of johnston (58)-(61).

In closed form: with the columns of N spanning the null space of A, w = N y meets A w = 0. Of all y that fit r best in
the metric of its covariance the one of least w^T W w follows from one singular value decomposition. Directions of y
that do not show in r beyond its noise are left at zero and named.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ParameterError

Vector = NDArray[np.float64]
Mask = NDArray[np.bool_]

COMPONENTS = ("force_x", "force_y", "force_z", "moment_x", "moment_y", "moment_z")
# Components that a contact can transmit, in the frame of the cross-section. Force along z and moment about it do not
# show (johnston section 7.2) but are left to the rank decision where the contact allows them.
CONTACT_TYPES: dict[str, tuple[int, ...]] = {
    "point": (0, 1),  # johnston (61)
    "hard_finger": (0, 1, 2),
    "soft_finger": (0, 1, 2, 5),
    "bending": (0, 1, 3, 4),
    "any": (0, 1, 2, 3, 4, 5),
}
_SMALLEST_FRACTION = 1e-9
_MIXED = 1e-6


def constraint_of(contact_type: str) -> Vector:
    """A of johnston (60) of a named contact type, shape (constraints, 6)."""
    if contact_type not in CONTACT_TYPES:
        raise ParameterError("contact_type", contact_type, "one of " + ", ".join(CONTACT_TYPES))
    return np.delete(np.eye(6), CONTACT_TYPES[contact_type], axis=0)


def free_directions(constraint: ArrayLike) -> Vector:
    """Orthonormal wrenches with A w = 0, shape (6, m)."""
    A = np.asarray(constraint, dtype=float).reshape(-1, 6) if np.size(constraint) % 6 == 0 else None
    if A is None or not np.all(np.isfinite(A)):
        raise ParameterError("constraint", constraint, "rows of 6 numbers: A w = 0 for w = (force, moment)")
    if A.shape[0] == 0:
        return np.eye(6)
    _, singular, right = np.linalg.svd(A, full_matrices=True)
    rank = int(np.sum(singular > _SMALLEST_FRACTION * max(float(singular[0]), math.ulp(0.0))))
    if rank == 6:
        raise ParameterError(
            "constraint", constraint, "a contact type that leaves a component of the wrench to estimate"
        )
    null = right[rank:].T
    # Where the components themselves span it, take them: exact zeros, and a basis that a reader knows.
    own = np.flatnonzero(np.abs(np.linalg.norm(null, axis=1) - 1) < _SMALLEST_FRACTION)
    return np.eye(6)[:, own] if own.size == null.shape[1] else null


@dataclass(frozen=True, slots=True)
class WrenchEstimate:
    """Contact wrench in the frame of the backbone at the contact."""

    wrench: Vector
    covariance: Vector
    sensed: Mask
    assumed_zero: Mask
    rank: int
    chi_square: float
    degrees_of_freedom: int


class WrenchEstimator:
    """Solves johnston (60) for a contact type."""

    def __init__(
        self,
        contact_type: str | ArrayLike = "point",
        weight: ArrayLike | None = None,
        *,
        plausible: float = 100.0,
        sensible_sigma: float = 3.0,
    ) -> None:
        constraint = constraint_of(contact_type) if isinstance(contact_type, str) else contact_type
        self.directions = free_directions(constraint)
        weights = np.ones(6) if weight is None else np.asarray(weight, dtype=float)
        if weights.shape != (6,) or not np.all(np.isfinite(weights) & (weights > 0)):
            raise ParameterError("weight", weight, "6 positive numbers")
        if not (0 < plausible < math.inf and 0 < sensible_sigma < math.inf):
            raise ParameterError("plausible, sensible_sigma", (plausible, sensible_sigma), "positive numbers")
        N = self.directions
        # y = back z, so that w^T W w = z^T z.
        self._back = np.linalg.inv(np.linalg.cholesky(N.T @ (weights[:, None] * N)).T)
        self._wrenches = N @ self._back
        self._sizes = np.linalg.norm(self._wrenches, axis=1)
        self._least_gain = sensible_sigma / plausible
        self._pair = self._wrenches.shape[1] == 2
        self.assumed_zero: Mask = np.linalg.norm(N, axis=1) < _SMALLEST_FRACTION

    def estimate(
        self,
        residual: ArrayLike,
        jacobian: ArrayLike,
        covariance: ArrayLike | None = None,
        *,
        information: Vector | None = None,
    ) -> WrenchEstimate:
        """Wrench that explains a residual at a known location."""
        r = np.asarray(residual, dtype=float)
        B = np.asarray(jacobian, dtype=float).T @ self._wrenches  # r = B z, johnston (58) on A w = 0
        if not math.isfinite(np.vdot(r, r) + np.vdot(B, B)):
            unknown = np.full(6, np.nan)
            return WrenchEstimate(
                unknown, np.full((6, 6), np.nan), np.zeros(6, bool), self.assumed_zero.copy(), 0, math.nan, 0
            )
        if covariance is not None:
            return self._weighted(r, B, _inverse(covariance) if information is None else information)
        left, gains, right = np.linalg.svd(B, full_matrices=False)
        rank = int((gains > _SMALLEST_FRACTION * max(float(gains[0]), math.ulp(0.0))).sum())
        to_wrench = self._wrenches @ (right[:rank].T / gains[:rank])  # johnston (59), (60)
        unknown = np.full((6, 6), np.nan)
        wrench = to_wrench @ (left.T[:rank] @ r)
        return WrenchEstimate(
            wrench, unknown, self._seen(right[:rank]), self.assumed_zero.copy(), rank, math.nan, r.size - rank
        )

    def _weighted(self, r: Vector, B: Vector, information: Vector) -> WrenchEstimate:
        """The same in the metric of the noise: squares of singular values are eigenvalues of B^T S^-1 B."""
        weighted = B.T @ information
        if self._pair:
            found = self._weighted_pair(r, weighted @ B, weighted @ r, information)
            if found is not None:
                return found
        squares, right = np.linalg.eigh(weighted @ B)
        seen = squares > self._least_gain**2
        rank = int(seen.sum())
        if rank < seen.size:
            squares, right = squares[seen], right[:, seen]
        along = right.T @ (weighted @ r)
        fractions = along / squares
        to_wrench = self._wrenches @ right  # johnston (59), (60)
        return WrenchEstimate(
            to_wrench @ fractions,
            (to_wrench / squares) @ to_wrench.T,
            self._seen(right.T),
            self.assumed_zero.copy(),
            rank,
            max(float(r @ information @ r - along @ fractions), 0.0),
            r.size - rank,
        )

    def _weighted_pair(self, r: Vector, G: Vector, h: Vector, information: Vector) -> WrenchEstimate | None:
        """The same in two directions that are both sensed, without an eigenvalue problem; else None."""
        (xx, xy), (_, yy) = G.tolist()
        half = (xx - yy) / 2
        if (xx + yy) / 2 - math.hypot(half, xy) <= self._least_gain**2 * (1 + _MIXED):
            return None
        determinant = xx * yy - xy * xy
        inverse = np.array([[yy, -xy], [-xy, xx]]) / determinant
        fractions = inverse @ h
        to_wrench = self._wrenches @ inverse
        return WrenchEstimate(
            self._wrenches @ fractions,
            to_wrench @ self._wrenches.T,
            ~self.assumed_zero,
            self.assumed_zero.copy(),
            2,
            max(float(r @ information @ r - h @ fractions), 0.0),
            r.size - 2,
        )

    def _seen(self, directions: Vector) -> Mask:
        """Components that lie in the sensed directions, (rank, m), altogether."""
        sensed = ~self.assumed_zero
        if len(directions) < self._wrenches.shape[1]:
            shown = np.linalg.norm(self._wrenches @ directions.T, axis=1)
            sensed &= shown**2 >= (1 - _MIXED) * self._sizes**2
        return sensed


def _inverse(covariance: ArrayLike) -> Vector:
    matrix = np.asarray(covariance, dtype=float)
    try:
        np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        raise ParameterError("covariance", covariance, "a positive definite matrix") from None
    return np.linalg.inv(matrix)
