# SPDX-License-Identifier: Apache-2.0
"""The moment error lambda of a modulated segment from tracked poses of its end disk: wang, section 4.

Two ways to the same minimum of wang (78): Algorithm 1 as printed, and Levenberg and Marquardt's, which needs a tenth of
the steps. Data that do not identify a parameter are refused, with its name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ConvergenceError, IdentifiabilityError, ParameterError
from continuum_robot.geometry import so3
from continuum_robot.mechanisms.equilibrium_modulation.kinematics import jacobians
from continuum_robot.mechanisms.equilibrium_modulation.moment_error import (
    PARAMETER_NAMES,
    LinearMomentError,
    TabledMomentError,
)
from continuum_robot.mechanisms.equilibrium_modulation.segment import ModulatedSegment

Array = NDArray[np.float64]

_MOST_ITERATIONS = 2000
_CONDITION = 1e5  # of the columns at length 1: above, rounding and tracking decide on the parameters
_NO_INFLUENCE = 1e-9  # of what a moment error does at full depth
_NAMED_FROM = 0.1  # of a direction that the data do not see, from which a parameter is named
_LM_TOLERANCE = 1e-12
_LM_FIRST_DAMPING = 1e-3


@dataclass(frozen=True, kw_only=True)
class ModulationData:
    """Tracked poses of the end disk; a sample with NaN in it was not seen, and does not count.

    Attributes
    ----------
    theta_rad, delta_rad : nominal configuration psi_j, (N,), rad
    insertion_m : q_s, (N,), m
    position_m : in the base frame, (N, 3), m
    rotation : of the end disk in the base frame, (N, 3, 3); None where only the position is tracked
    """

    theta_rad: ArrayLike
    delta_rad: ArrayLike
    insertion_m: ArrayLike
    position_m: ArrayLike
    rotation: ArrayLike | None = None

    def seen(self) -> ModulationData:
        """The same without the samples that are not finite.

        Raises
        ------
        ParameterError : arrays that do not fit together, or none left
        """
        position = np.asarray(self.position_m, dtype=float)
        count = len(position)
        fields = {
            "position_m": (position, (count, 3)),
            **{
                name: (np.asarray(getattr(self, name), dtype=float), (count,))
                for name in ("theta_rad", "delta_rad", "insertion_m")
            },
        }
        if self.rotation is not None:
            fields["rotation"] = (np.asarray(self.rotation, dtype=float), (count, 3, 3))
        for name, (value, shape) in fields.items():
            if value.shape != shape:
                raise ParameterError(name, value.shape, f"the shape {shape}, as positions are given")
        good = np.all([np.isfinite(value).reshape(count, -1).all(axis=1) for value, _ in fields.values()], axis=0)
        if not good.any():
            raise ParameterError("position_m", count, "at least one sample without NaN")
        return ModulationData(**{name: value[good] for name, (value, _) in fields.items()})


@dataclass(frozen=True, kw_only=True)
class FitSettings:
    """How to fit.

    Attributes
    ----------
    names : which of k_lambda0, k_lambdaq, k_lambda_theta are fitted; the others stay as they start
    start : where from
    position_std_m, orientation_std_rad : W is the inverse of their squares, wang (78)
    step : eta in (0, 1] of Algorithm 1, fraction of the Gauss-Newton step
    threshold : beta, relative change of the objective at which Algorithm 1 stops
    """

    names: Sequence[str] = ("k_lambda0", "k_lambdaq")
    start: LinearMomentError = LinearMomentError()
    position_std_m: float = 2e-6
    orientation_std_rad: float = 1e-3
    step: float = 0.1
    threshold: float = 1e-3

    def __post_init__(self) -> None:
        wrong = [name for name in self.names if name not in PARAMETER_NAMES]
        if wrong or not self.names or len(set(self.names)) != len(self.names):
            raise ParameterError("names", tuple(self.names), "some of " + ", ".join(PARAMETER_NAMES) + ", each once")
        for name in ("position_std_m", "orientation_std_rad", "threshold"):
            if not (np.isfinite(getattr(self, name)) and getattr(self, name) > 0):
                raise ParameterError(name, getattr(self, name), "a positive number")
        if not 0 < self.step <= 1:
            raise ParameterError("step", self.step, "a number in (0, 1]")


@dataclass(frozen=True)
class ModulationFit:
    """Result of a fit.

    Attributes
    ----------
    moment_error : lambda
    names : of the fitted parameters
    covariance : of the fitted parameters in SI units, scaled by the residuals, (p, p)
    rmse_m : of the positions, m
    iterations : number of steps
    history_k : parameters in the order of ``PARAMETER_NAMES`` before each step and at the end, (iterations + 1, 3)
    history_rmse_m : RMSE there, (iterations + 1,), m
    samples : how many counted
    """

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


def fit_as_printed(
    segment: ModulatedSegment, data: ModulationData, settings: FitSettings | None = None
) -> ModulationFit:
    """Algorithm 1 of wang: Gauss and Newton's steps, shortened to eta.

    Parameters
    ----------
    segment : what bends
    data : tracked poses
    settings : which parameters, weights, step

    Raises
    ------
    IdentifiabilityError : data that do not identify a parameter
    ConvergenceError : the objective goes on changing
    ParameterError : data that do not fit together, or a configuration that the segment cannot have
    """
    problem = _Problem(segment, data.seen(), settings or FitSettings())
    k = problem.start
    before, now = 1.0, 100.0  # as Algorithm 1 starts
    while abs(now - before) / before >= problem.settings.threshold:
        if len(problem.history_k) > _MOST_ITERATIONS:
            raise ConvergenceError(
                "Algorithm 1 of wang", abs(now - before) / before, problem.settings.threshold, _MOST_ITERATIONS
            )
        before = now
        c, J, now = problem.at(k)
        problem.check(J)
        step = np.linalg.lstsq(J, c, rcond=None)[0]  # wang (83), W and H being in J and c
        last, k = k, k - problem.settings.step * step  # wang (82)
    return problem.result(last)


def fit(segment: ModulatedSegment, data: ModulationData, settings: FitSettings | None = None) -> ModulationFit:
    """Levenberg and Marquardt's steps to the minimum of wang (78).

    Parameters
    ----------
    segment : what bends
    data : tracked poses
    settings : which parameters, weights; ``step`` and ``threshold`` are those of the other algorithm

    Raises
    ------
    IdentifiabilityError : data that do not identify a parameter
    ConvergenceError : no minimum found
    ParameterError : data that do not fit together, or a configuration that the segment cannot have
    """
    problem = _Problem(segment, data.seen(), settings or FitSettings())
    k, damping = problem.start, _LM_FIRST_DAMPING
    c, J, now = problem.at(k)
    for _ in range(_MOST_ITERATIONS):
        problem.check(J)
        normal, gradient = J.T @ J, J.T @ c
        step = np.linalg.solve(normal + damping * np.diag(np.diag(normal)), gradient)
        promised = step @ gradient / len(c)
        if promised <= _LM_TOLERANCE * now:
            return problem.result(k)
        trial_c, trial_J, trial = problem.at(k - step, keep=False)
        if trial < now:
            k, c, J, now = k - step, trial_c, trial_J, trial
            problem.keep(k, c)
            damping /= 10
        else:
            damping *= 10
    raise ConvergenceError("Levenberg and Marquardt's fit", float(promised), _LM_TOLERANCE * now, _MOST_ITERATIONS)


def fit_table(
    segment: ModulatedSegment, data: ModulationData, settings: FitSettings | None = None
) -> tuple[TabledMomentError, dict[float, ModulationFit]]:
    """k_lambda0 and k_lambdaq for each bending angle of the data, and the table over them: wang, section 6.2.

    Parameters
    ----------
    segment : what bends
    data : tracked poses at two bending angles or more; those equal to 1e-6 rad are one
    settings : weights

    Returns
    -------
    the table, and the fit at each of its angles

    Raises
    ------
    IdentifiabilityError, ConvergenceError, ParameterError : as :func:`fit`; a single bending angle
    """
    seen = data.seen()
    rounded = np.round(np.asarray(seen.theta_rad), 6)
    fits = {}
    for theta in np.unique(rounded):
        here = rounded == theta
        part = ModulationData(
            theta_rad=np.asarray(seen.theta_rad)[here],
            delta_rad=np.asarray(seen.delta_rad)[here],
            insertion_m=np.asarray(seen.insertion_m)[here],
            position_m=np.asarray(seen.position_m)[here],
            rotation=None if seen.rotation is None else np.asarray(seen.rotation)[here],
        )
        fits[float(np.mean(np.asarray(part.theta_rad)))] = fit(segment, part, settings)
    errors = [one.moment_error for one in fits.values()]
    table = TabledMomentError(
        tuple(fits), tuple(one.k_lambda0 for one in errors), tuple(one.k_lambdaq for one in errors)
    )
    return table, fits


class _Problem:
    """Weighted errors and Jacobian in scaled parameters, and the history of a fit."""

    def __init__(self, segment: ModulatedSegment, data: ModulationData, settings: FitSettings) -> None:
        self.segment, self.data, self.settings = segment, data, settings
        self.theta, self.delta, self.insertion, self.position = (
            np.asarray(value) for value in (data.theta_rad, data.delta_rad, data.insertion_m, data.position_m)
        )
        self.rotation = None if data.rotation is None else np.asarray(data.rotation)
        self.count = len(self.position)
        self.columns = [PARAMETER_NAMES.index(name) for name in settings.names]
        # H of wang (82): a parameter counts by the moment that it makes at full depth and at 1 rad.
        moment = segment.bending_stiffness_nm2 / segment.length_m
        self.scale = moment * np.array([1.0, 1 / segment.length_m, 1.0])[self.columns]
        self.start = settings.start.parameters[self.columns] / self.scale
        self.weights = np.repeat([1 / settings.position_std_m, 1 / settings.orientation_std_rad], 3)
        if self.rotation is None:
            self.weights = self.weights[:3]
        self.history_k: list[Array] = []
        self.history_rmse_m: list[float] = []

    def moment_error(self, k: Array) -> LinearMomentError:
        values = self.settings.start.parameters.copy()
        values[self.columns] = k * self.scale
        return LinearMomentError(*(float(value) for value in values))

    def at(self, k: Array, keep: bool = True) -> tuple[Array, Array, float]:
        """Weighted errors (rows,), their Jacobian by scaled parameters (rows, p), and the objective, wang (78)."""
        found = jacobians(self.segment, self.theta, self.delta, self.insertion, self.moment_error(k))
        error = self.position - found.pose[:, :3, 3]  # wang (73)
        slope = -found.identification  # wang (81)
        if self.rotation is not None:
            turn = so3.log(self.rotation @ np.swapaxes(found.pose[:, :3, :3], -1, -2))  # wang (74) to (76)
            error = np.concatenate([error, turn], axis=1)
            # (81) holds to first order of the turn; the right Jacobian of the logarithm makes it exact.
            slope = np.concatenate([slope[:, :3], so3.left_jacobian_inverse(-turn) @ slope[:, 3:]], axis=1)
        else:
            slope = slope[:, :3]
        c = (error * self.weights).ravel()
        J = (slope[..., self.columns] * self.weights[:, None]).reshape(len(c), -1) * self.scale
        if keep:
            self.keep(k, c)
        return c, J, float(c @ c) / (2 * self.count)  # wang (78)

    def keep(self, k: Array, c: Array) -> None:
        self.history_k.append(self.moment_error(k).parameters)
        position = c.reshape(self.count, -1)[:, :3] * self.settings.position_std_m
        self.history_rmse_m.append(float(np.sqrt(np.mean(np.sum(position**2, axis=1)))))

    def check(self, J: Array) -> None:
        """Refuse data that do not identify all parameters, naming those that they leave open."""
        names = self.settings.names
        if len(J) < len(names):
            raise IdentifiabilityError(tuple(names), f"{self.count} samples are fewer than parameters", "Measure more")
        # At full depth a moment error turns the end by about its moment over E I / L, over a lever of about L.
        expected = self.segment.length_m * self.weights[0] * np.sqrt(self.count)
        sizes = np.linalg.norm(J, axis=0)
        idle = [name for name, size in zip(names, sizes, strict=True) if size <= _NO_INFLUENCE * expected]
        if idle:
            raise IdentifiabilityError(
                tuple(idle), "no sample depends on it", "Measure with the modulation backbone inserted"
            )
        _, values, directions = np.linalg.svd(J / sizes, full_matrices=False)
        if values[0] > _CONDITION * values[-1]:
            unseen = tuple(name for name, part in zip(names, directions[-1], strict=True) if abs(part) > _NAMED_FROM)
            angles, depths = len(np.unique(np.round(self.theta, 4))), len(np.unique(np.round(self.insertion, 6)))
            raise IdentifiabilityError(
                unseen,
                f"{self.count} samples at {depths} depths and {angles} bending angles determine only a sum of them",
                "Measure at other depths" if depths == 1 else "Measure at other bending angles, or fit fewer",
            )

    def result(self, k: Array) -> ModulationFit:
        c, J, _ = self.at(k, keep=False)
        freedom = max(len(c) - len(self.columns), 1)
        spread = np.linalg.inv(J.T @ J) * (c @ c) / freedom
        return ModulationFit(
            self.moment_error(k),
            tuple(self.settings.names),
            spread * np.outer(self.scale, self.scale),
            self.history_rmse_m[-1],
            len(self.history_k) - 1,
            np.array(self.history_k),
            np.array(self.history_rmse_m),
            self.count,
        )
