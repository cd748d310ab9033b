# SPDX-License-Identifier: Apache-2.0
"""Coordinates of tendons that no geometry ties together: the displacements that the rod itself gives way to.

Derived here: what takes the place of the Clarke manifold, muhmann (13), for helical tendons, tendons that end anywhere,
unequal angles and radii.

Where two tendons bend in one plane (antagonists), a coordinate a pair is left of it, alone or beside backbones with
Clarke coordinates.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linprog

from continuum_robot.errors import ParameterError
from continuum_robot.geometry.clarke import ClarkeManifold

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


class AntagonistManifold(ClarkeManifold):
    """Two opposite tendons a segment, at psi and psi + pi; the coordinate of a segment is q_k = r_k theta_k.

    theta_k is its bending in the plane of its tendons, towards the first of them. What one tendon is pulled in, the
    other is paid out by: q_ij = +-sum over k <= i of (r_i / r_k) cos(psi_i - psi_k) q_k. Bending across the plane moves
    neither of a pair. How much a pair is not symmetric shows as inconsistency. No two tendons stand around a circle, so
    :attr:`transforms` is empty, and the force cannot be redistributed, only shifted or clipped.
    """

    def __init__(
        self,
        pitch_radii_m: Sequence[float] = (1.0,),
        angles_rad: Sequence[float] = (0.0,),
        from_base: Sequence[bool] | None = None,
    ) -> None:
        radius_m, angle_rad = np.array(pitch_radii_m, dtype=float), np.array(angles_rad, dtype=float)
        count = len(radius_m)
        passes = np.tril(np.ones((count, count)))
        if from_base is not None:
            passes[~np.array(from_base, dtype=bool)] = 0.0
            np.fill_diagonal(passes, 1.0)
        lever = passes * radius_m[:, None] / radius_m * np.cos(angle_rad[:, None] - angle_rad)
        D, C = np.kron(lever, [[1.0], [-1.0]]), np.linalg.solve(lever, np.kron(np.eye(count), [[0.5, -0.5]]))
        self._set(D, np.asarray(C), [2] * count, segments=count, radii_m=radius_m)


class ModulatedManifold(ClarkeManifold):
    """Coordinates [q_Re, q_Im, insertion]: those of n backbones, and half the difference of two drives of a carriage.

    Derived here: muhmann (13) for the backbones, with the insertion of wang as a coordinate of its own. Backbones and
    carriage share no drive, so forces are shifted for each of both by itself. The carriage has no tendons around a
    circle: :attr:`transforms` is empty, and the force cannot be redistributed.
    """

    def __init__(self, count: int, pitch_radius_m: float) -> None:
        backbones, carriage = ClarkeManifold([count], [pitch_radius_m]), AntagonistManifold()
        D, C = np.zeros((count + 2, 3)), np.zeros((3, count + 2))
        D[:count, :2], D[count:, 2:] = backbones.displacement_matrix, carriage.displacement_matrix
        C[:2, :count], C[2:, count:] = backbones.clarke_matrix, carriage.clarke_matrix
        self._set(D, C, [count, 2], radii_m=[pitch_radius_m])


_LEAST_PULL = 1e-3  # of a null vector's largest entry: a tendon below it could hardly be kept taut


def positive_null_vector(D: Array) -> Array | None:
    """Tensions v > 0 with D^T v = 0, largest 1, the most even ones where those are positive; None where there
    are none.
    """
    count = len(D)
    even = 1.0 - D @ np.linalg.lstsq(D, np.ones(count), rcond=None)[0]
    if even.min() > _LEAST_PULL * np.abs(even).max():
        return np.asarray(even / even.max())
    # The largest least tension: maximise t with D^T v = 0 and t <= v <= 1.
    cost = np.append(np.zeros(count), -1.0)
    found = linprog(
        cost,
        A_ub=np.column_stack([-np.eye(count), np.ones(count)]),
        b_ub=np.zeros(count),
        A_eq=np.column_stack([D.T, np.zeros(D.shape[1])]),
        b_eq=np.zeros(D.shape[1]),
        bounds=[(0, 1)] * (count + 1),
    )
    if not found.success or found.x[-1] < _LEAST_PULL:
        return None
    exact = found.x[:count] - D @ np.linalg.lstsq(D, found.x[:count], rcond=None)[0]
    return np.asarray(exact / exact.max())
