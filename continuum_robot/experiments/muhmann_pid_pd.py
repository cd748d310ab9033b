# SPDX-License-Identifier: Apache-2.0
"""Muhmann fig. 8: PID with anti-windup against PD on the five-tendon prototype, here on a plant with cogging motors.

The paper's PD has the lower error on the real robot; it explains that by the cogging of the actuators, which ripples
the PID. Gains, duration, cogging and friction of that robot are not published. Here the gains are those of the robot's
file, and the PD is the same without i. Then the PD leaves the static error K / (K + p) in the bending coordinate, which
the PID has not, while in the coordinate at rest the PID ripples more. Which of the two has the lower mean error hangs
on the PD's gains: the run is repeated with stiffer PD controllers, and without and with more cogging.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from continuum_robot.control.clarke_controller import ClarkeController
from continuum_robot.control.limits import TensionLimiter
from continuum_robot.control.references import make_reference
from continuum_robot.errors import ParameterError
from continuum_robot.experiments.closed_loop import PERIOD_S, Series
from continuum_robot.experiments.experiment import Experiment, Progress, Result
from continuum_robot.experiments.plotting import COLOURS, REFERENCE, figure, legend_below
from continuum_robot.robot.control_settings import PidGains
from continuum_robot.robot.description import Robot
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.schema import quantity
from continuum_robot.simulation.plant import Plant

Array = NDArray[np.float64]
Section = TypeVar("Section")


@dataclass(frozen=True, kw_only=True)
class PidPdSettings:
    """Options of the experiment."""

    robot: str = quantity("robot file or name, with actuators, control and reference", default="opencr_five_tendon")
    duration_s: float = quantity("simulated time; the paper does not state it", "s", default=30.0, gt=0.1, le=1000)
    settle_s: float = quantity("time at rest before it", "s", default=0.5, ge=0, le=100)
    seed: int = quantity("of the rotors' angles", default=1, ge=0, le=2**31)
    sweep: bool = quantity("repeat with other cogging, friction and gains", default=True)


@dataclass(frozen=True)
class Pair:
    """The same motion under both controllers.

    Attributes
    ----------
    pid, pd : the run of each
    """

    pid: Series
    pd: Series

    @property
    def reduction_percent(self) -> Array:
        """By how much the PD has the lower error, for each coordinate, shape (2m,), percent; negative: the higher."""
        return np.asarray(100 * (1 - self.pd.rmse_m / self.pid.rmse_m))


def _run(settings: PidPdSettings, progress: Progress) -> Result:
    robot = load_robot(settings.robot)
    control = _present(robot, "control", robot.control)
    actuators = _present(robot, "actuators", robot.actuators)
    pair = _pair(robot, settings, progress)
    error_pd, error_pid = (run.clarke_m - run.reference_m for run in (pair.pd, pair.pid))
    numbers = {
        "rmse_pid_m": pair.pid.rmse_m.tolist(),
        "rmse_pd_m": pair.pd.rmse_m.tolist(),
        "rmse_reduction_percent": pair.reduction_percent.tolist(),
        "mean_rmse_reduction_percent": float(pair.reduction_percent.mean()),
        "ripple_pid_m": ripple_m(pair.pid).tolist(),
        "ripple_pd_m": ripple_m(pair.pd).tolist(),
        "max_error_pid_m": np.abs(error_pid).max(axis=0).tolist(),
        "max_error_pd_m": np.abs(error_pd).max(axis=0).tolist(),
        "min_tension_pid_n": float(pair.pid.tension_n.min()),
        "min_tension_pd_n": float(pair.pd.tension_n.min()),
        "p_n_per_m": [one.p for one in control.gains],
        "i_n_per_ms": [one.i for one in control.gains],
        "d_ns_per_m": [one.d for one in control.gains],
        "cogging_nm": actuators.cogging_amplitude_nm,
        "duration_s": settings.duration_s,
        "n_samples": len(pair.pid.time_s),
    }
    if settings.sweep:
        numbers.update(_sweep(robot, settings, pair.pid, progress))
    return Result(numbers, pair)


def ripple_m(run: Series) -> Array:
    """Root mean square of the fast part of the error, that less its mean over a tenth of a second, shape (2m,), m.

    Parameters
    ----------
    run : what was recorded
    """
    error = run.clarke_m - run.reference_m
    window = min(round(0.1 / PERIOD_S), len(error))
    slow = np.stack([np.convolve(column, np.ones(window) / window, mode="valid") for column in error.T], axis=1)
    start = window // 2
    return np.asarray(np.sqrt(np.mean((error[start : start + len(slow)] - slow) ** 2, axis=0)))


def _pair(robot: Robot, settings: PidPdSettings, progress: Progress) -> Pair:
    return Pair(_track(robot, settings, "PID", progress), _track(without_integral(robot), settings, "PD", progress))


def without_integral(robot: Robot) -> Robot:
    """The robot under a PD with the gains of its PID."""
    return _with_gains(robot, lambda one: dataclasses.replace(one, i=0.0))


def stiffer(robot: Robot, ratio: float) -> Robot:
    """The robot with ``ratio`` times its p, and sqrt(ratio) times its d, which keeps the damping ratio."""
    return _with_gains(robot, lambda one: dataclasses.replace(one, p=ratio * one.p, d=math.sqrt(ratio) * one.d))


def _with_gains(robot: Robot, change: Callable[[PidGains], PidGains]) -> Robot:
    control = _present(robot, "control", robot.control)
    changed = dataclasses.replace(control, gains=tuple(map(change, control.gains)))
    return dataclasses.replace(robot, control=changed)


def _present(robot: Robot, section: str, value: Section | None) -> Section:
    if value is None:
        raise ParameterError("robot", robot.name, f"a robot whose file has the section {section}")
    return value


def _sweep(robot: Robot, settings: PidPdSettings, pid: Series, progress: Progress) -> dict[str, list[float]]:
    ratios = (1.0, 2.0, 4.0, 8.0)
    stiff = [without_integral(stiffer(robot, ratio)) for ratio in ratios]
    pd_rmse = [_track(one, settings, "stiffer PD", progress).rmse_m for one in stiff]
    actuators = _present(robot, "actuators", robot.actuators)
    scales = (0.0, 3.0)
    rmse = []
    for scale in scales:
        cogging_nm = scale * actuators.cogging_amplitude_nm
        other = dataclasses.replace(robot, actuators=dataclasses.replace(actuators, cogging_amplitude_nm=cogging_nm))
        pair = _pair(other, settings, progress)
        rmse.append((*pair.pid.rmse_m[:2], *pair.pd.rmse_m[:2]))
    names = ("pid_re_m", "pid_im_m", "pd_re_m", "pd_im_m")
    return {
        "sweep_pd_p_ratio": list(ratios),
        "sweep_pd_rmse_re_m": [float(one[0]) for one in pd_rmse],
        "sweep_pd_rmse_im_m": [float(one[1]) for one in pd_rmse],
        "sweep_pd_mean_rmse_reduction_percent": [float(100 * np.mean(1 - one / pid.rmse_m)) for one in pd_rmse],
        "sweep_cogging_scale": list(scales),
        **{f"sweep_cogging_rmse_{name}": [float(row[at]) for row in rmse] for at, name in enumerate(names)},
    }


def _track(robot: Robot, settings: PidPdSettings, name: str, progress: Progress) -> Series:
    folder = Path(robot.file_name).parent if robot.file_name else None
    trajectory = _present(robot, "reference", robot.reference)
    reference = make_reference(trajectory, robot.coordinate_count, folder)
    plant = Plant(robot, actuation="motors", rng=np.random.default_rng(settings.seed), progress=progress)
    controller, limiter = (
        ClarkeController(robot),
        TensionLimiter(_present(robot, "limits", robot.limits), robot.tendon_count),
    )
    controller.reset(plant.displacement, plant.tension)
    limiter.reset(plant.tension)
    settle = round(settings.settle_s / PERIOD_S)
    rows = []
    for index in range(settle + round(settings.duration_s / PERIOD_S)):
        time_s = PERIOD_S * (index - settle)
        now = reference.at(time_s)
        output = controller.update(plant.displacement, plant.velocity, now, PERIOD_S)
        limited = limiter.update(output.tension, PERIOD_S)
        if index >= settle:
            rows.append(
                (time_s, now.position, output.clarke, output.clarke_rate, output.generalized_force, plant.tension)
            )
        plant.advance(limited.tension, PERIOD_S)
        if index % 2000 == 0:
            progress(f"{name}: {max(time_s, 0.0):.0f} of {settings.duration_s:g} s")
    times, wanted, clarke, rate, force, tension = (np.array(column) for column in zip(*rows, strict=True))
    return Series(times, wanted, clarke, rate, force, controller.manifold.generalized_force(tension), tension)


def _draw(result: Result, folder: Path) -> list[Path]:
    pair: Pair = result.series
    file = folder / "muhmann_pid_pd.png"
    title = "PID with anti-windup against PD, cogging actuators (muhmann, fig. 8)"
    runs = ((pair.pid, COLOURS[1], "PID"), (pair.pd, COLOURS[0], "PD"))
    with figure(file, title, 3, 1, sharex=True) as (drawing, (bending, error, resting)):
        time_s = pair.pid.time_s
        for axis, index, part in ((bending, 0, "Re"), (resting, 1, "Im")):
            for run, colour, name in runs:
                axis.plot(time_s, run.clarke_m[:, index], color=colour, linewidth=1.0, label=name)
            wanted = pair.pid.reference_m[:, index]
            axis.plot(time_s, wanted, color=REFERENCE, linestyle="--", linewidth=0.9, label="reference")
            axis.set_ylabel(f"$q_{{{part}}}$ in m")
            axis.set_title(f"RMSE: PID {pair.pid.rmse_m[index]:.2e} m, PD {pair.pd.rmse_m[index]:.2e} m", loc="left")
        for run, colour, _ in runs:
            error.plot(time_s, run.clarke_m[:, 0] - run.reference_m[:, 0], color=colour, linewidth=1.0)
        error.set_ylabel("error of $q_{Re}$ in m")
        resting.set_xlabel("time in s")
        legend_below(drawing, bending)
    return [file]


PID_PD = Experiment(
    name="muhmann.pid_pd",
    summary="One segment with five tendons on cogging motors tracks a sine of rising frequency under PID and PD.",
    source="muhmann, fig. 8 (measured on the prototype)",
    paper={"mean_rmse_reduction_percent": 37.1},
    settings=PidPdSettings,
    compute=_run,
    plot=_draw,
)
