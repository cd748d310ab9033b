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
from continuum_robot.rod.bases import basis_values, gauss_legendre
from continuum_robot.rod.strain_kernel import Record, address, doubles, kernel, whole
from continuum_robot.rod.strain_kinematics import Stretch, hat, spread

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
    nodes_m : (m,) nodes of all pieces between kinks and ends of the paths, m
    running_m : (m, N) weight of each node for each path, 0 where it does not run
    basis, rest : (m, 6, n), (m, 6) strain at the nodes
    arms : (m, N, 3, 6) t_j per strain
    slopes : (m, N, 3) r_j'
    record : what the kernel takes
    """

    def __init__(self, stretches: Sequence[Stretch], paths: Sequence[RoutedPath]) -> None:
        self.size = sum(stretch.basis.coefficient_count for stretch in stretches)
        self.count = len(paths)
        breaks = sorted({place for path in paths for place in (path.start_m, path.end_m, *path.kinks_m)})
        row = whole([row for stretch in stretches for row, _ in stretch.basis.functions])
        nodes: list[Vector] = [np.zeros(0)]
        running: list[Vector] = [np.zeros((0, self.count))]
        phi: list[Vector] = [np.zeros((0, self.size))]
        rest: list[Vector] = [np.zeros((0, 6))]
        columns: list[NDArray[np.int_]] = [np.zeros((0, 2), dtype=int)]
        start_m, column = 0.0, 0
        for stretch in stretches:
            end_m, end = start_m + stretch.length_m, column + stretch.basis.coefficient_count
            near_m = 1e-9 * stretch.length_m
            cuts = [start_m, *(place for place in breaks if start_m + near_m < place < end_m - near_m), end_m]
            for low, high in pairwise(cuts):
                runs = [path.start_m < high - near_m and path.end_m > low + near_m for path in paths]
                if not any(runs):
                    continue
                share = (high - low) / stretch.length_m
                places, weights = gauss_legendre(
                    max(_LEAST_NODES, math.ceil(share * _node_count(stretch, paths))), high - low
                )
                values = np.zeros((len(places), self.size))
                values[:, column:end] = basis_values(stretch.basis, (low + places - start_m) / stretch.length_m)
                nodes.append(low + places)
                running.append(weights[:, None] * np.array(runs))
                phi.append(values)
                rest.append(np.tile(stretch.rest_strain, (len(places), 1)))
                columns.append(np.tile([column, end], (len(places), 1)))
            start_m, column = end_m, end
        self.nodes_m = np.concatenate(nodes)
        self.running_m = np.concatenate(running)
        self.rest = np.concatenate(rest)
        count = len(self.nodes_m)
        self.basis = spread(np.concatenate(phi), row)
        place = np.zeros((count, self.count, 3))
        self.slopes = np.zeros((count, self.count, 3))
        for j, path in enumerate(paths):
            place[:, j, 0], place[:, j, 1], self.slopes[:, j, 0], self.slopes[:, j, 1] = path.at(self.nodes_m)
        self.arms = np.zeros((count, self.count, 3, 6))
        self.arms[..., :3] = -hat(place)
        self.arms[..., 3:] = np.eye(3)
        begin, finish = np.concatenate(columns).T
        self.record = Record(
            (count, self.count, self.size),
            (
                doubles(self.rest),
                doubles(np.concatenate(phi)),
                whole(begin),
                whole(finish),
                row,
                doubles(self.running_m),
                doubles(place[..., :2]),
                doubles(self.slopes[..., :2]),
            ),
        )
        self._squares = (self.arms.swapaxes(2, 3) @ self.arms).reshape(count, self.count, 36)
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
        return (self.running_m[..., None] * pull).swapaxes(0, 1).reshape(self.count, len(self._rows)) @ self._rows

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
        library = kernel()
        if library is None or np.iscomplexobj(c):
            return self._weighted(c, tension)
        n = self.size
        lengths, jacobian, gradient = np.empty(self.count), np.empty((self.count, n)), np.empty(n)
        hessian = np.empty((n, n))
        arguments = [doubles(c), doubles(tension), lengths, jacobian, gradient, hessian]
        library.path_terms(self.record.pointer, *map(address, arguments))
        return lengths, jacobian, gradient, hessian

    def _weighted(self, c: Any, tension: Any) -> tuple[Any, Any, Any, Any]:
        norm, pull = self.tangents(c)
        lengths = np.sum(self.running_m * norm, axis=0)
        jacobian = (self.running_m[..., None] * pull).swapaxes(0, 1).reshape(self.count, len(self._rows)) @ self._rows
        stiff = self.running_m * tension / norm
        curve = (stiff[:, None] @ self._squares).reshape(-1, 6, 6) - (stiff[..., None] * pull).swapaxes(1, 2) @ pull
        hessian = (curve @ self.basis).reshape(-1, self.size).T @ self._rows
        return lengths, jacobian, tension @ jacobian, hessian


def _node_count(stretch: Stretch, paths: Sequence[RoutedPath]) -> int:
    """Nodes on a whole stretch: what its strains and the paths' turns need for rounding accuracy."""
    return 6 + stretch.basis.highest_order + (0 if all(path.parallel for path in paths) else 12)
