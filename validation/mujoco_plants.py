# SPDX-License-Identifier: Apache-2.0
"""The shipped stack with the gains of the robot's file on both plants: tracking, and the tip brought to targets.

Nothing is set on MuJoCo's chain: gains, feed-forward, shape estimator and tip control come from the robot file and our
rod model, and driver, limits, motors and sensors are those of the virtual stack. Tip targets are places that our
rod model gives for Clarke coordinates drawn by the seed; how far the true tip is from them, and the estimated one, is
taken over the last second of each.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuum_robot.control.references import ClarkeReference, make_reference
from continuum_robot.control.tip.control import TipControl
from continuum_robot.errors import ParameterError
from continuum_robot.estimation.sensor_watch import STACK_WATCH
from continuum_robot.experiments.experiment import OF_COGGING, Figures, Progress, Tolerance, experiment
from continuum_robot.experiments.plotting import COLOURS, REFERENCE, legend_below
from continuum_robot.models.making import robot_model
from continuum_robot.robot.description import Robot
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.schema import quantity
from continuum_robot.simulation.plant import Plant
from continuum_robot.simulation.plants import PLANTS
from continuum_robot.testing.virtual_stack import SlowReference, VirtualStack

Vector = NDArray[np.float64]

_TIP_S = 0.01  # between two steps of the tip control
_BLEND_S = 1.0  # in which the robot comes from rest to the reference; left out of the errors
_JUDGED_S = 1.0
_AMPLITUDE = 0.7  # of the robot's own reference, for targets of the tip


@dataclass(frozen=True, kw_only=True)
class PlantsSettings:
    """Options of the experiment."""

    robot: str = quantity("robot file or name, a rod with control and reference", default="opencr_five_tendon")
    duration_s: float = quantity("of the tracked reference", "s", default=12.0, gt=1.5, le=1000)
    targets: int = quantity("places that the tip is brought to", default=4, ge=1, le=100)
    target_s: float = quantity("time for each", "s", default=4.0, gt=1.5, le=100)
    seed: int = quantity("of targets, noise and rotors", default=1, ge=0, le=2**31)


@dataclass(frozen=True)
class Run:
    """One plant's run."""

    time_s: Vector
    clarke_m: Vector
    reference_m: Vector
    tip_error_m: Vector
    estimated_error_m: Vector

    @property
    def rmse_m(self) -> Vector:
        """Root mean square tracking error of each coordinate after the start, (2m,)."""
        kept = self.time_s > _BLEND_S
        return np.asarray(np.sqrt(np.mean((self.clarke_m - self.reference_m)[kept] ** 2, axis=0)))


def _tracked_and_approached(robot: Robot, plant: Plant, settings: PlantsSettings, say: Progress) -> Run:
    """The robot's own reference tracked, then the tip brought to targets, under the whole stack."""
    if robot.reference is None:
        raise ParameterError("robot", settings.robot, "a robot whose file has a reference")
    folder = Path(robot.file_name).parent if robot.file_name else None
    given = make_reference(robot.reference, robot.coordinate_count, folder)

    def desired(time_s: float) -> ClarkeReference:
        now, fraction = given.at(time_s), min(1.0, time_s / _BLEND_S)
        return ClarkeReference(fraction * now.position, fraction * now.velocity, fraction * now.acceleration)

    rows: list[tuple[float, Vector, Vector]] = []
    distances: list[Vector] = []
    estimator, control = robot_model(robot).shape_estimator(STACK_WATCH), TipControl(robot)
    rng = np.random.default_rng([settings.seed, 2])
    size = _AMPLITUDE * float(np.abs(robot.reference.amplitude_m).max())
    with VirtualStack(robot, plant, seed=settings.seed, estimator=estimator) as stack:
        stack.activate()
        begun_s = stack.now_s

        def see(stack: VirtualStack) -> None:
            time_s, now = stack.now_s - begun_s, stack.desired
            if now is not None:
                rows.append((time_s, stack.state.clarke_m, now.position))

        say("tracking")
        stack.follow(desired, settings.duration_s, see)
        control.reset(stack.state.clarke_m)
        for index in range(settings.targets):
            say(f"target {index + 1} of {settings.targets}")
            target = np.array(control.kinematics.place(rng.uniform(-size, size, robot.coordinate_count))[0])
            control.set_target(target)
            judged_from_s = stack.now_s + settings.target_s - _JUDGED_S
            seen: list[tuple[float, float]] = []

            def lead(_time_s: float) -> ClarkeReference:
                return control.update(stack.shape.tip[:3, 3], stack.state.clarke_m, _TIP_S).reference

            def judge(
                stack: VirtualStack, target: Vector = target, seen: list[Any] = seen, from_s: float = judged_from_s
            ) -> None:
                if stack.now_s > from_s:
                    tips = plant.pose(robot.length_m)[:3, 3], stack.shape.tip[:3, 3]
                    seen.append([np.linalg.norm(tip - target) for tip in tips])

            stack.follow(SlowReference(lead, _TIP_S, lead(0.0)).at, settings.target_s, judge)
            distances.append(np.mean(seen, axis=0))
    return Run(*(np.array(column) for column in zip(*rows, strict=True)), *np.transpose(distances))


@experiment(
    "mujoco.plants",
    "no paper: the same controller and estimator on two plants",
    package="mujoco",
    # The resting place beside the target depends on stiction: a minimal change of the start moves the mean by a third.
    tolerances={"*_tip_error_*": Tolerance(relative=0.5, absolute=1e-3), "*": OF_COGGING},
)
def plants(progress: Progress, settings: PlantsSettings) -> Any:
    """Tracks a reference and brings the tip to targets on our rod and on MuJoCo's chain, a column each."""
    robot, numbers, runs = load_robot(settings.robot), dict[str, object](), dict[str, Run]()
    for name, make in PLANTS.items():
        plant = make(robot, rng=np.random.default_rng([settings.seed, 3]), progress=progress)
        runs[name] = run = _tracked_and_approached(
            robot,
            plant,
            settings,
            lambda text, name=name: progress(f"{name}: {text}"),  # type: ignore[misc]
        )
        numbers |= {
            f"{name}_tracking_rmse_m": run.rmse_m.tolist(),
            f"{name}_tip_error_mean_mm": 1e3 * float(run.tip_error_m.mean()),
            f"{name}_tip_error_largest_mm": 1e3 * float(run.tip_error_m.max()),
            f"{name}_estimated_tip_error_mean_mm": 1e3 * float(run.estimated_error_m.mean()),
        }
    return numbers, partial(_draw, runs)


def _draw(runs: dict[str, Run], figure: Figures) -> None:
    with figure("The shipped controller on both plants", 2, 1) as (drawing, axes):
        for colour, (name, run) in zip(COLOURS, runs.items(), strict=False):
            error = run.clarke_m - run.reference_m
            axes[0].plot(run.time_s, error[:, 0], color=colour, label=name, linewidth=0.7)
            axes[1].plot(1 + np.arange(len(run.tip_error_m)), run.tip_error_m, "o", color=colour)
            axes[1].plot(1 + np.arange(len(run.tip_error_m)), run.estimated_error_m, "x", color=colour)
        axes[0].axvspan(0, _BLEND_S, color=REFERENCE, alpha=0.08)
        axes[0].set(xlabel="time in s", ylabel="tracking error of $q_{Re}$ in m")
        axes[1].set(xlabel="target (o: true tip, x: estimated)", ylabel="distance in m")
        axes[1].set_ylim(0, None)
        legend_below(drawing, axes[0])
