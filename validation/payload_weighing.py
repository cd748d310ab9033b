# SPDX-License-Identifier: Apache-2.0
"""The mass at the tip from the tensions of slow turns, without and with it: identification/weighing.py.

The rod that is simulated has the order of bending of the model, so that it sags under the payload as the chain of
MuJoCo does; the robot file's constant curvature cannot. The controller knows of no payload, and the motors' cogging and
friction are not compensated.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuum_robot.control.references import ClarkeReference
from continuum_robot.experiments.experiment import Figures, Progress, Tolerance, experiment
from continuum_robot.experiments.plotting import COLOURS, legend_below
from continuum_robot.identification.weighing import BENDING_ORDER, Turn, Weighing, sagging, weigh
from continuum_robot.identification.weighing_motion import PERIOD_S, TURNS, WeighingMotion
from continuum_robot.robot.description import Robot
from continuum_robot.robot.schema import quantity
from continuum_robot.rod.tendons import controlled_manifold
from continuum_robot.simulation.plants import PLANTS
from continuum_robot.testing.virtual_stack import VirtualStack, load_controlled_robot

Array = NDArray[np.float64]

_BEGIN_S = 2.0
_SAMPLE_EVERY = 10  # cycles


@dataclass(frozen=True, kw_only=True)
class WeighingSettings:
    """Options of the experiment."""

    robot: str = quantity("robot file or name, with actuators and control", default="opencr_five_tendon")
    plants: tuple[str, ...] = quantity("what is simulated", default=tuple(PLANTS), choices=tuple(PLANTS))
    payloads_kg: tuple[float, ...] = quantity("one after the other", "kg", default=(0.02,), gt=0, le=10)
    radius_m: float = quantity("of the turns, Clarke coordinates", "m", default=0.006, gt=0, le=1)
    period_s: float = quantity("of a turn", "s", default=PERIOD_S, gt=1, le=1000)
    turns: int = quantity("each way", default=TURNS, ge=1, le=100)
    seed: int = quantity("of the rotors' angles and the noise", default=1, ge=0, le=2**31)


@dataclass(frozen=True)
class Case:
    """A payload on a simulated robot."""

    plant: str
    payload_kg: float
    found: Weighing

    @property
    def error_percent(self) -> float:
        """Of the mass."""
        return 100 * (self.found.payload_kg / self.payload_kg - 1)


@experiment(
    "payload.weighing",
    "derived here: virtual work on the Clarke coordinates",
    package="mujoco",
    # Rounding leads to other places of the cogging: of two turns that moved masses by up to 14 %.
    tolerances={
        "*error_percent*": Tolerance(absolute=10.0),
        "deviation_percent*": Tolerance(absolute=6.0),
        "stiffness_ratio*": Tolerance(relative=0.15),
    },
)
def weighing(progress: Progress, settings: WeighingSettings) -> Any:
    """The mass at the tip from the tensions of slow turns without and with it, on both simulated robots."""
    robot = sagging(load_controlled_robot(settings.robot), BENDING_ORDER)
    cases = []
    for plant in settings.plants:
        progress(f"{plant}: turns without payload")
        empty = _turn(robot, plant, 0.0, settings)
        for payload_kg in settings.payloads_kg:
            progress(f"{plant}: turns with {1e3 * payload_kg:g} g")
            cases.append(Case(plant, payload_kg, weigh(robot, empty, _turn(robot, plant, payload_kg, settings))))
    numbers = {
        "largest_error_percent": max(abs(one.error_percent) for one in cases),
        "payloads_kg": list(settings.payloads_kg),
    }
    for plant in settings.plants:
        own = [one for one in cases if one.plant == plant]
        numbers[f"error_percent_{plant}"] = [one.error_percent for one in own]
        numbers[f"deviation_percent_{plant}"] = [100 * one.found.deviation_kg / one.payload_kg for one in own]
        numbers[f"stiffness_ratio_{plant}"] = own[0].found.stiffness_ratio
    return numbers, partial(_draw, cases)


def _turn(robot: Robot, plant: str, payload_kg: float, settings: WeighingSettings) -> Turn:
    """Turn a robot that carries a payload, under a controller that does not know."""
    body = PLANTS[plant](robot.changed(payload_kg=payload_kg), rng=np.random.default_rng(settings.seed))
    stack = VirtualStack(robot, body, seed=settings.seed)
    manifold = controlled_manifold(robot)
    motion = WeighingMotion(settings.radius_m, robot.coordinate_count, period_s=settings.period_s, turns=settings.turns)
    rows: list[tuple[int, Array, Array]] = []
    cycle = 0

    def to_straight(time_s: float) -> ClarkeReference:
        return ClarkeReference.at_rest(start * max(0.0, 1 - time_s / _BEGIN_S))

    def look(running: VirtualStack) -> None:
        nonlocal cycle
        cycle += 1
        reading = running.loop.reading
        if reading is not None and cycle % _SAMPLE_EVERY == 0:
            rows.append((motion.arc(running.now_s - began_s), reading.displacement_m, reading.tension_n))

    with stack:
        stack.activate()
        start = np.array(manifold.clarke(stack.loop.reading.displacement_m)) if stack.loop.reading else np.zeros(0)
        stack.follow(to_straight, 2 * _BEGIN_S)
        began_s = stack.now_s
        stack.follow(motion.at, motion.duration_s, look)
    return Turn.of_samples(*zip(*rows, strict=True))


def _draw(cases: list[Case], figure: Figures) -> None:
    with figure("Payload at the tip, weighed by slow turns") as (drawing, masses):
        masses.axhspan(-5, 5, color="black", alpha=0.1, label="within 5 %")
        masses.axhline(0, color="black", linewidth=0.8)
        plants = list(dict.fromkeys(one.plant for one in cases))
        apart_g = 10 * max(one.payload_kg for one in cases)
        for number, (plant, colour) in enumerate(zip(plants, COLOURS, strict=False)):
            own = [one for one in cases if one.plant == plant]
            masses.errorbar(
                [1e3 * one.payload_kg + apart_g * (number - (len(plants) - 1) / 2) for one in own],
                [one.error_percent for one in own],
                [100 * one.found.deviation_kg / one.payload_kg for one in own],
                fmt="o",
                capsize=4,
                color=colour,
                label=f"{plant}, with its standard deviation",
            )
        masses.set_xticks([1e3 * mass for mass in dict.fromkeys(one.payload_kg for one in cases)])
        masses.set_xlabel("payload in g")
        masses.set_ylabel("error of the mass in %")
        legend_below(drawing, masses, 2)
