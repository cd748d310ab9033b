# SPDX-License-Identifier: Apache-2.0
"""What all fits share: parameters with what is expected of them, least squares of residuals, error bars, blocks.

A parameter has a key, mostly that of the robot's file, a unit, and what is expected of it before the data. A residual
is a function of the vector x of all parameters. Its rows are differences of simulated and measured values over their
sizes; what is expected gives further rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import least_squares

from continuum_robot.errors import ConvergenceError, IdentifiabilityError

Vector = NDArray[np.float64]
Residuals = Callable[[Vector], tuple[Vector, Vector]]
"""x -> rows (R,), and their slopes (R, P)."""

LINEAR, ROBUST = "linear", "soft_l1"
"""Loss: half of the squares of rows, or sqrt(1 + z^2) - 1 of each, in which large ones weigh less and less."""

_REFUSED = 1e3  # of rows where nothing can be simulated: worse than anything, so that the search goes back
_LEAST, _MOST = 1e-4, 0.01  # of the way between bounds, or of the only one, that counts as at the lower, at the upper
_CONDITION = 1e5  # of slopes at length 1: above, rounding and noise decide on the parameters
_NAMED_FROM = 0.1  # of a direction that the data do not show, from which a parameter is named


@dataclass(frozen=True, slots=True)
class Parameter:
    """Numbers of one kind, one for each of what has one."""

    keys: tuple[str, ...]
    expected: ArrayLike
    deviation: ArrayLike = np.inf
    scale: ArrayLike = 1.0
    low: float = -np.inf
    high: ArrayLike = np.inf
    origin: ArrayLike = 0.0
    log: bool = False


class Parameters:
    """The parameters of a fit, P in all, in one vector x."""

    def __init__(self, kinds: Mapping[str, Parameter]) -> None:
        self.at: dict[str, slice] = {}
        self.keys: tuple[str, ...] = ()
        for name, kind in kinds.items():
            self.at[name] = slice(len(self.keys), len(self.keys) + len(kind.keys))
            self.keys += kind.keys

        def column(attribute: str) -> Vector:
            each = [np.broadcast_to(getattr(kind, attribute), len(kind.keys)) for kind in kinds.values()]
            return np.concatenate([np.zeros(0), *each])

        self.scale, self.deviation, self.low, self.high = map(column, ("scale", "deviation", "low", "high"))
        self.origin, self.log = column("origin"), column("log").astype(bool)
        self.expected = (column("expected") - self.origin) / self.scale
        self.expected[self.log] = np.log(self.expected[self.log])

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def known(self) -> NDArray[np.bool_]:
        """Of which something is expected, shape (P,)."""
        return np.isfinite(self.deviation)

    @property
    def precision(self) -> Vector:
        """One over the squared deviations before the data, shape (P,)."""
        return self.deviation**-2.0

    def values(self, x: Vector) -> Vector:
        """The numbers in the units of their keys, shape (P,)."""
        return self.origin + self.scale * np.where(self.log, np.exp(np.where(self.log, x, 0.0)), x)


@dataclass(frozen=True)
class Fit:
    """A solution; R rows of data, P parameters."""

    parameters: Parameters
    x: Vector
    rows: Vector
    slopes: Vector
    cost: float
    evaluations: int
    limited: NDArray[np.bool_]

    @property
    def values(self) -> Vector:
        """In the units of the keys, shape (P,)."""
        return self.parameters.values(self.x)

    @cached_property
    def inverse(self) -> Vector:
        """Of the normal equations with what is expected, shape (P, P)."""
        return inverse_of(self.slopes.T @ self.slopes + np.diag(self.parameters.precision))

    def covariance(self, *causes: Vector, variance: float = 0.0, blocks: NDArray[np.intp] | None = None) -> Vector:
        """Of x, shape (P, P): what was expected errs by its deviations, and the rows by all that is given."""
        shown = [self.slopes.T @ one.reshape(len(self.rows), -1) for one in causes]
        expected = np.diag(np.sqrt(self.parameters.precision))
        response = self.inverse @ np.hstack([*shown, expected, np.sqrt(variance) * self.slopes.T])
        covariance = response @ response.T
        return covariance if blocks is None else covariance + jackknife(self.left_out(blocks))

    def left_out(self, blocks: NDArray[np.intp]) -> Vector:
        """What x becomes without each of B blocks, to first order, shape (B, P)."""
        slopes, rows = self.slopes, self.rows
        system, found = slopes.T @ slopes + np.diag(self.parameters.precision), []
        pull = self.parameters.precision * (self.x - self.parameters.expected)
        for number in np.unique(blocks):
            rest = blocks != number
            own = slopes[~rest]
            found.append(self.x - inverse_of(system - own.T @ own) @ (slopes[rest].T @ rows[rest] + pull))
        return np.array(found)


def jackknife(vectors: Vector) -> Vector:
    """Covariance of P numbers, (P, P), from what they are without each of B blocks, (B, P)."""
    apart = vectors - vectors.mean(axis=0)
    return np.asarray((len(vectors) - 1) / len(vectors) * apart.T @ apart)


def inverse_of(matrix: Vector) -> Vector:
    """Of a symmetric one whose unknowns differ in size; the least one where it has none, (P, P)."""
    size = 1 / np.sqrt(np.where(np.diag(matrix) > 0, np.diag(matrix), 1.0))
    return np.asarray(size[:, None] * np.linalg.pinv(size[:, None] * matrix * size, hermitian=True) * size)


def linear(slopes: Vector, values: Vector) -> tuple[Vector, Vector, float]:
    """Parameters of least squares of what is linear in them, their covariance by what is left, and its mean square."""
    inverse, spare = inverse_of(slopes.T @ slopes), len(values) - slopes.shape[1]
    x = inverse @ (slopes.T @ values)
    rest = values - slopes @ x
    square = float(rest @ rest)
    return x, inverse * (square / spare if spare > 0 else np.nan), square / len(values)


def by_differences(rows: Callable[[Vector], Vector], step: ArrayLike = 1e-6) -> Residuals:
    """Residuals whose slopes are differences."""

    def residuals(x: Vector) -> tuple[Vector, Vector]:
        here, steps = rows(x), np.broadcast_to(step, x.shape)
        there = [rows(x + change) - here for change in np.diag(steps)]
        return here, np.array(there).T / steps

    return residuals


def fit(
    parameters: Parameters,
    residuals: Residuals,
    *,
    start: Vector | None = None,
    loss: str = LINEAR,
    tolerance: float = 1e-8,
    x_tolerance: float = 1e-8,
    evaluations: int = 200,
    progress: Callable[[Fit], None] = lambda _: None,
) -> Fit:
    """The parameters of least squares."""
    known = parameters.known
    tie = (np.eye(len(parameters)) / parameters.deviation[:, None])[known]
    none, count = np.zeros(len(parameters), dtype=bool), 1
    start = parameters.expected if start is None else start
    rows, slopes = residuals(start)
    accepted = latest = Fit(parameters, start.copy(), rows, slopes, float(rows @ rows) / 2, 1, none)
    progress(latest)

    def evaluate(x: Vector) -> Fit:
        nonlocal count, latest
        for one in (accepted, latest):
            if np.array_equal(one.x, x):
                return one
        count += 1
        try:
            rows, slopes = residuals(x)
        except ConvergenceError:
            refused = np.full_like(accepted.rows, _REFUSED)
            return Fit(parameters, x, refused, np.zeros_like(accepted.slopes), np.inf, count, none)
        latest = Fit(parameters, x.copy(), rows, slopes, float(rows @ rows) / 2, count, none)
        progress(latest)
        return latest

    def slope(x: Vector) -> Vector:
        nonlocal accepted
        accepted = evaluate(x)
        return np.vstack([accepted.slopes, tie]) / size

    # Where x begins with 0, the first step changes the rows by 1: by all of them, or little where errors are large.
    size = (float(np.linalg.norm(accepted.rows)) or 1.0) if loss == LINEAR else 1.0
    solution = least_squares(
        lambda x: np.append(evaluate(x).rows, ((x - parameters.expected) / parameters.deviation)[known]) / size,
        start,
        slope,
        bounds=(parameters.low, parameters.high),
        loss=loss,
        f_scale=1 / size,
        x_scale="jac",
        xtol=x_tolerance,
        ftol=tolerance,
        gtol=1e-15,
        max_nfev=evaluations,
    )
    here = evaluate(solution.x)
    low, high = parameters.low, parameters.high
    span = np.where(np.isfinite(high - low), high - low, np.minimum(np.abs(low), np.abs(high)))
    span = np.where(np.isfinite(span), span, 0.0)
    limited = (here.x < low + _LEAST * span) | (here.x > high - _MOST * span)
    return Fit(parameters, here.x, here.rows, here.slopes, size**2 * float(solution.cost), count, limited)


def check_identified(slopes: Vector, names: Sequence[str], idle: Sequence[str], why: tuple[str, str]) -> None:
    """Refuse data that do not show all parameters, with the names of those that they leave open."""
    if idle or len(slopes) < len(names):
        raise IdentifiabilityError(tuple(idle or names), *why)
    _, sizes, directions = np.linalg.svd(slopes / np.linalg.norm(slopes, axis=0), full_matrices=False)
    if sizes[0] > _CONDITION * sizes[-1]:
        unseen = [name for name, part in zip(names, directions[-1], strict=True) if abs(part) > _NAMED_FROM]
        raise IdentifiabilityError(tuple(unseen), *why)


def today() -> str:
    """The date, ISO 8601, UTC."""
    return datetime.now(timezone.utc).date().isoformat()


_SHOWN = 0.5  # of the deviation before the data


@dataclass(frozen=True, kw_only=True)
class FoundValues:
    """P values, in the units of their keys."""

    keys: tuple[str, ...]
    before: Vector
    values: Vector
    priors: Vector
    deviations: Vector
    file: Path
    sha256: str
    date: str = field(default_factory=today)

    @property
    def names(self) -> tuple[str, ...]:
        """Of the values, for people."""
        return self.keys

    @property
    def shown(self) -> NDArray[np.bool_]:
        """Which of them the data tell: with a deviation of less than half of the one before the data, shape (P,)."""
        return np.asarray(self.deviations < _SHOWN * self.priors)

    @property
    def found(self) -> Mapping[str, float]:
        """What the data tell, by key."""
        return {key: float(v) for key, v, shown in zip(self.keys, self.values, self.shown, strict=True) if shown}
