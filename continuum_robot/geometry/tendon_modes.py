# SPDX-License-Identifier: Apache-2.0
"""Coordinates of tendons that no geometry ties together: the displacements that the rod itself gives way to.

Derived here: what takes the place of the Clarke manifold, muhmann (13), for helical tendons, tendons that end anywhere,
unequal angles and radii.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.geometry.clarke import ClarkeManifold
from continuum_robot.geometry.null_tensions import positive_null_vector

Array = NDArray[np.float64]

PAIR = 2
"""Coordinates that share gains, as the two Clarke coordinates of a segment do."""
_LEAST_COMPLIANCE = 1e-3  # of the largest: a stiffer displacement is stretch of tendons and noise before it is motion


class TendonModes(ClarkeManifold):
    """Pairs of displacements along which a rod gives way most to its tendons, and can be pulled to and fro.

    The rod's compliance Q = J K^-1 J^T, from tensions to displacements at the straight configuration, is symmetric; its
    eigenvectors of largest eigenvalue are the displacements that tensions move most. Tendons only pull, so a set of
    them can be forced both ways only while some positive tensions together force none of them: a mode without which no
    such tensions would be left over is passed over. :attr:`transforms` is empty.

    Parameters
    ----------
    compliance : Q, (N, N), m/N
    tip : (2, N) displacement of the tip along x and y per tension, m/N; each pair of coordinates is turned towards it
    coordinates : how many, even

    Attributes
    ----------
    shift_direction : positive tensions that force none of the coordinates, (N,), largest 1; read-only
    compliances : of the coordinates' modes, from the softest on, (coordinates,), m/N; read-only

    Raises
    ------
    ParameterError : fewer modes than coordinates that tendons can force both ways; names what each is left over
    """

    def __init__(self, compliance: ArrayLike, tip: ArrayLike, coordinates: int) -> None:
        Q = np.asarray(compliance, dtype=float)
        count = len(Q)
        if Q.shape != (count, count) or not np.allclose(Q, Q.T, atol=1e-9 * np.abs(Q).max(initial=0.0)):
            raise ParameterError("compliance", Q.shape, "a symmetric matrix")
        if coordinates < PAIR or coordinates % PAIR:
            raise ParameterError("coordinates", coordinates, "an even number of at least 2")
        modes, compliances = _forced_both_ways(Q, coordinates)
        moved = np.asarray(tip, dtype=float) @ (modes / compliances)
        pairs = [_turned(modes[:, k : k + PAIR], moved[:, k : k + PAIR]) for k in range(0, coordinates, PAIR)]
        D = np.column_stack(pairs)
        C: Array = np.linalg.pinv(D).astype(np.float64)
        direction = positive_null_vector(D)
        if direction is None:  # rounding, where the modes had one
            raise ParameterError("tendons", "tensions that force none of the coordinates", "none close to zero")
        self._set(D, C, [count], segments=coordinates // PAIR, direction=direction)
        self.compliances = compliances
        compliances.setflags(write=False)


def _forced_both_ways(Q: Array, desired: int) -> tuple[Array, Array]:
    """The softest modes that leave positive tensions over, orthonormal, (N, desired), and their compliances."""
    values, vectors = np.linalg.eigh((Q + Q.T) / 2)
    taken: list[int] = []
    passed: list[str] = []
    for k in np.argsort(values)[::-1]:
        if len(taken) == desired:
            break
        if values[k] < _LEAST_COMPLIANCE * values.max():
            passed.append(f"{_named(vectors[:, k])} is too stiff")
        elif positive_null_vector(vectors[:, [*taken, k]]) is None:
            passed.append(f"{_named(vectors[:, k])} is pulled one way only")
        else:
            taken.append(int(k))
    if len(taken) < desired:
        raise ParameterError(
            "tendons",
            f"{len(taken)} directions of displacement",
            f"{desired} that tensions can force both ways; " + "; ".join(passed),
        )
    return vectors[:, taken], values[taken]


def _named(direction: Array) -> str:
    largest = direction / direction[np.argmax(np.abs(direction))]
    return "(" + ", ".join(f"{value:.2g}" for value in np.where(np.abs(largest) < 5e-3, 0.0, largest)) + ")"


def _turned(pair: Array, moved: Array) -> Array:
    """A pair of modes in the directions in which they move the tip; the tendon that it moves most by length 1.

    Parameters
    ----------
    pair : orthonormal, (N, 2)
    moved : displacement of the tip along x and y by each, (2, 2)
    """
    left, _, right = np.linalg.svd(moved)
    turned = pair @ right.T @ left.T  # moved @ right.T @ left.T is symmetric and positive
    return np.asarray(turned / np.linalg.norm(turned, axis=1).max())
