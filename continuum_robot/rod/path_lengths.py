# SPDX-License-Identifier: Apache-2.0
"""Lengths of tendons and strings on any path, with gradient and Hessian: functions of the local strain alone.

l_j = integral of |t_j| ds with t_j = v + u x r_j + r_j' (rucker (14) in body axes), r_j = (x_j(s), y_j(s), 0), see
rod/step.py. By quadrature, so that l_j, its gradient and its Hessian belong together exactly.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from continuum_robot.robot.segments.routing import RoutedPath
from continuum_robot.rod.bases import REFERENCE_STRAIN, gauss_legendre
from continuum_robot.rod.code.batches import Batch
from continuum_robot.rod.code.shared import sparse
from continuum_robot.rod.step import step_functions, tendon_tangent
from continuum_robot.rod.strain.kinematics import Stretch, basis_matrices

Vector = NDArray[np.float64]

_LEAST_NODES = 3
_TURN_RAD = 2 * math.pi  # of a path over one piece of the quadrature
_TURN_PLACES = 257


class PathLengths:
    """Quadrature of the lengths of some paths along a rod.

    Parameters
    ----------
    stretches : of the rod, from the base to the tip
    paths : of the tendons or strings

    Attributes
    ----------
    nodes_m : (m,) nodes of all pieces between kinks and ends of the paths, m
    running_m : (m, N) weight of each node for each path, 0 where it does not run
    basis, rest : (m, 6, n), (m, 6) strain at the nodes
    places : (m, N, 4) position of each path in the cross-section and its slope: x, y (m), x', y'
    linear : whether the lengths are linear in the coefficients: bending alone, with paths parallel to the rod
    """

    def __init__(self, stretches: Sequence[Stretch], paths: Sequence[RoutedPath]) -> None:
        self.size = sum(stretch.basis.coefficient_count for stretch in stretches)
        self.count = len(paths)
        breaks = sorted({place for path in paths for place in (path.start_m, path.end_m, *path.kinks_m)})
        nodes: list[Vector] = [np.zeros(0)]
        running: list[Vector] = [np.zeros((0, self.count))]
        basis: list[Vector] = [np.zeros((0, 6, self.size))]
        rest: list[Vector] = [np.zeros((0, 6))]
        start_m, column = 0.0, 0
        for stretch in stretches:
            end_m, end = start_m + stretch.length_m, column + stretch.basis.coefficient_count
            near_m = 1e-9 * stretch.length_m
            inner = sorted({*breaks, *(start_m + stretch.length_m * fraction for fraction in stretch.basis.breaks)})
            cuts = [start_m, *(place for place in inner if start_m + near_m < place < end_m - near_m), end_m]
            for low, high in pairwise(cuts):
                runs = [path.start_m < high - near_m and path.end_m > low + near_m for path in paths]
                if not any(runs):
                    continue
                places, weights = _quadrature(
                    low, high, stretch, [path for path, here in zip(paths, runs, strict=True) if here]
                )
                values = np.zeros((len(places), 6, self.size))
                values[..., column:end] = basis_matrices(stretch.basis, (places - start_m) / stretch.length_m)
                nodes.append(places)
                running.append(weights[:, None] * np.array(runs))
                basis.append(values)
                rest.append(np.tile(stretch.rest_strain, (len(places), 1)))
            start_m, column = end_m, end
        self.nodes_m = np.concatenate(nodes)
        self.running_m = np.concatenate(running)
        self.rest = np.concatenate(rest)
        self.basis = np.concatenate(basis)
        self.places = np.zeros((len(self.nodes_m), self.count, 4))
        for j, path in enumerate(paths):
            for k, values in enumerate(path.at(self.nodes_m)):
                self.places[:, j, k] = values
        self._rows = self.basis.reshape(-1, self.size)
        self._at = np.repeat(np.arange(len(self.nodes_m)), self.count)
        self._weight, self._place = self.running_m.reshape(-1, 1), self.places.reshape(-1, 4)
        straight = np.array_equal(self.rest, np.tile(REFERENCE_STRAIN, (len(self.rest), 1)))
        self.linear = straight and not self.basis[:, 2:].any() and not self.places[..., 2:].any()
        if self.linear:
            # The tangent is (0, 0, 1 + kappa_x y - kappa_y x): muhmann (4), (8), (13).
            arms = self.running_m[..., None] * self.places[..., :2]
            self.rest_m = self.running_m.sum(axis=0)
            self._slope = arms[..., 1].T @ self.basis[:, 0] - arms[..., 0].T @ self.basis[:, 1]
            across = np.einsum("mj,mn->mjn", self.places[..., 1], self.basis[:, 0])
            across -= np.einsum("mj,mn->mjn", self.places[..., 0], self.basis[:, 1])
            self._stretch = across.reshape(-1, self.size)  # of each path at each node, less 1
        else:
            self.rest_m = self.lengths(np.zeros(self.size))

    @cached_property
    def _path(self) -> Batch:
        return step_functions()["rod_path"]

    def lengths(self, c: Vector) -> Vector:
        """Length of every path between its ends, (N,), m."""
        return self._along(c) if self._is_linear(c) else self._at_nodes(c, np.zeros(self.count))[0]

    def shortening(self, c: Vector) -> Vector:
        """How much shorter than at c = 0 every path is, (N,), m."""
        return -self._slope @ c if self._is_linear(c) else self.rest_m - self.lengths(c)

    def jacobian(self, c: Vector) -> Vector:
        """Derivative of the lengths, (N, n), m per unit of the coefficients."""
        return self._slope if self._is_linear(c) else self._at_nodes(c, np.zeros(self.count))[1]

    def expression(self, c: Any) -> Any:
        """The lengths (N,), m, as an expression of the coefficients (n,)."""
        if self.linear:
            return ca.DM(self.rest_m) + ca.SX(sparse(self._slope)) @ c
        total = ca.SX(self.count, 1)
        for basis, rest, places, weights in zip(self.basis, self.rest, self.places, self.running_m, strict=True):
            strain = ca.SX(sparse(basis)) @ c + ca.DM(rest)
            for path in np.flatnonzero(weights).tolist():
                total[path] += weights[path] * ca.norm_2(tendon_tangent(strain, ca.DM(places[path])))
        return total

    def weighted(self, c: Vector, tension: Vector) -> tuple[Vector, Vector, Vector, Vector]:
        """The lengths, their Jacobian, and gradient and Hessian of the energy sum of tension times length.

        Parameters
        ----------
        c : (n,)
        tension : (N,) weight of every path, N

        Returns
        -------
        (N,) m; (N, n); (n,); (n, n)
        """
        if self._is_linear(c):
            return self._along(c), self._slope, tension @ self._slope, np.zeros((self.size, self.size))
        lengths, jacobian, curve = self._at_nodes(c, tension)
        hessian = self._rows.T @ (curve @ self.basis).reshape(-1, self.size)
        return lengths, jacobian, tension @ jacobian, hessian

    def _is_linear(self, c: Vector) -> bool:
        """Whether the lengths are linear there: no path is so near the centre of the bend that its side changes."""
        return self.linear and bool((self._stretch @ c).min(initial=0.0) > -1)

    def _along(self, c: Vector) -> Vector:
        return np.asarray(self.rest_m + self._slope @ c)

    def _at_nodes(self, c: Vector, tension: Vector) -> tuple[Vector, Vector, Vector]:
        """Lengths, their Jacobian, and the Hessian of tension times length by the strain of every node, (m, 6, 6)."""
        nodes = len(self.nodes_m)
        strain = (self.rest + (self._rows @ c).reshape(-1, 6))[self._at]
        tensions = np.empty((nodes, self.count))
        tensions[:] = tension
        length, pull, curve = self._path(strain, self._place, self._weight, tensions.reshape(-1, 1))
        by_path = pull.reshape(nodes, self.count, 6).swapaxes(0, 1).reshape(self.count, 6 * nodes)
        lengths = length.reshape(nodes, self.count).sum(axis=0)
        return lengths, by_path @ self._rows, curve.reshape(nodes, self.count, 6, 6).sum(axis=1)


def _quadrature(low_m: float, high_m: float, stretch: Stretch, paths: Sequence[RoutedPath]) -> tuple[Vector, Vector]:
    """Nodes and weights between kinks, as many as strains and turns of the paths need for rounding accuracy."""
    order = 6 + max(stretch.basis.degree, stretch.basis.highest_order)
    even = (high_m - low_m) / stretch.length_m * (order + (0 if all(path.parallel for path in paths) else 12))
    ends, turned_rad = turn_cuts(low_m, high_m, paths, _TURN_RAD)
    pieces = len(ends) - 1
    # A path that turns by psi makes integrands with the frequencies of 2 psi and more.
    count = max(_LEAST_NODES, math.ceil(even / pieces), order + math.ceil(2 * turned_rad / pieces) if turned_rad else 0)
    parts = [gauss_legendre(count, high - low) for low, high in pairwise(ends)]
    return (
        np.concatenate([low + nodes for low, (nodes, _) in zip(ends, parts, strict=False)]),
        np.concatenate([weights for _, weights in parts]),
    )


def turn_cuts(low_m: float, high_m: float, paths: Sequence[RoutedPath], piece_rad: float) -> tuple[Vector, float]:
    """Cut a length of rod so that no path turns about it by more than an angle in a piece.

    Parameters
    ----------
    low_m, high_m : ends of the length, m
    paths : at least one
    piece_rad : largest turn in a piece, rad

    Returns
    -------
    ends of the pieces (k,), m, from ``low_m`` to ``high_m``; the largest turn of a path over the length, rad
    """
    grid = np.linspace(low_m, high_m, _TURN_PLACES)
    turned = np.max([path.turned_rad(grid) for path in paths], axis=0)
    pieces = max(1, math.ceil(turned[-1] / piece_rad - 1e-9))
    inner = np.interp(turned[-1] * np.arange(1, pieces) / pieces, turned, grid)
    return np.concatenate([[low_m], inner, [high_m]]), float(turned[-1])
