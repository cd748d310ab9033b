# SPDX-License-Identifier: Apache-2.0
"""Muhmann fig. 8: PID with anti-windup against PD on the five-tendon prototype, here on a plant with cogging motors.

The paper's PD has the lower error on the real robot; it explains that by the cogging of the actuators, which ripples
the PID. Gains, duration, cogging and friction of that robot are not published. Here the gains are those of the robot's
file, and the PD is the same without i. Then the order is the opposite in the bending coordinate, since the PD leaves
the static error K / (K + p) there, and the paper's in the coordinate at rest, where the PID ripples more.

What turns the order is looked for by changing one thing at a time, on shorter runs: cogging, dry friction, integral,
stiffness of the PD, the rate at which the reference is sampled, the step of the commanded current, and the delay of the
loop. ``turn_*`` is where the mean reduction passes zero, by a straight line between the values beside it.

The motors fall from one cogging position into the next, so that a difference in the last bit, by another compiler or
processor, grows into another motion: numbers are means over several draws of the rotors' angles, and the spread over
these draws is what a number may differ by on another machine.
"""

from __future__ import annotations

import dataclasses
import math
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from continuum_robot.control.clarke_controller import ClarkeController
from continuum_robot.control.limits import TensionLimiter
from continuum_robot.control.references import make_reference
from continuum_robot.errors import ParameterError
from continuum_robot.experiments.experiment import Figures, Progress, Tolerance, experiment
from continuum_robot.experiments.muhmann.ideal_robot import PERIOD_S, Series
from continuum_robot.experiments.muhmann.tracking import reduction_percent
from continuum_robot.experiments.plotting import COLOURS, REFERENCE, legend_below
from continuum_robot.robot.actuation import TensionLimits
from continuum_robot.robot.control_settings import PidGains
from continuum_robot.robot.description import Robot
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.schema import Quantity
from continuum_robot.rod.tendons import controlled_manifold
from continuum_robot.simulation.plant import Plant

Array = NDArray[np.float64]
Section = TypeVar("Section")

# What is changed against the robot's file, one at a time: its values, the file's own first.
SWEPT: dict[str, tuple[float, ...]] = {
    "cogging": (1.0, 0.0, 3.0, 6.0, 12.0),
    "dry_friction": (1.0, 4.0, 10.0),
    "integral": (1.0, 4.0, 8.0, 12.0, 16.0),
    "pd_stiffness": (1.0, 2.0, 4.0, 8.0),
    "reference_hold_s": (0.0, 0.02, 0.05, 0.1),
    "current_step_a": (0.0, 0.05, 0.2),
    "delay_cycles": (0, 2, 4),
}


@experiment(
    "muhmann.pid_pd",
    "muhmann, fig. 8 (measured on the prototype)",
    paper={"mean_rmse_reduction_percent": 37.1},
    # Draws of the rotors' angles differ by as much: see the module's text.
    tolerances={
        "mean_rmse_reduction_percent": Tolerance(absolute=25.0),
        "*_percent": Tolerance(relative=0.3, absolute=30.0),
        "turn_*": Tolerance(relative=0.3),
        "*": Tolerance(relative=0.25),
    },
)
def pid_pd(
    progress: Progress,
    robot: Annotated[str, Quantity("robot file or name, with actuators, control and reference")] = "opencr_five_tendon",
    duration_s: Annotated[float, Quantity("simulated time; the paper does not state it", "s", gt=0.1, le=1000)] = 30.0,
    settle_s: Annotated[float, Quantity("time at rest before it", "s", ge=0, le=100)] = 0.5,
    seed: Annotated[int, Quantity("of the first draw of the rotors' angles", ge=0, le=2**31)] = 1,
    draws: Annotated[int, Quantity("of the rotors' angles, over which numbers are averaged", ge=1, le=100)] = 3,
    sweep: Annotated[bool, Quantity("change one thing at a time: cogging, friction, gains, sampling, current")] = True,
    sweep_duration_s: Annotated[float, Quantity("simulated time of each run of it", "s", gt=0.1, le=1000)] = 10.0,
) -> Any:
    """One segment with five tendons on cogging motors tracks a sine of rising frequency under PID and PD."""
    described = load_robot(robot)
    control = _present(described, "control", described.control)
    actuators = _present(described, "actuators", described.actuators)

    def pid_and_pd(
        seed: int, duration_s: float, say: Progress = lambda _: None, changed: Mapping[str, float] | None = None
    ) -> tuple[Series, Series]:
        """Both controllers, from one draw of the rotors' angles, with a change by a name of ``SWEPT``."""
        change = dict(changed or {})
        motors = dataclasses.replace(
            actuators,
            cogging_amplitude_nm=change.pop("cogging", 1.0) * actuators.cogging_amplitude_nm,
            coulomb_friction_nm=change.pop("dry_friction", 1.0) * actuators.coulomb_friction_nm,
        )
        plant, integral = dataclasses.replace(described, actuators=motors), change.pop("integral", 1.0)
        pid = _with_gains(plant, lambda one: dataclasses.replace(one, i=integral * one.i))
        pd = without_integral(stiffer(plant, change.pop("pd_stiffness", 1.0)))
        return (
            _track(pid, "PID", seed, settle_s, duration_s, say, **change),
            _track(pd, "PD", seed, settle_s, duration_s, say, **change),
        )

    pairs = [pid_and_pd(seed + draw, duration_s, progress) for draw in range(draws)]
    reductions = np.array([reduction_percent(pd, pid) for pid, pd in pairs])
    numbers: dict[str, object] = {
        "mean_rmse_reduction_percent": float(reductions.mean()),
        "mean_rmse_reduction_spread_percent": float(np.ptp(reductions.mean(axis=1))),
        "rmse_reduction_percent": reductions.mean(axis=0).tolist(),
        "rmse_pd_over_pid": np.mean([pd.rmse_m / pid.rmse_m for pid, pd in pairs], axis=0).tolist(),
    }
    for name, of_one in zip(("pid", "pd"), zip(*pairs, strict=True), strict=True):
        largest = [np.abs(run.clarke_m - run.reference_m).max(axis=0) for run in of_one]
        numbers[f"rmse_{name}_m"] = np.mean([run.rmse_m for run in of_one], axis=0).tolist()
        numbers[f"ripple_{name}_m"] = np.mean([ripple_m(run) for run in of_one], axis=0).tolist()
        numbers[f"max_error_{name}_m"] = np.mean(largest, axis=0).tolist()
    numbers |= {
        "p_n_per_m": [one.p for one in control.gains],
        "i_n_per_ms": [one.i for one in control.gains],
        "d_ns_per_m": [one.d for one in control.gains],
        "cogging_nm": actuators.cogging_amplitude_nm,
        "duration_s": duration_s,
        "draws": draws,
        "n_samples": len(pairs[0][0].time_s),
    }
    if sweep:
        numbers["sweep_duration_s"] = sweep_duration_s
        unchanged = pid_and_pd(seed, sweep_duration_s)
        for name, values in SWEPT.items():
            progress(f"sweep: {name}")
            runs = [unchanged, *(pid_and_pd(seed, sweep_duration_s, changed={name: value}) for value in values[1:])]
            order = np.argsort(values, kind="stable")
            at = np.array(values, dtype=float)[order]
            found = np.array([reduction_percent(pd, pid) for pid, pd in runs])[order]
            numbers[f"sweep_{name}"] = at.tolist()
            numbers[f"sweep_{name}_mean_reduction_percent"] = found.mean(axis=1).tolist()
            numbers[f"sweep_{name}_bending_reduction_percent"] = found[:, 0].tolist()
            numbers[f"sweep_{name}_resting_reduction_percent"] = found[:, 1].tolist()
            numbers[f"turn_{name}"] = _turn(at, found.mean(axis=1))

    def draw(figure: Figures) -> None:
        title = "PID with anti-windup against PD, cogging actuators (muhmann, fig. 8)"
        pid, pd = pairs[0]
        looks = ((pid, COLOURS[1], "PID"), (pd, COLOURS[0], "PD"))
        with figure(title, 3, 1, sharex=True) as (drawing, (bending, error, resting)):
            for axis, index, part in ((bending, 0, "Re"), (resting, 1, "Im")):
                for run, colour, name in looks:
                    axis.plot(pid.time_s, run.clarke_m[:, index], color=colour, linewidth=1.0, label=name)
                dashed = {"color": REFERENCE, "linestyle": "--", "linewidth": 0.9}
                axis.plot(pid.time_s, pid.reference_m[:, index], label="reference", **dashed)
                axis.set_ylabel(f"$q_{{{part}}}$ in m")
                axis.set_title(f"RMSE: PID {pid.rmse_m[index]:.2e} m, PD {pd.rmse_m[index]:.2e} m", loc="left")
            for run, colour, _ in looks:
                error.plot(pid.time_s, run.clarke_m[:, 0] - run.reference_m[:, 0], color=colour, linewidth=1.0)
            error.set_ylabel("error of $q_{Re}$ in m")
            resting.set_xlabel("time in s")
            legend_below(drawing, bending)

    return numbers, draw


def ripple_m(run: Series) -> Array:
    """Root mean square of the fast part of the error, that less its mean over a tenth of a second, shape (2m,), m."""
    error = run.clarke_m - run.reference_m
    window = min(round(0.1 / PERIOD_S), len(error))
    slow = np.stack([np.convolve(column, np.ones(window) / window, mode="valid") for column in error.T], axis=1)
    start = window // 2
    return np.asarray(np.sqrt(np.mean((error[start : start + len(slow)] - slow) ** 2, axis=0)))


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


def _turn(at: Array, values: Array) -> float | None:
    """Where a broken line first passes zero upwards; None where it does not."""
    for index in np.flatnonzero((values[:-1] < 0) & (values[1:] >= 0)):
        low, high = values[index], values[index + 1]
        return float(at[index] - low * (at[index + 1] - at[index]) / (high - low))
    return None


def _track(
    robot: Robot,
    name: str,
    seed: int,
    settle_s: float,
    duration_s: float,
    progress: Progress,
    *,
    reference_hold_s: float = 0.0,
    current_step_a: float = 0.0,
    delay_cycles: float = 0,
) -> Series:
    """The motion under the controller and the limits alone: the driver would hide what the sweep changes."""
    folder = Path(robot.file_name).parent if robot.file_name else None
    reference = make_reference(_present(robot, "reference", robot.reference), robot.coordinate_count, folder)
    plant = Plant(robot, actuation="motors", rng=np.random.default_rng(seed), progress=progress)
    controller = ClarkeController(robot)
    limits = _present(robot, "limits", robot.limits)
    if not isinstance(limits, TensionLimits):
        raise ParameterError("robot", robot.name, "a robot whose motors take tensions")
    limiter = TensionLimiter(limits, controlled_manifold(robot))
    controller.reset(plant.displacement, plant.tension)
    limiter.reset(plant.tension)
    settle, hold = round(settle_s / PERIOD_S), max(1, round(reference_hold_s / PERIOD_S))
    step_n = current_step_a * _present(robot, "actuators", robot.actuators).newton_per_ampere
    waiting = deque([plant.tension] * int(delay_cycles))
    rows = []
    for index in range(settle + round(duration_s / PERIOD_S)):
        cycle = index - settle
        now, sampled = reference.at(PERIOD_S * cycle), reference.at(PERIOD_S * (cycle // hold * hold))
        output = controller.update(plant.displacement, plant.velocity, sampled, PERIOD_S)
        command = np.array(limiter.update(output.command, PERIOD_S).tension)
        waiting.append(step_n * np.round(command / step_n) if step_n else command)
        if index >= settle:
            force = output.generalized_force
            rows.append((PERIOD_S * cycle, now.position, output.clarke, output.clarke_rate, force, plant.tension))
        plant.advance(waiting.popleft(), PERIOD_S)
        if index % 2000 == 0:
            progress(f"{name}: {max(PERIOD_S * cycle, 0.0):.0f} of {duration_s:g} s")
    times, desired, clarke, rate, force, tension = (np.array(column) for column in zip(*rows, strict=True))
    return Series(times, desired, clarke, rate, force, controller.manifold.generalized_force(tension), tension)
