# SPDX-License-Identifier: Apache-2.0
"""Masses, stiffness, damping, friction and stretch of robots that are not as their file says, from chirps.

For each seed the simulated robot gets values of its own: each of the file's times a factor that the fit does not know.
The robot moves in chirps under the shipped driver's cycle, as ``identify`` lets it, with noise on its currents, and the
values are found from what its motors measured. Reported is how far they are from the simulated ones, and for how many
seeds that is within two of their own standard deviations. MuJoCo's robot is made of rigid links and tendons that run
straight between disks, so some of its values mean something else there.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from continuum_robot.control.inverse_dynamics import InverseDynamicsController, InverseDynamicsSettings
from continuum_robot.errors import ContinuumRobotError
from continuum_robot.experiments.control_comparison import ComparisonSettings, follow_circle
from continuum_robot.experiments.experiment import OF_COGGING, Experiment, Progress, Result, Tolerance
from continuum_robot.experiments.plotting import COLOURS, figure, legend_below
from continuum_robot.experiments.virtual_stack import VirtualStack, load_controlled_robot
from continuum_robot.identification.motion.fit import MotionFit, fit_motion
from continuum_robot.identification.motion.parameters import Parameters, with_values
from continuum_robot.identification.procedures.chirps import Chirps, ChirpSettings
from continuum_robot.robot.description import Robot
from continuum_robot.robot.schema import quantity
from continuum_robot.simulation.plants import MUJOCO, PLANTS, ROD

Array = NDArray[np.float64]

COVERED = 2.0
"""Standard deviations that count as the error bar."""


@dataclass(frozen=True, kw_only=True)
class IdentificationSettings:
    """Options of the experiment."""

    robot: str = quantity(
        "robot file or name: a rod with parallel tendons and a motor on each", default="opencr_five_tendon"
    )
    seeds: int = quantity("robots on the rod of this package", default=10, ge=1, le=1000)
    mujoco_seeds: int = quantity("robots on MuJoCo's", default=3, ge=0, le=1000)
    spread: float = quantity("largest factor on a value, and one over it the least", default=1.4, ge=1, le=3)
    duration_s: float = quantity("of the chirps", "s", default=60.0, ge=10, le=3600)
    circle_hz: float = quantity("circles a second with what was found", "Hz", default=3.0, gt=0, le=20)
    circled: int = quantity("robots on the rod that make them", default=3, ge=0, le=1000)
    current_noise_a: float = quantity("standard deviation of the measured currents", "A", default=0.02, ge=0, le=1)


@dataclass(frozen=True)
class Case:
    """One robot.

    Attributes
    ----------
    plant, seed : which
    truth : simulated values, in the units of their names, shape (P,)
    fit : what was found, for a file that has others
    """

    plant: str
    seed: int
    truth: Array
    fit: MotionFit

    @property
    def error(self) -> Array:
        """Found less simulated over simulated, shape (P,)."""
        return np.asarray(self.fit.values / self.truth - 1)

    @property
    def score(self) -> Array:
        """The error over its own standard deviation, shape (P,)."""
        return np.asarray((self.fit.values - self.truth) / self.fit.deviations)


def _compute(settings: IdentificationSettings, progress: Progress) -> Result:
    robot = load_controlled_robot(settings.robot)
    parameters = Parameters.of(robot)
    cases = [
        _case(robot, parameters, plant, seed, settings, progress)
        for plant, count in ((ROD, settings.seeds), (MUJOCO, settings.mujoco_seeds))
        for seed in range(1, count + 1)
    ]
    numbers: dict[str, object] = {"parameters": list(parameters.names), "seeds": settings.seeds}
    numbers |= _circles(robot, parameters, cases[: min(settings.circled, settings.seeds)], settings, progress)
    for plant in (ROD, MUJOCO):
        own = [case for case in cases if case.plant == plant]
        if not own:
            continue
        errors, scores = np.array([case.error for case in own]), np.array([case.score for case in own])
        within = (np.abs(scores) <= COVERED).sum(axis=0)
        shown = np.array([case.fit.shown for case in own])
        numbers[f"seeds_within_{plant}"] = [int(value) for value in within]
        numbers[f"least_seeds_within_{plant}"] = int(within.min())
        numbers[f"fraction_within_{plant}"] = float(within.sum() / scores.size)
        numbers[f"shown_{plant}"] = [int(value) for value in shown.sum(axis=0)]
        numbers[f"error_percent_{plant}"] = [100 * float(value) for value in np.sqrt(np.mean(errors**2, axis=0))]
        deviations = np.array([case.fit.deviations / case.truth for case in own])
        numbers[f"deviation_percent_{plant}"] = [100 * float(value) for value in deviations.mean(axis=0)]
    return Result(numbers, cases)


def _case(
    robot: Robot, parameters: Parameters, plant: str, seed: int, settings: IdentificationSettings, progress: Progress
) -> Case:
    rng = np.random.default_rng([seed, 7])
    truth = parameters.scales * settings.spread ** rng.uniform(-1, 1, parameters.count)
    true_robot = with_values(robot, parameters, truth)
    true_robot = true_robot.changed(
        simulation=dataclasses.replace(true_robot.simulation, current_noise_a=settings.current_noise_a)
    )
    progress(f"{plant}, robot {seed}: moving in chirps")
    body = PLANTS[plant](true_robot, rng=rng)
    stack = VirtualStack(true_robot, body, believed=robot, seed=seed)
    stack.loop.safety.positions_known = False
    chirps = Chirps(robot, ChirpSettings(duration_s=settings.duration_s))
    try:
        stack.drive(chirps)
    finally:
        stack.close()
    if chirps.result is None:
        raise ContinuumRobotError("the chirps left no readings")
    progress(f"{plant}, robot {seed}: fitting")
    return Case(plant, seed, truth, fit_motion(robot, chirps.result))


def _circles(
    robot: Robot, parameters: Parameters, cases: Sequence[Case], settings: IdentificationSettings, progress: Progress
) -> dict[str, object]:
    """RMSE of circles under inverse dynamics without observer: by the file, by what was found, by the truth, mm."""
    found: dict[str, list[float]] = {"file": [], "found": [], "truth": []}
    for case in cases:
        values = np.where(case.fit.shown, case.fit.values, case.fit.parameters.before)
        known = {"file": robot, "found": with_values(robot, parameters, values)}
        known["truth"] = simulated = with_values(robot, parameters, case.truth)
        circle = ComparisonSettings(robot=settings.robot, seed=case.seed)
        for name, believed in known.items():
            progress(f"robot {case.seed}: a circle by the {name}")
            controller = InverseDynamicsController(believed, InverseDynamicsSettings(observer_rate_per_s=0.0))
            run = follow_circle(simulated, believed, controller, settings.circle_hz, circle)
            found[name].append(1e3 * run.rmse_m)
    return {f"circle_rmse_mm_{name}": values for name, values in found.items()}


def _draw(result: Result, folder: Path) -> list[Path]:
    cases: list[Case] = result.series
    names = cases[0].fit.parameters.names
    file = folder / "drive_identification.png"
    with figure(file, "Values found from chirps, relative to the simulated ones", len(names), 1, sharex=True) as (
        drawing,
        axes,
    ):
        drawing.set_size_inches(drawing.get_figwidth(), 1.05 * len(names) + 1.5)
        for place, (axis, name) in enumerate(zip(np.atleast_1d(axes), names, strict=True)):
            axis.axhline(0, color="black", linewidth=0.8)
            for number, (plant, colour) in enumerate(zip((ROD, MUJOCO), COLOURS, strict=False)):
                own = [case for case in cases if case.plant == plant]
                if not own:
                    continue
                before = [100 * (case.fit.parameters.before[place] / case.truth[place] - 1) for case in own]
                seeds = [case.seed + 0.25 * number for case in own]
                axis.plot(seeds, before, "x", color="grey", label="robot file" if number == 0 else None)
                axis.errorbar(
                    seeds,
                    [100 * case.error[place] for case in own],
                    [100 * COVERED * case.fit.deviations[place] / case.truth[place] for case in own],
                    fmt="o",
                    markersize=4,
                    capsize=3,
                    color=colour,
                    label=f"{plant}, with two standard deviations",
                )
            axis.set_title(name, loc="left", fontsize="small")
            axis.set_ylabel("%")
            axis.set_ylim(-60, 60)
        np.atleast_1d(axes)[-1].set_xlabel("robot")
        legend_below(drawing, np.atleast_1d(axes)[0], 3)
    return [file]


IDENTIFICATION = Experiment(
    name="drive.identification",
    summary="Masses, stiffness, damping, friction and stretch found from chirps of robots that are not as their file.",
    source="derived here, from muhmann (22) to (25)",
    paper={},
    settings=IdentificationSettings,
    compute=_compute,
    plot=_draw,
    package="mujoco",
    # Rounding leads to other places of the cogging: errors within their deviations come out as others.
    tolerances={
        "seeds_within*": Tolerance(absolute=3.0),
        "least_seeds*": Tolerance(absolute=3.0),
        "fraction_within*": Tolerance(absolute=0.15),
        "shown*": Tolerance(absolute=3.0),
        "error_percent*": Tolerance(relative=1.0, absolute=3.0),
        "deviation_percent*": Tolerance(relative=0.5, absolute=2.0),
        "circle_*": OF_COGGING,
    },
)
