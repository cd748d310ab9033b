# SPDX-License-Identifier: Apache-2.0
"""Lengths of tendons and strings on any path, with gradient and Hessian: functions of the local strain alone.

l_j = integral of |t_j| ds with t_j = v + u x r_j + r_j' (rucker (14) in body axes), r_j = (x_j(s), y_j(s), 0). By
quadrature, so that l_j, its gradient and its Hessian belong together exactly.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuum_robot.robot.routing import RoutedPath
from continuum_robot.rod.bases import basis_matrix, gauss_legendre
from continuum_robot.rod.strain_kinematics import Stretch, hat

Vector = NDArray[np.float64]

_LEAST_NODES = 3


class PathLengths:
    """Quadrature of the lengths of some paths along a rod.

    Parameters
    ----------
    stretches : of the rod, from the base to the tip
    paths : of the tendons or strings

    Attributes
    ----------
    nodes_m, weights_m : (m,) nodes of all pieces between bends and ends of the paths, and their weights, m
    running_m : (m, N) weight of each node for each path, 0 where it does not run
    basis, rest : (m, 6, n), (m, 6) strain at the nodes
    arms : (m, N, 3, 6) t_j per strain
    slopes : (m, N, 3) r_j'
    """

    def __init__(self, stretches: Sequence[Stretch], paths: Sequence[RoutedPath]) -> None:
        self.size = sum(stretch.basis.coefficient_count for stretch in stretches)
        self.count = len(paths)
        breaks = sorted({place for path in paths for place in (path.start_m, path.end_m, *path.kinks_m)})
        nodes, weights, running, basis, rest = [], [], [], [], []
        start_m, column = 0.0, 0
        for stretch in stretches:
            end_m = start_m + stretch.length_m
            near_m = 1e-9 * stretch.length_m
            cuts = [start_m, *(place for place in breaks if start_m + near_m < place < end_m - near_m), end_m]
            columns = slice(column, column + stretch.basis.coefficient_count)
            for low, high in pairwise(cuts):
                runs = [path.start_m < high - near_m and path.end_m > low + near_m for path in paths]
                if not any(runs):
                    continue
                share = (high - low) / stretch.length_m
                count = max(_LEAST_NODES, math.ceil(share * _node_count(stretch, paths)))
                for s, weight in zip(*gauss_legendre(count, high - low), strict=True):
                    matrix = np.zeros((6, self.size))
                    matrix[:, columns] = basis_matrix(stretch.basis, (low + s - start_m) / stretch.length_m)
                    nodes.append(low + s)
                    weights.append(weight)
                    running.append(weight * np.array(runs))
                    basis.append(matrix)
                    rest.append(stretch.rest_strain)
            start_m, column = end_m, columns.stop
        self.nodes_m, self.weights_m = np.array(nodes), np.array(weights)
        self.running_m = np.array(running).reshape(len(nodes), self.count)
        self.basis = np.array(basis).reshape(len(nodes), 6, self.size)
        self.rest = np.array(rest).reshape(len(nodes), 6)
        place = np.zeros((len(nodes), self.count, 3))
        self.slopes = np.zeros((len(nodes), self.count, 3))
        for j, path in enumerate(paths):
            x, y, x_slope, y_slope = path.at(self.nodes_m)
            place[:, j, 0], place[:, j, 1] = x, y
            self.slopes[:, j, 0], self.slopes[:, j, 1] = x_slope, y_slope
        self.arms = np.zeros((len(nodes), self.count, 3, 6))
        self.arms[..., :3] = -hat(place)
        self.arms[..., 3:] = np.eye(3)
        self._squares = (self.arms.swapaxes(2, 3) @ self.arms).reshape(len(nodes), self.count, 36)
        self._rows = self.basis.reshape(-1, self.size)
        self.rest_m = self.lengths(np.zeros(self.size))

    def tangents(self, c: Any) -> tuple[Any, Any]:
        """Length of t_j and the local gradient of that length per strain: (m, N) and (m, N, 6)."""
        xi = self.rest + self.basis @ c
        t = (self.arms @ xi[:, None, :, None])[..., 0] + self.slopes  # rucker (14)
        norm = np.sqrt(np.sum(t * t, axis=-1))
        return norm, ((t / norm[..., None])[..., None, :] @ self.arms)[..., 0, :]

    def lengths(self, c: Any) -> Any:
        """Length of every path between its ends, (N,), m."""
        return np.sum(self.running_m * self.tangents(c)[0], axis=0)

    def jacobian(self, c: Any) -> Any:
        """Derivative of the lengths, (N, n), m per unit of the coefficients."""
        _, pull = self.tangents(c)
        return (self.running_m[..., None] * pull).swapaxes(0, 1).reshape(self.count, -1) @ self._rows

    def weighted(self, c: Any, tension: Any) -> tuple[Any, Any, Any, Any]:
        """The lengths, their Jacobian, and gradient and Hessian of the energy sum of tension times length.

        Parameters
        ----------
        c : (n,)
        tension : (N,) weight of every path, N

        Returns
        -------
        (N,) m; (N, n); (n,); (n, n)
        """
        norm, pull = self.tangents(c)
        lengths = np.sum(self.running_m * norm, axis=0)
        jacobian = (self.running_m[..., None] * pull).swapaxes(0, 1).reshape(self.count, -1) @ self._rows
        stiff = self.running_m * tension / norm
        curve = (stiff[:, None] @ self._squares).reshape(-1, 6, 6) - (stiff[..., None] * pull).swapaxes(1, 2) @ pull
        hessian = (curve @ self.basis).reshape(-1, self.size).T @ self._rows
        return lengths, jacobian, tension @ jacobian, hessian


def _node_count(stretch: Stretch, paths: Sequence[RoutedPath]) -> int:
    """Nodes on a whole stretch: what its strains and the paths' turns need for rounding accuracy."""
    return 6 + stretch.basis.highest_order + (0 if all(path.parallel for path in paths) else 12)
