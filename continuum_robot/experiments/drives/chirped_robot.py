# SPDX-License-Identifier: Apache-2.0
"""A simulated robot with values of its own, and what a fit that knows another finds from its chirps."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ContinuumRobotError
from continuum_robot.experiments.experiment import Progress, Tolerance
from continuum_robot.experiments.plotting import COLOURS, figure, legend_below
from continuum_robot.experiments.virtual_stack import VirtualStack
from continuum_robot.identification.motion.fit import MotionFit, fit_motion
from continuum_robot.identification.motion.parameters import Parameters, with_values
from continuum_robot.identification.motion.unknowns import MotionFitSettings
from continuum_robot.identification.procedures.chirps import Chirps, ChirpSettings
from continuum_robot.robot.description import Robot
from continuum_robot.robot.schema import quantity
from continuum_robot.simulation.plants import PLANTS

Array = NDArray[np.float64]

COVERED = 2.0
"""Standard deviations that count as the error bar."""

# Rounding leads to other places of the cogging: errors within their deviations come out as others.
OF_VALUES = {
    "seeds_within*": Tolerance(absolute=3.0),
    "least_seeds*": Tolerance(absolute=3.0),
    "fraction_within*": Tolerance(absolute=0.15),
    "shown*": Tolerance(absolute=3.0),
    "error_percent*": Tolerance(relative=1.0, absolute=3.0),
    "deviation_percent*": Tolerance(relative=0.5, absolute=2.0),
}
"""Of what :func:`case_numbers` gives."""


@dataclass(frozen=True, kw_only=True)
class UnlikeSettings:
    """The robot, how the simulated ones differ from what the fit knows, and how they move."""

    robot: str = quantity("robot file or name: a rod with a motor on each tendon", default="opencr_five_tendon")
    spread: float = quantity("largest factor on a value, and one over it the least", default=1.4, ge=1, le=3)
    duration_s: float = quantity("of the chirps", "s", default=60.0, ge=10, le=3600)
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

    def simulated(self, robot: Robot) -> Robot:
        """The robot with the simulated values.

        Parameters
        ----------
        robot : as the fit knows it
        """
        return with_values(robot, self.fit.parameters, self.truth)

    def found(self, robot: Robot) -> Robot:
        """The robot with those values that the chirps show.

        Parameters
        ----------
        robot : as the fit knows it
        """
        values = np.where(self.fit.shown, self.fit.values, self.fit.parameters.before)
        return with_values(robot, self.fit.parameters, values)


def chirped_robot(
    robot: Robot,
    plant: str,
    seed: int,
    settings: UnlikeSettings,
    progress: Progress,
    fitting: MotionFitSettings | None = None,
) -> Case:
    """Move a robot that is unlike a file in chirps under the shipped driver, and find its values.

    Parameters
    ----------
    robot : as driver, procedure and fit know it
    plant : of PLANTS
    seed : of the factors on its values, the rotors' angles and the noise
    settings : how far it differs
    progress : receives what is done
    fitting : how the fit uses the samples

    Raises
    ------
    ContinuumRobotError : the chirps left no readings
    """
    parameters, rng = Parameters.of(robot), np.random.default_rng([seed, 7])
    truth = parameters.scales * settings.spread ** rng.uniform(-1, 1, parameters.count)
    simulated = with_values(robot, parameters, truth)
    simulated = simulated.changed(
        simulation=dataclasses.replace(simulated.simulation, current_noise_a=settings.current_noise_a)
    )
    progress(f"{plant}, robot {seed}: moving in chirps")
    stack = VirtualStack(simulated, PLANTS[plant](simulated, rng=rng), believed=robot, seed=seed)
    stack.loop.safety.positions_known = False
    chirps = Chirps(robot, ChirpSettings(duration_s=settings.duration_s))
    try:
        stack.drive(chirps)
    finally:
        stack.close()
    if chirps.result is None:
        raise ContinuumRobotError("the chirps left no readings")
    progress(f"{plant}, robot {seed}: fitting")
    return Case(plant, seed, truth, fit_motion(robot, chirps.result, fitting))


def case_numbers(cases: Sequence[Case], plant: str) -> dict[str, object]:
    """How far the values of the robots on one plant are off, and how often that is within their deviations.

    Parameters
    ----------
    cases : on that plant
    plant : its name, in the keys
    """
    if not cases:
        return {}
    errors, scores = np.array([case.error for case in cases]), np.array([case.score for case in cases])
    within = (np.abs(scores) <= COVERED).sum(axis=0)
    shown = np.array([case.fit.shown for case in cases])
    deviations = np.array([case.fit.deviations / case.truth for case in cases])
    return {
        f"seeds_within_{plant}": [int(value) for value in within],
        f"least_seeds_within_{plant}": int(within.min()),
        f"fraction_within_{plant}": float(within.sum() / scores.size),
        f"shown_{plant}": [int(value) for value in shown.sum(axis=0)],
        f"error_percent_{plant}": [100 * float(value) for value in np.sqrt(np.mean(errors**2, axis=0))],
        f"deviation_percent_{plant}": [100 * float(value) for value in deviations.mean(axis=0)],
    }


def draw_values(cases: Sequence[Case], file: Path, title: str) -> Path:
    """Draw every value found, relative to the simulated one, with its error bar and what the file had.

    Parameters
    ----------
    cases : of one robot file
    file : PNG to write
    title : of the drawing

    Returns
    -------
    the file
    """
    names, plants = cases[0].fit.parameters.names, list(dict.fromkeys(case.plant for case in cases))
    with figure(file, title, len(names), 1, sharex=True) as (drawing, axes):
        drawing.set_size_inches(drawing.get_figwidth(), 1.05 * len(names) + 1.5)
        for place, (axis, name) in enumerate(zip(np.atleast_1d(axes), names, strict=True)):
            axis.axhline(0, color="black", linewidth=0.8)
            for number, (plant, colour) in enumerate(zip(plants, COLOURS, strict=False)):
                own = [case for case in cases if case.plant == plant]
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
        np.atleast_1d(axes)[-1].set_xticks(sorted({case.seed for case in cases}))
        np.atleast_1d(axes)[-1].set_xlabel("robot")
        legend_below(drawing, np.atleast_1d(axes)[0], 3)
    return file
