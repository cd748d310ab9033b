# SPDX-License-Identifier: Apache-2.0
"""Compliance of the tip under a weight at several pretensions, against the prediction of rod/design.py.

The robot holds a bent place under the robot file's controller. At each pretension, which is asked for as a reference
and reached at its rate, a weight is hung on the tip and taken off again, several times. The compliance is the way of
the tip in the weight's direction over the weight, from the rests before and after. How far the tip moves while the
pretension alone changes is the shift. The motors' cogging is measured and fed forward first: without that they hunt
between its wells, by more than the weight moves them.

With the tendons of the shipped robot file the stiffness of the tendons does not depend on their tension, and on
parallel tendons neither does that of the rod: what little the pretension does then is shown beside it. Ropes stiffen
with their tension, which ``tendon_stiffening_per_n`` stands for; its value here is assumed.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuum_robot.control.references import ClarkeReference
from continuum_robot.errors import ParameterError
from continuum_robot.experiments.experiment import OF_COGGING, Figures, Progress, Tolerance, experiment
from continuum_robot.experiments.plotting import COLOURS, legend_below
from continuum_robot.robot.description import Robot
from continuum_robot.robot.schema import quantity
from continuum_robot.rod.design import tip_compliance
from continuum_robot.rod.rod import Rod
from continuum_robot.rod.tendons import coefficients_from_clarke
from continuum_robot.simulation.plants import PLANTS, ROD
from continuum_robot.testing.virtual_stack import VirtualStack, load_controlled_robot

Array = NDArray[np.float64]

GRAVITY_M_PER_S2 = 9.80665
MOVE_S, AVERAGE_S = 2.0, 0.2


@dataclass(frozen=True, kw_only=True)
class PretensionSettings:
    """Options of the experiment."""

    robot: str = quantity("robot file or name, with actuators and control", default="opencr_five_tendon")
    plant: str = quantity("what is simulated", default=ROD, choices=tuple(PLANTS))
    pretensions_n: tuple[float, ...] = quantity("one after the other", "N", default=(2.0, 4.0, 6.0, 8.0), gt=0, le=1e4)
    stiffening_per_n: float = quantity("growth of the tendons' stiffness with tension", "1/N", default=0.1, ge=0, le=10)
    mass_kg: float = quantity("of the weight", "kg", default=0.02, gt=0, le=10)
    radius_m: float = quantity("bend of the first segment, Clarke coordinates", "m", default=0.006, ge=0, le=1)
    direction_rad: float = quantity("of the bend", "rad", default=0.35, ge=-7, le=7)
    compensate: bool = quantity("measure the motors' cogging first and feed it forward", default=True)
    rest_s: float = quantity("time to come to rest", "s", default=2.0, gt=0.3, le=100)
    repeats: int = quantity("how often the weight is hung", default=2, ge=1, le=100)
    seed: int = quantity("of the rotors' angles and the noise", default=1, ge=0, le=2**31)


@dataclass(frozen=True)
class Case:
    """A robot at K pretensions."""

    stiffening_per_n: float
    pretension_n: Array
    measured_m_per_n: Array
    predicted_m_per_n: Array
    spread_m_per_n: Array
    shift_m: Array

    @property
    def error(self) -> Array:
        """Of the measured compliance against the prediction, relative, shape (K,)."""
        return np.asarray(self.measured_m_per_n / self.predicted_m_per_n - 1)


@experiment(
    "stiffness.pretension",
    "future work of muhmann, section VI; Oliver-Butler et al., IEEE T-RO 2019",
    # Shifts are some micrometres, of which cogging and stiction make one or two.
    tolerances={"shift_*": Tolerance(relative=0.25, absolute=3e-3), "*": OF_COGGING},
)
def pretension(progress: Progress, settings: PretensionSettings) -> Any:
    """Tip compliance under a weight at several pretensions against the prediction, and the shift by the change."""
    robot = load_controlled_robot(settings.robot)
    stiffenings = (settings.stiffening_per_n, 0.0) if settings.stiffening_per_n else (0.0,)
    cases = [_case(_with(robot, stiffening), stiffening, settings, progress) for stiffening in stiffenings]
    change = [float(one.measured_m_per_n[-1] / one.measured_m_per_n[0]) for one in cases]
    numbers = {
        "largest_error_percent": float(100 * max(np.abs(one.error).max() for one in cases)),
        "largest_shift_mm": float(1e3 * max(one.shift_m.max() for one in cases)),
        "pretension_n": list(settings.pretensions_n),
        "mass_kg": settings.mass_kg,
        "plant": settings.plant,
        "compensated": settings.compensate,
        "stiffening_per_n": list(stiffenings),
        "compliance_last_over_first": change,
    }
    for number, one in enumerate(cases):
        numbers[f"compliance_{number}_m_per_n"] = one.measured_m_per_n.tolist()
        numbers[f"predicted_{number}_m_per_n"] = one.predicted_m_per_n.tolist()
        numbers[f"spread_{number}_m_per_n"] = one.spread_m_per_n.tolist()
        numbers[f"shift_{number}_mm"] = (1e3 * one.shift_m).tolist()
    return numbers, partial(_draw, cases)


def _with(robot: Robot, stiffening_per_n: float) -> Robot:
    simulation = dataclasses.replace(robot.simulation, tendon_stiffening_per_n=stiffening_per_n)
    return dataclasses.replace(robot, simulation=simulation)


def _case(robot: Robot, stiffening_per_n: float, settings: PretensionSettings, progress: Progress) -> Case:
    if robot.control is None:
        raise ParameterError("robot", robot.name, "a robot file with a control section")
    control = dataclasses.replace(robot.control, pretension_n=settings.pretensions_n[0])
    robot = dataclasses.replace(robot, control=control)
    plant = PLANTS[settings.plant](robot, rng=np.random.default_rng(settings.seed))
    stack = VirtualStack(robot, plant, seed=settings.seed)
    if settings.compensate:
        stack.calibrate_cogging(lambda text: progress(f"stiffening {stiffening_per_n:g} 1/N: {text}"))
    stack.activate()
    rod = Rod(robot)
    start = np.array(stack.controller.clarke)
    goal = np.zeros(robot.coordinate_count)
    goal[:2] = settings.radius_m * np.array([math.cos(settings.direction_rad), math.sin(settings.direction_rad)])
    weight_n = settings.mass_kg * GRAVITY_M_PER_S2
    down = np.array(robot.gravity_m_per_s2)
    down = down / np.linalg.norm(down) if down.any() else np.array([1.0, 0.0, 0.0])
    zero = np.zeros_like(goal)
    bent = coefficients_from_clarke(robot) @ goal

    def way(time_s: float) -> ClarkeReference:
        fraction = min(1.0, time_s / MOVE_S)
        fraction = fraction**3 * (10 - 15 * fraction + 6 * fraction**2)
        return ClarkeReference(start + fraction * (goal - start), zero, zero)

    def hold(_time_s: float) -> ClarkeReference:
        return ClarkeReference(goal, zero, zero)

    def rested(duration_s: float) -> tuple[Array, Array]:
        """Mean tip and measured tensions over the end of a rest."""
        rows: list[tuple[Array, Array]] = []
        stack.follow(hold, duration_s - AVERAGE_S)
        stack.follow(hold, AVERAGE_S, lambda one: rows.append((plant.c, one.measured_tension)))
        c, tension = (np.mean(column, axis=0) for column in zip(*rows, strict=True))
        return rod.moved(c)[0][:3, 3], tension

    stack.follow(way, MOVE_S)
    measured, predicted, spread, shift = [], [], [], []
    before = None
    for pretension_n in settings.pretensions_n:
        progress(f"stiffening {stiffening_per_n:g} 1/N, pretension {pretension_n:g} N")
        stack.controller.ask_pretension(pretension_n)
        change_s = abs(pretension_n - stack.controller.pretension) / control.pretension_rate_n_per_s
        tip, tension = rested(change_s + settings.rest_s)
        shift.append(0.0 if before is None else float(np.linalg.norm(tip - before)))
        predicted.append(float(down @ tip_compliance(robot, bent, tension) @ down))
        found = []
        for _ in range(settings.repeats):
            plant.push(robot.length_m, weight_n * down)
            loaded = rested(settings.rest_s)[0]
            plant.release()
            after = rested(settings.rest_s)[0]
            found.append(float(down @ (loaded - (tip + after) / 2)) / weight_n)
            tip = after
        measured.append(float(np.mean(found)))
        spread.append((max(found) - min(found)) / 2)
        before = tip
    stack.close()
    columns = (np.array(values) for values in (settings.pretensions_n, measured, predicted, spread, shift))
    return Case(stiffening_per_n, *columns)


def _draw(cases: list[Case], figure: Figures) -> None:
    with figure("Compliance of the tip under a weight, and its shift by the pretension", 2, 1, sharex=True) as (
        drawing,
        (compliance, shift),
    ):
        for one, colour in zip(cases, COLOURS, strict=False):
            name = f"stiffening {one.stiffening_per_n:g} 1/N"
            compliance.errorbar(
                one.pretension_n,
                1e3 * one.measured_m_per_n,
                1e3 * one.spread_m_per_n,
                fmt="o",
                color=colour,
                label=f"measured, {name}",
            )
            compliance.plot(one.pretension_n, 1e3 * one.predicted_m_per_n, color=colour, label=f"predicted, {name}")
            shift.plot(one.pretension_n[1:], 1e3 * one.shift_m[1:], "o-", color=colour)
        compliance.set_ylabel("compliance in mm/N")
        compliance.set_ylim(bottom=0)
        shift.axhline(0.2, color="black", linestyle="--", linewidth=0.8)
        shift.set_ylabel("shift of the tip in mm")
        shift.set_xlabel("pretension in N")
        legend_below(drawing, compliance, 2)
