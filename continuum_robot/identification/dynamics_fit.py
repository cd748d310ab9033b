# SPDX-License-Identifier: Apache-2.0
"""Stiffnesses of the backbone and friction of the tendons from a recorded motion: johnston section 10, (72).

johnston simulates the whole record from its first pose under the recorded torques. Where friction is several times
what bends the robot, that is touchy: a little too little friction and the capstans run away, a little too much and they
never start, so that far from the solution the simulation says nothing. Here the fit goes in two steps:

1. forces: with coefficients, rates and accelerations of the smoothed record the equations of motion leave a residual
   in which the stiffnesses are linear; its minimum starts
2. motion: (72) over windows of the record, each simulated from a start of its own that is fitted too (multiple
   shooting without ties), by nonlinear least squares within bounds, with exact derivatives of each simulated step.

Afterwards the whole record is simulated in one piece from its first pose, for the figures that the paper gives.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares
from scipy.signal import savgol_filter

from continuum_robot.errors import ConvergenceError, ParameterError, RecordingError
from continuum_robot.estimation.observability import unseen_coefficients
from continuum_robot.identification.dynamics_recordings import DynamicsRecording
from continuum_robot.identification.segment_motion import SegmentMotion, steps_of
from continuum_robot.robot.description import Robot
from continuum_robot.robot.schema import quantity
from continuum_robot.rod.capstans import drives
from continuum_robot.rod.dynamics import RodDynamics
from continuum_robot.rod.tendons import string_matrix, tendon_matrix

Array = NDArray[np.float64]
Progress = Callable[[str], None]

_STEP_S = 0.01
_SMOOTHING_S = 0.25
_RAN_AWAY = 1e3


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamicsFitSettings:
    """Bounds of the parameters (johnston below (72)), and how the record is used."""

    largest_stiffness_nm2: float = quantity("upper bound of the stiffnesses", "N.m^2", default=2.5, gt=0, le=1e6)
    largest_friction: float = quantity("upper bound of the friction coefficients", "", default=0.99, gt=0, lt=1)
    window_s: float = quantity("length of a simulated window", "s", default=0.75, gt=0.02, le=600)
    tendon_sigma_m: float = quantity("standard deviation of a tendon's displacement", "m", default=2e-4, gt=0, le=1)
    string_sigma_m: float = quantity("standard deviation of a string's extension", "m", default=1.2e-4, gt=0, le=1)
    start_rate_sigma: float = quantity(
        "standard deviation of a window's first rates about the smoothed ones", "1/(m.s)", default=0.5, gt=0, le=1e6
    )
    iterations: int = quantity("largest number of evaluations of the second step", default=30, ge=1, le=10000)


@dataclass(frozen=True)
class DynamicsFit:
    """Result of :func:`fit_dynamics`; p parameters, T samples, n coefficients.

    Attributes
    ----------
    names : of the parameters: ``bending_stiffness_x_nm2``, ``bending_stiffness_y_nm2``, then the friction coefficients
        of the segment's capstans
    values : of the parameters, N.m^2 and dimensionless, shape (p,)
    deviations : their standard deviations, in the same units, shape (p,)
    covariance : shape (p, p); errors of neighbouring samples are taken as correlated as the residuals are
    first_guess : of the first step, in the same units, shape (p,)
    segment : index of the segment
    rmse_coefficients : of the windows' simulation against the record, for each coefficient, shape (n,), 1/m
    rmse_tip_m : of the tip's x, y and z in the same, shape (3,)
    open_loop_rmse_coefficients, open_loop_rmse_tip_m : of the whole record simulated from its first pose, as the paper
        does it, shape (n,), 1/m, and (3,), m; NaN where that simulation ran away
    evaluations : of the second step
    file, sha256 : of the recording
    date : of the fit, ISO 8601
    time_s, measured_c, window_c, open_loop_c : for plots; shapes (T,), (T, n), (T, n), (T, n)
    measured_tip_m, open_loop_tip_m : shape (T, 3)
    """

    names: tuple[str, ...]
    values: Array
    deviations: Array
    covariance: Array
    first_guess: Array
    segment: int
    rmse_coefficients: Array
    rmse_tip_m: Array
    open_loop_rmse_coefficients: Array
    open_loop_rmse_tip_m: Array
    evaluations: int
    file: Path
    sha256: str
    date: str
    time_s: Array
    measured_c: Array
    window_c: Array
    open_loop_c: Array
    measured_tip_m: Array
    open_loop_tip_m: Array

    def numbers(self) -> dict[str, object]:
        """The result as plain numbers for a file of results."""
        return {
            **{name: float(value) for name, value in zip(self.names, self.values, strict=True)},
            **{f"{name}_deviation": float(value) for name, value in zip(self.names, self.deviations, strict=True)},
            "rmse_tip_mm": [1e3 * float(value) for value in self.rmse_tip_m],
            "open_loop_rmse_tip_mm": [1e3 * float(value) for value in self.open_loop_rmse_tip_m],
            "rmse_coefficients_per_m": [float(value) for value in self.rmse_coefficients],
            "evaluations": self.evaluations,
        }


def fit_dynamics(
    robot: Robot,
    recording: DynamicsRecording,
    progress: Progress | None = None,
    *,
    segment: int = 0,
    settings: DynamicsFitSettings | None = None,
    compile: str = "auto",
) -> DynamicsFit:
    """Fit the stiffnesses of a segment's backbone and the friction coefficients of its capstans.

    Parameters
    ----------
    robot : with capstans; all but the fitted values is taken as it is
    recording : of that robot, moving in both planes
    progress : receives a line for each step
    segment : index of the segment
    settings : bounds and use of the record
    compile : as in rod/code_generation.py

    Returns
    -------
    the fit

    Raises
    ------
    ParameterError : a robot without capstans on that segment, or with more capstans on others (fit each segment alone,
        as johnston section 13.2 does), or sensors that do not see the shape
    RecordingError : a record shorter than two windows, or without motion
    ConvergenceError : no fit was found
    """
    settings = settings or DynamicsFitSettings()
    own = [drive for drive in drives(robot) if drive.segment == segment]
    if not own or len(own) != len(drives(robot)):
        raise ParameterError("robot", robot.name, f"a robot with capstans on segment {segment} and on no other")
    record = _Record.of(robot, recording, settings)
    motion = SegmentMotion(robot, segment, compile=compile, progress=progress)
    names = (
        "bending_stiffness_x_nm2",
        "bending_stiffness_y_nm2",
        *(f"friction_coefficient_{drive.plane + 1}" for drive in own),
    )
    upper = np.array([settings.largest_stiffness_nm2] * 2 + [settings.largest_friction] * len(own))
    first = _fit_forces(motion, record, upper)
    _say(progress, "from forces: " + _line(names, first))
    windows = _Windows(motion, record, settings, progress)
    start = np.concatenate([np.clip(first, 0.01 * upper, 0.99 * upper), windows.starts.ravel()])
    lower_bound = np.concatenate([np.zeros(len(upper)), np.full(windows.starts.size, -np.inf)])
    upper_bound = np.concatenate([upper, np.full(windows.starts.size, np.inf)])
    found = least_squares(
        windows.residuals,
        start,
        jac=windows.jacobian,
        bounds=(lower_bound, upper_bound),
        x_scale="jac",
        ftol=3e-3,
        xtol=1e-7,
        gtol=1e-10,
        max_nfev=settings.iterations,
    )
    count = len(upper)
    window_c = windows.trajectory(found.x)
    if found.status < 0 or windows.ran_away:
        raise ConvergenceError("the fit of the dynamics", float(found.cost), 0.0, int(found.nfev))
    values = np.array(found.x[:count])
    covariance = _covariance(found.fun, found.jac, windows.lengths, motion.size)[:count, :count]
    rod = RodDynamics(robot, compile=compile, progress=progress)
    measured_tip = _tips(rod, record.c)
    _say(progress, "simulating the whole record")
    open_loop = _open_loop(motion, record, values)
    open_loop_tip = _tips(rod, open_loop)
    covered = np.isfinite(window_c).all(axis=1)
    return DynamicsFit(
        names=names,
        values=values,
        deviations=np.sqrt(np.diag(covariance)),
        covariance=covariance,
        first_guess=first,
        segment=segment,
        rmse_coefficients=_rms(window_c[covered] - record.c[covered]),
        rmse_tip_m=_rms(_tips(rod, window_c[covered]) - measured_tip[covered]),
        open_loop_rmse_coefficients=_rms(open_loop - record.c),
        open_loop_rmse_tip_m=_rms(open_loop_tip - measured_tip),
        evaluations=int(found.nfev),
        file=recording.file,
        sha256=recording.sha256,
        date=datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        time_s=record.time_s,
        measured_c=record.c,
        window_c=window_c,
        open_loop_c=open_loop,
        measured_tip_m=measured_tip,
        open_loop_tip_m=open_loop_tip,
    )


@dataclass(frozen=True)
class _Record:
    """The recording as coefficients: measured, smoothed, and with the deviations of what was measured."""

    time_s: Array
    torque: Array
    c: Array
    smooth_c: Array
    smooth_rate: Array
    smooth_acceleration: Array
    whiten: Array  # (n, n): of an error of c to unit deviations

    @classmethod
    def of(cls, robot: Robot, recording: DynamicsRecording, settings: DynamicsFitSettings) -> _Record:
        matrix = np.vstack([tendon_matrix(robot), string_matrix(robot)])
        sigma = np.repeat([settings.tendon_sigma_m, settings.string_sigma_m], [robot.tendon_count, len(robot.strings)])
        weighted = matrix / sigma[:, None]
        if unseen_coefficients(weighted).any():
            raise ParameterError("robot.strings", len(robot.strings), "strings that show all coefficients")
        readings = np.hstack([recording.tendon_displacement_m, recording.string_extension_m])
        c = (np.linalg.pinv(weighted) @ (readings / sigma).T).T  # johnston (6)
        time_s = recording.time_s - recording.time_s[0]
        if time_s[-1] < 2 * settings.window_s:
            raise RecordingError(
                recording.file,
                f"{time_s[-1]:.2f} s long",
                f"Give a record of at least {2 * settings.window_s:g} s, or shorter windows",
            )
        if np.ptp(c, axis=0).max() < 10 / np.sqrt(np.diag(weighted.T @ weighted)).max():
            raise RecordingError(recording.file, "the robot does not move", "Record a motion in both planes")
        smooth = _smoothed(time_s, c)
        return cls(time_s, recording.capstan_torque_nm, c, *smooth, np.linalg.cholesky(weighted.T @ weighted).T)


def _smoothed(time_s: Array, c: Array) -> tuple[Array, Array, Array]:
    """Smoothed coefficients, their rates and accelerations at the samples: local cubics on a uniform grid."""
    dt = float(np.median(np.diff(time_s)))
    grid = np.arange(0, time_s[-1] + dt / 2, dt)
    uniform = np.column_stack([np.interp(grid, time_s, column) for column in c.T])
    length = max(5, 2 * round(_SMOOTHING_S / dt / 2) + 1)
    length = min(length, len(grid) - 1 + len(grid) % 2)
    found = []
    for order in range(3):
        values = savgol_filter(uniform, length, 3, deriv=order, delta=dt, axis=0)
        found.append(np.column_stack([np.interp(time_s, grid, column) for column in values.T]))
    return found[0], found[1], found[2]


def _fit_forces(motion: SegmentMotion, record: _Record, upper: Array) -> Array:
    """First step: parameters for which the forces of the smoothed motion balance best."""
    # Accelerations at both ends of the smoothing window are extrapolated.
    inside = (record.time_s > _SMOOTHING_S / 2) & (record.time_s < record.time_s[-1] - _SMOOTHING_S / 2)
    places = np.flatnonzero(inside)
    places = places[:: max(1, len(places) // 600)]
    # The torque is held while the smoothed motion is that of the sample: the mean of before and after belongs to it.
    torque = (record.torque[places] + record.torque[places - 1]) / 2

    def forces(parameters: Array) -> tuple[Array, Array]:
        rows, slopes = [], []
        for k, tau in zip(places, torque, strict=True):
            force, slope = motion.residual(
                record.smooth_c[k], record.smooth_rate[k], record.smooth_acceleration[k], tau, parameters
            )
            rows.append(force)
            slopes.append(slope)
        return np.array(rows), np.array(slopes)

    middle = 0.4 * upper
    middle[2:] = np.minimum(middle[2:], 0.1)
    scale = np.sqrt(np.mean(forces(middle)[0] ** 2, axis=0)) + 1e-12
    found = least_squares(
        lambda p: (forces(p)[0] / scale).ravel(),
        middle,
        jac=lambda p: (forces(p)[1] / scale[:, None]).reshape(-1, len(upper)),
        bounds=(np.zeros(len(upper)), upper),
        x_scale=upper,
        loss="soft_l1",
        max_nfev=40,
    )
    return np.array(found.x)


class _Windows:
    """Second step: the windows of the record, simulated, as residuals and their exact derivative."""

    def __init__(
        self, motion: SegmentMotion, record: _Record, settings: DynamicsFitSettings, progress: Progress | None
    ) -> None:
        self._motion, self._record, self._progress = motion, record, progress
        self._rate_sigma = settings.start_rate_sigma
        self._steps = steps_of(record.time_s, _STEP_S)
        count = max(1, int(record.time_s[-1] / settings.window_s))
        edges = np.searchsorted(record.time_s, np.linspace(0, record.time_s[-1], count + 1) - 1e-9)
        edges[-1] = len(record.time_s) - 1
        self._edges = edges
        self.lengths = np.diff(edges) + 1
        self.starts = np.hstack([record.smooth_c[edges[:-1]], record.smooth_rate[edges[:-1]]])
        self._parameters = record.torque.shape[1] + 2
        self._known: tuple[Array, Array, Array] | None = None
        self._evaluations = 0
        self._last_x = np.zeros(0)
        self.ran_away = False

    def residuals(self, x: Array) -> Array:
        """Whitened differences of simulated and measured coefficients."""
        return self._evaluate(x)[0]

    def jacobian(self, x: Array) -> Array:
        """Their derivative by the parameters and the windows' starts."""
        return self._evaluate(x)[1]

    def trajectory(self, x: Array) -> Array:
        """Simulated coefficients, shape (T, n)."""
        return self._evaluate(x)[2]

    def _evaluate(self, x: Array) -> tuple[Array, Array, Array]:
        if self._known is not None and np.array_equal(self._last_x, x):
            return self._known
        p, n = self._parameters, self._motion.size
        starts = x[p:].reshape(-1, 2 * n)
        whiten = self._record.whiten
        rows: list[Array] = []
        jacobian = np.zeros((int(self.lengths.sum()) * n, x.size))
        trajectory = np.full(self._record.c.shape, np.nan)
        self.ran_away = False
        done = 0
        for index, start in enumerate(starts):
            states, slopes = self._simulate(index, start, x[:p])
            first = self._edges[index]
            own = slice(first, first + len(states))
            trajectory[own] = states
            rows.append(((states - self._record.c[own]) @ whiten.T).ravel())
            place = slice(done, done + len(states) * n)
            weighted = np.einsum("ij,tjk->tik", whiten, slopes).reshape(-1, p + 2 * n)
            jacobian[place, :p] = weighted[:, :p]
            jacobian[place, p + index * 2 * n : p + (index + 1) * 2 * n] = weighted[:, p:]
            done += len(states) * n
        self._evaluations += 1
        rates = (starts - self.starts)[:, n:] / self._rate_sigma
        tie = np.zeros((rates.size, x.size))
        for index in range(len(starts)):
            first = p + index * 2 * n + n
            tie[index * n : (index + 1) * n, first : first + n] = np.eye(n) / self._rate_sigma
        jacobian = np.vstack([jacobian, tie])
        residuals = np.concatenate([*rows, rates.ravel()])
        _say(
            self._progress,
            f"motion, evaluation {self._evaluations}: rms of {math.sqrt(float(np.mean(residuals**2))):.3f} deviations, "
            + ", ".join(f"{value:.4g}" for value in x[:p]),
        )
        self._last_x, self._known = x.copy(), (residuals, jacobian, trajectory)
        return self._known

    def _simulate(self, index: int, start: Array, parameters: Array) -> tuple[Array, Array]:
        """Coefficients at the samples of a window, and their derivative by (parameters, start)."""
        n, p = self._motion.size, self._parameters
        state, slope = start, np.hstack([np.zeros((2 * n, p)), np.eye(2 * n)])
        states, slopes = [state[:n]], [slope[:n]]
        for k in range(self._edges[index], self._edges[index + 1]):
            count, h = self._steps[k]
            for _ in range(count):
                if self.ran_away:
                    break
                try:
                    step = self._motion.step(state, self._record.torque[k], parameters, h)
                except ConvergenceError:
                    self.ran_away = True
                    break
                state = step.state
                slope = step.by_state @ slope
                slope[:, :p] += step.by_parameter
            # A motion that ran away is so bad that the trial is not taken.
            states.append(np.full(n, _RAN_AWAY) if self.ran_away else state[:n])
            slopes.append(slope[:n].copy())
        return np.array(states), np.array(slopes)


def _covariance(residuals: Array, jacobian: Array, lengths: NDArray[np.intp], size: int) -> Array:
    """Covariance of a least-squares solution whose residuals are correlated in time."""
    measured = residuals[: int(lengths.sum()) * size]
    variance = float(measured @ measured) / max(1, measured.size - jacobian.shape[1])
    return np.linalg.pinv(jacobian.T @ jacobian) * variance * _correlation_time(measured, lengths, size)


def _correlation_time(residuals: Array, lengths: NDArray[np.intp], size: int) -> float:
    """Number of samples that count as one, at least 1: 1 + 2 sum of the residuals' positive autocorrelation."""
    powers, products = 0.0, np.zeros(int(lengths.min()) - 1)
    done = 0
    for length in lengths:
        own = residuals[done : done + length * size].reshape(length, size)
        done += length * size
        powers += float(np.sum(own**2)) / length
        for lag in range(1, len(products) + 1):
            products[lag - 1] += float(np.sum(own[lag:] * own[:-lag])) / (length - lag)
    if powers == 0:
        return 1.0
    correlation = products / powers
    negative = np.flatnonzero(correlation <= 0)
    until = int(negative[0]) if negative.size else len(correlation)
    return 1.0 + 2.0 * float(correlation[:until].sum())


def _open_loop(motion: SegmentMotion, record: _Record, parameters: Array) -> Array:
    """The whole record in one piece, from its first pose and rates; NaN from where it ran away."""
    n = motion.size
    found = np.full(record.c.shape, np.nan)
    state = np.concatenate([record.smooth_c[0], record.smooth_rate[0]])
    found[0] = state[:n]
    try:
        for k, (count, h) in enumerate(steps_of(record.time_s, _STEP_S)):
            for _ in range(count):
                state = motion.step(state, record.torque[k], parameters, h, derivatives=False).state
            found[k + 1] = state[:n]
    except ConvergenceError:
        return found
    return found


def _tips(rod: RodDynamics, c: Array) -> Array:
    length_m = rod.robot.length_m
    tips = [rod.poses(one, [length_m])[0, :3, 3] if np.isfinite(one).all() else np.full(3, np.nan) for one in c]
    return np.array(tips)


def _rms(values: Array) -> Array:
    return np.sqrt(np.mean(np.square(values), axis=0))


def _line(names: tuple[str, ...], values: Array) -> str:
    return ", ".join(f"{name} = {value:.4g}" for name, value in zip(names, values, strict=True))


def _say(progress: Progress | None, line: str) -> None:
    if progress is not None:
        progress(line)
