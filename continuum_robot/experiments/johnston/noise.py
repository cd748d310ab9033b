# SPDX-License-Identifier: Apache-2.0
"""Johnston table 6: what sensor noise does to the momentum observer and to the joint-force deviation.

Without noise the observer is off by its own lag: on a ramp to F in T = 1 s, held to 2 T, x = K_o T = 10,

    RMSE = F / x sqrt{[1 - 2 (1 - e^-x) / x + (1 - e^-2x) / (2 x) + (1 - e^-x)^2 (1 - e^-2x) / (2 x)] / 2} = 0.67 N,

the paper's number, see :func:`~continuum_robot.estimation.contact.momentum_observer.ramp_error_rms`. The joint-force
deviation is exact then. The paper names no sample rate: it is 1 kHz here, and a sweep shows what others do, from the
100 Hz or so at which the paper's robot was recorded: which method is better depends on it. The third row is the Kalman
disturbance observer with its force in a weighted fit; it knows the standard deviation of the noise.

At which rate and smoothing table 6 was made is asked of its own numbers. Its columns A (0.001) and B (0.01) are taken
apart into what grows with the noise and what does not: noise = sqrt((B^2 - A^2) / 99), constant = sqrt(A^2 - noise^2).
Constant are the lag of observer and smoothing, and the friction of the tendons, whose sign the noise of the rate
decides: mostly in y, where its coefficient is five times that in x. The sweep takes our numbers apart in the same way,
over rates and windows, and looks for the closest to each method's row and to both, by the geometric mean factor between
the table's numbers and ours.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuum_robot.estimation.contact.disturbance_observer import DisturbanceObserver
from continuum_robot.estimation.contact.joint_force_deviation import SmoothedDifference
from continuum_robot.estimation.contact.momentum_observer import ramp_error_rms
from continuum_robot.estimation.contact.settings import KALMAN, METHODS
from continuum_robot.estimation.contact.wrench import WrenchEstimator
from continuum_robot.experiments.experiment import Figures, Progress, Tolerance, experiment
from continuum_robot.experiments.johnston.segment import METHOD_NAMES, OBSERVERS, CapstanModel, Observers, point_force
from continuum_robot.experiments.plotting import COLOURS, REFERENCE, legend_below
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.schema import quantity
from continuum_robot.rod.description import WITH_CAPSTANS
from continuum_robot.rod.friction.capstan_friction import CapstanFriction
from continuum_robot.rod.loads import PointWrench
from continuum_robot.rod.rod import Rod
from continuum_robot.simulation.moving_rod import MovingRod

Array = NDArray[np.float64]

FORCE_N = np.array([10.0, -10.0])
LEVELS = {"noiseless": 0.0, "noise_0001": 0.001, "noise_001": 0.01}
_SMOOTHING_POINTS = 10
SWEPT_RATES_HZ = (50, 100, 150, 200, 250, 500, 1000, 2000)
SWEPT_POINTS = (5, 10, 20, 40, 80)
_HIGHEST_FITTED_HZ = 500
_LEAST_NOISE = 1e-7  # 1/m; what "no noise" is to a filter that needs one


@dataclass(frozen=True, kw_only=True)
class NoiseSettings:
    """Options of the experiment."""

    robot: str = quantity("robot file or name, one segment with capstans", default="vanderbilt_segment")
    rate_hz: int = quantity("sample rate", "Hz", default=1000, ge=50, le=4000)
    gain_per_s: float = quantity("K_o of every coefficient", "1/s", default=10.0, gt=0, le=1000)
    force_walk_n_per_sqrt_s: float = quantity(
        "change of the force that the Kalman disturbance observer expects within a second",
        "N/s^0.5",
        default=10.0,
        gt=0,
        le=1e4,
    )
    duration_s: float = quantity("simulated time; the ramp takes half of it", "s", default=2.0, gt=0.02, le=100)
    seeds: int = quantity("draws of the noise, over which errors are averaged", default=2, ge=1, le=100)
    sweep: bool = quantity("repeat GMO and JFD at other sample rates and with other smoothing", default=True)


@dataclass(frozen=True)
class NoiseSeries:
    """Estimated forces of the first draw, by level and method."""

    time_s: Array
    force_n: Array
    estimates: dict[tuple[str, str], Array]
    rmse_n: dict[tuple[str, str], Array]
    windows: tuple[tuple[int, int], ...] = ()
    parts_n: dict[str, Array] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Motion:
    """A motion without noise."""

    time_s: Array
    c: Array
    c_rate: Array
    c_acceleration: Array


_PAPER: dict[str, Any] = {
    "gmo_noiseless_rmse_x_n": 0.67,
    "gmo_noiseless_rmse_y_n": 0.78,
    "gmo_noise_0001_rmse_x_n": 1.35,
    "gmo_noise_0001_rmse_y_n": 1.44,
    "gmo_noise_001_rmse_x_n": 3.20,
    "gmo_noise_001_rmse_y_n": 3.59,
    "jfd_noiseless_rmse_x_n": 9.57e-7,
    "jfd_noiseless_rmse_y_n": 1.26e-6,
    "jfd_noise_0001_rmse_x_n": 3.89,
    "jfd_noise_0001_rmse_y_n": 5.37,
    "jfd_noise_001_rmse_x_n": 7.71,
    "jfd_noise_001_rmse_y_n": 9.43,
}


@experiment(
    "johnston.noise",
    "johnston, table 6 and fig. 7",
    paper=_PAPER,
    tolerances={"jfd_noiseless*": Tolerance(absolute=1e-9), "*": Tolerance(relative=0.01, absolute=1e-5)},
)
def noise(progress: Progress, settings: NoiseSettings) -> Any:
    """Tip force under a ramp to 10 N, from coefficients with noise: GMO, JFD and a Kalman disturbance observer."""
    model = CapstanModel(load_robot(settings.robot))
    rate = settings.rate_hz
    exact = ramped(model, settings, rate)
    force = _force(exact.time_s, settings.duration_s / 2)
    estimates, rmse = {}, {}
    for level, amplitude in LEVELS.items():
        errors: dict[str, list[Array]] = {method: [] for method in METHODS}
        for seed in range(settings.seeds if amplitude else 1):
            measured = _measured(exact, amplitude, seed)
            found = _estimates(model, exact, measured, settings.gain_per_s)
            found[KALMAN] = _kalman(model, measured, amplitude, settings, 1 / rate)
            for method in METHODS:
                errors[method].append(np.mean((found[method] - force) ** 2, axis=0))
                estimates.setdefault((level, method), found[method])
        for method in METHODS:
            rmse[level, method] = np.sqrt(np.mean(errors[method], axis=0))
            progress(f"{method}, {level}: RMSE {rmse[level, method][0]:.3g} N, {rmse[level, method][1]:.3g} N")
    numbers: dict[str, object] = {
        f"{method}_{level}_rmse_{axis}_n": float(rmse[level, method][k])
        for method in METHODS
        for level in LEVELS
        for k, axis in enumerate("xy")
    }
    numbers["gmo_lag_rmse_n"] = ramp_error_rms(settings.gain_per_s, float(FORCE_N[0]), settings.duration_s / 2)
    numbers["rate_hz"] = rate
    numbers["seeds"] = settings.seeds
    windows: tuple[tuple[int, int], ...] = ()
    parts: dict[str, Array] = {}
    if settings.sweep:
        swept, windows, parts = _sweep(model, settings, progress)
        numbers.update(swept)
    return numbers, partial(_draw, NoiseSeries(exact.time_s, force, estimates, rmse, windows, parts))


def ramped(model: CapstanModel, settings: NoiseSettings, rate_hz: int) -> Motion:
    """Motion from rest and straight under the growing force, in steps of half a millisecond at most."""
    robot, ramp_s = model.robot, settings.duration_s / 2
    friction, torque = CapstanFriction(robot), np.zeros(model.capstans)
    slot = PointWrench(s_m=robot.length_m, frame="body")
    rod = Rod(robot, stations_m=friction.stations_m.tolist(), loads=[slot], parts=WITH_CAPSTANS)
    moving = MovingRod(rod, friction=friction)
    moving.reset(np.zeros(rod.n))
    moving.desired[:] = friction.tension_of_torque(torque)
    step_s = 1 / (rate_hz * max(1, math.ceil(2000 / rate_hz)))

    def load(end_s: float) -> None:  # as in the step's middle
        x, y = _force(np.array([end_s - step_s / 2]), ramp_s)[0]
        rod.load([replace(slot, force_n=(x, y, 0.0))])

    time_s = np.arange(round(settings.duration_s * rate_hz) + 1) / rate_hz
    motion = moving.follow(time_s, step_s, load)
    wrench = np.pad(_force(time_s, ramp_s), ((0, 0), (0, 4)))
    states = zip(motion.c, motion.c_rate, wrench, strict=True)
    second = np.array([model.acceleration(c, rate, torque, load) for c, rate, load in states])
    return Motion(time_s, motion.c, motion.c_rate, second)


def _force(time_s: Array, ramp_s: float) -> Array:
    return np.minimum(time_s / ramp_s, 1.0)[:, None] * FORCE_N


def _measured(exact: Motion, amplitude: float, seed: int) -> Array:
    """Coefficients with noise of a peak-to-peak amplitude, (samples, n), 1/m."""
    return exact.c + amplitude * np.random.default_rng(seed).uniform(-0.5, 0.5, exact.c.shape)


def _estimates(
    model: CapstanModel, exact: Motion, measured: Array, gain_per_s: float, points: int = _SMOOTHING_POINTS
) -> dict[str, Array]:
    """Force in x and y by GMO and JFD, (samples, 2); derivatives by backward Gaussians, without noise exact."""
    dt, tip_m = float(exact.time_s[1] - exact.time_s[0]), model.robot.length_m
    difference, observers = SmoothedDifference(points), Observers(model, gain_per_s)
    torque = np.zeros(model.capstans)
    found = np.zeros((len(measured), 2, 2))
    without_noise = np.array_equal(measured, exact.c)
    for index, newest in enumerate(measured):
        motion = newest, exact.c_rate[index], exact.c_acceleration[index]
        if not without_noise:
            motion = difference.update(newest, dt)
        found[index] = point_force(observers.update(motion, torque, dt), model.jacobian(motion[0], tip_m))
    return dict(zip(OBSERVERS, np.moveaxis(found, 2, 0), strict=True))


def _kalman(model: CapstanModel, measured: Array, amplitude: float, settings: NoiseSettings, dt: float) -> Array:
    """The disturbance observer: no derivative is taken, and the fit weighs channels by what is known of each."""
    wrench, torque = WrenchEstimator("point"), np.zeros(model.capstans)
    observer = DisturbanceObserver(model.size, wrench.directions, settings.force_walk_n_per_sqrt_s)
    covariance = np.eye(model.size) * max(amplitude / math.sqrt(12), _LEAST_NOISE) ** 2
    found = np.zeros((len(measured), 2))
    for index, c in enumerate(measured):
        residual = observer.update(c, covariance, lambda c, rate: model.at(c, rate, torque), dt)
        jacobian = observer.model.terms.jacobians[-1]
        found[index] = wrench.estimate(residual, jacobian, observer.covariance).wrench[:2]
    return found


def _sweep(
    model: CapstanModel, settings: NoiseSettings, progress: Progress
) -> tuple[dict[str, object], tuple[tuple[int, int], ...], dict[str, Array]]:
    """GMO and JFD over the sample rate, and over rate and window how far they are from the paper's table 6."""
    rows: dict[str, list[float]] = {}
    found: dict[tuple[int, int], dict[str, float]] = {}
    for rate in SWEPT_RATES_HZ:
        exact = ramped(model, settings, rate)
        for points in SWEPT_POINTS if rate <= _HIGHEST_FITTED_HZ else (_SMOOTHING_POINTS,):
            found[rate, points] = _noisy_errors(model, exact, settings, points)
            if points == _SMOOTHING_POINTS:
                for key, error in found[rate, points].items():
                    rows.setdefault(f"sweep_{key}", []).append(error)
        progress(f"sample rate {rate} Hz: done")
    numbers: dict[str, object] = {"sweep_rate_hz": list(SWEPT_RATES_HZ), **rows, **_turning_rates(rows)}
    for name, methods in (("table_6", OBSERVERS), ("gmo_row", ("gmo",)), ("jfd_row", ("jfd",))):
        distance = {window: _distance(errors, methods) for window, errors in found.items()}
        closest = min(distance, key=lambda window: distance[window])
        numbers[f"closest_to_{name}_rate_hz"] = closest[0]
        numbers[f"closest_to_{name}_smoothing_points"] = closest[1]
        numbers[f"closest_to_{name}_factor"] = distance[closest]
    numbers["table_6_factor_at_100_hz"] = _distance(found[100, _SMOOTHING_POINTS], OBSERVERS)
    numbers["table_6_factor_at_1000_hz"] = _distance(found[1000, _SMOOTHING_POINTS], OBSERVERS)
    windows = tuple(window for window in found if window[0] <= _HIGHEST_FITTED_HZ)
    numbers["window_rate_hz"] = [rate for rate, _ in windows]
    numbers["window_points"] = [points for _, points in windows]
    parts = {method: np.array([_parts(found[window], method) for window in windows]) for method in OBSERVERS}
    for method, values in parts.items():
        paper = _parts(_PAPER, method)
        for k, axis in enumerate("xy"):
            for j, name in enumerate(("constant", "noise")):
                numbers[f"table_6_{name}_part_{method}_{axis}_n"] = float(paper[j, k])
                numbers[f"window_{name}_part_{method}_{axis}_n"] = values[:, j, k].tolist()
    return numbers, windows, parts


def _distance(errors: Mapping[str, float], methods: Sequence[str]) -> float:
    """Geometric mean factor between the errors of some methods and the paper's."""
    ratios = [errors[key] / _PAPER[key] for key in errors if key.partition("_")[0] in methods]
    return float(np.exp(np.sqrt(np.mean(np.log(ratios) ** 2))))


def _parts(errors: Mapping[str, float], method: str) -> Array:
    """What of a method's errors does not change with the noise, and what noise of 0.001 adds, in x and y, (2, 2), N."""
    low, high = (
        np.array([errors[f"{method}_{level}_rmse_{axis}_n"] for axis in "xy"]) for level in ("noise_0001", "noise_001")
    )
    ratio = (LEVELS["noise_001"] / LEVELS["noise_0001"]) ** 2 - 1
    noise = (high**2 - low**2) / ratio
    return np.sqrt(np.maximum([low**2 - noise, noise], 0.0))


def _turning_rates(rows: dict[str, list[float]]) -> dict[str, object]:
    """For each noise and axis the highest swept rate at which JFD is better than GMO, 0 where it never is, Hz."""
    found: dict[str, object] = {}
    for key, errors in rows.items():
        if "_jfd_" in key:
            better = np.array(errors) < np.array(rows[key.replace("_jfd_", "_gmo_")])
            kind = key.removeprefix("sweep_jfd_").removesuffix("_n").replace("_rmse", "")
            found[f"sweep_jfd_better_up_to_hz_{kind}"] = int(max(np.array(SWEPT_RATES_HZ)[better], default=0))
    return found


def _noisy_errors(model: CapstanModel, exact: Motion, settings: NoiseSettings, points: int) -> dict[str, float]:
    """RMSE of GMO and JFD by the keys of the paper's numbers, over all draws, N."""
    force = _force(exact.time_s, settings.duration_s / 2)
    errors = {}
    for level, amplitude in LEVELS.items():
        if amplitude == 0:
            continue
        draws = [
            _estimates(model, exact, _measured(exact, amplitude, seed), settings.gain_per_s, points)
            for seed in range(settings.seeds)
        ]
        for method in OBSERVERS:
            rmse = np.sqrt(np.mean([np.mean((found[method] - force) ** 2, axis=0) for found in draws], axis=0))
            errors |= {f"{method}_{level}_rmse_{axis}_n": float(rmse[k]) for k, axis in enumerate("xy")}
    return errors


def _draw(series: NoiseSeries, figure: Figures) -> None:
    with figure("Tip force under sensor noise (johnston, fig. 7)", 3, 3, sharex=True) as (drawing, axes):
        for row, method in enumerate(METHODS):
            for column, (level, amplitude) in enumerate(LEVELS.items()):
                axis = axes[row, column]
                for k, name in enumerate("xy"):
                    axis.plot(
                        series.time_s,
                        series.estimates[level, method][:, k],
                        color=COLOURS[k],
                        linewidth=0.8,
                        label=f"estimated {name}",
                    )
                axis.plot(series.time_s, series.force_n, color=REFERENCE, linestyle="--", linewidth=0.9)
                axis.plot([], [], color=REFERENCE, linestyle="--", linewidth=0.9, label="true")
                axis.set_ylim(-25, 25)
                noise = f"{amplitude:g} 1/m" if amplitude else "no noise"
                error = series.rmse_n[level, method]
                axis.set_title(
                    f"{METHOD_NAMES[method]}, {noise}: {error[0]:.2g}, {error[1]:.2g} N", loc="left", fontsize=8
                )
                if column == 0:
                    axis.set_ylabel("force in N")
                if row == len(METHODS) - 1:
                    axis.set_xlabel("time in s")
        legend_below(drawing, axes[0, 0])
    if series.windows:
        _draw_windows(series, figure)


def _draw_windows(series: NoiseSeries, figure: Figures) -> None:
    title = "Error in y that does not change with the noise, and what noise of 0.001 1/m adds (johnston, table 6)"
    rates = sorted({rate for rate, _ in series.windows})
    with figure(title, 2, 2, name="johnston_noise_windows", sharex=True, size=(8.4, 5.4)) as (drawing, axes):
        for row, method in enumerate(OBSERVERS):
            paper = _parts(_PAPER, method)
            for column, name in enumerate(("constant", "noise")):
                axis = axes[row, column]
                for k, rate in enumerate(rates):
                    own = [index for index, window in enumerate(series.windows) if window[0] == rate]
                    width_s = [series.windows[index][1] / rate for index in own]
                    values = series.parts_n[method][own, column, 1]
                    axis.loglog(width_s, values, "o-", color=COLOURS[k % 6], markersize=3, label=f"{rate} Hz")
                axis.axhline(paper[column, 1], color=REFERENCE, linestyle="--", label="paper's table 6")
                axis.set_title(f"{method.upper()}: {name}", loc="left")
                axis.set_ylabel("RMSE in N")
                if row == 1:
                    axis.set_xlabel("smoothing window in s")
        legend_below(drawing, axes[0, 0])
