# SPDX-License-Identifier: Apache-2.0
"""A reference that bends the robot further than the bent tube around it allows: comply against ignore.

MuJoCo's chain in the shipped world ``tube``; the contact monitor learned its floor from the same motion without it.
The force is the sum of the true forces on all walls.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuum_robot.control.blending import quintic, quintic_slope
from continuum_robot.control.references import ClarkeReference
from continuum_robot.experiments.experiment import OF_COGGING, Figures, Progress, experiment
from continuum_robot.experiments.plotting import COLOURS, legend_below
from continuum_robot.robot.control_settings import COMPLY, IGNORE, ReactionSettings
from continuum_robot.robot.file.shipped_files import shipped_file
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.schema import quantity
from continuum_robot.simulation.plants import MUJOCO
from validation.contact.touched_robot import Run, TouchedRobot

Array = NDArray[np.float64]

STRATEGIES = (IGNORE, COMPLY)
_ENTRY_S = 1.0


@dataclass(frozen=True, kw_only=True)
class TubeSettings:
    """Options of the experiment."""

    robot: str = quantity("robot file or name, a rod with actuators, limits and control", default="opencr_five_tendon")
    world: str = quantity("file of obstacles; empty: the shipped tube", default="")
    amplitude_m: float = quantity("of the turns, Clarke coordinates", "m", default=0.007, gt=0, le=1)
    period_s: float = quantity("of a turn", "s", default=8.0, gt=0.5, le=1000)
    turns: int = quantity("how many", default=2, ge=1, le=1000)
    seed: int = quantity("of the rotors' angles and the noise", default=1, ge=0, le=2**31)


class Turns:
    """Circles of the Clarke coordinates, entered from the straight robot and left to it."""

    def __init__(self, count: int, settings: TubeSettings) -> None:
        self._count, self._settings = count, settings
        self.duration_s = settings.turns * settings.period_s

    def at(self, time_s: float) -> ClarkeReference:
        """The reference at a time, s."""
        settings = self._settings
        omega = 2 * np.pi / settings.period_s
        x = float(np.clip(min(time_s, self.duration_s - time_s) / _ENTRY_S, 0.0, 1.0))
        size, rate = quintic(x), quintic_slope(x) / _ENTRY_S
        rate *= 1.0 if time_s < self.duration_s / 2 else -1.0
        circle, turning = np.zeros((2, self._count))
        circle[:2] = settings.amplitude_m * np.array([np.cos(omega * time_s), np.sin(omega * time_s)])
        turning[:2] = omega * settings.amplitude_m * np.array([-np.sin(omega * time_s), np.cos(omega * time_s)])
        return ClarkeReference(size * circle, size * turning + rate * circle, np.zeros(self._count))


@experiment(
    "contact.tube",
    "no paper: control/contact_reaction.py in a world of MuJoCo",
    package="mujoco",
    tolerances={"*": OF_COGGING},
)
def tube(progress: Progress, settings: TubeSettings) -> Any:
    """Turns that are larger than the bent tube around the robot: comply against ignore."""
    from continuum_robot.simulation.mujoco.world import load_world  # noqa: PLC0415 - an extra

    robot = load_robot(settings.robot)
    world = load_world(settings.world or shipped_file("worlds/tube.yaml"))
    touched = TouchedRobot(robot, MUJOCO, settings.seed)
    motion = Turns(robot.coordinate_count, settings)
    progress("free motion")
    touched.learn([motion])
    runs: dict[str, Run] = {}
    for strategy in STRATEGIES:
        progress(strategy)
        runs[strategy] = touched.move(motion, ReactionSettings(strategy=strategy), world=world)
    mean = {strategy: float(np.mean(run.force_n)) for strategy, run in runs.items()}
    numbers: dict[str, object] = {
        "peak_force_ratio_comply": runs[COMPLY].peak_n / runs[IGNORE].peak_n,
        "mean_force_ratio_comply": mean[COMPLY] / mean[IGNORE],
    }
    for strategy, run in runs.items():
        numbers |= {
            f"peak_force_n_{strategy}": run.peak_n,
            f"mean_force_n_{strategy}": mean[strategy],
            f"given_up_m_{strategy}": run.given_up_m,
        }
    return numbers, partial(_draw, runs)


def _draw(runs: dict[str, Run], figure: Figures) -> None:
    with figure("In a bent tube", 1, 1) as (drawing, axes):
        for colour, (strategy, run) in zip(COLOURS, runs.items(), strict=False):
            axes.plot(run.time_s[::10], run.force_n[::10], color=colour, label=strategy, linewidth=0.8)
        axes.set(xlabel="time since the first touch in s", ylabel="force on the walls in N")
        legend_below(drawing, axes)
