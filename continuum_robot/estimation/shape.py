# SPDX-License-Identifier: Apache-2.0
"""Shape of the backbone from tendon displacements and string extensions: weighted least squares."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.estimation.differentiation import FilteredDerivative
from continuum_robot.robot.description import Robot
from continuum_robot.robot.schema import quantity
from continuum_robot.rod.code_generation import compile_functions
from continuum_robot.rod.model import RodModel

Vector = NDArray[np.float64]

_SMALLEST_SINGULAR_SHARE = 1e-9
_REMEMBERED_SUBSETS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeSettings:
    """How much the sensors are trusted."""

    tendon_sigma_m: float = quantity(
        "standard deviation of a tendon's displacement: its stretch and friction rather than its encoder",
        "m",
        default=2e-4,
        gt=0,
        le=1,
    )
    string_sigma_m: float = quantity("standard deviation of a string's extension", "m", default=5e-5, gt=0, le=1)
    rate_filter_s: float = quantity(
        "low-pass of rates that no tendon velocity gives, which come from the coefficients",
        "s",
        default=0.01,
        ge=0,
        le=1,
    )


@dataclass(frozen=True, slots=True)
class ShapeEstimate:
    """Estimated shape.

    Attributes
    ----------
    coefficients : of the strain basis, shape (n,), 1/m
    coefficient_rates : shape (n,), 1/(m.s); NaN where nothing gives them yet
    covariance : of the coefficients, for the sensors that were used, shape (n, n), 1/m^2
    residual_m : root mean square of measured less predicted displacements and extensions, m
    sensor_count : sensors that were used; the others were NaN or absent
    tip : frame of the tip in the base frame, shape (4, 4)
    """

    coefficients: Vector
    coefficient_rates: Vector
    covariance: Vector
    residual_m: float
    sensor_count: int
    tip: Vector


@dataclass(frozen=True, slots=True)
class _Gain:
    """Least squares for one set of sensors: indices, their matrix, coefficients = gain @ values, covariance."""

    sensors: NDArray[np.intp]
    matrix: Vector
    gain: Vector
    covariance: Vector


class ShapeEstimator:
    """Strain coefficients of a robot from its tendons and strings.

    Minimises the sum over the sensors of ((q_j - dq_j/dc c) / sigma_j)^2. Displacements are taken as measured: a
    tendon's stretch is part of its error. For parallel tendons and bending the model is linear, so one step is exact.

    Parameters
    ----------
    robot : with N tendons and k strings
    settings : how much the sensors are trusted
    compile : "auto", "always" or "never", as in rod/code_generation.py
    progress : receives a line when something takes long

    Raises
    ------
    ParameterError : tendons and strings together do not see all coefficients; names those
    """

    def __init__(
        self,
        robot: Robot,
        settings: ShapeSettings | None = None,
        *,
        compile: str = "auto",
        progress: Callable[[str], None] | None = None,
    ) -> None:
        self.settings = settings or ShapeSettings()
        model = RodModel(robot)
        self._size, self._tendons, self._strings = model.size, robot.tendon_count, len(robot.strings)
        self._names = coefficient_names(robot)
        self._matrix = np.vstack([model.tendon_matrix, model.string_matrix])
        self._sigma = np.concatenate(
            [
                np.full(self._tendons, self.settings.tendon_sigma_m),
                np.full(self._strings, self.settings.string_sigma_m),
            ]
        )
        functions = compile_functions([model.pose], f"the pose of {robot.name}", compile=compile, progress=progress)
        self._pose, self._length_m = functions["pose"], robot.length_m
        self._subsets: dict[bytes, _Gain] = {}
        self._all = self._subset(np.ones(self._matrix.shape[0], dtype=bool))
        self._no_strings = np.full(self._strings, np.nan)
        self._from_velocity = self._rate_gain(np.ones(self._tendons, dtype=bool))
        self._derivative = FilteredDerivative(self.settings.rate_filter_s)

    def reset(self) -> None:
        """Forget earlier updates, which only rates that no tendon velocity gives depend on."""
        self._derivative.reset()

    def update(
        self, displacement: Vector, velocity: Vector | None, string_extension: Vector | None, dt: float
    ) -> ShapeEstimate:
        """Estimate from one set of readings.

        Parameters
        ----------
        displacement : shape (N,), m; NaN: unknown, left out
        velocity : shape (N,), m/s; NaN: unknown, left out; None: not measured
        string_extension : shape (k,), m; NaN: unknown, left out; None: no strings
        dt : time since the previous update, s

        Returns
        -------
        the estimate

        Raises
        ------
        ParameterError : the sensors that are left do not see all coefficients (names those), or wrong shapes
        """
        strings = self._no_strings if string_extension is None else string_extension
        if len(displacement) != self._tendons or len(strings) != self._strings:
            raise ParameterError(
                "displacement, string_extension",
                (len(displacement), len(strings)),
                f"{self._tendons} tendons and {self._strings} strings",
            )
        values = np.concatenate([displacement, strings])
        if math.isfinite(values.sum()):
            fit = self._all
        else:
            finite = np.isfinite(values)
            fit = self._subset(finite)
            values = values[finite]
        coefficients = fit.gain @ values
        miss = values - fit.matrix @ coefficients
        return ShapeEstimate(
            coefficients,
            self._rates(coefficients, velocity, dt),
            fit.covariance.copy(),
            math.sqrt(float(miss @ miss) / miss.size),
            miss.size,
            self._pose(coefficients, self._length_m),
        )

    def _rates(self, coefficients: Vector, velocity: Vector | None, dt: float) -> Vector:
        from_change = self._derivative.update(coefficients, dt)
        if velocity is None:
            return from_change
        if len(velocity) != self._tendons:
            raise ParameterError("velocity", velocity, f"{self._tendons} values, one a tendon")
        if math.isfinite(float(np.sum(velocity))):
            return from_change if self._from_velocity is None else self._from_velocity @ velocity
        finite = np.isfinite(velocity)
        gain = self._rate_gain(finite)
        return from_change if gain is None else gain @ np.asarray(velocity)[finite]

    def _rate_gain(self, finite: NDArray[np.bool_]) -> Vector | None:
        """Least squares of the rates from the velocities of some tendons; None where those do not suffice."""
        matrix = self._matrix[: self._tendons][finite]
        return None if _rank(matrix) < self._size else np.asarray(np.linalg.pinv(matrix))

    def _subset(self, finite: NDArray[np.bool_]) -> _Gain:
        key = finite.tobytes()
        if key not in self._subsets:
            if len(self._subsets) >= _REMEMBERED_SUBSETS:
                self._subsets.clear()
            self._subsets[key] = self._fit(np.flatnonzero(finite))
        return self._subsets[key]

    def _fit(self, sensors: NDArray[np.intp]) -> _Gain:
        matrix, sigma = self._matrix[sensors], self._sigma[sensors]
        weighted = matrix / sigma[:, None]
        if _rank(weighted) < self._size:
            raise ParameterError(
                "sensors",
                f"{len(sensors)} of {len(self._sigma)}",
                f"sensors that see all coefficients; these are not seen: {', '.join(self._unseen(weighted))}",
            )
        inverse = np.linalg.pinv(weighted)
        return _Gain(sensors, matrix, inverse / sigma, inverse @ inverse.T)

    def _unseen(self, weighted: Vector) -> list[str]:
        """Names of the coefficients that can change without any sensor's noticing."""
        _, singular, directions = np.linalg.svd(np.vstack([weighted, np.zeros((1, self._size))]), full_matrices=True)
        rank = int(np.sum(singular > _SMALLEST_SINGULAR_SHARE * max(singular[0], math.ulp(0.0))))
        shares = np.linalg.norm(directions[rank:], axis=0)
        return [name for name, share in zip(self._names, shares, strict=True) if share > 1e-6]


def coefficient_names(robot: Robot) -> list[str]:
    """Name of each strain coefficient: segment, curvature and order of its function, e.g. ``segment_1.kappa_x0``."""
    return [
        f"{segment.name}.kappa_{axis}{order}"
        for segment in robot.segments
        for order in range(segment.basis.order + 1)
        for axis in ("x", "y")
    ]


def _rank(matrix: Vector) -> int:
    if matrix.shape[0] == 0:
        return 0
    singular = np.linalg.svd(matrix, compute_uv=False)
    return int(np.sum(singular > _SMALLEST_SINGULAR_SHARE * max(singular[0], math.ulp(0.0))))
