# SPDX-License-Identifier: Apache-2.0
"""On which segment a contact is, by the segments' motion alone, beside where the residual locates it.

Two segments of johnston are bent slowly onto a wall at several arc lengths, and once onto nothing. Counted is, while
they press on it, how often estimation/screw_deviation.py names the segment that is touched, and how often the
residual of the contact monitor, which knows the rod's stiffness and learned its floor from the free motion, does.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.experiments.experiment import Figures, Progress, Tolerance, experiment
from continuum_robot.experiments.plotting import COLOURS, legend_below
from continuum_robot.robot.description import Robot
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.schema import quantity
from continuum_robot.simulation.plants import PLANTS
from validation.contact.kinds import Way
from validation.contact.touched_robot import Felt, TouchedRobot, wall_at

Array = NDArray[np.float64]

_TOUCH, _BEYOND = 0.4, 0.42  # of the bend, where the wall is
_BEGUN_S = 3.0  # lifted straight from where it sags
_FROM_S = 0.5  # after the touch, from which on it counts


@dataclass(frozen=True, kw_only=True)
class ScrewCases:
    """Options of the experiment."""

    robot: str = quantity("robot file or name of two segments or more", default="vanderbilt_two_segment")
    plants: tuple[str, ...] = quantity("what is simulated", default=tuple(PLANTS), choices=tuple(PLANTS))
    fractions: tuple[float, ...] = quantity(
        "of the length, where the walls are", default=(0.25, 0.4, 0.75, 1.0), gt=0, le=1
    )
    amplitude_m: float = quantity("how far each segment is bent, Clarke coordinates", "m", default=0.04, gt=0, le=1)
    duration_s: float = quantity("of the bend", "s", default=12.0, gt=1, le=1000)
    stiffness_n_per_m: float = quantity("of the walls", "N/m", default=20000.0, gt=0, le=1e5)
    seed: int = quantity("of the rotors' angles and the noise", default=2, ge=0, le=2**31)


@dataclass(frozen=True)
class Pressed:
    """A bend onto a wall; T updates while it pressed."""

    plant: str
    fraction: float
    segment: int
    deviations: Array
    by_screw: NDArray[np.intp]
    by_residual: NDArray[np.intp]


@experiment(
    "contact.screw",
    "Bajo and Simaan 2012, which johnston names in his limitations",
    package="mujoco",
    tolerances={
        "*percent*": Tolerance(absolute=15.0),
        "*deviations*": Tolerance(relative=0.2, absolute=0.05),
    },
)
def screw(progress: Progress, settings: ScrewCases) -> Any:
    """On which segment a wall touches, by the segments' motion and by the residual, on both simulated robots."""
    robot = load_robot(settings.robot)
    if len(robot.segments) < 2:
        raise ParameterError("robot", settings.robot, "a robot of two segments or more")
    cases = [case for plant in settings.plants for case in _on(robot, plant, settings, progress)]
    numbers: dict[str, object] = {"fractions": list(settings.fractions)}
    for plant in settings.plants:
        own = [case for case in cases if case.plant == plant]
        touching, free = own[:-1], own[-1]
        numbers[f"right_by_screw_percent_{plant}"] = [
            100 * float(np.mean(case.by_screw == case.segment)) for case in touching
        ]
        numbers[f"right_by_residual_percent_{plant}"] = [
            100 * float(np.mean(case.by_residual == case.segment)) for case in touching
        ]
        numbers[f"deviations_{plant}"] = [
            float(value) for case in touching for value in np.nanmedian(case.deviations, axis=0)
        ]
        numbers[f"free_deviations_{plant}"] = [float(value) for value in np.nanmedian(free.deviations, axis=0)]
        numbers[f"false_by_screw_percent_{plant}"] = 100 * float(np.mean(free.by_screw >= 0))
    return numbers, partial(_draw, cases)


def _on(robot: Robot, plant: str, settings: ScrewCases, progress: Progress) -> list[Pressed]:
    touched = TouchedRobot(robot, plant, settings.seed)
    nothing = np.zeros(robot.coordinate_count)
    bent = nothing.copy()
    bent[::2] = settings.amplitude_m
    begun_s = _BEGUN_S + 1.0
    motion = Way([touched.at_rest(), nothing, nothing, bent], [0.0, _BEGUN_S, begun_s, begun_s + settings.duration_s])
    progress(f"{plant}: free motion")
    touched.learn([motion])
    ends_m = np.cumsum([segment.length_m for segment in robot.segments])
    found = []
    for fraction in (*settings.fractions, np.nan):
        progress(f"{plant}: " + ("no wall" if np.isnan(fraction) else f"wall at {100 * fraction:.0f} %"))
        walls = []
        if not np.isnan(fraction):
            arc_length_m = float(fraction) * robot.length_m
            walls = [wall_at(robot, arc_length_m, _TOUCH * bent, _BEYOND * bent, settings.stiffness_n_per_m)]
        run = touched.move(motion, contacts=walls)
        # Of the free motion what would be the touch: as long before its end.
        begins_s = _FROM_S if walls else begun_s + 0.5 * settings.duration_s
        counted = (run.felt_s > begins_s) & (run.felt_s < begins_s + 0.4 * settings.duration_s)
        felt = [one for one, counts in zip(run.felt, counted, strict=True) if counts]
        segment = -1 if np.isnan(fraction) else int(np.searchsorted(ends_m, arc_length_m - 1e-9))
        found.append(
            Pressed(
                plant,
                float(fraction),
                segment,
                np.array([one.screw.deviations for one in felt]),
                np.array([one.screw.segment for one in felt]),
                np.array([_by_residual(one) for one in felt]),
            )
        )
    return found


def _by_residual(felt: Felt) -> int:
    location = felt.estimate.location
    located = felt.estimate.in_contact and location is not None and location.observable
    return location.segment if located and location is not None else -1


def _draw(cases: list[Pressed], figure: Figures) -> None:
    plants = list(dict.fromkeys(case.plant for case in cases))
    title = "Deviation of each segment's motion from free motion, pressed onto a wall"
    with figure(title, 1, len(plants), squeeze=False, sharey=True) as (drawing, axes):
        for axis, plant in zip(axes[0], plants, strict=True):
            own = [case for case in cases if case.plant == plant]
            places = np.arange(len(own))
            for index in range(own[0].deviations.shape[1]):
                medians = [float(np.nanmedian(case.deviations[:, index])) for case in own]
                axis.bar(places + 0.35 * index, medians, 0.33, color=COLOURS[index], label=f"segment {index + 1}")
            axis.set_xticks(
                places + 0.17,
                [
                    "no wall" if np.isnan(case.fraction) else f"{100 * case.fraction:.0f} %\non {case.segment + 1}"
                    for case in own
                ],
            )
            axis.set(title=plant, xlabel="wall at, of the length, and on which segment")
        axes[0][0].set_ylabel("deviation over free motion (median)")
        legend_below(drawing, axes[0][0])
