# SPDX-License-Identifier: Apache-2.0
"""Johnston table 6: what sensor noise does to the momentum observer and to the joint-force deviation.

Without noise the observer is off by its own lag: on a ramp to F in T = 1 s, held to 2 T, x = K_o T = 10,

    RMSE = F / x sqrt{[1 - 2 (1 - e^-x) / x + (1 - e^-2x) / (2 x) + (1 - e^-x)^2 (1 - e^-2x) / (2 x)] / 2} = 0.67 N,

the paper's number, see :func:`~continuum_robot.estimation.contact.observers.ramp_error_rms`. The joint-force
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
from dataclasses import replace
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from continuum_robot.estimation.contact.observers import DisturbanceObserver, SmoothedDifference, ramp_error_rms
from continuum_robot.estimation.contact.settings import KALMAN, METHODS
from continuum_robot.estimation.contact.wrench import WrenchEstimator
from continuum_robot.experiments.experiment import Figures, Progress, Tolerance, experiment
from continuum_robot.experiments.johnston.segment import METHOD_NAMES, OBSERVERS, CapstanModel, Observers, point_force
from continuum_robot.experiments.plotting import COLOURS, REFERENCE, legend_below
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.schema import Quantity
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


class Motion(NamedTuple):
    """A motion without noise, and the force that makes it."""

    time_s: Array
    c: Array
    c_rate: Array
    c_acceleration: Array
    force_n: Array


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
def noise(
    progress: Progress,
    robot: Annotated[str, Quantity("robot file or name, one segment with capstans")] = "vanderbilt_segment",
    rate_hz: Annotated[int, Quantity("sample rate", "Hz", ge=50, le=4000)] = 1000,
    gain_per_s: Annotated[float, Quantity("K_o of every coefficient", "1/s", gt=0, le=1000)] = 10.0,
    force_walk_n_per_sqrt_s: Annotated[
        float,
        Quantity(
            "change of the force that the Kalman disturbance observer expects within a second", "N/s^0.5", gt=0, le=1e4
        ),
    ] = 10.0,
    duration_s: Annotated[float, Quantity("simulated time; the ramp takes half of it", "s", gt=0.02, le=100)] = 2.0,
    seeds: Annotated[int, Quantity("draws of the noise, over which errors are averaged", ge=1, le=100)] = 2,
    sweep: Annotated[bool, Quantity("repeat GMO and JFD at other sample rates and with other smoothing")] = True,
) -> Any:
    """Tip force under a ramp to 10 N, from coefficients with noise: GMO, JFD and a Kalman disturbance observer."""
    model = CapstanModel(load_robot(robot))
    exact = ramped(model, duration_s, rate_hz)
    # Of each level and method: forces of the first draw, and errors over all draws.
    estimates: dict[tuple[str, str], Array] = {}
    rmse: dict[tuple[str, str], Array] = {}
    for level, amplitude in LEVELS.items():
        draws = []
        for seed in range(seeds if amplitude else 1):
            measured = _measured(exact, amplitude, seed)
            draws.append(_estimates(model, exact, measured, gain_per_s))
            draws[-1][KALMAN] = _kalman(model, measured, amplitude, force_walk_n_per_sqrt_s, 1 / rate_hz)
        for method in METHODS:
            estimates[level, method] = draws[0][method]
            x, y = rmse[level, method] = _rmse(exact, [found[method] for found in draws])
            progress(f"{method}, {level}: RMSE {x:.3g} N, {y:.3g} N")
    numbers: dict[str, object] = {
        f"{method}_{level}_rmse_{axis}_n": float(rmse[level, method][k])
        for method in METHODS
        for level in LEVELS
        for k, axis in enumerate("xy")
    }
    numbers["gmo_lag_rmse_n"] = ramp_error_rms(gain_per_s, float(FORCE_N[0]), duration_s / 2)
    numbers["rate_hz"] = rate_hz
    numbers["seeds"] = seeds
    found: dict[tuple[int, int], dict[str, float]] = {}
    if sweep:
        for rate in SWEPT_RATES_HZ:
            motion = ramped(model, duration_s, rate)
            for points in SWEPT_POINTS if rate <= _HIGHEST_FITTED_HZ else (_SMOOTHING_POINTS,):
                found[rate, points] = _noisy_errors(model, motion, gain_per_s, seeds, points)
            progress(f"sample rate {rate} Hz: done")
        numbers |= _swept(found)
    windows = [window for window in found if window[0] <= _HIGHEST_FITTED_HZ]

    def draw(figure: Figures) -> None:
        with figure("Tip force under sensor noise (johnston, fig. 7)", 3, 3, sharex=True) as (drawing, axes):
            for axis, (method, level) in zip(axes.flat, ((m, level) for m in METHODS for level in LEVELS), strict=True):
                for k, name in enumerate("xy"):
                    line = estimates[level, method][:, k]
                    axis.plot(exact.time_s, line, color=COLOURS[k], linewidth=0.8, label=f"estimated {name}")
                dashed = {"color": REFERENCE, "linestyle": "--", "linewidth": 0.9}
                axis.plot(exact.time_s, exact.force_n, **dashed)
                axis.plot([], [], label="true", **dashed)
                axis.set_ylim(-25, 25)
                amount = f"{LEVELS[level]:g} 1/m" if LEVELS[level] else "no noise"
                x, y = rmse[level, method]
                axis.set_title(f"{amount}: RMSE {x:.2g}, {y:.2g} N", loc="left")
            for side, below, method in zip(axes[:, 0], axes[-1], METHODS, strict=True):
                side.set_ylabel(f"{METHOD_NAMES[method].replace(' ', chr(10), 1)}\nforce in N")
                below.set_xlabel("time in s")
            legend_below(drawing, axes[0, 0])
        if not windows:
            return
        title = "Error in y that does not change with the noise, and what noise of 0.001 1/m adds (johnston, table 6)"
        with figure(title, 2, 2, name="johnston_noise_windows", sharex=True, size=(8.4, 5.4)) as (drawing, axes):
            for row, method in enumerate(OBSERVERS):
                for column, name in enumerate(("constant", "noise")):
                    axis = axes[row, column]
                    for k, rate in enumerate(sorted({rate for rate, _ in windows})):
                        own = [window for window in windows if window[0] == rate]
                        values = [_parts(found[window], method)[column, 1] for window in own]
                        look = {"color": COLOURS[k % 6], "markersize": 3, "label": f"{rate} Hz"}
                        axis.loglog([points / rate for _, points in own], values, "o-", **look)
                    paper = _parts(_PAPER, method)[column, 1]
                    axis.axhline(paper, color=REFERENCE, linestyle="--", label="paper's table 6")
                    axis.set_title(f"{method.upper()}: {name}", loc="left")
                    axis.set_ylabel("RMSE in N")
                    if row == 1:
                        axis.set_xlabel("smoothing window in s")
            legend_below(drawing, axes[0, 0])

    return numbers, draw


def ramped(model: CapstanModel, duration_s: float, rate_hz: int) -> Motion:
    """Motion from rest and straight under the growing force, in steps of half a millisecond at most."""
    robot, ramp_s = model.robot, duration_s / 2
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

    time_s = np.arange(round(duration_s * rate_hz) + 1) / rate_hz
    motion = moving.follow(time_s, step_s, load)
    force = _force(time_s, ramp_s)
    states = zip(motion.c, motion.c_rate, np.pad(force, ((0, 0), (0, 4))), strict=True)
    second = np.array([model.acceleration(c, rate, torque, load) for c, rate, load in states])
    return Motion(time_s, motion.c, motion.c_rate, second, force)


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


def _kalman(model: CapstanModel, measured: Array, amplitude: float, force_walk: float, dt: float) -> Array:
    """The disturbance observer: no derivative is taken, and the fit weighs channels by what is known of each."""
    wrench, torque = WrenchEstimator("point"), np.zeros(model.capstans)
    observer = DisturbanceObserver(model.size, wrench.directions, force_walk)
    covariance = np.eye(model.size) * max(amplitude / math.sqrt(12), _LEAST_NOISE) ** 2
    found = np.zeros((len(measured), 2))
    for index, c in enumerate(measured):
        residual = observer.update(c, covariance, lambda c, rate: model.at(c, rate, torque), dt)
        jacobian = observer.model.terms.jacobians[-1]
        found[index] = wrench.estimate(residual, jacobian, observer.covariance).wrench[:2]
    return found


def _rmse(exact: Motion, draws: Sequence[Array]) -> Array:
    """Of estimated forces in x and y over all draws of the noise, (2,), N."""
    return np.sqrt(np.mean([np.mean((found - exact.force_n) ** 2, axis=0) for found in draws], axis=0))


def _noisy_errors(model: CapstanModel, exact: Motion, gain_per_s: float, seeds: int, points: int) -> dict[str, float]:
    """RMSE of GMO and JFD by the keys of the paper's numbers, over all draws, N."""
    errors: dict[str, float] = {}
    for level, amplitude in LEVELS.items():
        if amplitude == 0:
            continue
        measured = [_measured(exact, amplitude, seed) for seed in range(seeds)]
        draws = [_estimates(model, exact, one, gain_per_s, points) for one in measured]
        for method in OBSERVERS:
            rmse = _rmse(exact, [found[method] for found in draws])
            errors |= {f"{method}_{level}_rmse_{axis}_n": float(rmse[k]) for k, axis in enumerate("xy")}
    return errors


def _swept(found: Mapping[tuple[int, int], Mapping[str, float]]) -> dict[str, object]:
    """GMO and JFD over the sample rate, and over rate and window how far they are from the paper's table 6."""
    rows: dict[str, list[float]] = {}
    for (_, points), errors in found.items():
        for key, error in errors.items() if points == _SMOOTHING_POINTS else ():
            rows.setdefault(f"sweep_{key}", []).append(error)
    numbers: dict[str, object] = {"sweep_rate_hz": list(SWEPT_RATES_HZ), **rows, **_turning_rates(rows)}
    for name, methods in (("table_6", OBSERVERS), ("gmo_row", ("gmo",)), ("jfd_row", ("jfd",))):
        distance = {window: _distance(errors, methods) for window, errors in found.items()}
        closest = min(distance, key=lambda window: distance[window])
        numbers[f"closest_to_{name}_rate_hz"], numbers[f"closest_to_{name}_smoothing_points"] = closest
        numbers[f"closest_to_{name}_factor"] = distance[closest]
    for rate in (100, 1000):
        numbers[f"table_6_factor_at_{rate}_hz"] = _distance(found[rate, _SMOOTHING_POINTS], OBSERVERS)
    windows = [window for window in found if window[0] <= _HIGHEST_FITTED_HZ]
    numbers["window_rate_hz"], numbers["window_points"] = map(list, zip(*windows, strict=True))
    for method in OBSERVERS:
        paper, values = _parts(_PAPER, method), np.array([_parts(found[window], method) for window in windows])
        for k, axis in enumerate("xy"):
            for j, name in enumerate(("constant", "noise")):
                numbers[f"table_6_{name}_part_{method}_{axis}_n"] = float(paper[j, k])
                numbers[f"window_{name}_part_{method}_{axis}_n"] = values[:, j, k].tolist()
    return numbers


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
