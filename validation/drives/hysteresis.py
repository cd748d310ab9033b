# SPDX-License-Identifier: Apache-2.0
"""Dry friction that builds up over a travel, and a backbone that lags: found from chirps, fed forward, and felt.

Every value of the simulated robots is unlike the file's by a factor that the fit does not know, those of the past of
the motion too. Compared are a robot file that knows no such past (its dry friction builds up at once, its backbone is
elastic; all other values are the simulated ones), the file as it was found, and the simulated values. The robots follow
circles under inverse dynamics, and move freely while the contact monitor feels for contacts. The motors' cogging is a
part of the file's, as there is a table for it (``drive.cogging``).
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuum_robot.control.inverse_dynamics import under_inverse_dynamics
from continuum_robot.experiments.experiment import OF_COGGING, Figures, Progress, Tolerance, experiment
from continuum_robot.experiments.plotting import COLOURS, legend_below
from continuum_robot.identification.motion.parameters import in_file
from continuum_robot.identification.procedures.procedure import driven_parts
from continuum_robot.robot.control_settings import InverseDynamicsSettings
from continuum_robot.robot.description import Robot
from continuum_robot.robot.schema import quantity
from continuum_robot.robot.segments.backbone import Hysteresis
from continuum_robot.rod.tendons import coefficients_from_clarke
from continuum_robot.simulation.plants import MUJOCO, ROD
from continuum_robot.testing.virtual_stack import load_controlled_robot
from validation.contact.kinds import Way
from validation.contact.touched_robot import SETTLE_S, TouchedRobot
from validation.control_comparison import ComparisonSettings, follow_circle
from validation.drives.chirped_robot import Case, UnlikeSettings, chirped_robot
from validation.drives.found_values import OF_VALUES, case_numbers, draw_values

Array = NDArray[np.float64]

KNOWN = ("elastic", "found", "truth")
OBSERVERS = {"": 0.0, "_observer": InverseDynamicsSettings().observer_rate_per_s}


@dataclass(frozen=True, kw_only=True)
class HysteresisSettings(UnlikeSettings):
    """Options of the experiment."""

    seeds: int = quantity("robots on the rod of this package", default=5, ge=1, le=1000)
    mujoco_seeds: int = quantity("robots on MuJoCo's", default=2, ge=0, le=1000)
    friction: float = quantity("dry friction, times that of the file", default=3.0, gt=0, le=100)
    cogging: float = quantity("cogging, times that of the file", default=0.1, ge=0, le=100)
    travel_m: float = quantity("over which the dry friction builds up", "m", default=2e-4, gt=0, le=0.1)
    moment_nm: float = quantity("that the backbones resist with", "N.m", default=2e-3, gt=0, le=100)
    curvature_per_m: float = quantity("over which that builds up", "1/m", default=1.0, gt=0, le=100)
    circle_hz: float = quantity("circles a second", "Hz", default=1.0, gt=0, le=20)
    amplitude_m: float = quantity("of the free motion, Clarke coordinates", "m", default=0.006, gt=0, le=1)
    stroke_s: float = quantity("of each of its strokes", "s", default=3.0, gt=0.1, le=100)


@dataclass(frozen=True)
class Felt:
    """What the contact monitor made of a free motion; U updates."""

    clarke_m: Array
    residual_n: Array
    rms_n: float
    least_tip_n: float
    alarms: float


@dataclass(frozen=True)
class Robots:
    """A case, and what it is worth by what is known."""

    case: Case
    rmse_mm: dict[str, float]
    felt: dict[str, Felt]


def _with_past(robot: Robot, settings: HysteresisSettings) -> Robot:
    actuators, _ = driven_parts(robot)
    actuators = dataclasses.replace(
        actuators,
        coulomb_friction_nm=settings.friction * actuators.coulomb_friction_nm,
        cogging_amplitude_nm=settings.cogging * actuators.cogging_amplitude_nm,
        friction_travel_m=settings.travel_m,
    )
    own = Hysteresis(moment_nm=settings.moment_nm, curvature_per_m=settings.curvature_per_m)
    segments = tuple(dataclasses.replace(segment, hysteresis=own) for segment in robot.segments)
    return robot.changed(actuators=actuators, segments=segments)


def _without_past(robot: Robot) -> Robot:
    actuators, _ = driven_parts(robot)
    segments = tuple(dataclasses.replace(segment, hysteresis=None) for segment in robot.segments)
    return robot.changed(actuators=dataclasses.replace(actuators, friction_travel_m=0.0), segments=segments)


@experiment(
    "drive.hysteresis",
    "no paper: what johnston names as future work; Maxwell slip",
    package="mujoco",
    tolerances={
        **OF_VALUES,
        "alarms*": Tolerance(absolute=2.0),
        "free_residual*": Tolerance(relative=0.3, absolute=0.02),
        "residual_ratio*": Tolerance(absolute=0.05),
        "least_tip*": Tolerance(relative=0.1, absolute=0.01),
        "*": OF_COGGING,
    },
)
def hysteresis(progress: Progress, settings: HysteresisSettings) -> Any:
    """Friction that builds up over a travel, backbones that lag: found, fed forward and felt, on both plants."""
    robot = _with_past(load_controlled_robot(settings.robot), settings)
    numbers: dict[str, object] = {"parameters": list(in_file(robot).keys)}
    robots: list[Robots] = []
    for plant, count in ((ROD, settings.seeds), (MUJOCO, settings.mujoco_seeds)):
        own = [_worth(robot, plant, seed, settings, progress) for seed in range(1, count + 1)]
        robots += own
        numbers |= case_numbers([one.case for one in own], plant) | _numbers(own, plant)
    return numbers, partial(_draw, robots)


def _numbers(robots: list[Robots], plant: str) -> dict[str, object]:
    if not robots:
        return {}
    numbers: dict[str, object] = {}
    for known in KNOWN:
        for observer in OBSERVERS:
            numbers[f"circle_rmse_mm_{known}{observer}_{plant}"] = [one.rmse_mm[known + observer] for one in robots]
        felt = [one.felt[known] for one in robots]
        numbers[f"free_residual_n_{known}_{plant}"] = [one.rms_n for one in felt]
        numbers[f"least_tip_force_n_{known}_{plant}"] = [one.least_tip_n for one in felt]
        numbers[f"alarms_percent_{known}_{plant}"] = [100 * one.alarms for one in felt]
    for name, of in (
        ("rmse_ratio", lambda one, known: one.rmse_mm[known]),
        ("residual_ratio", lambda one, known: one.felt[known].rms_n),
        ("least_tip_force_ratio", lambda one, known: one.felt[known].least_tip_n),
    ):
        numbers[f"{name}_{plant}"] = float(np.mean([of(one, "found") / of(one, "elastic") for one in robots]))
    return numbers


def _worth(robot: Robot, plant: str, seed: int, settings: HysteresisSettings, progress: Progress) -> Robots:
    case = chirped_robot(robot, plant, seed, settings, progress)
    simulated = case.simulated(robot)
    known = {"elastic": _without_past(simulated), "found": case.found(robot), "truth": simulated}
    circle = ComparisonSettings(robot=settings.robot, plant=plant, seed=seed)
    rmse_mm, felt = {}, {}
    for name, believed in known.items():
        progress(f"{plant}, robot {seed}: circles and free motion, {name}")
        for observer, rate_per_s in OBSERVERS.items():
            known_to_law = under_inverse_dynamics(believed, observer_rate_per_s=rate_per_s)
            run = follow_circle(simulated, known_to_law, settings.circle_hz, circle)
            rmse_mm[name + observer] = 1e3 * run.rmse_m
        felt[name] = _feel(simulated, believed, plant, seed, settings)
    return Robots(case, rmse_mm, felt)


def _feel(simulated: Robot, believed: Robot, plant: str, seed: int, settings: HysteresisSettings) -> Felt:
    resting = np.zeros(believed.coordinate_count)
    corners = [resting]
    for coordinate in (0, 1, 0):
        out = resting.copy()
        out[coordinate] = settings.amplitude_m
        corners += [out, resting]
    times_s = settings.stroke_s * np.arange(len(corners))
    touched = TouchedRobot(believed, plant, seed, simulated)
    motion = Way(corners, [float(one) for one in times_s])
    run = touched.move(motion)
    estimates = [one.estimate for one in run.felt]
    residual_n = np.array([one.residual for one in estimates]) @ coefficients_from_clarke(believed)
    return Felt(
        np.array([motion.at(time_s - SETTLE_S).position[0] for time_s in run.felt_s]),
        residual_n[:, 0],
        float(np.sqrt(np.nanmean(residual_n**2))),
        touched.monitor.least_tip_force_n(estimates[-1]),
        float(np.mean([one.in_contact for one in estimates])),
    )


def _draw(robots: list[Robots], figure: Figures) -> None:
    title = "Values found from chirps of robots with a past, relative to the simulated ones"
    draw_values(title, [one.case for one in robots], figure, "drive_hysteresis_values")
    plants = list(dict.fromkeys(one.case.plant for one in robots))
    with figure("What free motion feels like, by what is known", 1, len(plants), squeeze=False, sharey=True) as (
        drawing,
        axes,
    ):
        for axis, plant in zip(axes[0], plants, strict=True):
            first = next(one for one in robots if one.case.plant == plant)
            for known, colour in zip(KNOWN[:2], COLOURS, strict=False):
                felt = first.felt[known]
                axis.plot(1e3 * felt.clarke_m, felt.residual_n, color=colour, linewidth=0.8, label=_LABELS[known])
            axis.set(title=plant, xlabel="first Clarke coordinate in mm")
        axes[0][0].set_ylabel("residual on it in N")
        legend_below(drawing, axes[0][0])


_LABELS = {"elastic": "without the past of the motion", "found": "with it, as found from chirps"}
