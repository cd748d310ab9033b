# SPDX-License-Identifier: Apache-2.0
"""Frames of a rod with general strains: a chain of sixth-order Magnus steps with exact derivatives.

The chain is g_i = g_(i-1) exp(Omega_i(c)); what a step does, and the derivatives of that, are the functions of
rod/step.py, evaluated for all steps in one call. Here they are only added up along the rod. Twists and strains have the
angular part first; a wrench is (moment, force), its moment about the base's origin if in the base frame.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuum_robot.robot.basis import Basis
from continuum_robot.robot.description import Robot
from continuum_robot.rod.bases import REFERENCE_STRAIN, basis_matrix
from continuum_robot.rod.step import GAUSS_RATIOS, NODAL, StrainPattern, step_functions

Vector = NDArray[np.float64]

_BASE = np.concatenate([np.eye(3).reshape(-1), np.zeros(3)])


@dataclass(frozen=True)
class Stretch:
    """A length of rod with one basis, as the chain sees it.

    Attributes
    ----------
    length_m : m
    basis : its strains
    rest_strain : xi* = (u*, v*), (6,), angular part first, 1/m and dimensionless
    steps : least number of Magnus steps
    """

    length_m: float
    basis: Basis
    rest_strain: tuple[float, ...] = REFERENCE_STRAIN
    steps: int = 4

    @property
    def lobatto(self) -> tuple[Vector, Vector]:
        """Ends of the steps as fractions of the length, and weights for an integral over these, (k,) each.

        Gauss-Lobatto nodes on each piece between breaks of the basis: no step goes over a break.
        """
        return _lobatto_pieces((0.0, *self.basis.breaks, 1.0), self.steps)


def stretches(robot: Robot) -> tuple[Stretch, ...]:
    """The segments of a robot as a chain sees them.

    Parameters
    ----------
    robot : a rod
    """
    return tuple(
        Stretch(segment.length_m, segment.basis, steps=4 + segment.basis.highest_order) for segment in robot.segments
    )


@dataclass(frozen=True, slots=True)
class Frames:
    """The chain at given coefficients.

    Attributes
    ----------
    strain : (k - 1, 18) at the nodes of every step, 1/m and dimensionless
    frame : (k, 12) rotation (column by column) and position (m) of every station in the base frame
    own : (k - 1, 6, n) derivative of every step's Omega
    step : (k - 1, 6, n) twist of a step's end against its start in the base frame, per coefficient
    jacobian : (k, 6, n) twist of every station in the base frame: velocity of what passes the base's origin
    """

    strain: Vector
    frame: Vector
    own: Vector
    step: Vector
    jacobian: Vector

    @property
    def rotation(self) -> Vector:
        """Of every station in the base frame, (k, 3, 3)."""
        return self.frame[:, :9].reshape(-1, 3, 3).swapaxes(1, 2)

    @property
    def position(self) -> Vector:
        """Of every station in the base frame, (k, 3), m."""
        return self.frame[:, 9:]


class MagnusChain:
    """Stations along a rod, and the frames there with their derivatives.

    Parameters
    ----------
    stretches : from the base to the tip
    stations_m : arc lengths at which frames are desired besides the chain's own

    Attributes
    ----------
    s_m : (k,) arc lengths of all stations, m; the first is 0, the last the rod's end
    size : number n of coefficients
    step_m : (k - 1,) lengths of the steps, m
    rest : (k - 1, 18) strain at the nodes of every step without coefficients
    nodal : (k - 1, 18, n) its derivative by the coefficients: B at the nodes
    """

    def __init__(self, stretches: Sequence[Stretch], stations_m: Sequence[float] = ()) -> None:
        self.size = sum(stretch.basis.coefficient_count for stretch in stretches)
        desired = np.unique(np.asarray(stations_m, dtype=float))
        stations: list[Vector] = [np.zeros(1)]
        rest: list[Vector] = []
        nodal: list[Vector] = []
        start_m, column = 0.0, 0
        for stretch in stretches:
            nodes = _merged(start_m + stretch.length_m * stretch.lobatto[0], desired)
            end = column + stretch.basis.coefficient_count
            own = np.zeros((len(nodes) - 1, len(GAUSS_RATIOS), 6, self.size))
            for k, ratio in enumerate(GAUSS_RATIOS):
                ratios = (nodes[:-1] + ratio * np.diff(nodes) - start_m) / stretch.length_m
                own[:, k, :, column:end] = basis_matrices(stretch.basis, ratios)
            nodal.append(own.reshape(-1, NODAL, self.size))
            rest.append(np.tile(stretch.rest_strain, (len(nodes) - 1, len(GAUSS_RATIOS))))
            stations.append(nodes[1:])
            start_m, column = start_m + stretch.length_m, end
        self.s_m = np.concatenate(stations)
        self.length_m = start_m
        self.rest = np.concatenate(rest).astype(float)
        self.nodal = np.concatenate(nodal)
        self.step_m = np.diff(self.s_m)
        self._nodal = self.nodal.reshape(-1, self.size)
        self._lengths = self.step_m[:, None]
        # Which steps lie before which station: products with it add up along the rod.
        self._before = np.tril(np.ones((len(self.s_m), len(self.step_m))), -1)
        functions = step_functions()
        self._spread, self._curvature = functions["rod_spread"], functions["rod_curvature"]

    @cached_property
    def pattern(self) -> StrainPattern:
        """Which strains the steps have, and which of them vary within one."""
        nodes = self.nodal.reshape(len(self.nodal), len(GAUSS_RATIOS), -1, self.size)
        rest = self.rest[:, : nodes.shape[2]]
        needed = nodes.any(axis=(0, 1, 3)) | (np.ptp(rest, axis=0) > 0)
        changing = np.ptp(nodes, axis=1).max(axis=(0, 2)) > 0
        constant, varying = (np.flatnonzero(rows).tolist() for rows in (needed & ~changing, changing))
        return StrainPattern(tuple(constant), tuple(varying), tuple(rest[0].tolist()))

    def indices(self, s_m: Sequence[float]) -> NDArray[np.int_]:
        """Stations at arc lengths that the chain was made with.

        Returns
        -------
        shape (k,)
        """
        places = np.asarray(s_m, dtype=float)
        after = np.clip(np.searchsorted(self.s_m, places), 1, len(self.s_m) - 1)
        return np.asarray(np.where(places - self.s_m[after - 1] <= self.s_m[after] - places, after - 1, after))

    def frames(self, c: Vector) -> Frames:
        """Frames at all stations, and their Jacobians, at coefficients (n,)."""
        strain = self.rest + (self._nodal @ c).reshape(-1, NODAL)
        frame, moved, own = self._spread.chained(_BASE, strain, self._lengths)
        step = moved @ self.nodal
        jacobian = (self._before @ step.reshape(len(step), -1)).reshape(-1, 6, self.size)
        return Frames(strain, frame, own @ self.nodal, step, jacobian)

    def generalized(self, frames: Frames, wrench: Vector) -> Vector:
        """Generalised force (n,) of wrenches on the stations, or its columns for wrenches per coefficient.

        Parameters
        ----------
        frames : at the coefficients
        wrench : (k, 6) on every station in the base frame; or (k, 6, m) for m of them: result (n, m)
        """
        beyond = self._beyond(wrench)
        return _rows(frames.step).T @ beyond.reshape(len(beyond) * 6, *wrench.shape[2:])

    def contraction(self, frames: Frames, wrench: Vector, more: Vector | None = None) -> Vector:
        """Sum over the stations of d(J^T W)/dc at constant W.

        Parameters
        ----------
        frames : at the coefficients
        wrench : (k, 6) wrench W on every station in the base frame
        more : (k, 6, n) derivative of W by the coefficients, for that of J^T W altogether

        Returns
        -------
        (n, n), row a and column b: derivative of the a-th generalised force by the b-th coefficient
        """
        by_omega, by_strain, by_start = self._curvature(
            frames.frame[:-1], frames.strain, self._lengths, self._beyond(wrench)
        )
        turned = by_start @ frames.jacobian[:-1]
        if more is not None:
            turned += self._beyond(more)
        total: Vector = _rows(frames.step).T @ _rows(turned)
        total += _rows(frames.own).T @ _rows(by_omega @ frames.own)
        total += self._nodal.T @ _rows(by_strain @ self.nodal)
        return total

    def _beyond(self, wrench: Vector) -> Vector:
        """Sums of what acts on the stations from the end of each step on, (k - 1, ...)."""
        total: Vector = self._before.T @ wrench.reshape(len(wrench), -1)
        return total.reshape(-1, *wrench.shape[1:])


def basis_matrices(basis: Basis, ratios: Vector) -> Vector:
    """B at places of a segment, (k, 6, coefficients).

    Parameters
    ----------
    ratios : places from the segment's start as fractions of its length, (k,), 0 to 1
    """
    return np.array([basis_matrix(basis, float(ratio)) for ratio in ratios]).reshape(
        len(ratios), 6, basis.coefficient_count
    )


def _rows(blocks: Vector) -> Vector:
    return blocks.reshape(-1, blocks.shape[2])


def hat(vector: Any) -> Any:
    """Cross-product matrices of vectors (..., 3).

    Parameters
    ----------
    vector : shape (..., 3), any unit
    """
    vector = np.asarray(vector)
    matrix = np.zeros((*vector.shape[:-1], 3, 3), dtype=vector.dtype)
    x, y, z = vector[..., 0], vector[..., 1], vector[..., 2]
    matrix[..., 2, 1], matrix[..., 0, 2], matrix[..., 1, 0] = x, y, z
    matrix[..., 1, 2], matrix[..., 2, 0], matrix[..., 0, 1] = -x, -y, -z
    return matrix


@lru_cache(maxsize=64)
def lobatto(intervals: int) -> tuple[Vector, Vector]:
    """Gauss-Lobatto nodes and weights on [0, 1]: (intervals + 1,) each, the ends among the nodes."""
    inner = np.polynomial.Legendre.basis(intervals).deriv().roots()
    nodes = np.concatenate([[-1.0], np.sort(inner.real), [1.0]])
    values = np.polynomial.Legendre.basis(intervals)(nodes)
    return (nodes + 1) / 2, 1 / (intervals * (intervals + 1) * values**2)


@lru_cache(maxsize=64)
def _lobatto_pieces(ends: tuple[float, ...], steps: int) -> tuple[Vector, Vector]:
    """Gauss-Lobatto nodes and weights between neighbouring ``ends``, with ``steps`` intervals or more in all."""
    nodes, weights = np.array([ends[0]]), np.zeros(1)
    for low, high in pairwise(ends):
        own_nodes, own_weights = lobatto(math.ceil(steps * (high - low) / (ends[-1] - ends[0]) - 1e-9))
        nodes = np.concatenate([nodes, low + (high - low) * own_nodes[1:]])
        weights[-1] += (high - low) * own_weights[0]
        weights = np.concatenate([weights, (high - low) * own_weights[1:]])
    return nodes, weights


def _merged(nodes: Vector, desired: Vector) -> Vector:
    """Nodes with the desired places that lie between them and on none of them."""
    near = 1e-9 * (nodes[-1] - nodes[0])
    inside = desired[(desired > nodes[0]) & (desired < nodes[-1])]
    inside = inside[np.abs(inside[:, None] - nodes).min(axis=1, initial=np.inf) > near]
    return np.sort(np.concatenate([nodes, inside]))
