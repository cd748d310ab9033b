# SPDX-License-Identifier: Apache-2.0
"""An obstacle on the way, and what the robot does about it: nothing, hold, retract, or comply.

The robot bends towards a wall, hard or soft, that touches it at one of five locations, at three speeds. What it feels
comes from the shape estimator and the contact monitor, which learned its floor from the same motions without a wall;
the reaction is :class:`~continuum_robot.control.contact_reaction.ContactReaction`, with the defaults of the robot file.
The peak force is the largest true force on the wall, and the ratios are means over the cases of that with a reaction
over that without.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuum_robot.control.references import RestToRest
from continuum_robot.experiments.experiment import OF_COGGING, Figures, Progress, experiment
from continuum_robot.experiments.plotting import COLOURS, legend_below
from continuum_robot.robot.control_settings import COMPLY, HOLD, IGNORE, RETRACT, ReactionSettings
from continuum_robot.robot.description import Robot
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.schema import quantity
from continuum_robot.simulation.contact import Contact
from continuum_robot.simulation.plants import PLANTS
from validation.contact.touched_robot import Run, TouchedRobot, wall_at

Array = NDArray[np.float64]

STRATEGIES = (IGNORE, HOLD, RETRACT, COMPLY)
_BOTH = "both"


@dataclass(frozen=True, kw_only=True)
class ReactionCases:
    """Options of the experiment."""

    robot: str = quantity("robot file or name, a rod with actuators, limits and control", default="vanderbilt_segment")
    plant: str = quantity("what is simulated", default=_BOTH, choices=(*PLANTS, _BOTH))
    amplitude_m: float = quantity("how far the robot is to bend, Clarke coordinates", "m", default=0.05, gt=0, le=1)
    touch: float = quantity("fraction of that at which it touches", default=0.3, gt=0, lt=1)
    locations: tuple[float, ...] = quantity(
        "of the wall, fractions of the length", default=(0.4, 0.55, 0.7, 0.85, 1.0), gt=0, le=1
    )
    speeds_m_per_s: tuple[float, ...] = quantity(
        "of the motion, Clarke coordinates", "m/s", default=(0.01, 0.02, 0.04), gt=0, le=10
    )
    stiffnesses_n_per_m: tuple[float, ...] = quantity("of the wall", "N/m", default=(2000.0, 20000.0), gt=0, le=1e5)
    seed: int = quantity("of the rotors' angles and the noise", default=1, ge=0, le=2**31)


@dataclass(frozen=True)
class Case:
    """A wall: where it touches, as a fraction of the length, how stiff it is, N/m, and how fast the robot
    comes, m/s.
    """

    location: float
    stiffness_n_per_m: float
    speed_m_per_s: float


def bend(settings: ReactionCases, count: int, speed_m_per_s: float) -> RestToRest:
    """From straight to a bend along the first coordinate."""
    end = settings.amplitude_m * np.eye(count)[0]
    return RestToRest(np.zeros(count), end, 1.875 * settings.amplitude_m / speed_m_per_s)


def cases(settings: ReactionCases) -> Iterator[Case]:
    """All of them."""
    for location in settings.locations:
        for stiffness in settings.stiffnesses_n_per_m:
            for speed in settings.speeds_m_per_s:
                yield Case(location, stiffness, speed)


def wall(robot: Robot, case: Case, settings: ReactionCases) -> Contact:
    """The wall of a case."""
    along = settings.amplitude_m * np.eye(robot.coordinate_count)[0]
    touch, beyond = settings.touch * along, (settings.touch + 0.01) * along
    return wall_at(robot, case.location * robot.length_m, touch, beyond, case.stiffness_n_per_m)


@experiment(
    "contact.reaction",
    "no paper: control/contact_reaction.py",
    package="mujoco",
    tolerances={"*": OF_COGGING},
)
def reaction(progress: Progress, settings: ReactionCases) -> Any:
    """A wall on the way, at five locations and three speeds: hold, retract and comply against nothing."""
    robot = load_robot(settings.robot)
    numbers: dict[str, object] = {}
    runs: dict[str, dict[str, list[Run]]] = {}
    every = list(cases(settings))
    size = robot.coordinate_count
    for kind in PLANTS if settings.plant == _BOTH else [settings.plant]:
        touched = TouchedRobot(robot, kind, settings.seed)
        progress(f"{kind}: free motion")
        touched.learn([bend(settings, size, speed) for speed in settings.speeds_m_per_s])
        runs[kind] = {strategy: [] for strategy in STRATEGIES}
        for index, case in enumerate(every):
            progress(f"{kind}: case {index + 1} of {len(every)}")
            motion = bend(settings, size, case.speed_m_per_s)
            for strategy in STRATEGIES:
                answer, walls = ReactionSettings(strategy=strategy), (wall(robot, case, settings),)
                runs[kind][strategy].append(touched.move(motion, answer, contacts=walls))
        numbers |= _numbers(runs[kind], "" if kind == "rod" else f"_{kind}")
    return numbers, partial(_draw, every, runs)


def _numbers(of: dict[str, list[Run]], suffix: str) -> dict[str, object]:
    numbers: dict[str, object] = {}
    without = np.array([run.peak_n for run in of[IGNORE]])
    numbers[f"peak_force_n_ignore{suffix}"] = without.tolist()
    for strategy in STRATEGIES[1:]:
        peak = np.array([run.peak_n for run in of[strategy]])
        numbers[f"peak_force_ratio_{strategy}{suffix}"] = float(np.mean(peak / without))
        numbers[f"largest_ratio_{strategy}{suffix}"] = float(np.max(peak / without))
        for key in ("falling_s", "given_up_m"):
            values = [getattr(run, key) for run in of[strategy]]
            numbers[f"{key}_{strategy}{suffix}"] = float(np.nanmean(values)) if np.any(np.isfinite(values)) else None
    detected = [run.detected_s for run in of[RETRACT]]
    numbers[f"detected_s{suffix}"] = float(np.nanmean(detected)) if np.any(np.isfinite(detected)) else None
    numbers[f"not_detected{suffix}"] = int(np.count_nonzero(~np.isfinite(detected)))
    return numbers


def _draw(every: Any, runs: Any, figure: Figures) -> None:
    with figure("A wall on the way", len(runs), 2, squeeze=False) as (drawing, axes):
        for row, (kind, of) in zip(axes, runs.items(), strict=True):
            middle = len(every) - 2
            for colour, strategy in zip(COLOURS, STRATEGIES, strict=False):
                run = of[strategy][middle]
                shown = run.time_s > -0.1
                row[0].plot(run.time_s[shown], run.force_n[shown], color=colour, label=strategy, linewidth=0.9)
                peak = np.array([one.peak_n for one in of[strategy]])
                without = np.array([one.peak_n for one in of[IGNORE]])
                row[1].plot(peak / without, "o", color=colour, markersize=3)
            case = every[middle]
            row[0].set(
                xlabel="time since the touch in s",
                ylabel="force in N",
                title=f"{kind}: at {case.location:g} of the length, {1e-3 * case.stiffness_n_per_m:g} N/mm",
            )
            row[1].set(xlabel="case", ylabel="peak force over that without", ylim=(0, None), title=kind)
        legend_below(drawing, axes[0][0])
