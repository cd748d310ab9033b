# SPDX-License-Identifier: Apache-2.0
"""Constant curvature against motion capture: recordings of the ftdcr robots, or any other in the same format.

Plain constant curvature: lengths, pitch radii and angles alone, no stiffness, no friction. The robot's file has to hold
a ``recording`` section, which ``continuum-robot identify-geometry`` finds from a recording of tendon pulls.

The public figures that stand beside the result are for ftdcr_v4 on recordings that are not in the reference data.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from continuum_robot.experiments.experiment import Experiment, Progress, Result
from continuum_robot.experiments.plotting import COLOURS, REFERENCE, figure, legend_below
from continuum_robot.identification.recordings import read_recording
from continuum_robot.identification.replay import SLACK_TREATMENTS, Replay, agreement, replay
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


def _run(settings: ReplaySettings, progress: Progress) -> Result:
    robot = load_robot(settings.robot)
    recording = read_recording(settings.data)
    progress(f"{len(recording)} samples of {recording.file.name}")
    result = replay(robot, recording, settings.slack)
    numbers = dict(agreement(result))
    for treatment in SLACK_TREATMENTS:
        numbers[f"tip_rmse_slack_{_PAST[treatment]}_mm"] = agreement(replay(robot, recording, treatment))["tip_rmse_mm"]
    place = robot.recording
    same = place is not None and place.fitted_sha256 == recording.sha256
    return Result({**numbers, "fitted_on_this_file": bool(same)}, result)


def _draw(result: Result, folder: Path) -> list[Path]:
    shown: Replay = result.series
    file = folder / "ftdcr_replay.png"
    seen = shown.recording.seen
    measured, predicted = shown.recording.marker_m[seen], shown.predicted_marker_m[seen].copy()
    predicted -= (predicted - measured).mean(axis=0)
    sample = np.flatnonzero(seen)
    title = (
        f"Constant curvature on {shown.recording.file.name}: RMSE {result['tip_rmse_mm']:.1f} mm, mean offset removed"
    )
    with figure(file, title, 4, 1, sharex=True) as (drawing, axes):
        for index, (axis, name) in enumerate(zip(axes, "xyz", strict=False)):
            axis.plot(sample, measured[:, index], color=REFERENCE, linewidth=0.9, label="motion capture")
            axis.plot(sample, predicted[:, index], color=COLOURS[0], linewidth=0.9, label="constant curvature")
            axis.set_ylabel(f"marker {name} in m")
        axes[3].plot(sample, np.linalg.norm(predicted - measured, axis=1), color=COLOURS[1], linewidth=0.9)
        axes[3].set(xlabel="sample", ylabel="error in m")
        legend_below(drawing, axes[0])
    return [file]


REPLAY = Experiment(
    name="ftdcr.replay",
    summary="Predicts the tracked marker of a recorded robot from its tendon displacements by constant curvature.",
    source="recordings of opencr-mujoco, robot v4, on recordings kept aside",
    paper={
        "tip_rmse_mm": 18.6,
        "tip_rmse_of_the_calibrated_mujoco_model_mm": 13.0,
    },
    settings=ReplaySettings,
    compute=_run,
    plot=_draw,
)
