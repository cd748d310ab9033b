# SPDX-License-Identifier: Apache-2.0
"""The result of the fit: the robot with all that goes into its file, the steps, the unidentified parameters."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import RecordingError
from continuum_robot.identification.displaced.inverse import MissingPull
from continuum_robot.identification.displaced.model import DisplacedModel, predicted_marker
from continuum_robot.identification.displaced.parameters import Values
from continuum_robot.identification.fit import Parameters
from continuum_robot.identification.left_out_blocks import Blocks, LeftOut
from continuum_robot.identification.recordings import TendonRecording
from continuum_robot.identification.repeatability import Repeatability, repeatability
from continuum_robot.robot.description import Robot
from continuum_robot.robot.identified import FittedValue

Array = NDArray[np.float64]

_OF_A_PATTERN = re.compile(r"^rep\d+_|_hold$|_(?:dir|id)\d+|(?<=^tendon)\d+|(?<=\d_tendon)\d+")
_IDENTIFIED = 0.7  # largest fraction of the prior's deviation that may be left


@dataclass(frozen=True)
class FitStep:
    """One step of the fit.

    Attributes
    ----------
    name : of :data:`~continuum_robot.identification.displaced.parameters.STEPS`
    train_rmse_m : marker RMSE over the whole recording, mean offset removed, fitted on all of it
    held_out_rmse_m : the same on blocks left out of the fit, each with its own mean offset removed
    block_rmse_m : of each block left out
    kept : whether the fitted robot has it
    """

    name: str
    train_rmse_m: float
    held_out_rmse_m: float
    block_rmse_m: tuple[float, ...]
    kept: bool


@dataclass(frozen=True)
class DisplacedFit:
    """Result of :func:`~continuum_robot.identification.displaced.fit.identify_displaced`.

    Attributes
    ----------
    robot : the fitted robot, with ``recording`` and ``displaced_tendons``
    steps : what each step was worth
    blocks : first and last label, and number of samples, of each block
    held_out_m : error of the kept model at every sample when its block was left out, (T, 3), m; NaN without marker
    held_out_first_m : the same of constant curvature, (T, 3), m
    pulls : what is missing of the pulls on the blocks left out, with the kept model
    repeat : how well the recording repeats itself
    unidentified : names of parameters that the recording does not identify
    """

    robot: Robot
    recording: TendonRecording
    steps: tuple[FitStep, ...]
    blocks: tuple[tuple[str, str, int], ...]
    held_out_m: Array
    held_out_first_m: Array
    pulls: MissingPull
    repeat: Repeatability
    unidentified: tuple[str, ...]

    def pattern_errors(self) -> dict[str, tuple[int, float]]:
        """Samples with a marker, and error on blocks left out, root mean square, m, by what the robot was doing.

        That is the label without repetition, direction and servo: ``pair12_opp`` for ``rep1_pair12_opp_dir60_hold``.
        """
        edges = np.cumsum([count for _, _, count in self.blocks])[:-1]
        centred = [error - np.nanmean(error, axis=0) for error in np.split(self.held_out_m, edges)]
        squares = (np.concatenate(centred) ** 2).sum(axis=1)
        by_pattern: dict[str, list[float]] = {}
        for label, square in zip(self.recording.labels, squares, strict=True):
            if np.isfinite(square):
                by_pattern.setdefault(_OF_A_PATTERN.sub("", label), []).append(float(square))
        return {pattern: (len(own), math.sqrt(sum(own) / len(own))) for pattern, own in by_pattern.items()}

    def numbers(self) -> dict[str, object]:
        """Everything as a flat mapping for JSON, units in the keys."""
        tendons = self.robot.displaced_tendons
        kept = [step for step in self.steps if step.kept]
        by_pattern = self.pattern_errors()
        numbers: dict[str, object] = {
            "tip_rmse_held_out_mm": 1e3 * kept[-1].held_out_rmse_m,
            "tip_rmse_train_mm": 1e3 * kept[-1].train_rmse_m,
            "pull_rmse_held_out_mm": 1e3 * self.pulls.rmse_m,
            "tip_rmse_after_pull_held_out_mm": 1e3 * self.pulls.left_rmse_m,
            **self.repeat.numbers(),
            "n_samples": int(self.recording.seen.sum()),
            "steps_kept": [step.name for step in kept],
            "blocks": [f"{first} .. {last}: {count} samples" for first, last, count in self.blocks],
            "unidentified": list(self.unidentified),
            "tip_rmse_held_out_by_pattern_mm": {name: 1e3 * rmse for name, (_, rmse) in by_pattern.items()},
            "samples_by_pattern": {name: count for name, (count, _) in by_pattern.items()},
        }
        before = None
        for step in self.steps:
            numbers[f"tip_rmse_{step.name}_held_out_mm"] = 1e3 * step.held_out_rmse_m
            numbers[f"tip_rmse_{step.name}_train_mm"] = 1e3 * step.train_rmse_m
            numbers[f"tip_rmse_{step.name}_held_out_by_block_mm"] = [1e3 * value for value in step.block_rmse_m]
            if before is not None:
                numbers[f"gain_of_{step.name}_mm"] = 1e3 * (before.held_out_rmse_m - step.held_out_rmse_m)
            before = step if step.kept else before
        for value in tendons.fitted_values if tendons is not None else ():
            numbers[value.name] = value.value
            numbers[f"{value.name}_deviation"] = value.deviation
        return numbers


@dataclass(frozen=True)
class TakenStep:
    """A step that was taken, with p parameters.

    Attributes
    ----------
    worth : what it gained
    model : of the robot
    parameters : the parameters: this step's and those that were kept before
    values : they themselves, by name
    curvature_deviation : their standard deviations from the curvature of the cost, in the same units, shape (p,)
    left_out : what came of the blocks left out
    """

    worth: FitStep
    model: DisplacedModel
    parameters: Parameters
    values: Values
    curvature_deviation: Array
    left_out: LeftOut

    @property
    def deviation(self) -> Array:
        """The greater of that and of the jackknife over the blocks, shape (p,)."""
        return np.maximum(self.curvature_deviation, self.left_out.deviation)


def last_kept(taken: Sequence[TakenStep]) -> TakenStep:
    """The step that the fitted robot has last, of all that were ``taken``, the first of which was kept."""
    return [one for one in taken if one.worth.kept][-1]


def result_of(
    taken: Sequence[TakenStep], recording: TendonRecording, block: Blocks, pulls: MissingPull
) -> DisplacedFit:
    """The result of the last step that was kept.

    Parameters
    ----------
    taken : all steps, the first of which was kept
    recording : T samples
    block : number of the block of each, shape (T,)
    pulls : that are missing on the blocks left out

    Raises
    ------
    RecordingError : it does not identify the angles of the segments
    """
    last = last_kept(taken)
    listed = _listed(last)
    unidentified = tuple(one.name for one in listed if one.deviation > _IDENTIFIED * one.prior_deviation)
    # The result says where blocks do not agree; a robot whose segments did not bend has no angles.
    unseen = last.curvature_deviation > _IDENTIFIED * last.parameters.deviation
    lost = [name for name in np.array(last.parameters.keys)[unseen] if name.startswith("angle_offset")]
    if lost:
        raise RecordingError(
            recording.file,
            f"{', '.join(lost)} cannot be identified from this recording",
            "Give one in which every segment bends in several directions",
        )
    robot = last.model.robot(last.values).changed(
        recording=replace(
            last.model.place(last.values),
            fitted_from=recording.file.name,
            fitted_sha256=recording.sha256,
            fitted_rmse_mm=1e3 * last.worth.train_rmse_m,
        ),
        displaced_tendons=replace(
            last.model.tendons(last.values),
            fitted_from=recording.file.name,
            fitted_sha256=recording.sha256,
            cross_validated_rmse_mm=1e3 * last.worth.held_out_rmse_m,
            fitted_values=listed,
        ),
    )
    inside = [np.flatnonzero(block == number) for number in range(int(block.max()) + 1)]
    return DisplacedFit(
        robot,
        recording,
        steps=tuple(one.worth for one in taken),
        blocks=tuple((recording.labels[rows[0]], recording.labels[rows[-1]], len(rows)) for rows in inside),
        held_out_m=last.left_out.error_m,
        held_out_first_m=taken[0].left_out.error_m,
        pulls=pulls,
        repeat=repeatability(recording, predicted_marker(robot, recording, friction=False)),
        unidentified=unidentified,
    )


def _listed(step: TakenStep) -> tuple[FittedValue, ...]:
    """Every parameter with its deviation; as it stands in the robot's file where it stands there."""
    model, values = step.model, step.values
    robot, place, tendons = model.robot(values), model.place(values), model.tendons(values)
    stiffness = robot.segments[0].backbone.bending_stiffnesses_nm2[0]
    ratio = float(np.mean(tendons.stiffness_n_per_m)) * model.radius_m**2 * robot.length_m / len(robot.segments)
    fraction = tendons.friction_fraction[0]
    shown: dict[str, ArrayLike] = {
        **values,
        "angle_rad": [segment.tendons.angle_offset_rad for segment in robot.segments],
        "marker_m": place.marker_in_tip_m,
        "base_m": place.base_in_tracker_m,
        "tilt_rad": place.base_rotation_in_tracker_rad[:2],
        "log_bending_stiffness": [math.log(stiffness)],
        "log_tendon_stiffness": [math.log(ratio / stiffness)],
        "gain_of_tendon": tendons.gain,
        "log_friction": [math.log(fraction)] if fraction else [],
    }
    flat = np.concatenate([shown[name] for name in step.parameters.at])
    return tuple(
        FittedValue(name=title, value=float(value), deviation=float(sigma), prior_deviation=float(prior))
        for title, value, sigma, prior in zip(
            step.parameters.keys, flat, step.deviation, step.parameters.deviation, strict=True
        )
    )
