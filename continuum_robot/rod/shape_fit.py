# SPDX-License-Identifier: Apache-2.0
"""The likeliest shape of a rod from mixed data: tensions, displacements, extensions of strings, positions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ConvergenceError, ParameterError
from continuum_robot.rod.rod import Rod
from continuum_robot.rod.statics import Balance, equilibrium

Vector = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class ShapeData:
    """What is known of a rod; NaN, or None, for what is not. Standard deviations are of the measurements."""

    tension: ArrayLike | None = None
    displacement: ArrayLike | None = None
    string_extension: ArrayLike | None = None
    positions: Sequence[tuple[float, Sequence[float]]] = ()
    tension_sigma_n: float = 0.05
    displacement_sigma_m: float = 1e-4
    string_sigma_m: float = 1e-4
    position_sigma_m: float = 5e-4
    model_sigma_rad: float = 0.05


@dataclass(frozen=True, slots=True)
class ShapeFit:
    """A shape from mixed data."""

    c: Vector
    tension: Vector
    covariance: Vector
    residuals: Vector
    unbalanced_rad: float


def fit_shape(rod: Rod, data: ShapeData, start: ArrayLike | None = None) -> ShapeFit:
    """The likeliest shape for tensions, displacements, string extensions and positions, each known or not.

    Weighted least squares over coefficients and tensions (not negative), with the balance of forces as a further
    measurement whose standard deviation stands for unknown loads.

    Returns
    -------
    shape, tensions, and how well they fit
    """
    balance, n, count = Balance(rod), rod.n, rod.tendon_count
    strings = rod.strings
    known = _known(data.tension, count, "tension")
    asked = (known, _known(data.displacement, count, "displacement"))
    extension = _known(data.string_extension, strings.tendon_count, "string_extension")
    stations = rod.stations([s_m for s_m, _ in data.positions])
    places = np.array([place for _, place in data.positions], dtype=float).reshape(-1, 3)
    flexibility = rod.scale[:, None] * balance.inverse_root.T

    def evaluate(x: Vector) -> tuple[Vector, Vector]:
        c, pull = x[:n], x[n:]
        state, drawn = balance.pulled(c, pull), strings.lengths(c)
        at = rod.frames(c)
        poses = stations.poses(at, c)
        velocity = poses[:, :3, :3] @ stations.jacobians(at, poses)[:, :3]
        by_c = flexibility @ np.hstack([state.hessian @ balance.root.T, balance.inverse_root @ state.gradient.T])
        none, own = np.zeros((count, n)), np.eye(count)
        blocks = [
            (flexibility @ state.force, by_c, data.model_sigma_rad),
            (pull - asked[0], np.hstack([none, own]), data.tension_sigma_n),
            (rod.rest_m - state.length_m - asked[1], np.hstack([-state.gradient, 0 * own]), data.displacement_sigma_m),
            (strings.rest_m - drawn.length_m - extension, _beside(-drawn.gradient, count), data.string_sigma_m),
            ((poses[:, :3, 3] - places).ravel(), _beside(velocity.reshape(-1, n), count), data.position_sigma_m),
        ]
        values = np.concatenate([value / sigma for value, _, sigma in blocks])
        slopes = np.vstack([slope / sigma for _, slope, sigma in blocks])
        seen = np.isfinite(values)
        return values[seen], slopes[seen]

    first = np.nan_to_num(np.maximum(known, 0.0), nan=0.0)
    c = equilibrium(rod, first, balance=balance).c if start is None else rod.checked(start)
    lowest = np.concatenate([np.full(n, -np.inf), np.zeros(count)])
    found = scipy.optimize.least_squares(
        lambda x: evaluate(x)[0],
        np.concatenate([c, first + 1e-3]),
        lambda x: evaluate(x)[1],
        (lowest, np.full(n + count, np.inf)),
        x_scale="jac",
        xtol=1e-12,
        ftol=1e-12,
        gtol=1e-10,
        max_nfev=200,
    )
    if not found.success:
        raise ConvergenceError("shape from mixed data", float(found.optimality), 1e-10, int(found.nfev))
    values, slopes = evaluate(found.x)
    covariance = np.asarray(np.linalg.pinv(slopes.T @ slopes, rcond=1e-14)[:n, :n], dtype=float)
    unbalanced_rad = float(np.linalg.norm(values[:n])) * data.model_sigma_rad
    return ShapeFit(found.x[:n], found.x[n:], covariance, -values[n:], unbalanced_rad)


def _beside(slopes: Vector, count: int) -> Vector:
    """Slopes by the coefficients, and none by the tensions."""
    return np.hstack([slopes, np.zeros((len(slopes), count))])


def _known(values: ArrayLike | None, count: int, name: str) -> Vector:
    array = np.full(count, np.nan) if values is None else np.asarray(values, dtype=float)
    if array.shape != (count,) or np.isinf(array).any():
        raise ParameterError(name, values, f"{count} numbers, NaN where unknown")
    return array
