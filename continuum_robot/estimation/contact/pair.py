# SPDX-License-Identifier: Apache-2.0
"""Where two contacts are, and what each pushes: the pairs of arc lengths that explain the residual best.

As one contact in location.py, with r = B(s_1) y_1 + B(s_2) y_2: six unknowns for two lateral forces, so that a segment
of six channels is just determined, and two segments leave something over. The likelihood of all pairs gives the
distribution of the lower and of the upper location; each is reported where its interval is narrow enough, and why not
where it is not. Two forces in one direction leave nearly the residual of their resultant, and one near the base leaves
little of any. Derived here by Bayes' rule.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.estimation.contact.location import ContactLocator

Vector = NDArray[np.float64]

LEAST_GAIN = 3.0
"""Of the log likelihood over the best single contact, below which no pair is reported."""

_MOST_LOCATIONS = 40
_WHERE = "lower", "upper"


@dataclass(frozen=True, slots=True)
class PairEstimate:
    """Two contacts, the one nearer to the base first.

    Attributes
    ----------
    arc_lengths_m : of both, from the base, shape (2,), m; NaN where not observable
    deviations_m : standard deviations, shape (2,), m; NaN where not observable
    forces_n : in the backbone's frame at each location, shape (2, 3), N; NaN where not observable
    force_deviations_n : standard deviation of each for its uncertain location, shape (2,), N; NaN where not observable
    reason : which of them cannot be located, and why; empty where both are
    gain : of the log likelihood over the best single contact
    """

    arc_lengths_m: Vector
    deviations_m: Vector
    forces_n: Vector
    force_deviations_n: Vector
    reason: str
    gain: float

    @property
    def observable(self) -> NDArray[np.bool_]:
        """Which of both are located, shape (2,)."""
        return np.isfinite(self.arc_lengths_m)


class PairLocator:
    """Likelihood of pairs of locations; averages over the memory of the settings.

    Parameters
    ----------
    locator : of a single contact, whose settings hold here, and whose locations are thinned out
    directions : N, wrenches that each contact can transmit, (6, m)
    """

    def __init__(self, locator: ContactLocator, directions: ArrayLike) -> None:
        self.settings = locator.settings
        self._locator, self._directions = locator, np.asarray(directions, dtype=float)
        every = max(1, math.ceil(locator.arc_lengths_m.size / _MOST_LOCATIONS))
        # The tip is one of them.
        self._kept = np.arange(locator.arc_lengths_m.size)[::-1][::every][::-1]
        self._arc_lengths_m = locator.arc_lengths_m[self._kept]
        edges = np.concatenate([[0.0], (self._arc_lengths_m[1:] + self._arc_lengths_m[:-1]) / 2])
        self._edges_m = np.append(edges, locator.arc_lengths_m[-1])
        cells = np.diff(self._edges_m)
        self._low, self._high = np.triu_indices(self._kept.size, 1)
        self._log_cells = np.log(cells[self._low] * cells[self._high])
        self.reset()

    def reset(self) -> None:
        """Forget earlier residuals."""
        self._profile: Vector | None = None
        self._weight = 0.0

    def update(self, jacobians: Vector, residual: ArrayLike, information: Vector, dt: float) -> PairEstimate:
        """The pair after one more residual.

        Parameters
        ----------
        jacobians : body Jacobians at the nodes, (k, 6, n)
        residual : r, (n,), N.m^2, finite
        information : inverse of its covariance, (n, n)
        dt : time since the previous residual, s
        """
        settings, r = self.settings, np.asarray(residual, dtype=float)
        free, size = self._directions.shape[1], r.size
        if size < 2 * free + 2:
            return self._nothing(
                f"{size} channels cannot determine two locations and {2 * free} components of two forces"
            )
        prior = 1 / settings.plausible_force_n**2
        B = self._locator.unit_forces(jacobians).reshape(-1, free, size)[self._kept]
        weighted = B @ information
        h = weighted @ r
        G = np.einsum("ian,jbn->iajb", weighted, B)
        low, high = self._low, self._high
        system = np.empty((low.size, 2 * free, 2 * free))
        system[:, :free, :free], system[:, free:, free:] = G[low, :, low], G[high, :, high]
        system[:, :free, free:] = G[low, :, high]
        system[:, free:, :free] = np.swapaxes(G[low, :, high], 1, 2)
        both = np.concatenate([h[low], h[high]], axis=1)
        newest, forces = _likelihood(system, both, prior)
        fresh = self._profile is None or settings.memory_s == 0
        self._weight = 1.0 if fresh else 1 + math.exp(-dt / settings.memory_s) * self._weight
        before = newest if self._profile is None or fresh else self._profile
        self._profile = before + (newest - before) / self._weight
        single, _ = _likelihood(np.array([G[k, :, k] for k in range(len(h))]), h, prior)
        gain = float(newest.max() - single.max())
        if gain < LEAST_GAIN:
            return self._nothing("one contact explains the residual nearly as well as two", gain)
        value = self._profile + self._log_cells
        probability = np.exp(value - value.max())
        probability /= probability.sum()
        locations, deviations, reasons = self._located(probability)
        own = forces.reshape(-1, 2, free) @ self._directions[:3].T
        mean = np.tensordot(probability, own, 1)
        sizes = np.linalg.norm(own - mean, axis=2)
        force_deviations = np.sqrt(probability @ sizes**2)
        unknown = ~np.isfinite(locations)
        mean[unknown], force_deviations[unknown] = np.nan, np.nan
        return PairEstimate(locations, deviations, mean, force_deviations, "; ".join(reasons), gain)

    def _located(self, probability: Vector) -> tuple[Vector, Vector, list[str]]:
        """Both locations and their deviations, (2,), m, NaN where not observable, and why not."""
        locations, deviations, reasons = np.full(2, np.nan), np.full(2, np.nan), list[str]()
        tail = (1 - self.settings.confidence) / 2
        for which, index in enumerate((self._low, self._high)):
            own = np.bincount(index, probability, self._arc_lengths_m.size)
            mean_m = float(own @ self._arc_lengths_m)
            first, last = np.interp([tail, 1 - tail], np.concatenate([[0.0], np.cumsum(own)]), self._edges_m)
            fraction = (last - first) / self._arc_lengths_m[-1]
            if fraction > self.settings.widest_fraction:
                reasons.append(f"the interval of the {_WHERE[which]} contact covers {fraction:.0%} of the robot")
                continue
            cell_m = float(np.diff(self._edges_m)[np.abs(self._arc_lengths_m - mean_m).argmin()])
            spread_m = math.sqrt(max(float(own @ (self._arc_lengths_m - mean_m) ** 2), 0.0))
            locations[which], deviations[which] = mean_m, math.hypot(spread_m, cell_m / math.sqrt(12))
        return locations, deviations, reasons

    def _nothing(self, reason: str, gain: float = math.nan) -> PairEstimate:
        unknown = np.full(2, np.nan)
        return PairEstimate(unknown, unknown.copy(), np.full((2, 3), np.nan), unknown.copy(), reason, gain)


def _likelihood(system: Vector, along: Vector, prior: float) -> tuple[Vector, Vector]:
    """Log likelihoods of location.py for K systems G (K, m, m) and right sides h (K, m), and the forces, (K, m)."""
    count = system.shape[1]
    regular = system + prior * np.eye(count)
    forces = np.linalg.solve(regular, along[:, :, None])[:, :, 0]
    _, log_determinant = np.linalg.slogdet(regular)
    value = ((along * forces).sum(axis=1) - log_determinant + count * math.log(prior)) / 2
    return np.asarray(value), np.asarray(forces)
