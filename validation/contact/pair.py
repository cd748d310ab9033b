# SPDX-License-Identifier: Apache-2.0
"""Two contacts at once: where estimation/contact/location.py locates them, and what each pushes.

The robots of johnston are held still and pushed at two locations in different directions, in the same and in opposite
ones. The contact monitor has learned its floor from a motion without contacts. What counts is whether each contact is
located, how far from where it is, and whether it is reported where it cannot be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuum_robot.estimation.contact.location import PairEstimate
from continuum_robot.experiments.experiment import Figures, Progress, Tolerance, experiment
from continuum_robot.experiments.plotting import COLOURS, legend_below
from continuum_robot.robot.description import Robot
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.schema import quantity
from continuum_robot.simulation.contact import Contact
from continuum_robot.simulation.plants import PLANTS
from validation.contact.kinds import Way
from validation.contact.touched_robot import SETTLE_S, TouchedRobot

Array = NDArray[np.float64]

_BEND_M = 0.01  # of the first coordinate at rest: not straight, where much is symmetrical
_PUSHED_AT_S, _PUSHED_S = 4.5, 2.0
_TWO = 2


@dataclass(frozen=True, kw_only=True)
class PairCases:
    """Options of the experiment."""

    robots: tuple[str, ...] = quantity(
        "robot files or names, rods with actuators, limits and control",
        default=("vanderbilt_segment", "vanderbilt_two_segment"),
    )
    plants: tuple[str, ...] = quantity("what is simulated", default=tuple(PLANTS), choices=tuple(PLANTS))
    pushes_n: tuple[float, ...] = quantity(
        "at the upper location; one and a half times that at the lower one", "N", default=(12.0,), gt=0, le=1000
    )
    lower: tuple[float, ...] = quantity("lower locations, of the length", default=(0.4, 0.6), gt=0, lt=1)
    seed: int = quantity("of the rotors' angles and the noise", default=1, ge=0, le=2**31)


@dataclass(frozen=True)
class Pushed:
    """A robot pushed at two locations."""

    robot: str
    plant: str
    fractions: Array
    forces_n: Array
    length_m: float
    reported: int
    found: PairEstimate | None

    @property
    def error(self) -> Array:
        """Found less true location, of the length, shape (2,); NaN where not located."""
        if self.found is None:
            return np.full(_TWO, np.nan)
        return np.asarray(self.found.arc_lengths_m / self.length_m - self.fractions)

    @property
    def deviation(self) -> Array:
        """Standard deviation of that, shape (2,)."""
        return np.full(_TWO, np.nan) if self.found is None else np.asarray(self.found.deviations_m / self.length_m)

    @property
    def force_error(self) -> Array:
        """Found over true size of the forces, less one, shape (2,)."""
        if self.found is None:
            return np.full(_TWO, np.nan)
        sizes = np.linalg.norm(self.found.forces_n, axis=1)
        return np.asarray(sizes / np.linalg.norm(self.forces_n, axis=1) - 1)


def _pushes(settings: PairCases) -> list[tuple[Array, Array]]:
    """Fractions of the length and forces of every case: across, along and against each other."""
    cases = []
    for lower in settings.lower:
        for push_n in settings.pushes_n:
            upper = np.array([0.0, push_n, 0.0])
            for other in ((-1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, -1.0, 0.0)):
                cases.append((np.array([lower, 1.0]), np.array([1.5 * push_n * np.array(other), upper])))
    return cases


def _contacts(fractions: Array, forces_n: Array, length_m: float) -> Sequence[Contact]:
    return [
        Contact(
            name=f"push_{number}",
            kind="push",
            arc_length_m=float(fraction) * length_m,
            force_n=(float(force[0]), float(force[1]), float(force[2])),
            start_s=_PUSHED_AT_S + SETTLE_S,
            end_s=_PUSHED_AT_S + SETTLE_S + _PUSHED_S,
            ramp_s=0.05,
        )
        for number, (fraction, force) in enumerate(zip(fractions, forces_n, strict=True))
    ]


@experiment(
    "contact.pair",
    "no paper: estimation/contact/location.py",
    package="mujoco",
    tolerances={
        "reported_*": Tolerance(absolute=1.0),
        "located_*": Tolerance(absolute=2.0),
        "within_*": Tolerance(absolute=3.0),
        "*error_percent*": Tolerance(relative=0.5, absolute=3.0),
    },
)
def pair(progress: Progress, settings: PairCases) -> Any:
    """Pushes at two locations at once: where each is located, on one and two segments of both simulated robots."""
    cases = [
        case
        for name in settings.robots
        for plant in settings.plants
        for case in _on(load_robot(name), name, plant, settings, progress)
    ]
    numbers: dict[str, object] = {"cases": len(_pushes(settings))}
    for name in settings.robots:
        for plant in settings.plants:
            own = [case for case in cases if (case.robot, case.plant) == (name, plant)]
            errors = np.array([case.error for case in own])
            scores = np.abs(errors / np.array([case.deviation for case in own]))
            forces = np.abs(np.array([case.force_error for case in own]))
            located = np.isfinite(errors)
            key = f"{name}_{plant}"
            numbers[f"reported_{key}"] = sum(case.reported > 0 for case in own)
            numbers[f"located_{key}"] = [int(count) for count in located.sum(axis=0)]
            numbers[f"error_percent_of_length_{key}"] = [_median(100 * np.abs(column)) for column in errors.T]
            numbers[f"largest_error_percent_of_length_{key}"] = _largest(100 * np.abs(errors))
            numbers[f"within_two_deviations_{key}"] = int((scores[located] <= _TWO).sum())
            numbers[f"force_error_percent_{key}"] = [_median(100 * column) for column in forces.T]
    return numbers, partial(_draw, cases)


def _median(values: Array) -> float | None:
    known = values[np.isfinite(values)]
    return float(np.median(known)) if known.size else None


def _largest(values: Array) -> float | None:
    known = values[np.isfinite(values)]
    return float(known.max()) if known.size else None


def _on(robot: Robot, name: str, plant: str, settings: PairCases, progress: Progress) -> list[Pushed]:
    touched = TouchedRobot(robot, plant, settings.seed)
    sagging, nothing = touched.at_rest(), np.zeros(robot.coordinate_count)
    bent = nothing.copy()
    bent[0] = _BEND_M
    progress(f"{name}, {plant}: free motion")
    touched.learn([Way([sagging, nothing, 2.5 * bent, nothing], [0.0, 3.0, 6.0, 9.0])])
    motion = Way([sagging, bent, bent], [0.0, 2.5, 5.0])
    found = []
    cases = _pushes(settings)
    for number, (fractions, forces_n) in enumerate(cases, 1):
        progress(f"{name}, {plant}: case {number} of {len(cases)}")
        run = touched.move(motion, contacts=_contacts(fractions, forces_n, robot.length_m))
        pair = run.pairs[len(run.pairs) // 2] if run.pairs else None
        found.append(Pushed(name, plant, fractions, forces_n, robot.length_m, len(run.pairs), pair))
    return found


def _draw(cases: list[Pushed], figure: Figures) -> None:
    names, plants = (list(dict.fromkeys(getattr(case, key) for case in cases)) for key in ("robot", "plant"))
    with figure("Two contacts at once: where they are, and where they were found", len(names), 1, squeeze=False) as (
        drawing,
        axes,
    ):
        for axis, name in zip(axes[:, 0], names, strict=True):
            for number, (plant, colour) in enumerate(zip(plants, COLOURS, strict=False)):
                own = [case for case in cases if (case.robot, case.plant) == (name, plant)]
                places = np.arange(1, len(own) + 1) + 0.25 * number
                for which in range(_TWO):
                    found = [100 * float(case.fractions[which] + case.error[which]) for case in own]
                    spread = [100 * float(case.deviation[which]) for case in own]
                    label = f"{plant}, with its standard deviation" if which == 0 else None
                    axis.errorbar(places, found, spread, fmt="o", markersize=4, capsize=3, color=colour, label=label)
            own = [case for case in cases if (case.robot, case.plant) == (name, plants[0])]
            for which in range(_TWO):
                label = "pushed there" if which == 0 else None
                axis.plot(
                    np.arange(1, len(own) + 1) + 0.125,
                    [100 * case.fractions[which] for case in own],
                    "_",
                    markersize=14,
                    color="black",
                    label=label,
                )
            axis.set_ylim(0, 108)
            axis.set_ylabel("% of the length")
            axis.set_title(name, loc="left")
        axes[-1, 0].set_xlabel("case; a contact without a point was not located")
        legend_below(drawing, axes[0, 0], 3)
