# SPDX-License-Identifier: Apache-2.0
"""Masses, stiffness, damping, friction and stretch of robots that are not as their file says, from chirps.

For each seed the simulated robot gets values of its own: each of the file's times a factor that the fit does not know.
The robot moves in chirps under the shipped driver's cycle, as ``identify`` lets it, with noise on its currents, and the
values are found from what its motors measured. Reported is how far they are from the simulated ones, and for how many
seeds that is within two of their own standard deviations. MuJoCo's robot is made of rigid links and tendons that run
straight between disks, so some of its values mean something else there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from continuum_robot.control.inverse_dynamics import under_inverse_dynamics
from continuum_robot.experiments.experiment import OF_COGGING, Progress, experiment
from continuum_robot.identification.motion.parameters import bends_alone, in_file, is_mechanism
from continuum_robot.robot.description import Robot
from continuum_robot.robot.schema import quantity
from continuum_robot.simulation.plants import MUJOCO, ROD
from continuum_robot.testing.virtual_stack import load_controlled_robot
from validation.control_comparison import ComparisonSettings, follow_circle
from validation.drives.chirped_robot import Case, UnlikeSettings, chirped_robot
from validation.drives.found_values import OF_VALUES, case_numbers, draw_values


@dataclass(frozen=True, kw_only=True)
class IdentificationSettings(UnlikeSettings):
    """Options of the experiment."""

    seeds: int = quantity("robots on the rod of this package", default=10, ge=1, le=1000)
    mujoco_seeds: int = quantity("robots on MuJoCo's, for those that it has", default=3, ge=0, le=1000)
    circle_hz: float = quantity("circles a second with what was found", "Hz", default=3.0, gt=0, le=20)
    circled: int = quantity(
        "robots on the rod that make them; none where a rod does more than bend", default=3, ge=0, le=1000
    )


@experiment(
    "drive.identification",
    "derived here, from muhmann (22) to (25)",
    package="mujoco",
    tolerances={
        **OF_VALUES,
        "circle_*": OF_COGGING,
    },
)
def identification(progress: Progress, settings: IdentificationSettings) -> Any:
    """Masses, stiffness, damping, friction and stretch found from chirps of robots that are not as their file."""
    robot = load_controlled_robot(settings.robot)
    names = in_file(robot).keys
    cases = [
        chirped_robot(robot, plant, seed, settings, progress)
        for plant, count in ((ROD, settings.seeds), (MUJOCO, settings.mujoco_seeds))
        for seed in range(1, count + 1)
    ]
    numbers: dict[str, object] = {"parameters": list(names), "seeds": settings.seeds}
    if not is_mechanism(robot) and bends_alone(robot):
        numbers |= _circles(robot, cases[: min(settings.circled, settings.seeds)], settings, progress)
    for plant in (ROD, MUJOCO):
        numbers |= case_numbers([case for case in cases if case.plant == plant], plant)
    return numbers, partial(draw_values, "Values found from chirps, relative to the simulated ones", cases)


def _circles(
    robot: Robot, cases: Sequence[Case], settings: IdentificationSettings, progress: Progress
) -> dict[str, object]:
    """RMSE of circles under inverse dynamics without observer: by the file, by what was found, by the truth, mm."""
    found: dict[str, list[float]] = {"file": [], "found": [], "truth": []}
    for case in cases:
        simulated = case.simulated(robot)
        known = {"file": robot, "found": case.found(robot), "truth": simulated}
        circle = ComparisonSettings(robot=settings.robot, seed=case.seed)
        for name, believed in known.items():
            progress(f"robot {case.seed}: a circle by the {name}")
            known_to_law = under_inverse_dynamics(believed, observer_rate_per_s=0.0)
            run = follow_circle(simulated, known_to_law, settings.circle_hz, circle)
            found[name].append(1e3 * run.rmse_m)
    return {f"circle_rmse_mm_{name}": values for name, values in found.items()}
