# SPDX-License-Identifier: Apache-2.0
"""A simulated robot with values of its own, and what a fit that knows another finds from its chirps."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ContinuumRobotError
from continuum_robot.experiments.experiment import Progress
from continuum_robot.identification.motion.fit import MotionFit, fit_motion
from continuum_robot.identification.motion.parameters import in_file, is_mechanism
from continuum_robot.identification.procedures.chirps import Chirps, ChirpSettings
from continuum_robot.identification.robot_keys import with_values
from continuum_robot.robot.description import Robot
from continuum_robot.robot.schema import quantity
from continuum_robot.simulation.plants import PLANTS
from continuum_robot.testing.virtual_stack import VirtualStack
from validation.drives.found_values import FoundValues

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class UnlikeSettings:
    """The robot, how the simulated ones differ from what the fit knows, and how they move."""

    robot: str = quantity("robot file or name: a rod with a motor on each tendon", default="opencr_five_tendon")
    spread: float = quantity("largest factor on a value, and one over it the least", default=1.4, ge=1, le=3)
    duration_s: float = quantity("of the chirps", "s", default=60.0, ge=10, le=3600)
    current_noise_a: float = quantity("standard deviation of the measured currents", "A", default=0.02, ge=0, le=1)


@dataclass(frozen=True)
class Case(FoundValues):
    """One robot."""

    fit: MotionFit

    def simulated(self, robot: Robot) -> Robot:
        """The robot with the simulated values."""
        return with_values(robot, dict(zip(self.names, self.truth.tolist(), strict=True)))

    def found(self, robot: Robot) -> Robot:
        """The robot with those values that the chirps show."""
        return with_values(robot, self.fit.found)


def chirped_robot(
    robot: Robot,
    plant: str,
    seed: int,
    settings: UnlikeSettings,
    progress: Progress,
) -> Case:
    """Move a robot that is unlike a file in chirps under the shipped driver, and find its values."""
    parameters, rng = in_file(robot), np.random.default_rng([seed, 7])
    truth = parameters.scale * settings.spread ** rng.uniform(-1, 1, len(parameters))
    simulated = with_values(robot, dict(zip(parameters.keys, truth.tolist(), strict=True)))
    simulated = simulated.changed(
        simulation=dataclasses.replace(simulated.simulation, current_noise_a=settings.current_noise_a)
    )
    progress(f"{plant}, robot {seed}: moving in chirps")
    body = None if is_mechanism(robot) else PLANTS[plant](simulated, rng=rng)
    stack = VirtualStack(simulated, body, believed=robot, seed=seed)
    stack.loop.safety.positions_known = False
    chirps = Chirps(robot, ChirpSettings(duration_s=settings.duration_s))
    with stack:
        stack.drive(chirps)
    if chirps.result is None:
        raise ContinuumRobotError("the chirps left no readings")
    progress(f"{plant}, robot {seed}: fitting")
    fit = fit_motion(robot, chirps.result)
    return Case(
        plant=plant,
        seed=seed,
        names=fit.names,
        before=fit.before,
        truth=truth,
        values=fit.values,
        deviations=fit.deviations,
        shown=fit.shown,
        fit=fit,
    )
