# SPDX-License-Identifier: Apache-2.0
"""Stiffness, friction, masses, inertia and damping of robots with capstans, from johnston's chirp.

For each seed the simulated robot gets values of its own: each of the file's times a factor that the fit does not know.
Its capstans follow the chirp of johnston (71), with his noise on strings and tendons, and the values are found from
torques, tendons and strings, as ``identify`` does. Reported is how far they are from the simulated ones, and for how
many seeds that is within two of their own standard deviations. johnston (72) takes masses, inertia and damping as
known, and there are no recordings of his robot.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.experiments.experiment import Progress, experiment
from continuum_robot.identification.dynamics_fit import dynamics_in_file, fit_dynamics
from continuum_robot.identification.recorded_motion import RecordedMotion
from continuum_robot.identification.robot_keys import DAMPING, MASS, with_factor
from continuum_robot.robot.description import Robot
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.schema import quantity
from continuum_robot.rod.friction.capstans import driven_segments
from continuum_robot.simulation.benches import simulate_calibration
from continuum_robot.simulation.plants import ROD
from validation.drives.found_values import OF_VALUES, FoundValues, case_numbers, draw_values

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class CapstanSettings:
    """Options of the experiment."""

    robot: str = quantity("robot file or name: capstans on every segment, and strings", default="vanderbilt_segment")
    spread: float = quantity("largest factor on a value, and one over it the least", default=1.4, ge=1, le=3)
    seeds: int = quantity("robots", default=10, ge=1, le=1000)


def _unlike(robot: Robot, factors: Array) -> Robot:
    """The robot with its values of :func:`dynamics_in_file` times factors, (7 S,)."""
    count, segments = len(robot.segments), list(robot.segments)
    values = dynamics_in_file(robot) * factors
    stiffness, friction = values[: 4 * count].reshape(2, count, 2).tolist()
    masses, inertia, damping = factors[4 * count :].reshape(3, count).tolist()
    for index, segment in enumerate(segments):
        backbone = dataclasses.replace(
            segment.backbone, bending_stiffness_x_nm2=stiffness[index][0], bending_stiffness_y_nm2=stiffness[index][1]
        )
        if (capstans := segment.capstans) is not None:
            capstans = dataclasses.replace(
                capstans,
                friction_coefficients=tuple(friction[index]),
                inertia_kg_m2=inertia[index] * capstans.inertia_kg_m2,
            )
        segments[index] = dataclasses.replace(segment, backbone=backbone, capstans=capstans)
    robot = robot.changed(segments=tuple(segments))
    for index, (mass, damped) in enumerate(zip(masses, damping, strict=True)):
        robot = with_factor(with_factor(robot, MASS, index, mass), DAMPING, index, damped)
    return robot


def _found(robot: Robot, seed: int, settings: CapstanSettings, progress: Progress) -> FoundValues:
    """One robot along the chirp, and what was found."""
    rng = np.random.default_rng([seed, 7])
    before = dynamics_in_file(robot)
    factors = settings.spread ** rng.uniform(-1, 1, len(before))
    progress(f"robot {seed}: the chirp")
    run = simulate_calibration(_unlike(robot, factors), rng)
    recording = RecordedMotion(run.time_s, run.tendon_displacement_m, run.capstan_torque_nm, run.string_extension_m)
    fit = fit_dynamics(robot, recording, lambda text: progress(f"robot {seed}: {text}"))
    return FoundValues(ROD, seed, fit.names, before, factors * before, fit.values, fit.deviations, fit.shown)


@experiment(
    "drive.capstans",
    "johnston (71), (72); masses, inertia and damping derived here",
    tolerances=OF_VALUES,
)
def capstans(progress: Progress, settings: CapstanSettings) -> Any:
    """Stiffness, friction, masses, inertia and damping of robots with capstans, found from johnston's chirp."""
    robot = load_robot(settings.robot)
    if not (found := driven_segments(robot)) or len(found) < len(robot.segments):
        raise ParameterError("robot", robot.name, "a robot with capstans on every segment")
    cases = [_found(robot, seed, settings, progress) for seed in range(1, settings.seeds + 1)]
    numbers = {"parameters": list(cases[0].names), "seeds": settings.seeds} | case_numbers(cases, ROD)
    return numbers, partial(draw_values, "Values of robots with capstans, relative to the simulated ones", cases)
