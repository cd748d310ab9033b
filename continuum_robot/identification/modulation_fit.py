# SPDX-License-Identifier: Apache-2.0
"""The moment error lambda of a modulated segment from tracked poses of its end disk: wang, section 4.

The minimum of wang (78); Algorithm 1 as printed, which needs ten times the steps, is in the experiments. Data that do
not identify a parameter are refused, with its name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.geometry import so3
from continuum_robot.identification.fit import Fit, Parameter, Parameters, check_identified, inverse_of
from continuum_robot.identification.fit import fit as least_squares
from continuum_robot.mechanisms.equilibrium_modulation.kinematics import jacobians
from continuum_robot.mechanisms.equilibrium_modulation.moment_error import (
    PARAMETER_NAMES,
    LinearMomentError,
    TabledMomentError,
)
from continuum_robot.mechanisms.equilibrium_modulation.segment import ModulatedSegment

Array = NDArray[np.float64]

_NO_INFLUENCE = 1e-9  # of what a moment error does at full depth


@dataclass(frozen=True, kw_only=True)
class ModulationData:
    """Tracked poses of the end disk; a sample with NaN in it was not seen, and does not count."""

    theta_rad: ArrayLike
    delta_rad: ArrayLike
    insertion_m: ArrayLike
    position_m: ArrayLike
    rotation: ArrayLike | None = None

    def seen(self) -> ModulationData:
        """The same without the samples that are not finite."""
        position = np.asarray(self.position_m, dtype=float)
        count = len(position)
        given = {
            "position_m": (position, (count, 3)),
            **{
                name: (np.asarray(getattr(self, name), dtype=float), (count,))
                for name in ("theta_rad", "delta_rad", "insertion_m")
            },
        }
        if self.rotation is not None:
            given["rotation"] = (np.asarray(self.rotation, dtype=float), (count, 3, 3))
        for name, (value, shape) in given.items():
            if value.shape != shape:
                raise ParameterError(name, value.shape, f"the shape {shape}, as positions are given")
        good = np.all([np.isfinite(value).reshape(count, -1).all(axis=1) for value, _ in given.values()], axis=0)
        if not good.any():
            raise ParameterError("position_m", count, "at least one sample without NaN")
        return self.where(good)

    def where(self, mask: NDArray[np.bool_]) -> ModulationData:
        """Some of the samples."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        kept: dict[str, Any] = {k: np.asarray(one, dtype=float)[mask] for k, one in given.items() if one is not None}
        return ModulationData(**kept)


@dataclass(frozen=True, kw_only=True)
class FitSettings:
    """How to fit.

    Attributes
    ----------
    position_std_m, orientation_std_rad : W is the inverse of their squares, wang (78)
    """

    names: Sequence[str] = ("k_lambda0", "k_lambdaq")
    start: LinearMomentError = LinearMomentError()
    position_std_m: float = 2e-6
    orientation_std_rad: float = 1e-3

    def __post_init__(self) -> None:
        wrong = [name for name in self.names if name not in PARAMETER_NAMES]
        if wrong or not self.names or len(set(self.names)) != len(self.names):
            raise ParameterError("names", tuple(self.names), "some of " + ", ".join(PARAMETER_NAMES) + ", each once")
        for name in ("position_std_m", "orientation_std_rad"):
            if not (np.isfinite(getattr(self, name)) and getattr(self, name) > 0):
                raise ParameterError(name, getattr(self, name), "a positive number")


@dataclass(frozen=True)
class ModulationFit:
    """Result of a fit."""

    moment_error: LinearMomentError
    names: tuple[str, ...]
    covariance: Array
    rmse_m: float
    iterations: int
    history_k: Array
    history_rmse_m: Array
    samples: int

    @property
    def standard_deviation(self) -> Array:
        """Of each fitted parameter, (p,), SI units."""
        return np.asarray(np.sqrt(np.diag(self.covariance)))


def fit(segment: ModulatedSegment, data: ModulationData, settings: FitSettings | None = None) -> ModulationFit:
    """The minimum of wang (78)."""
    problem, taken = PoseErrors(segment, data.seen(), settings or FitSettings()), list[Fit]()

    def take(one: Fit) -> None:
        problem.check(one.slopes)
        if not taken or one.cost < taken[-1].cost:
            taken.append(one)

    least_squares(problem.parameters, problem, progress=take)
    return problem.result([one.x for one in taken])


def fit_table(
    segment: ModulatedSegment, data: ModulationData, settings: FitSettings | None = None
) -> tuple[TabledMomentError, dict[float, ModulationFit]]:
    """k_lambda0 and k_lambdaq for each bending angle of the data, and the table over them: wang, section 6.2."""
    seen = data.seen()
    rounded = np.round(np.asarray(seen.theta_rad), 6)
    fits = {}
    for theta in np.unique(rounded):
        part = seen.where(rounded == theta)
        fits[float(np.mean(np.asarray(part.theta_rad, dtype=float)))] = fit(segment, part, settings)
    errors = [one.moment_error for one in fits.values()]
    table = TabledMomentError(
        tuple(fits), tuple(one.k_lambda0 for one in errors), tuple(one.k_lambdaq for one in errors)
    )
    return table, fits


class PoseErrors:
    """Weighted errors of poses, wang (73) to (76), and their Jacobian by scaled parameters.

    Attributes
    ----------
    parameters : H of wang (82) is their scale: each counts by the moment that it makes at full depth and at 1 rad
    """

    def __init__(self, segment: ModulatedSegment, data: ModulationData, settings: FitSettings) -> None:
        self._segment, self._settings = segment, settings
        self._state = [np.asarray(value) for value in (data.theta_rad, data.delta_rad, data.insertion_m)]
        self._position = np.asarray(data.position_m)
        self._rotation = None if data.rotation is None else np.asarray(data.rotation)
        self._columns = [PARAMETER_NAMES.index(name) for name in settings.names]
        moment = segment.bending_stiffness_nm2 / segment.length_m
        scale = moment * np.array([1.0, 1 / segment.length_m, 1.0])[self._columns]
        start = settings.start.parameters[self._columns]
        self.parameters = Parameters({"lambda": Parameter(tuple(settings.names), start, scale=scale)})
        weights = np.repeat([1 / settings.position_std_m, 1 / settings.orientation_std_rad], 3)
        self._weights = weights if self._rotation is not None else weights[:3]

    def __call__(self, x: Array) -> tuple[Array, Array]:
        """Weighted errors (rows,), and their Jacobian (rows, p), at scaled parameters ``x`` (p,)."""
        theta, delta, insertion = self._state
        found = jacobians(self._segment, theta, delta, insertion, self._moment_error(x))
        error = self._position - found.pose[:, :3, 3]  # wang (73)
        slope = -found.identification  # wang (81)
        if self._rotation is not None:
            turn = so3.log(self._rotation @ np.swapaxes(found.pose[:, :3, :3], -1, -2))  # wang (74) to (76)
            error = np.concatenate([error, turn], axis=1)
            # (81) holds to first order of the turn; the right Jacobian of the logarithm makes it exact.
            slope = np.concatenate([slope[:, :3], so3.left_jacobian_inverse(-turn) @ slope[:, 3:]], axis=1)
        slope = slope[:, : error.shape[1], self._columns] * self._weights[:, None] * self.parameters.scale
        return (error * self._weights).ravel(), slope.reshape(-1, len(self._columns))

    def check(self, slopes: Array) -> None:
        """Refuse data that do not identify all parameters; raises IdentifiabilityError."""
        names, (theta, _, insertion) = self._settings.names, self._state
        # At full depth a moment error turns the end by about its moment over E I / L, over a lever of about L.
        least = _NO_INFLUENCE * self._segment.length_m * self._weights[0] * np.sqrt(len(theta))
        sizes = np.linalg.norm(slopes, axis=0)
        idle = [name for name, size in zip(names, sizes, strict=True) if size <= least]
        angles, depths = len(np.unique(np.round(theta, 4))), len(np.unique(np.round(insertion, 6)))
        why = f"{len(theta)} samples at {depths} depths and {angles} bending angles determine only a sum of them"
        remedy = "Measure at other depths" if depths == 1 else "Measure at other bending angles, or fit fewer"
        if idle:
            why, remedy = "no sample depends on it", "Measure with the modulation backbone inserted"
        check_identified(slopes, names, idle, (why, remedy))

    def result(self, history: Sequence[Array]) -> ModulationFit:
        """What came of steps."""
        x, (rows, slopes) = history[-1], self(history[-1])
        variance = float(rows @ rows) / max(len(rows) - x.size, 1)
        covariance = inverse_of(slopes.T @ slopes) * variance * np.outer(self.parameters.scale, self.parameters.scale)
        errors = [self(one)[0].reshape(len(self._position), -1)[:, :3] for one in history]
        rmse = self._settings.position_std_m * np.sqrt(np.mean(np.sum(np.square(errors), axis=2), axis=1))
        return ModulationFit(
            moment_error=self._moment_error(x),
            names=tuple(self._settings.names),
            covariance=covariance,
            rmse_m=float(rmse[-1]),
            iterations=len(history) - 1,
            history_k=np.array([self._moment_error(one).parameters for one in history]),
            history_rmse_m=rmse,
            samples=len(self._position),
        )

    def _moment_error(self, x: Array) -> LinearMomentError:
        values = self._settings.start.parameters.copy()
        values[self._columns] = self.parameters.values(x)
        return LinearMomentError(*(float(value) for value in values))
