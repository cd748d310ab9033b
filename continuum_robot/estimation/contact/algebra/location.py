# SPDX-License-Identifier: Apache-2.0
"""Likelihood of contact locations, generated: Bayes' rule as in estimation/contact/location.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from continuum_robot.rod.code.generation import compile_functions

Vector = NDArray[np.float64]


class LocationAlgebra:
    """Likelihood of the locations of a contact. Not for use by two threads at once.

    Parameters
    ----------
    size : number n of coordinates
    free : number m of wrench directions that a contact may have
    arc_lengths_m, cells_m : locations that are compared and the lengths that they stand for, (p,), m
    segment : index of each location's segment, (p,)
    name, compile, progress : as of :class:`FilterAlgebra`
    """

    def __init__(
        self,
        size: int,
        free: int,
        arc_lengths_m: Vector,
        cells_m: Vector,
        segment: NDArray[np.intp],
        name: str = "",
        *,
        compile: str = "auto",
        progress: Callable[[str], None] | None = None,
    ) -> None:
        function = _location_evidence(size, free, arc_lengths_m, cells_m, segment)
        made = compile_functions([function], f"the contact's location on {name}", compile=compile, progress=progress)
        self.size = size
        self._locations = made["location_evidence"]

    def location_evidence(
        self, B: Vector, residual: Vector, information: Vector, *, prior: float, before: Vector, fraction: float
    ) -> tuple[Vector, Vector, float, float, Vector]:
        """Likelihood of the locations, averaged with what was known of them.

        Parameters
        ----------
        B : generalised force of unit wrenches, of location after location, (p, m, n)
        residual, information : generalised force (n,), N.m^2, and the inverse of its covariance (n, n)
        prior : 1 over the variance of an expected force, 1/N^2
        before : averaged log likelihoods so far, (p,)
        fraction : weight of the newest in the average

        Returns
        -------
        averaged log likelihoods (p,), cumulated probability at the edges of the cells (p + 1,), largest log
        likelihood, standard deviation of the location (m), probability of each segment
        """
        n = self.size
        rows = B.reshape(-1, n)
        function = self._locations
        plain, weighted, along, expected, past, newest = function.inputs
        plain.T.reshape(rows.shape)[:] = rows
        np.matmul(rows, information, out=weighted.T.reshape(rows.shape))
        np.matmul(information, residual, out=along)
        expected[:], past[:], newest[:] = prior, before, fraction
        function.run()
        profile, cumulative, numbers, of_segment = function.outputs
        top, spread_m = numbers.tolist()
        return profile.copy(), cumulative, top, spread_m, of_segment.copy()


def _location_evidence(
    n: int, free: int, arc_lengths_m: Vector, cells_m: Vector, segment: NDArray[np.intp]
) -> ca.Function:
    """Log likelihoods of estimation/contact/location.py, averaged, and the moments of the location."""
    count = len(arc_lengths_m)
    rows, weighted = ca.SX.sym("B", free * n), ca.SX.sym("W", free * n)
    along, prior = ca.SX.sym("a", n), ca.SX.sym("prior")
    own, by_noise = (ca.reshape(columns, n, free) for columns in (rows, weighted))
    h, G = ca.mtimes(own.T, along), ca.mtimes(by_noise.T, own) + prior * ca.SX.eye(free)
    explained, log_determinant = _weighted_square(G, h)
    value = (explained - log_determinant + free * ca.log(prior)) / 2
    one = ca.Function("location_likelihood", [rows, weighted, along, prior], [value])

    newest, before, fraction = ca.SX.sym("newest", count), ca.SX.sym("before", count), ca.SX.sym("fraction")
    profile = before + (newest - before) * fraction
    top = profile[0]
    for k in range(1, count):
        top = ca.fmax(top, profile[k])
    parts = ca.DM(cells_m) * ca.exp(profile - top)
    total = ca.SX(0)
    edges = [ca.SX(0)]
    for k in range(count):
        total = total + parts[k]
        edges.append(total)
    probability = parts / total
    mean = ca.dot(probability, ca.DM(arc_lengths_m))
    spread = ca.sqrt(ca.dot(probability, (ca.DM(arc_lengths_m) - mean) ** 2))
    of_segment = [
        sum(probability[int(k)] for k in np.flatnonzero(segment == index)) for index in range(int(segment.max()) + 1)
    ]
    summary = ca.Function(
        "location_summary",
        [newest, before, fraction],
        [profile, ca.vertcat(*edges) / total, ca.vertcat(top, spread), ca.vertcat(*of_segment)],
        {"cse": True},
    )
    B, W = ca.MX.sym("B", free * n, count), ca.MX.sym("W", free * n, count)
    a, p = ca.MX.sym("a", n), ca.MX.sym("prior")
    old, weight = ca.MX.sym("before", count), ca.MX.sym("fraction")
    values = one.map("location_likelihoods", "serial", count, [2, 3], [])(B, W, a, p)
    return ca.Function("location_evidence", [B, W, a, p, old, weight], list(summary(values.T, old, weight)))


def _weighted_square(G: Any, h: Any) -> tuple[Any, Any]:
    """h^T G^-1 h and log det G, by the factors L D L^T of a symmetric positive definite G."""
    m = G.shape[0]
    L, explained, log_determinant = ca.SX.eye(m), ca.SX(0), ca.SX(0)
    D: list[Any] = []
    y: list[Any] = []
    for j in range(m):
        D.append(G[j, j] - sum(L[j, k] ** 2 * D[k] for k in range(j)))
        for i in range(j + 1, m):
            L[i, j] = (G[i, j] - sum(L[i, k] * L[j, k] * D[k] for k in range(j))) / D[j]
        y.append(h[j] - sum(L[j, k] * y[k] for k in range(j)))
        explained, log_determinant = explained + y[j] ** 2 / D[j], log_determinant + ca.log(D[j])
    return explained, log_determinant
