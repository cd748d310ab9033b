# SPDX-License-Identifier: Apache-2.0
"""Shape of the backbone from tendon displacements and string extensions: weighted least squares, johnston (6)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.estimation.differentiation import FilteredDerivative
from continuum_robot.estimation.modal_filter import ModalKalmanFilter, ModalState
from continuum_robot.estimation.observability import SMALLEST_SINGULAR_SHARE, coefficient_names, unseen_coefficients
from continuum_robot.estimation.sensor_watch import SensorHealth, SensorWatch, WatchSettings
from continuum_robot.robot.description import Robot
from continuum_robot.robot.schema import quantity
from continuum_robot.rod.code_generation import compile_functions
from continuum_robot.rod.model import RodModel

Vector = NDArray[np.float64]

__all__ = ["RATE_METHODS", "ShapeEstimate", "ShapeEstimator", "ShapeSettings", "coefficient_names"]

RATE_METHODS = ("kalman", "low_pass")
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
    rate_method: str = quantity(
        "how the rates are found that no tendon velocity gives", default="kalman", choices=RATE_METHODS
    )
    rate_filter_s: float = quantity("low-pass of such rates with the method low_pass", "s", default=0.01, ge=0, le=1)
    tendon_noise_m: float = quantity(
        "white part of a tendon's error, quantisation included", "m", default=1e-5, gt=0, le=1
    )
    string_noise_m: float = quantity(
        "white part of a string's error, quantisation included", "m", default=1.2e-5, gt=0, le=1
    )
    bending_jerk_rad: float = quantity(
        "jerk of a segment's bending that the Kalman filter expects, root of its spectral density",
        "rad/s^2.5",
        default=5.0,
        gt=0,
        le=1e6,
    )


@dataclass(frozen=True, slots=True)
class ShapeEstimate:
    """Estimated shape.

    Attributes
    ----------
    coefficients : of the strain basis, shape (n,), 1/m; NaN where the sensors that are left do not see them
    coefficient_rates : shape (n,), 1/(m.s); NaN where nothing gives them yet, or the coefficient is not seen
    covariance : of the coefficients, for the sensors that were used, shape (n, n), 1/m^2; of an unseen coefficient
        infinite on the diagonal and NaN beside it
    residual_m : root mean square of measured less predicted displacements and extensions, m
    sensor_count : sensors that were used; the others were NaN, absent or not to be trusted
    tip : frame of the tip in the base frame, shape (4, 4); NaN where a coefficient is
    motion : of the Kalman filter, if that finds the rates: state and covariance of (c, c', c''); else None
    blind : sentences that name the unseen coefficients and the sensors that are missing; empty when all are seen
    broken : a sentence for each sensor that the watch found broken, latched until the reset
    """

    coefficients: Vector
    coefficient_rates: Vector
    covariance: Vector
    residual_m: float
    sensor_count: int
    tip: Vector
    motion: ModalState | None = None
    blind: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()

    @classmethod
    def unseen(cls, size: int, blind: tuple[str, ...]) -> ShapeEstimate:
        """A shape of which nothing is seen.

        Parameters
        ----------
        size : number of coefficients
        blind : why
        """
        unknown, covariance = np.full(size, np.nan), np.full((size, size), np.nan)
        np.fill_diagonal(covariance, np.inf)
        return cls(unknown, unknown, covariance, np.nan, 0, np.full((4, 4), np.nan), None, blind)

    @property
    def is_blind(self) -> bool:
        """Whether a coefficient is not seen."""
        return bool(self.blind)


@dataclass(frozen=True, slots=True)
class _Gain:
    """Least squares for one set of sensors: their matrix, c = gain @ values, covariance, what is not seen."""

    matrix: Vector
    gain: Vector
    covariance: Vector
    unseen: NDArray[np.bool_]
    blind: tuple[str, ...]


class ShapeEstimator:
    """Strain coefficients of a robot from its tendons and strings.

    Minimises the sum over the sensors of ((q_j - dq_j/dc c) / sigma_j)^2. Displacements are taken as measured: a
    tendon's stretch is part of its error. For parallel tendons and bending the model is linear, so one step is exact;
    as many sensors as coefficients invert J_lc of johnston (6).

    Where sensors fall out and the rest does not see all coefficients, those that it does not see are NaN with infinite
    variance and are named, the others stay. The same happens where the watch finds a sensor broken.

    Rates come from the tendons' velocities where those suffice, else from the coefficients' change: by a Kalman filter
    on (c, c', c''), which has no delay on slow motion, or by a difference behind a low-pass.

    Parameters
    ----------
    robot : with N tendons and k strings
    settings : how much the sensors are trusted
    watch : what counts as a broken sensor; None: readings are believed unless they are NaN. Not for robots whose
        tendons alone see the shape: their driver watches them, and slack that is taken up is no fault of a string
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
        watch: WatchSettings | None = None,
        compile: str = "auto",
        progress: Callable[[str], None] | None = None,
    ) -> None:
        self.settings = settings or ShapeSettings()
        model = RodModel(robot)
        self._size, self._tendons, self._strings = model.size, robot.tendon_count, len(robot.strings)
        self._names = coefficient_names(robot)
        self.sensor_names = (*robot.tendon_names, *(string.name for string in robot.strings))
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
        if self._all.blind:
            raise ParameterError(
                "sensors",
                f"{len(self._sigma)}, of rank {_rank(self._matrix / self._sigma[:, None])}",
                f"sensors that see all {self._size} coefficients; these are not seen: {self._named(self._all.unseen)}",
            )
        self._no_strings = np.full(self._strings, np.nan)
        self._from_velocity = self._rate_gain(np.ones(self._tendons, dtype=bool))
        self._derivative = FilteredDerivative(self.settings.rate_filter_s)
        scale = _coefficient_scale(robot)
        self._filter: ModalKalmanFilter | None = None
        if self.settings.rate_method == "kalman":
            noise = np.repeat(
                [self.settings.tendon_noise_m, self.settings.string_noise_m], [self._tendons, self._strings]
            )
            self._filter = ModalKalmanFilter(self._matrix, noise, self.settings.bending_jerk_rad * scale)
        self.watch: SensorWatch | None = None
        if watch is not None:
            orders = np.concatenate([np.arange(s.basis.coefficient_count) // 2 for s in robot.segments])
            self.watch = SensorWatch(
                self._matrix,
                self.sensor_names,
                self._names,
                coefficient_scale=scale,
                coefficient_orders=orders,
                settings=watch,
            )

    @property
    def needs_strings(self) -> bool:
        """Whether the tendons alone leave a coefficient unseen."""
        return self._from_velocity is None

    def reset(self) -> None:
        """Forget earlier updates, which rates that no tendon velocity gives depend on, and trust all sensors again."""
        self._derivative.reset()
        if self._filter is not None:
            self._filter.reset()
        if self.watch is not None:
            self.watch.reset()

    def update(
        self,
        displacement: Vector,
        velocity: Vector | None,
        string_extension: Vector | None,
        dt: float,
        tension: Vector | None = None,
    ) -> ShapeEstimate:
        """Estimate from one set of readings.

        Parameters
        ----------
        displacement : shape (N,), m; NaN: unknown, left out
        velocity : shape (N,), m/s; NaN: unknown, left out; None: not measured
        string_extension : shape (k,), m; NaN: unknown, left out; None: no strings
        dt : time since the previous update, s
        tension : not used: lengths alone show the shape of a rod that bends

        Returns
        -------
        the estimate

        Raises
        ------
        ParameterError : wrong shapes, or a time step that is negative or not finite
        """
        del tension
        strings = self._no_strings if string_extension is None else string_extension
        if len(displacement) != self._tendons or len(strings) != self._strings:
            raise ParameterError(
                "displacement, string_extension",
                (len(displacement), len(strings)),
                f"{self._tendons} tendons and {self._strings} strings",
            )
        values = np.concatenate([displacement, strings])
        health: SensorHealth | None = None
        if self.watch is not None:
            health = self.watch.update(values, dt)
            values = health.readings
        return self._estimate(values, velocity, health, dt)

    def _estimate(
        self, readings: Vector, velocity: Vector | None, health: SensorHealth | None, dt: float
    ) -> ShapeEstimate:
        if math.isfinite(readings.sum()):
            fit, values = self._all, readings
        else:
            finite = np.isfinite(readings)
            fit, values = self._subset(finite), readings[finite]
            readings = np.where(finite, readings, np.nan)
        coefficients = fit.gain @ values
        miss = values - fit.matrix @ coefficients
        residual_m = math.sqrt(float(miss @ miss) / miss.size) if miss.size else math.nan
        if fit.blind:
            coefficients[fit.unseen] = np.nan
            tip = np.full((4, 4), np.nan)
        else:
            tip = self._pose(coefficients, self._length_m)
        rates, motion = self._rates(coefficients, velocity, readings, dt)
        rates[fit.unseen] = np.nan
        return ShapeEstimate(
            coefficients,
            rates,
            fit.covariance.copy(),
            residual_m,
            miss.size,
            tip,
            motion,
            fit.blind if health is None else health.blind,
            () if health is None else health.reasons,
        )

    def _rates(
        self, coefficients: Vector, velocity: Vector | None, readings: Vector, dt: float
    ) -> tuple[Vector, ModalState | None]:
        if velocity is not None and len(velocity) != self._tendons:
            raise ParameterError("velocity", velocity, f"{self._tendons} values, one a tendon")
        gain = None
        if velocity is not None and self._from_velocity is not None:
            finite = np.isfinite(velocity)
            gain = self._from_velocity if finite.all() else self._rate_gain(finite)
            if gain is not None:
                return gain @ np.asarray(velocity)[finite], None
        if self._filter is None:
            return self._derivative.update(coefficients, dt), None
        motion = self._filter.update(readings, dt)
        return motion.c_rate.copy(), motion

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
        unseen = unseen_coefficients(weighted)
        inverse = np.linalg.pinv(weighted, rcond=SMALLEST_SINGULAR_SHARE)
        covariance = inverse @ inverse.T
        blind: tuple[str, ...] = ()
        if unseen.any():
            covariance[unseen, :] = covariance[:, unseen] = np.nan
            covariance[unseen, unseen] = np.inf
            absent = [name for index, name in enumerate(self.sensor_names) if index not in sensors]
            blind = (f"blind to {self._named(unseen)} without {', '.join(absent)}",)
        return _Gain(matrix, inverse / sigma, covariance, unseen, blind)

    def _named(self, unseen: NDArray[np.bool_]) -> str:
        return ", ".join(name for name, one in zip(self._names, unseen, strict=True) if one)


@dataclass(frozen=True, slots=True)
class SensorAccuracy:
    """How well a robot's sensors see its motion, all of them sound; n coefficients.

    Attributes
    ----------
    coefficient_error_per_m : what systematic errors make of each coefficient, root of the sum of squares, (n,), 1/m
    rate_noise_per_m_s : standard deviation of each rate, (n,), 1/(m.s)
    """

    coefficient_error_per_m: Vector
    rate_noise_per_m_s: Vector


def sensor_accuracy(robot: Robot, settings: ShapeSettings | None = None, *, period_s: float = 0.01) -> SensorAccuracy:
    """Accuracy of coefficients and rates, from the encoders of the robot's file and the trust in the sensors.

    Parameters
    ----------
    robot : with tendons and strings that see all coefficients
    settings : of the estimator
    period_s : of the readings, s

    Raises
    ------
    ParameterError : tendons and strings together do not see all coefficients
    """
    settings = settings or ShapeSettings()
    estimator = ShapeEstimator(robot, settings, compile="never")
    string_m = max(settings.string_sigma_m, robot.simulation.string_mean_error_m)
    error_m = np.repeat([settings.tendon_sigma_m, string_m], [robot.tendon_count, len(robot.strings)])
    noise_m = np.repeat([settings.tendon_noise_m, settings.string_noise_m], [robot.tendon_count, len(robot.strings)])
    kalman = ModalKalmanFilter(
        estimator._matrix, noise_m, settings.bending_jerk_rad * _coefficient_scale(robot), nominal_dt_s=period_s
    )
    return SensorAccuracy(np.sqrt(estimator._all.gain**2 @ error_m**2), kalman.steady_rate_sigma(period_s))


def _coefficient_scale(robot: Robot) -> Vector:
    """Rate of each coefficient at 1 rad/s of bending: the reciprocal of its segment's length, (n,), 1/m."""
    return np.repeat(
        [1 / segment.length_m for segment in robot.segments],
        [segment.basis.coefficient_count for segment in robot.segments],
    )


def _rank(matrix: Vector) -> int:
    if matrix.shape[0] == 0:
        return 0
    singular = np.linalg.svd(matrix, compute_uv=False)
    return int(np.sum(singular > SMALLEST_SINGULAR_SHARE * max(singular[0], math.ulp(0.0))))
