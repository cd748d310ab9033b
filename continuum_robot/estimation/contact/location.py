# SPDX-License-Identifier: Apache-2.0
"""Where on the robot contacts are: the arc length at which one, or the pair at which two, explain the residual best.

A contact at s gives r = B(s) y with B(s) = J(s)^T N, N the wrenches that the contact type allows. For a force of
standard deviation sigma_f in each direction (any force up to about that size is as likely as another) and noise of
covariance S, r is normal with covariance S + sigma_f^2 B B^T, so up to a constant

    log L(s) = (h^T (G + I / sigma_f^2)^-1 h - log det(I + sigma_f^2 G)) / 2,  G = B^T S^-1 B, h = B^T S^-1 r.

The determinant keeps locations that could explain any residual from being preferred. All candidates, of all segments,
are compared at once, so a distal contact, which moves the proximal coefficients too, is not taken for a proximal one.
The likelihood over the whole arc length has a width: where it leaves the location open, the result says so.
Derived here by Bayes' rule: johnston takes the location as known.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.robot.description import Robot
from continuum_robot.robot.schema import quantity
from continuum_robot.rod.contact.functions import ContactFunctions

Vector = NDArray[np.float64]

_FINE = 4  # fine locations between two coarse ones


@dataclass(frozen=True, slots=True, kw_only=True)
class LocationSettings:
    """How the arc length of a contact is found."""

    coarse_locations: int = quantity("locations on each segment that are always compared", default=48, ge=4, le=400)
    plausible_force_n: float = quantity(
        "size of forces that are expected, N; wide rather than narrow", "N", default=50.0, gt=0, le=1e5
    )
    confidence: float = quantity("probability of the reported interval", default=0.9, ge=0.5, le=0.999)
    widest_fraction: float = quantity(
        "interval over the robot's length above which the location counts as not observable", default=0.4, gt=0, le=1
    )
    least_evidence: float = quantity(
        "gain of the log likelihood over no contact at all, below which no location is reported",
        default=6.0,
        ge=0,
        le=1e6,
    )
    memory_s: float = quantity(
        "time over which log likelihoods are averaged; 0 takes only the newest", "s", default=0.1, ge=0, le=10
    )


@dataclass(frozen=True, slots=True)
class LocationEstimate:
    """Arc length of a contact."""

    arc_length_m: float
    sigma_m: float
    interval_m: Vector
    observable: bool
    reason: str
    segment: int
    segment_probability: Vector
    best_m: float
    evidence: float
    arc_lengths_m: Vector
    log_likelihood: Vector


@dataclass(frozen=True, slots=True)
class _Belief:
    """Log likelihoods of the locations (p,), cumulated probability at the cells' edges (p + 1,), moments."""

    profile: Vector
    cumulative: Vector
    top: float
    spread_m: float
    of_segment: Vector


class LocationAlgebra:
    """Likelihood of the locations of a contact."""

    def __init__(self, size: int, free: int, arc_lengths_m: Vector, cells_m: Vector, segment: NDArray[np.intp]) -> None:
        self._rows = len(arc_lengths_m), free, size
        self._arc_lengths_m, self._cells_m = arc_lengths_m, cells_m
        self._starts = np.searchsorted(segment, np.arange(segment.max() + 1))

    def location_evidence(
        self, B: Vector, residual: Vector, information: Vector, *, prior: float, before: Vector, fraction: float
    ) -> tuple[Vector, Vector, float, float, Vector]:
        """Likelihood of the locations, averaged with what was known of them."""
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


class ContactLocator:
    """Likelihood of the arc length over the whole robot."""

    def __init__(
        self,
        functions: ContactFunctions,
        directions: ArrayLike,
        settings: LocationSettings | None = None,
    ) -> None:
        self.settings = settings or LocationSettings()
        robot = functions.robot
        self._robot_length_m = robot.length_m
        self._directions = np.asarray(directions, dtype=float)
        if self._directions.ndim != 2 or self._directions.shape[0] != 6 or self._directions.shape[1] == 0:
            raise ParameterError("directions", directions, "a (6, m) array of at least one wrench")
        self._free = self._directions.shape[1]
        self._size = functions.size
        self._fine_m, self._coarse, self.segment = _locations(robot, self.settings.coarse_locations)
        self.arc_lengths_m: Vector = self._fine_m[self._coarse]
        self._to_fine = functions.interpolation(self._fine_m)
        self._to_coarse = np.ascontiguousarray(self._to_fine[self._coarse])
        self._rows = np.ascontiguousarray(self._directions.T)
        self._fine: list[float] = self._fine_m.tolist()
        # The fraction of the arc length that each location stands for, and where the fractions meet.
        self._edges_m = np.concatenate(
            [[0.0], (self.arc_lengths_m[1:] + self.arc_lengths_m[:-1]) / 2, [robot.length_m]]
        )
        self.cells_m = np.diff(self._edges_m)
        self._nothing = np.zeros(self.arc_lengths_m.size)
        self.algebra = LocationAlgebra(self._size, self._free, self.arc_lengths_m, self.cells_m, self.segment)
        self._last_row = self._fine_m.size - 1
        self._quantile = NormalDist().inv_cdf((1 + self.settings.confidence) / 2)
        self._segments = len(robot.segments)
        self.reset()

    def reset(self) -> None:
        """Forget earlier residuals."""
        self._profile: Vector | None = None
        self._weight = 0.0

    def update(
        self,
        jacobians: Vector,
        residual: ArrayLike,
        covariance: ArrayLike,
        dt: float,
        *,
        information: Vector | None = None,
    ) -> LocationEstimate:
        """Location of the contact after one more residual.

        The log likelihoods of the residuals within the memory are averaged with exponentially falling weights, each
        with its own Jacobians and its own force: the contact stays while robot and force may move. Successive residuals
        of an observer share their noise, and those of one pose the errors of the model, so the average does not count
        for more than one of them: it quietens the estimate and keeps its width honest.
        """
        r = np.asarray(residual, dtype=float)
        if not math.isfinite(np.vdot(r, r)):
            self.reset()
            return self._undecided("the residual is not a number", self._nothing, 0.0)
        if self._size <= self._free:
            return self._undecided(
                f"{self._size} coefficients cannot determine a location besides {self._free} components of the wrench",
                self._nothing,
                0.0,
            )
        if information is None:
            try:
                information = np.linalg.inv(np.asarray(covariance, dtype=float))
            except np.linalg.LinAlgError:
                raise ParameterError("covariance", covariance, "a positive definite matrix") from None
        fresh = self._profile is None or self.settings.memory_s == 0
        before = self._nothing if self._profile is None or fresh else self._profile
        self._weight = 1.0 if fresh else 1 + math.exp(-dt / self.settings.memory_s) * self._weight
        B, prior = self.unit_forces(jacobians), 1 / self.settings.plausible_force_n**2
        belief = _Belief(
            *self.algebra.location_evidence(B, r, information, prior=prior, before=before, fraction=1 / self._weight)
        )
        self._profile = belief.profile
        return self._decided(belief)

    def jacobian_at(self, jacobians: Vector, arc_length_m: float) -> Vector:
        """Body Jacobian at an arc length (m), (6, n), linear between the fine locations."""
        row = min(max(bisect_left(self._fine, arc_length_m), 1), self._last_row)
        left, right = self._fine[row - 1], self._fine[row]
        fraction = min(max((arc_length_m - left) / (right - left), 0.0), 1.0)
        weights = self._to_fine[row]
        if fraction < 1:
            weights = (1 - fraction) * self._to_fine[row - 1] + fraction * weights
        return np.asarray((weights @ jacobians.reshape(weights.size, -1)).reshape(6, -1))

    def _decided(self, belief: _Belief) -> LocationEstimate:
        settings, profile, evidence = self.settings, belief.profile, belief.top
        if evidence < settings.least_evidence:
            return self._undecided("the residual does not stand out of its noise", profile, evidence)
        best = int(profile.argmax())
        arc_length_m, sigma = self._refined(best, profile)
        of_segment = belief.of_segment
        if belief.spread_m < self.cells_m[best]:  # narrower than the grid: the curvature gives it
            reach = self._quantile * sigma
            low, high = max(arc_length_m - reach, 0.0), min(arc_length_m + reach, self._robot_length_m)
        else:
            sigma, tail = belief.spread_m, (1 - settings.confidence) / 2
            low, high = np.interp([tail, 1 - tail], belief.cumulative, self._edges_m).tolist()
        interval = np.array([min(low, arc_length_m), max(high, arc_length_m)])
        fraction = float(interval[1] - interval[0]) / self._robot_length_m
        if fraction > settings.widest_fraction:
            return self._undecided(
                f"the interval covers {fraction:.0%} of the robot",
                profile,
                evidence,
                best_m=arc_length_m,
                interval=interval,
                of_segment=of_segment,
            )
        return LocationEstimate(
            arc_length_m,
            sigma,
            interval,
            True,
            "",
            int(self.segment[best]),
            of_segment,
            arc_length_m,
            evidence,
            self.arc_lengths_m,
            profile,
        )

    def unit_forces(self, jacobians: Vector) -> Vector:
        """Generalised forces of unit wrenches, B^T of location after location, (p, m n)."""
        allowed = (self._rows @ jacobians).reshape(jacobians.shape[0], -1)  # N^T J at the nodes
        return np.asarray(self._to_coarse @ allowed)

    def _refined(self, best: int, profile: Vector) -> tuple[float, float]:
        """Maximum of the parabola through the best location and its neighbours, and its width by the curvature."""
        last = profile.size - 1
        first = min(max(best - 1, 0), last - 2)
        locations, values = self.arc_lengths_m[first : first + 3].tolist(), profile[first : first + 3].tolist()
        at = best - first
        location = locations[at]
        if best in (0, last):
            inner = 1 if best == 0 else at - 1
            slope = abs((values[at] - values[inner]) / (location - locations[inner]))
            return location, min(1 / max(slope, 1e-9), self._robot_length_m)
        left, _, right = locations
        below, top, above = values
        up, down = (top - below) / (location - left), (above - top) / (right - location)
        curvature = 2 * (down - up) / (right - left)
        if not curvature < 0:
            return location, self._robot_length_m
        peak = (left + location) / 2 - up / curvature
        return min(max(peak, left), right), min(math.sqrt(-1 / curvature), self._robot_length_m)

    def _undecided(
        self,
        reason: str,
        log_likelihood: Vector,
        evidence: float,
        *,
        best_m: float = math.nan,
        interval: Vector | None = None,
        of_segment: Vector | None = None,
    ) -> LocationEstimate:
        return LocationEstimate(
            math.nan,
            math.nan,
            np.array([0.0, self._robot_length_m]) if interval is None else interval,
            False,
            reason,
            -1,
            np.full(self._segments, 1 / self._segments) if of_segment is None else of_segment,
            best_m,
            evidence,
            self.arc_lengths_m,
            log_likelihood,
        )


def _locations(robot: Robot, count: int) -> tuple[Vector, NDArray[np.intp], NDArray[np.intp]]:
    """Fine locations (m), which of them are coarse, and the segment of each coarse one: a grid, and all disks."""
    starts = robot.segment_starts_m
    coarse: set[float] = {float(s) for s in robot.disk_arc_lengths_m}
    for start, segment in zip(starts, robot.segments, strict=True):
        coarse |= {float(start + segment.length_m * k / count) for k in range(1, count + 1)}
    ordered = [location for location in sorted(coarse) if location > 0]
    kept = [ordered[0]]
    for location in ordered[1:]:  # a disk that falls on the grid is there once
        if location - kept[-1] > 1e-6:
            kept.append(location)
    fine: list[float] = []
    which = []
    for before, after in zip([0.0, *kept[:-1]], kept, strict=True):
        fine += [before + (after - before) * k / _FINE for k in range(1, _FINE)] + [after]
        which.append(len(fine) - 1)
    index = np.searchsorted(starts, np.array(kept) - 1e-9, side="left") - 1
    return np.array(fine), np.array(which), np.maximum(index, 0)


LEAST_GAIN = 3.0
"""Of the log likelihood over the best single contact, below which no pair is reported."""

_MOST_LOCATIONS = 40
_WHERE = "lower", "upper"


@dataclass(frozen=True, slots=True)
class PairEstimate:
    """Two contacts, the one nearer to the base first."""

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
    """Where two contacts are, by the likelihood of pairs of locations; averages over the memory of the settings.

    As one contact, with r = B(s_1) y_1 + B(s_2) y_2: six unknowns for two lateral forces, so that a segment of six
    channels is just determined, and two segments leave something over. Each location is reported where its interval is
    narrow enough. Two forces in one direction leave nearly the residual of their resultant, and one near the base
    leaves little of any. Derived here by Bayes' rule.
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
        """The pair after one more residual."""
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
    """Log likelihoods for K systems G (K, m, m) and right sides h (K, m), and the forces, (K, m)."""
    count = system.shape[1]
    regular = system + prior * np.eye(count)
    forces = np.linalg.solve(regular, along[:, :, None])[:, :, 0]
    _, log_determinant = np.linalg.slogdet(regular)
    value = ((along * forces).sum(axis=1) - log_determinant + count * math.log(prior)) / 2
    return np.asarray(value), np.asarray(forces)
