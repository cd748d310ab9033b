# SPDX-License-Identifier: Apache-2.0
"""Likelihood of contact locations: Bayes' rule as in estimation/contact/location.py, for all locations at once."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]


class LocationAlgebra:
    """Likelihood of the locations of a contact.

    Parameters
    ----------
    size : number n of coordinates
    free : number m of wrench directions that a contact may have
    arc_lengths_m, cells_m : locations that are compared and the lengths that they stand for, (p,), m
    segment : index of each location's segment, (p,), increasing
    """

    def __init__(self, size: int, free: int, arc_lengths_m: Vector, cells_m: Vector, segment: NDArray[np.intp]) -> None:
        self._rows = len(arc_lengths_m), free, size
        self._arc_lengths_m, self._cells_m = arc_lengths_m, cells_m
        self._starts = np.searchsorted(segment, np.arange(segment.max() + 1))

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
        count, free, size = self._rows
        rows = B.reshape(-1, size)
        # G with h as its last row: what elimination leaves below G is -h^T G^-1 h, and its pivots make det G.
        left = np.zeros((free + 1, free + 1, count))
        weighted = (rows @ information).reshape(self._rows)
        np.einsum("kin,kjn->ijk", weighted, rows.reshape(self._rows), out=left[:free, :free])
        left[free, :free] = left[:free, free] = (rows @ (information @ residual)).reshape(count, free).T
        determinant: Vector = np.ones(count)
        for j in range(free):
            pivot = left[j, j] + prior
            determinant *= pivot / prior
            left[j + 1 :, j + 1 :] -= left[j + 1 :, j, None] * (left[j, j + 1 :] / pivot)
        newest = (-left[free, free] - np.log(determinant)) / 2
        profile: Vector = before + (newest - before) * fraction
        top = float(profile.max())
        parts = self._cells_m * np.exp(profile - top)
        cumulative: Vector = np.zeros(count + 1)
        parts.cumsum(out=cumulative[1:])
        total = cumulative[-1]
        probability, cumulative = parts / total, cumulative / total
        off_mean_m = self._arc_lengths_m - probability @ self._arc_lengths_m
        spread_m = math.sqrt(probability @ (off_mean_m * off_mean_m))
        return profile, cumulative, top, spread_m, np.add.reduceat(probability, self._starts)
