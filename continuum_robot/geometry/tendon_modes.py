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

_LEAST_COMPLIANCE = 1e-3  # of the largest: a stiffer displacement is stretch of tendons and noise before it is motion
_EQUAL = 1e-6  # difference of compliances, of the larger: below, any turn of both modes together is a mode too
_LEAST_TIP_MOTION = 1e-6  # of the tip over the displacement: below, the sign of a mode is that of a tendon


class TendonModes(ClarkeManifold):
    """Displacements along which a rod gives way most to its tendons, and can be pulled to and fro.

    The rod's compliance Q = J K^-1 J^T, from tensions to displacements at the straight configuration, is symmetric. Its
    eigenvectors of largest eigenvalue are the displacements that tensions of a given size move most: the longest axes
    of the compliance ellipsoid (Gravagne and Walker, IEEE Trans. Robotics and Automation 18(3), 2002). They are
    orthogonal, and so are their shapes of least energy: where only some are coordinates, these shapes have nothing of
    the others, and the least tensions that force the coordinates force none of the others.

    Tendons only pull, so a set of them can be forced both ways only while some positive tensions together force none of
    them: a mode without which no such tensions would be left over is passed over. :attr:`transforms` is empty.
    """

    def __init__(
        self,
        compliance: ArrayLike,
        tip: ArrayLike,
        coordinates: int,
        *,
        in_pairs: bool = True,
        within: ClarkeManifold | None = None,
    ) -> None:
        Q = np.asarray(compliance, dtype=float)
        count = len(Q)
        if Q.shape != (count, count) or not np.allclose(Q, Q.T, atol=1e-9 * np.abs(Q).max(initial=0.0)):
            raise ParameterError("compliance", Q.shape, "a symmetric matrix")
        if coordinates < 1:
            raise ParameterError("coordinates", coordinates, "at least 1")
        modes, compliances = _forced_both_ways(Q, coordinates, within)
        moved = np.asarray(tip, dtype=float) @ (modes / compliances)
        columns: list[Array] = []
        while (k := len(columns)) < coordinates:
            equal = k + 1 < len(compliances) and compliances[k] - compliances[k + 1] < _EQUAL * compliances[k]
            if equal or (in_pairs and k + 1 < coordinates):
                columns += list(_turned(modes[:, k : k + 2], moved[:, k : k + 2]).T)
            else:
                columns.append(_signed(modes[:, k], moved[:, k]))
        D = np.column_stack(columns[:coordinates])
        C: Array = np.linalg.pinv(D).astype(np.float64)
        direction = positive_null_vector(D) if within is None else within.shift_direction.copy()
        if direction is None:  # rounding, where the modes had one
            raise ParameterError("tendons", "tensions that force none of the coordinates", "none close to zero")
        counts = [count] if within is None else [rows.stop - rows.start for rows in within.tendon_slices]
        self._set(D, C, counts, segments=(coordinates + 1) // 2, direction=direction)
        self.compliances = compliances[:coordinates]
        self.compliances.setflags(write=False)


def _forced_both_ways(Q: Array, desired: int, within: ClarkeManifold | None) -> tuple[Array, Array]:
    """The softest modes that leave positive tensions over, orthonormal, (N, k), and their compliances, (k,).

    k is ``desired``, or one more where the last one has a partner that is equally soft.
    """
    values, vectors = np.linalg.eigh((Q + Q.T) / 2)
    taken: list[int] = []
    passed: list[str] = []
    for k in np.argsort(values)[::-1]:
        if len(taken) >= desired:
            if len(taken) == desired and values[taken[-1]] - values[k] < _EQUAL * values[taken[-1]]:
                taken.append(int(k))
            break
        if values[k] < _LEAST_COMPLIANCE * values.max():
            passed.append(f"{_named(vectors[:, k])} is too stiff")
        elif within is None and positive_null_vector(vectors[:, [*taken, k]]) is None:
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
    """A pair of modes in the directions in which they move the tip; the tendon that it moves most by length 1."""
    left, _, right = np.linalg.svd(moved)
    turned = pair @ right.T @ left.T  # moved @ right.T @ left.T is symmetric and positive
    return np.asarray(turned / np.linalg.norm(turned, axis=1).max())


def _signed(mode: Array, moved: Array) -> Array:
    """A mode, (N,), towards +x or +y of the tip, which it moves by ``moved``, (2,); its largest entry of size 1."""
    largest = mode[np.argmax(np.abs(mode))]
    towards = moved[np.argmax(np.abs(moved))]
    return np.asarray(mode / abs(largest) * np.sign(towards if abs(towards) > _LEAST_TIP_MOTION else largest))
