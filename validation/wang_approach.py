# SPDX-License-Identifier: Apache-2.0
"""A tip target met to a micrometre: backbones for what is large, the modulation backbone for what is small."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from continuum_robot.control.tip.approach import approach_parameters
from continuum_robot.control.tip.macro_micro import MACRO, MICRO, TRIM, MacroMicroController
from continuum_robot.experiments.experiment import Figures, Progress, Tolerance, experiment
from continuum_robot.experiments.plotting import COLOURS, REFERENCE
from continuum_robot.experiments.wang.segment import MM, UM
from continuum_robot.mechanisms.equilibrium_modulation.kinematics import jacobians
from continuum_robot.mechanisms.equilibrium_modulation.moment_error import LinearMomentError
from continuum_robot.mechanisms.equilibrium_modulation.segment import (
    ModulatedSegment,
    make_moment_error,
    make_segment,
    modulation_of,
)
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.schema import Quantity

Array = NDArray[Any]

_FRAME_S = 1 / 30  # the paper's camera
_REACHED_UM = 1.0
_SHADES = {MACRO: "#0072B2", TRIM: "#E69F00", MICRO: "#009E73"}


@dataclass(frozen=True, slots=True)
class Run:
    """One approach."""

    time_s: Array
    error_um: Array
    insertion_mm: Array
    phases: list[str]
    tip_m: Array
    target_m: Array
    along: Array


@experiment(
    "wang.approach",
    "what wang derives J_M and J_mu for (sections 3 and 6.3); the paper controls nothing",
    paper={"largest_final_error_um": "not measured; the paper calls the micro motion controllable in one direction"},
    tolerances={"*": Tolerance(relative=0.01, absolute=1e-3)},
)
def approach(
    progress: Progress,
    targets: Annotated[int, Quantity("number of targets", ge=1, le=200)] = 6,
    duration_s: Annotated[float, Quantity("time for each", "s", ge=5, le=600)] = 60.0,
    noise_um: Annotated[float, Quantity("tracking noise in each axis, at 30 frames a second", "um", ge=0, le=50)] = 2.0,
    model_error_percent: Annotated[float, Quantity("by which the controller's lambda is off", ge=-50, le=50)] = 3.0,
    seed: Annotated[int, Quantity("of targets and noise", ge=0, le=2**31 - 1)] = 1,
) -> Any:
    """Random tip targets met to a micrometre with the insertion inside its stroke, in virtual time."""
    robot = load_robot("crem_segment")
    mechanism = modulation_of(robot)
    segment, true = make_segment(mechanism), make_moment_error(mechanism)
    believed = LinearMomentError(*(true.parameters * (1 + model_error_percent / 100)))
    low, high = np.deg2rad(30.0), np.deg2rad(60.0)
    parameters = approach_parameters(robot)
    stroke = parameters.insertion_low_m, parameters.insertion_high_m
    runs = []
    for number in range(targets):
        progress(f"target {number + 1} of {targets}")
        rng = np.random.default_rng([seed, number])
        theta, delta = rng.uniform(low, high), rng.uniform(-np.pi, np.pi)
        middle, half = sum(stroke) / 2, (stroke[1] - stroke[0]) / 4
        goal = jacobians(segment, theta, delta, rng.uniform(middle - half, middle + half), true)
        controller = MacroMicroController(segment, believed, parameters)
        tracked = lambda tip, rng=rng: tip + noise_um / UM * rng.standard_normal(3)  # noqa: E731
        runs.append(_approach(segment, true, controller, goal.pose[:3, 3], goal.micro[:3], tracked, duration_s))
    final = [float(run.error_um[-1]) for run in runs]
    before = [float(run.error_um[run.phases.index(MICRO)]) if MICRO in run.phases else float("nan") for run in runs]
    after_macro = [float(run.error_um[run.phases.index(TRIM)]) if TRIM in run.phases else float("nan") for run in runs]
    inserted = np.concatenate([run.insertion_mm for run in runs])
    numbers = {
        "targets": targets,
        "final_error_um": final,
        "largest_final_error_um": max(final),
        "targets_within_1_um": sum(value < _REACHED_UM for value in final),
        "error_after_macro_um": after_macro,
        "error_before_micro_um": before,
        "start_error_mm": [float(run.error_um[0] / UM * MM) for run in runs],
        "final_insertion_mm": [float(run.insertion_mm[-1]) for run in runs],
        "insertion_low_mm": stroke[0] * MM,
        "insertion_high_mm": stroke[1] * MM,
        "insertion_within_stroke": bool(inserted.min() >= stroke[0] * MM and inserted.max() <= stroke[1] * MM),
        "macro_step_um": mechanism.macro_resolution_m * UM,
    }

    def draw(figure: Figures) -> None:
        title = "Approach to a tip target: backbones by J_M, then the insertion by J_mu (true tip, not the tracked one)"
        with figure(title, 1, 3, size=(10.4, 3.4)) as (_, axes):
            for number, run in enumerate(runs):
                color = COLOURS[number % len(COLOURS)]
                axes[0].semilogy(run.time_s, run.error_um, color=color, linewidth=0.8)
                axes[1].plot(run.time_s, run.insertion_mm, color=color, linewidth=0.8)
            axes[0].axhline(_REACHED_UM, color=REFERENCE, linestyle=":", label="1 um")
            axes[0].set(xlabel="time in s", ylabel="distance of the tip from its target in um")
            axes[0].legend()
            for limit_m in stroke:
                axes[1].axhline(limit_m * MM, color=REFERENCE, linestyle=":")
            axes[1].set(title="insertion, limits dotted", xlabel="time in s", ylabel="insertion in mm")
            run = runs[0]
            away = (run.tip_m - run.target_m) * UM
            along = away @ run.along
            across = np.linalg.norm(away - along[:, None] * run.along, axis=1)
            for phase, shade in _SHADES.items():
                here = np.array([one == phase for one in run.phases])
                axes[2].plot(along[here], across[here], ".", color=shade, markersize=4, label=phase)
            axes[2].plot(0, 0, "x", color=REFERENCE, label="target")
            axes[2].set(title="first target, its last micrometres", xlabel="along J_mu in um", ylabel="across in um")
            axes[2].set(xlim=(-30, 30), ylim=(-0.5, 6))
            axes[2].legend()

    return numbers, draw


def _approach(
    segment: ModulatedSegment,
    true: LinearMomentError,
    controller: MacroMicroController,
    target: Array,
    along: Array,
    tracked: Callable[[Array], Array],
    duration_s: float,
) -> Run:
    """From nearly straight to the target, in virtual time; the drives make their steps at once."""
    resolution = controller.parameters.macro_resolution_m
    displacement = segment.backbone_displacement_m(np.deg2rad(80.0), 0.3)
    insertion = controller.parameters.insertion_low_m
    controller.reset(displacement, insertion)
    count = int(duration_s / _FRAME_S)
    errors, depths, phases, tips = [], [], [], []
    for _ in range(count):
        made = np.round(displacement / resolution) * resolution if resolution else displacement
        theta, delta = segment.configuration(made)
        tip = jacobians(segment, theta, delta, insertion, true).pose[:3, 3]
        output = controller.update(tracked(tip), target, _FRAME_S)
        errors.append(float(np.linalg.norm(target - tip) * UM))
        depths.append(insertion * MM)
        phases.append(output.phase)
        tips.append(tip)
        displacement, insertion = output.displacement_m, output.insertion_m
    return Run(
        np.arange(count) * _FRAME_S,
        np.array(errors),
        np.array(depths),
        phases,
        np.array(tips),
        target,
        along / np.linalg.norm(along),
    )
