# SPDX-License-Identifier: Apache-2.0
"""Models against motion capture: recordings of the ftdcr robots, or any other in the same format.

``ftdcr.replay`` is plain constant curvature: lengths, pitch radii and angles alone, no stiffness, no friction. The
robot's file has to hold a ``recording`` section, which ``continuum-robot identify-geometry`` finds from a recording of
tendon pulls. ``ftdcr.validate`` takes a file that ``continuum-robot identify`` fitted to one recording, and predicts
another by every step of that model.

The public figures that stand beside the result are for ftdcr_v4 on recordings that are not in the reference data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuum_robot.experiments.experiment import Figures, Progress, experiment
from continuum_robot.experiments.plotting import COLOURS, REFERENCE, legend_below
from continuum_robot.identification.displaced.model import missing_pull, predicted_marker
from continuum_robot.identification.recordings import TendonRecording, read_recording, tendon_displacements
from continuum_robot.identification.replay import (
    SLACK_TREATMENTS,
    Replay,
    agreement,
    marker_agreement,
    marker_errors,
    repeatability,
    replay,
    rmse_m,
)
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.schema import quantity

_PAST = {"resolve": "resolved", "project": "projected"}


@dataclass(frozen=True, kw_only=True)
class ReplaySettings:
    """Options of the experiment."""

    robot: str = quantity("fitted robot file, as identify-geometry writes it")
    data: str = quantity("recording to predict, CSV")
    slack: str = quantity(
        "resolve: tendons paid out further than their path needs are left out; project: the Clarke transform of all "
        "displacements as they stand",
        default="resolve",
        choices=SLACK_TREATMENTS,
    )


@experiment(
    "ftdcr.replay",
    "recordings of opencr-mujoco, robot v4, on recordings kept aside",
    paper={
        "tip_rmse_mm": 18.6,
        "tip_rmse_of_the_calibrated_mujoco_model_mm": 13.0,
    },
)
def ftdcr_replay(progress: Progress, settings: ReplaySettings) -> Any:
    """Predicts the tracked marker of a recorded robot from its tendon displacements by constant curvature."""
    robot = load_robot(settings.robot)
    recording = read_recording(settings.data)
    progress(f"{len(recording)} samples of {recording.file.name}")
    result = replay(robot, recording, settings.slack)
    numbers = dict(agreement(result))
    for treatment in SLACK_TREATMENTS:
        numbers[f"tip_rmse_slack_{_PAST[treatment]}_mm"] = agreement(replay(robot, recording, treatment))["tip_rmse_mm"]
    numbers = {**numbers, "fitted_on_this_file": robot.fitted_to(recording.sha256)}
    return numbers, partial(_draw, numbers, result)


def _draw(result: Mapping[str, Any], shown: Replay, figure: Figures) -> None:
    seen = shown.recording.seen
    measured, predicted = shown.recording.marker_m[seen], shown.predicted_marker_m[seen].copy()
    predicted -= (predicted - measured).mean(axis=0)
    sample = np.flatnonzero(seen)
    title = (
        f"Constant curvature on {shown.recording.file.name}: RMSE {result['tip_rmse_mm']:.1f} mm, mean offset removed"
    )
    with figure(title, 4, 1, sharex=True) as (drawing, axes):
        for index, (axis, name) in enumerate(zip(axes, "xyz", strict=False)):
            axis.plot(sample, measured[:, index], color=REFERENCE, linewidth=0.9, label="motion capture")
            axis.plot(sample, predicted[:, index], color=COLOURS[0], linewidth=0.9, label="constant curvature")
            axis.set_ylabel(f"marker {name} in m")
        axes[3].plot(sample, np.linalg.norm(predicted - measured, axis=1), color=COLOURS[1], linewidth=0.9)
        axes[3].set(xlabel="sample", ylabel="error in m")
        legend_below(drawing, axes[0])


@dataclass(frozen=True, kw_only=True)
class ValidationSettings:
    """Options of the experiment."""

    robot: str = quantity("fitted robot file, as `continuum-robot identify` writes it")
    data: str = quantity("recording to predict, CSV, in the order of time; it may start anywhere")


@dataclass(frozen=True)
class Validation:
    """Predictions for one recording, by model step, each (T, 3), m."""

    recording: TendonRecording
    predicted_m: dict[str, NDArray[np.float64]]


@experiment(
    "ftdcr.validate",
    "recordings of opencr-mujoco kept aside, v4 and v6",
    paper={
        "tip_rmse_mm": "v4: 13.0 (calibrated MuJoCo model), 10.7 (Gaussian process); v6: 35 (Gaussian process)",
        "tip_rmse_constant_curvature_mm": "v4: 18.6 without a fit; v6: 22.6 fitted rigidly",
    },
)
def validate(progress: Progress, settings: ValidationSettings) -> Any:
    """Predicts the tracked marker of a real robot by its fitted model: constant curvature, statics, friction."""
    robot = load_robot(settings.robot)
    recording = read_recording(settings.data)
    progress(f"{len(recording)} samples of {recording.file.name}")
    marker = {}
    progress("constant curvature")
    marker["constant_curvature"] = replay(robot, recording).predicted_marker_m
    progress("statics")
    marker["statics"] = predicted_marker(robot, recording, friction=False)
    progress("friction")
    tendons = robot.displaced_tendons
    rubs = tendons is not None and any(tendons.friction_fraction)
    marker["friction"] = predicted_marker(robot, recording) if rubs else marker["statics"]
    numbers = marker_agreement(recording, marker["friction"])
    for step, predicted in marker.items():
        numbers[f"tip_rmse_{step}_mm"] = 1e3 * rmse_m(marker_errors(predicted, recording.marker_m))
    numbers["gain_of_statics_mm"] = numbers["tip_rmse_constant_curvature_mm"] - numbers["tip_rmse_statics_mm"]
    numbers["gain_of_friction_mm"] = numbers["tip_rmse_statics_mm"] - numbers["tip_rmse_friction_mm"]
    offset = (marker["friction"] - recording.marker_m)[recording.seen]
    numbers["tip_rmse_with_offset_mm"] = 1e3 * rmse_m(offset)
    if tendons is not None:
        progress("the other way round")
        pulls = missing_pull(robot, tendon_displacements(robot, recording), recording.marker_m, recording.seen)
        numbers |= {"pull_rmse_mm": 1e3 * pulls.rmse_m, "tip_rmse_after_pull_mm": 1e3 * pulls.left_rmse_m}
    fitted = {"fitted_on_this_file": robot.fitted_to(recording.sha256)}
    shown: dict[str, Any] = {**numbers, **repeatability(recording, marker["statics"]).numbers(), **fitted}
    return shown, partial(_draw_validation, shown, Validation(recording, marker))


def _draw_validation(result: Mapping[str, Any], shown: Validation, figure: Figures) -> None:
    seen = shown.recording.seen
    measured, sample = shown.recording.marker_m[seen], np.flatnonzero(seen)
    best = measured + marker_errors(shown.predicted_m["friction"], shown.recording.marker_m)
    title = f"{shown.recording.file.name}: RMSE {result['tip_rmse_mm']:.1f} mm, mean offset removed"
    with figure(title, 4, 1, sharex=True) as (drawing, axes):
        for index, (axis, name) in enumerate(zip(axes, "xyz", strict=False)):
            axis.plot(sample, measured[:, index], color=REFERENCE, linewidth=0.9, label="motion capture")
            axis.plot(sample, best[:, index], color=COLOURS[0], linewidth=0.9, label="model")
            axis.set_ylabel(f"marker {name} in m")
        for colour, (step, predicted) in zip(COLOURS[1:], shown.predicted_m.items(), strict=False):
            error = marker_errors(predicted, shown.recording.marker_m)
            axes[3].plot(
                sample,
                np.linalg.norm(error, axis=1),
                color=colour,
                linewidth=0.9,
                label=f"error, {step.replace('_', ' ')}",
            )
        axes[3].set(xlabel="sample", ylabel="error in m")
        axes[0].plot([], [], alpha=0)
        for line in axes[3].get_lines():
            axes[0].plot([], [], color=line.get_color(), label=line.get_label())
        legend_below(drawing, axes[0], 5)
