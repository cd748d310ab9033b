# SPDX-License-Identifier: Apache-2.0
"""Contacts of every kind, and what estimation/contact/kind.py takes them for.

The segment of johnston is touched by a hand, driven onto a wall with its tip and with its body, led along a wall,
driven in a cage that holds its whole length, and pushed at two points in two directions. What it feels comes from the
shape estimator and the contact monitor, which learned its floor from the same motions without contacts.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuum_robot.control.references import ClarkeReference, Reference, RestToRest
from continuum_robot.estimation.contact.kind import (
    ACCIDENTAL,
    BODY_BLOCKED,
    KINDS,
    NO_CONTACT,
    SEGMENT_BLOCKED,
    SEVERAL,
    SLIDING,
    SUSTAINED,
    TIP_BLOCKED,
    in_words,
    kind_of,
)
from continuum_robot.experiments.experiment import Figures, Progress, Tolerance, experiment
from continuum_robot.models.making import robot_model
from continuum_robot.robot.description import Robot
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.schema import quantity
from continuum_robot.simulation.contact import Contact
from continuum_robot.simulation.plants import PLANTS
from validation.contact.touched_robot import SETTLE_S, TouchedRobot, wall_at

Array = NDArray[np.float64]

_TRUE = (ACCIDENTAL, SUSTAINED, SLIDING, TIP_BLOCKED, BODY_BLOCKED, SEGMENT_BLOCKED, SEVERAL, NO_CONTACT)
_REST_M = 0.01
_PUSHED_AT_S = 4.5  # of the simulation, when the robot has come to rest
_CAGE_PLACES = (0.4, 0.6, 0.8, 1.0)
_CAGE_CLEARANCE_M = 1e-3


@dataclass(frozen=True, kw_only=True)
class KindCases:
    """Options of the experiment."""

    robot: str = quantity("robot file or name, a rod with actuators, limits and control", default="vanderbilt_segment")
    plants: tuple[str, ...] = quantity("what is simulated", default=tuple(PLANTS), choices=tuple(PLANTS))
    amplitude_m: float = quantity("how far the robot is to bend, Clarke coordinates", "m", default=0.05, gt=0, le=1)
    touch: float = quantity("fraction of that at which a wall touches", default=0.3, gt=0, lt=1)
    speeds_m_per_s: tuple[float, ...] = quantity(
        "of the motions, Clarke coordinates", "m/s", default=(0.01, 0.02), gt=0, le=10
    )
    stiffness_n_per_m: float = quantity("of walls", "N/m", default=20000.0, gt=0, le=1e5)
    pushes_n: tuple[float, ...] = quantity("of a hand", "N", default=(4.0, 7.0), gt=0, le=1000)
    seed: int = quantity("of the rotors' angles and the noise", default=1, ge=0, le=2**31)


class Way(Reference):
    """From position to position of the Clarke coordinates, from rest to rest."""

    def __init__(self, positions_m: Sequence[Array], times_s: Sequence[float]) -> None:
        self._times_s = times_s
        self._moves = [
            RestToRest(start, end, after - before)
            for (start, end), (before, after) in zip(pairwise(positions_m), pairwise(times_s), strict=True)
        ]

    @property
    def duration_s(self) -> float:
        """Time of all of it, s."""
        return self._times_s[-1]

    def at(self, t_s: float) -> ClarkeReference:
        """The reference at a time, s; it rests before the first and after the last position."""
        k = min(max(bisect_right(self._times_s, t_s) - 1, 0), len(self._moves) - 1)
        return self._moves[k].at(t_s - self._times_s[k])


@dataclass(frozen=True)
class Case:
    """A motion with what touches meanwhile."""

    kind: str
    motion: Reference
    contacts: tuple[Contact, ...]


def cases(robot: Robot, settings: KindCases) -> Iterator[Case]:
    """All of them, those without a contact last."""
    count, length_m = robot.coordinate_count, robot.length_m
    x, y = settings.amplitude_m * np.eye(count)[:2]
    nothing, touch, beyond = np.zeros(count), settings.touch * x, (settings.touch + 0.01) * x

    def wall(fraction: float) -> tuple[Contact, ...]:
        return (wall_at(robot, fraction * length_m, touch, beyond, settings.stiffness_n_per_m),)

    there = _REST_M / settings.amplitude_m * x
    rest = Way([nothing, there, there], [0.0, 2.0, 5.0])
    for push_n in settings.pushes_n:
        yield Case(ACCIDENTAL, rest, (_push("tap", 1.0, (push_n, 0, 0), length_m, 0.15),))
        yield Case(SUSTAINED, rest, (_push("hand", 0.8, (0, push_n, 0), length_m, 2.0),))
        two = (
            _push("tip", 1.0, (0, push_n, 0), length_m, 2.0),
            _push("body", 0.4, (-2 * push_n, 0, 0), length_m, 2.0),
        )
        yield Case(SEVERAL, rest, two)
    for speed in settings.speeds_m_per_s:
        bend = RestToRest(nothing, x, 1.875 * settings.amplitude_m / speed)
        yield Case(TIP_BLOCKED, bend, wall(1.0))
        yield Case(BODY_BLOCKED, bend, wall(0.55))
        yield Case(SEGMENT_BLOCKED, _from_cage(touch, x, settings.amplitude_m / speed), _cage(robot, touch, settings))
        yield Case(SLIDING, _along_wall(touch, y, settings.amplitude_m / speed), wall(1.0))
        yield Case(NO_CONTACT, bend, ())
        yield Case(NO_CONTACT, _along_wall(touch, y, settings.amplitude_m / speed), ())


def _along_wall(touch: Array, across: Array, pace_s: float) -> Way:
    """A little into the wall, and along it to and fro."""
    pressed = 1.2 * touch
    return Way(
        [np.zeros_like(touch), pressed, pressed + 0.4 * across, pressed - 0.4 * across],
        [0.0, pace_s, 2 * pace_s, 4 * pace_s],
    )


def _from_cage(at: Array, to: Array, pace_s: float) -> Way:
    """Rest in the cage, and try to leave it."""
    return Way([at, at, 0.8 * to], [0.0, 1.0, 1.0 + pace_s])


def _push(name: str, fraction: float, force_n: tuple[float, float, float], length_m: float, lasts_s: float) -> Contact:
    return Contact(
        name=name,
        kind="push",
        arc_length_m=fraction * length_m,
        force_n=force_n,
        start_s=_PUSHED_AT_S + SETTLE_S,
        end_s=_PUSHED_AT_S + SETTLE_S + lasts_s,
        ramp_s=0.05,
    )


def _cage(robot: Robot, at: Array, settings: KindCases) -> tuple[Contact, ...]:
    """Walls on four sides of four points, where the model has them."""
    drawing = robot_model(robot).drawing()
    walls: list[Contact] = []
    coefficients = drawing.coefficients(at)
    for fraction in _CAGE_PLACES:
        pose = np.asarray(drawing.pose(coefficients, fraction * robot.length_m))
        for side in (pose[:3, 0], -pose[:3, 0], pose[:3, 1], -pose[:3, 1]):
            point = pose[:3, 3] - _CAGE_CLEARANCE_M * side
            walls.append(
                Contact(
                    name=f"wall_{len(walls)}",
                    kind="wall",
                    arc_length_m=fraction * robot.length_m,
                    point_m=(float(point[0]), float(point[1]), float(point[2])),
                    normal=(float(side[0]), float(side[1]), float(side[2])),
                    stiffness_n_per_m=settings.stiffness_n_per_m,
                )
            )
    return tuple(walls)


@experiment(
    "contact.kinds",
    "no paper: estimation/contact/kind.py",
    package="mujoco",
    tolerances={"right_*": Tolerance(absolute=1.0)},
)
def kinds(progress: Progress, settings: KindCases) -> Any:
    """Pushes, walls, a cage: what kind of contact each is taken for, on both simulated robots."""
    robot = load_robot(settings.robot)
    every = list(cases(robot, settings))
    numbers: dict[str, object] = {"cases": len(every)}
    by_plant: dict[str, list[str]] = {}
    for plant in settings.plants:
        touched = TouchedRobot(robot, plant, settings.seed)
        progress(f"{plant}: free motion")
        touched.learn([case.motion for case in every if case.kind == NO_CONTACT])
        by_plant[plant] = []
        for index, case in enumerate(every):
            progress(f"{plant}: case {index + 1} of {len(every)}, {case.kind or 'no contact'}")
            by_plant[plant].append(kind_of(touched.move(case.motion, contacts=case.contacts).kinds))
        right = [found == case.kind for found, case in zip(by_plant[plant], every, strict=True)]
        numbers[f"right_{plant}"] = int(np.sum(right))
        for kind in _TRUE:
            own = [found for found, case in zip(by_plant[plant], every, strict=True) if case.kind == kind]
            numbers[f"told_{kind or 'no_contact'}_{plant}"] = [found or "no_contact" for found in own]
    return numbers, partial(_draw, every, by_plant)


def _draw(every: Any, by_plant: Any, figure: Figures) -> None:
    columns = [*KINDS, NO_CONTACT]
    with figure("Contacts of every kind, and what they were taken for", 1, len(by_plant), squeeze=False) as (
        _,
        axes,
    ):
        for axis, (plant, found) in zip(axes[0], by_plant.items(), strict=True):
            counts = np.zeros((len(_TRUE), len(columns)))
            for case, name in zip(every, found, strict=True):
                counts[_TRUE.index(case.kind), columns.index(name)] += 1
            axis.imshow(counts, cmap="Blues", vmin=0, vmax=2 * max(1.0, float(counts.max())))
            axis.grid(visible=False)
            for (row, column), count in np.ndenumerate(counts):
                if count:
                    axis.text(column, row, f"{count:.0f}", ha="center", va="center", color="black")
            axis.set_xticks(range(len(columns)), [in_words(kind) for kind in columns], rotation=60, ha="right")
            axis.set_yticks(range(len(_TRUE)), [in_words(kind) for kind in _TRUE])
            axis.set(title=plant, xlabel="reported")
        axes[0][0].set_ylabel("true")
